"""A kernel of the Hub, or of a folder that the Hub library can load: `hub:OWNER/NAME`, `hub:OWNER/NAME@VERSION`, `hub:PATH`.

A Hub kernel does not describe its interface, so its function is found by the operation's name and called by the names of its
parameters. A wrong guess shows, because the results are compared with the reference like those of other peers.
"""

import functools
import inspect
import pathlib

from .library import Skip
from .operations.adapter import Peer
from .peer_modules import described, imported

# The names of these operations in other packages.
FUNCTIONS = {
    "rms_norm": ["rmsnorm", "rms_norm_fn", "rms_norm_forward"],
    "add_rms_norm": ["fused_add_rms_norm", "add_rmsnorm"],
    "layer_norm": ["layernorm", "layer_norm_fn"],
    "swiglu_packed": ["swiglu", "silu_and_mul"],
    "geglu": ["gelu_and_mul", "geglu_packed"],
    "rope": ["apply_rotary", "rotary", "apply_rotary_pos_emb"],
}
# The names of arguments in other packages.
PARAMETERS = {
    "x": ["input", "inputs", "inp", "hidden_states", "a"],
    "out": ["output", "result"],
    "weight": ["w", "gamma", "scale_weight"],
    "eps": ["epsilon", "variance_epsilon"],
    "q": ["query"],
    "k": ["key"],
}


def named(wanted, known):
    """The known name that a parameter stands for, or None."""
    if wanted in known:
        return wanted
    return next((name for name, others in PARAMETERS.items() if name in known and wanted in others), None)


@functools.cache
def loaded(where):
    library = imported("kernels", "kernels")
    path = pathlib.Path(where).expanduser()
    try:
        if path.exists():
            return library.get_local_kernel(path.resolve())
        if where.startswith((".", "/", "~")):
            raise Skip(f"there is no {where}")
        repository, _, version = where.partition("@")
        if version.removeprefix("v").isdigit():
            return library.get_kernel(repository, version=int(version.removeprefix("v")))
        return library.get_kernel(repository, **({"revision": version} if version else {}))
    except Skip:
        raise
    except Exception as error:
        raise Skip(f"the Hub library did not load {where}: {described(error)}") from error


def function_of(module, where, operation):
    plain = operation.removesuffix("_in_place")
    tried = [operation, plain, *FUNCTIONS.get(plain, [])]
    for name in tried:
        found = getattr(module, name, None)
        if callable(found):
            return name, found
    raise Skip(f"{where} has no function {' or '.join(dict.fromkeys(tried))}")


def binding(module, where, case):
    """How to call a module for the operation of a case: the function's name, the function, and by parameter the tensors that it
    reads, those that it writes, and the numbers."""
    called, function = function_of(module, where, case.operation.name)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise Skip(f"{called} of {where} does not say what it takes") from error
    inputs = [tensor for tensor, spec in case.tensors.items() if spec.role in ("input", "inout")]
    outputs = [tensor for tensor, spec in case.tensors.items() if spec.role == "output"]
    tensors, numbers, written = {}, {}, {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        given, output, value = (named(parameter.name, known) for known in (inputs, outputs, case.all))
        if given:
            tensors[parameter.name] = given
        elif output and parameter.default is parameter.empty:
            written[parameter.name] = output
        elif value and value not in case.tensors:
            number = case.all[value]
            numbers[parameter.name] = int(number) if number == int(number) and value != "eps" else number
        elif parameter.default is parameter.empty:
            raise Skip(f"{called} of {where} wants `{parameter.name}`, which {case.operation.name} does not have")
    unused = [tensor for tensor in inputs if tensor not in tensors.values()]
    if unused:
        raise Skip(f"{called} of {where} takes no {' and no '.join(unused)}")
    return called, function, tensors, written, numbers


def hub_peer(name, case):
    """`hub:WHERE` in one case."""
    where = name.removeprefix("hub:")
    called, function, tensors, written, numbers = binding(loaded(where), where, case)

    def prepare(t):
        return {parameter: t[tensor] for parameter, tensor in tensors.items()}, {parameter: t[tensor] for parameter, tensor in written.items()}

    def call(given):
        import torch

        taken, like = given
        fresh = {parameter: torch.empty_like(tensor) for parameter, tensor in like.items()}
        returned = function(**taken, **fresh, **numbers)
        if returned is None:
            if not fresh:
                raise TypeError(f"{called} returned nothing")
            return tuple(fresh.values())
        return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)

    return Peer(prepare, call)
