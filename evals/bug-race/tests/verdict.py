"""A card's verdict: the numbers of many rows, launched again and again, and how much was changed."""

import judge

judge.kernel(["kernel_src/cumulative_share.cu"], most_lines=6)
