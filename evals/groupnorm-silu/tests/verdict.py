"""A card's verdict on groupnorm_silu."""

import judge

judge.kernel(["build.toml", "kernel_src/*"], target=0.7)
