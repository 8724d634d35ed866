"""Loads a built variant as `get_kernel` does. Arguments: its folder, and the major version of its CUDA.

Exit code 3: nothing here can load it; the reason is printed.
"""

import importlib.util
import pathlib
import sys

variant, cuda = pathlib.Path(sys.argv[1]), sys.argv[2]


def cannot(reason):
    print(reason)
    sys.exit(3)


if importlib.util.find_spec("kernels") is None:
    cannot(f"{sys.executable} has no `kernels`, the Hub's library, which loads what was built: pip install kernels")

import torch

if (torch.version.cuda or "").split(".")[0] != cuda:
    cannot(f"torch {torch.__version__} of {sys.executable} is not for CUDA {cuda}, for which the variant was built")

import kernels

module = kernels.get_local_kernel(variant.parent)
loaded = pathlib.Path(module.__file__).resolve().parent
if loaded != variant.resolve():
    sys.exit(f"the Hub's library prefers {loaded} to what was built; remove that folder")
missing = [name for name in getattr(module, "__all__", []) if not hasattr(module, name)]
if missing:
    sys.exit(f"__all__ of the package has names that are not there: {', '.join(missing)}")
print(f"torch {torch.__version__}, kernels {kernels.__version__}")
