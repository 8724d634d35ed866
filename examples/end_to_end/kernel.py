"""The kernel that is timed: where it is, loaded, and which one it was."""

import json
import os
import pathlib
import sys
from typing import Any, Dict, Tuple


class NoKernel(RuntimeError):
    """There is none, or it does not load."""


def find(named, environment: str, folder: str):
    """What --kernel, the environment or the folder beside the example say: a path, or OWNER/NAME."""
    of_environment = os.environ.get(environment, "")
    given = named or of_environment
    if not given:
        path = pathlib.Path(folder) / "build"
        if not path.is_dir():
            raise NoKernel(
                f"{path} is not there: build the kernel with `kernels build --torch {folder}`, or name one with "
                f"--kernel or {environment}"
            )
        return path
    path = pathlib.Path(given)
    if path.exists():
        return path
    whence = "--kernel" if named else environment
    if given.count("/") == 1 and not given.startswith((".", "/", "~")):
        return given
    raise NoKernel(f"{whence} names {given}, and there is no such folder: `kernels build --torch {folder}` makes one")


def load(found) -> Tuple[Any, Dict[str, Any]]:
    """The module, and what tells it from another build of the same kernel."""
    if isinstance(found, pathlib.Path) and found.suffix == ".py":
        # The tests pass a module instead.
        import importlib.util

        spec = importlib.util.spec_from_file_location(found.stem, found)
        module = importlib.util.module_from_spec(spec)
        # Dynamo looks up the module of a function's globals here.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module, {"from": found.name, "id": None, "variant": None}
    if isinstance(found, pathlib.Path):
        # Everything needed is local. The Hub's library reads this variable when it is imported.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import kernels
    except ImportError as error:
        raise NoKernel(f"the Hub's library cannot be imported ({error}): pip install kernels") from error
    try:
        if isinstance(found, pathlib.Path):
            module = kernels.get_local_kernel(found.resolve())
        else:
            module = kernels.get_kernel(found, version=1)
    except Exception as error:
        raise NoKernel(f"{found} does not load: {type(error).__name__}: {error}") from error
    # Only the last part of a path: records are read on other machines.
    whence = found.resolve().name if isinstance(found, pathlib.Path) else found
    return module, {"from": whence, **identity(module)}


def identity(module) -> Dict[str, Any]:
    """The variant's folder, and the id that follows from its sources and compilers."""
    variant = pathlib.Path(module.__file__).resolve().parent
    metadata = None
    for folder in [variant, *variant.parents[:2]]:
        if (folder / "metadata.json").is_file():
            variant = folder
            metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
            break
    return {"id": (metadata or {}).get("id"), "variant": variant.name}
