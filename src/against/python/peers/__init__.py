"""Other projects' kernels, timed beside a project's own. `operations/` has one file per operation family. The package is
embedded in `kernels bench --against`, and used by benches/gpu."""

import time

START = time.monotonic()


def elapsed():
    """Seconds since the start."""
    return time.monotonic() - START


def clock():
    return f"{elapsed():.0f} s"
