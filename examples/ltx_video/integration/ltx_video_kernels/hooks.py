"""What others have hung onto a module, and the forwards that they call."""

import types
from typing import Any, Callable, Iterator, Tuple

from torch import nn

from .errors import OptimizeError


def watched(module: nn.Module) -> bool:
    """Whether somebody follows the module's calls: a hook of torch, diffusers or accelerate, or a compiled forward. It
    must then be called as a module."""
    own = module.__dict__
    return (
        "forward" in own
        or own.get("_compiled_call_impl") is not None
        or len(module._forward_hooks) > 0
        or len(module._forward_pre_hooks) > 0
    )


def _is_forward_of(value: Any, module: nn.Module) -> bool:
    return isinstance(value, types.MethodType) and value.__self__ is module and value.__name__ == "forward"


def _places(module: nn.Module) -> Iterator[Tuple[Any, str, Callable]]:
    """Where a bound forward of the module is kept: (object, attribute, forward). accelerate's hooks call _old_forward;
    diffusers' have a chain of references."""
    registry = module.__dict__.get("_diffusers_hook")
    holders = [module, *(registry._fn_refs if registry is not None else [])]
    for holder in holders:
        for name in ("forward", "_old_forward", "original_forward"):
            value = holder.__dict__.get(name)
            if _is_forward_of(value, module):
                yield holder, name, value


def check_forwards(name: str, module: nn.Module) -> None:
    """Refuses a forward that was replaced by something unknown: a new class would never be asked."""
    if "forward" in module.__dict__ and not any(True for _ in _places(module)):
        raise OptimizeError(
            f"{name}: its forward was replaced by {module.__dict__['forward']!r}, which is no hook of diffusers or "
            "accelerate; call optimize() before whatever replaced it"
        )


def set_class(module: nn.Module, cls: type) -> None:
    """Makes the module one of the class. Hooks that have kept its forward call the class's from now on."""
    places = list(_places(module))
    module.__class__ = cls
    for holder, attribute, _ in places:
        setattr(holder, attribute, types.MethodType(cls.forward, module))
