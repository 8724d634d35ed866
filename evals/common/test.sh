#!/usr/bin/env bash
# Runs TESTS/verdict.py on the workspace, the current folder. COMMON is the folder of this file.
set -euo pipefail
PYTHONPATH=$COMMON${PYTHONPATH:+:$PYTHONPATH} exec "${KERNELS_PYTHON:-python3}" -B "$TESTS/verdict.py"
