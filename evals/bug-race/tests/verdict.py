"""A card's verdict: the numbers, compute-sanitizer's search for races, and how much was changed."""

import judge

judge.kernel(["kernel_src/cumulative_share.cu"], sanitize=True, most_lines=6)
