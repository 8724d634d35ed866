"""Others' kernels timed beside a project's own. One file an operation family in `operations/`, the rest is shared: by
`kernels bench --against`, which carries this package, and by benches/gpu."""

import time

START = time.monotonic()


def elapsed():
    """Seconds since the start."""
    return time.monotonic() - START


def clock():
    return f"{elapsed():.0f} s"
