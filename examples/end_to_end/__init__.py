"""Times whole models: eager, with this project's kernels, compiled, and both, in turns and in one run.

A model's script (`ltx_video/benchmark_e2e.py`) says how the model is built and what a step is (`subject.Subject`); what
is here does the rest. docs/end-to-end.md says how it is measured.
"""

from .run import main
from .subject import Case, Draw, Subject

__all__ = ["Case", "Draw", "Subject", "main"]
