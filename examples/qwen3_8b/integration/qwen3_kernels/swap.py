"""One module made another and back: its class is exchanged, and nothing else of it is touched.

Parameters, buffers, hooks, names and the state_dict stay, a deep copy is a copy, and what is exchanged back is what was
there. A forward put on the module itself would lie under or over accelerate's hooks, depending on who came first.
"""

import functools
import types

from .forwards import MAKERS
from .hooks import HELD


@functools.lru_cache(maxsize=None)
def fused(stock: type, kind: str, family, kernel) -> type:
    """The class that takes the stock one's place. One for each kernel, so that torch.compile knows it again."""
    forward = MAKERS[kind](kernel, family, stock)
    # Keep the name of the stock class: device_map uses it to find modules not to split, and FSDP to find modules to wrap.
    body = {"forward": forward, "_stock": stock, "__module__": stock.__module__, "__qualname__": stock.__qualname__}
    # A later kernelize of the Hub's library must not replace this layer: its layers do not take a residual.
    body["kernel_condition"] = staticmethod(lambda module: False)
    return type(stock.__name__, (stock,), body)


def stock_of(module):
    """The class the module had, or None where it has it still."""
    return type(module).__dict__.get("_stock")


def swap(module, cls: type) -> None:
    before = type(module).forward
    held = [
        name
        for name in HELD
        if isinstance(module.__dict__.get(name), types.MethodType) and module.__dict__[name].__func__ is before
    ]
    module.__class__ = cls
    for name in held:
        module.__dict__[name] = types.MethodType(cls.forward, module)
