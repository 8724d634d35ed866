"""What an LTX-Video transformer does with the patch."""

import integration

integration.judged("ltx")
