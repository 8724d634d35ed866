"""Launchers in shared objects."""

import ctypes
import os


class Skip(Exception):
    """The reason why a peer is not in a row."""


def opened(path):
    if not path:
        raise Skip("no library given")
    try:
        return ctypes.CDLL(os.path.abspath(path))
    except OSError as error:
        raise Skip(str(error)) from error


def has(library, name):
    try:
        getattr(library, name)
    except AttributeError:
        return False
    return True


def launcher(library, operation):
    try:
        function = getattr(library, operation.launcher)
    except AttributeError as error:
        raise Skip(f"the library has no {operation.launcher}") from error
    function.restype = ctypes.c_int
    return function
