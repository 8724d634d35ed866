#!/usr/bin/env python3
"""Times every operation of kernels/ and its peers on one GPU in one run: see `peers.py --help`."""

import pathlib
import sys

# The package `peers` belongs to `kernels bench --against`. Its path precedes this folder, whose peers.py would shadow it.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "against" / "python"))

from bundled.main import main  # noqa: E402

if __name__ == "__main__":
    main()
