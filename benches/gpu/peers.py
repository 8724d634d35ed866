#!/usr/bin/env python3
"""Every operation of kernels/ beside every peer, on one card, in one run, as one JSON: `peers.py --help`."""

from peers.main import main

if __name__ == "__main__":
    main()
