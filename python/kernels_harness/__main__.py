"""`kernels`, the command: `python -m kernels_harness`, and the scripts `kernels` and `kernels-harness`.

The program lies in this package as it is released, and takes this process's place: it starts itself again for what it records,
and is found wherever pip put the package.
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
    # Its Python parts (references, --against) find this one, and with it torch, without an active environment.
    environment = {**os.environ, "KERNELS_PYTHON": os.environ.get("KERNELS_PYTHON") or sys.executable}
    try:
        os.execve(PROGRAM, ["kernels", *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"kernels: cannot start {PROGRAM}: {error.strerror}")


def script() -> None:
    """The script `kernels`, whose name the Hub's library has for a script of its own. Where both are installed, pip leaves
    whichever came last; what only the Hub's knows is handed on to it, so that none of its commands is lost."""
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
