"""One module made another and back: its class is exchanged, and nothing else of it is touched.

Parameters, buffers, hooks, names and the state_dict stay, a deep copy is a copy, and what is exchanged back is what was
there. A forward put on the module itself would lie under or over accelerate's hooks, depending on who came first.
"""

import functools
import types

from .forwards import MAKERS

# accelerate's hooks save a module's bound forward under the second name and replace the first.
_HELD = ("forward", "_old_forward")


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


def is_own(module) -> bool:
    """Whether the module's forward is its class's own, be it under accelerate's hooks."""
    held = [module.__dict__[name] for name in _HELD if name in module.__dict__]
    if "_old_forward" in module.__dict__ and "_hf_hook" in module.__dict__:
        held = [module.__dict__["_old_forward"]]
    return all(isinstance(one, types.MethodType) and one.__func__ is type(module).forward for one in held)


def swap(module, cls: type) -> None:
    before = type(module).forward
    held = [
        name
        for name in _HELD
        if isinstance(module.__dict__.get(name), types.MethodType) and module.__dict__[name].__func__ is before
    ]
    module.__class__ = cls
    for name in held:
        module.__dict__[name] = types.MethodType(cls.forward, module)
