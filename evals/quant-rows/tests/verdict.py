"""A card's verdict on quant_rows."""

import judge

judge.kernel(["build.toml", "kernel_src/*"], target=0.7)
