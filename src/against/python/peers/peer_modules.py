"""The packages and libraries of peers."""

import ctypes
import importlib

from .library import Skip, opened

TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "l": ctypes.c_int64, "f": ctypes.c_float}


def described(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def imported(module, package):
    try:
        if package == "liger-kernel":
            importlib.import_module("torch.distributed.tensor")  # the package uses it without importing it
        return importlib.import_module(module)
    except Exception as error:
        raise Skip(f"{package} cannot be imported: {described(error)}") from error


def blog_function(path, name, types):
    """A launcher of the blog's library; `types` has one letter for the C type of each argument but the last, the stream."""
    if not path:
        raise Skip("no --blog given")
    try:
        function = getattr(opened(path), name)
    except AttributeError as error:
        raise Skip(f"--blog has no {name}") from error
    function.argtypes, function.restype = [TYPES[letter] for letter in types.replace(" ", "")] + [ctypes.c_void_p], None
    return function


def stream():
    import torch

    return torch.cuda.current_stream().cuda_stream
