"""What others have hung onto a module, and how it must be called then."""

import types

# accelerate's hooks save a module's bound forward under the second name and replace the first.
HELD = ("forward", "_old_forward")


def is_own(module) -> bool:
    """Whether the module's forward is its class's own, be it under accelerate's hooks."""
    held = [module.__dict__[name] for name in HELD if name in module.__dict__]
    if "_old_forward" in module.__dict__ and "_hf_hook" in module.__dict__:
        held = [module.__dict__["_old_forward"]]
    return all(isinstance(one, types.MethodType) and one.__func__ is type(module).forward for one in held)


def _moves(hook) -> bool:
    # accelerate's own hooks move tensors and weights. One that somebody has derived from them may do anything.
    if hook is None:
        return True
    return type(hook).__module__ == "accelerate.hooks" and all(map(_moves, getattr(hook, "hooks", ())))


def observed(*modules) -> bool:
    """Whether somebody sees what one of the modules gets or returns: a hook of torch, or a forward in place of its
    class's. Both must then be what they are in the stock model."""
    for module in modules:
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            return True
        own = module.__dict__
        if "forward" in own and not (is_own(module) and _moves(own.get("_hf_hook"))):
            return True
    return False


def watched(*modules) -> bool:
    """Whether one of the modules must be called, and not only its weight be read: somebody observes it, compiled it, or
    loads its weight when it is called, as accelerate's offloading does."""
    for module in modules:
        if "_hf_hook" in module.__dict__ or module._compiled_call_impl is not None:
            return True
    return observed(*modules)
