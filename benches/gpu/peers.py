#!/usr/bin/env python3
"""Every operation of kernels/ beside every peer, on one card, in one run, as one JSON: `peers.py --help`."""

import pathlib
import sys

# What a peer is, `kernels bench --against` carries. In front of this folder, where this file would hide that package.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src" / "against" / "python"))

from bundled.main import main  # noqa: E402

if __name__ == "__main__":
    main()
