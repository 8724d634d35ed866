#!/usr/bin/env python3
"""Times the row kernels on shapes that nobody chose, beside their peers: see `widths.py --help`."""

import pathlib
import sys

# The package `peers` belongs to `kernels bench --against`. Its path precedes this folder, whose peers.py would shadow it.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "against" / "python"))

from bundled.widths import main  # noqa: E402

if __name__ == "__main__":
    main()
