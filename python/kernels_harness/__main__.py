"""`kernels`, the command: `python -m kernels_harness`, and the scripts `kernels` and `kernels-harness`.

This package contains the released program, which replaces this process (exec), because the program starts itself again to
record launches.
"""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys
from collections.abc import Callable
from typing import cast

PROGRAM = pathlib.Path(__file__).resolve().parent / "bin" / "kernels"


def main() -> None:
    """Runs the command with this process's arguments."""
    if not PROGRAM.is_file():
        sys.exit(f"kernels: {PROGRAM} is not there: this package was not installed from its wheel; python/wheel makes one")
    # The program runs Python for references and --against; let it use this interpreter, which may have torch.
    environment = {**os.environ, "KERNELS_PYTHON": os.environ.get("KERNELS_PYTHON") or sys.executable}
    try:
        os.execve(PROGRAM, ["kernels", *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"kernels: cannot start {PROGRAM}: {error.strerror}")


def script() -> None:
    """The script `kernels`. The Hub's library has a script of the same name, and pip keeps the one installed last; commands
    that only the Hub's library has are passed on to it."""
    theirs = _hub_main() if len(sys.argv) > 1 and sys.argv[1] in HUB else None
    if theirs is None:
        main()
    else:
        sys.exit(cast("str | int | None", theirs()))


# The commands of the Hub's `kernels` that this program does not have.
HUB = ("download", "info", "versions", "lock", "benchmark", "verify-signature")


def _hub_main() -> Callable[[], object] | None:
    try:
        entries = importlib.metadata.distribution("kernels").entry_points
    except importlib.metadata.PackageNotFoundError:
        return None
    scripts = (entry for entry in entries if entry.group == "console_scripts" and entry.name == "kernels")
    entry = next(scripts, None)
    return cast("Callable[[], object]", entry.load()) if entry else None


if __name__ == "__main__":
    main()
