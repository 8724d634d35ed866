"""A card's verdict on masked_softmax."""

import judge

judge.kernel(["build.toml", "kernel_src/*"], target=0.7)
