"""What a Qwen3 model does with the patch."""

import integration

integration.judged("qwen3")
