"""Whether a replay of a captured forward computes what the forward would: of the call, and of the modules.

What is not seen here is a function or an attribute of a class that somebody replaces after the capture, other than the
forward of a module.
"""

from typing import Any, Dict, List, NamedTuple

import torch
from transformers.cache_utils import StaticCache, StaticLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .forwards import GRAPHS
from .hooks import watched

_NAMES = {"input_ids", "attention_mask", "position_ids", "past_key_values", "inputs_embeds", "use_cache"}
_PLAIN = (bool, int, str, type(None))
_TENSORS = (torch.Tensor, torch.nn.Parameter)
# Those whose frequencies depend on nothing that a call brings.
_FIXED_ROPES = {"default", "linear", "llama3", "yarn", "proportional"}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Call(NamedTuple):
    """key: of all that a replay depends on, beside the modules."""

    key: Any
    device: torch.device
    given: Dict[str, Any]
    tensors: List[torch.Tensor]

    def on(self, tensors) -> Dict[str, Any]:
        """The arguments, with other tensors."""
        others = iter(tensors)

        def other(value):
            return next(others) if type(value) in _TENSORS else value

        return {
            name: {of: other(one) for of, one in value.items()} if type(value) is dict else other(value)
            for name, value in self.given.items()
        }


def here():
    """The card whose stream is the current one, or None where nothing can be captured or replayed on it."""
    if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return None
    return torch.device("cuda", torch.cuda.current_device())


def _intercepted() -> bool:
    """Whether gradients are wanted, or somebody sees or changes the operations themselves."""
    return bool(
        torch.is_grad_enabled()
        or torch.is_autocast_enabled("cuda")
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch.nn.modules.module._has_any_global_hook()
    )


def _settings():
    """What torch chooses a kernel by, beside the arguments."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return (
        (torch.is_inference_mode_enabled(), torch.get_default_dtype(), torch.get_deterministic_debug_mode()),
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled()),
        (tuple(torch._C._get_sdp_priority_order()), cuda.fp16_bf16_reduction_math_sdp_allowed()),
        (torch.backends.fp32_precision, cuda.matmul.fp32_precision, cuda.matmul.allow_fp16_accumulation),
        (cuda.matmul.allow_fp16_reduced_precision_reduction, cuda.matmul.allow_bf16_reduced_precision_reduction),
        (cuda.preferred_blas_library(), cudnn.enabled, cudnn.deterministic, cudnn.benchmark),
    )


def _form(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype


def _lies_on(device, *values) -> bool:
    return all(type(one) in _TENSORS and one.device == device and one.layout is torch.strided for one in values)


def _static(cache, device):
    """Where a static cache lies. Its counters are tensors; those of a layer with a window are Python's."""
    if type(cache) is not StaticCache or cache.offloading:
        return None
    found = []
    for layer in cache.layers:
        if type(layer) is not StaticLayer or not layer.is_initialized or layer.device != device:
            return None
        held = layer.keys, layer.values, getattr(layer, "cumulative_length", None)
        if not _lies_on(device, *held):
            return None
        found.append((layer.max_cache_len, *((one.data_ptr(), *_form(one)) for one in held)))
    return tuple(found)


def _reads_nothing(model, given, tokens) -> bool:
    """Whether transformers makes the same mask while it is captured as otherwise, when it must make one: without a cache
    and without positions the attention leaves it out (ONLY_CAUSAL), and for one token before a static cache no value is
    looked at."""
    config, cache = model.config, given.get("past_key_values")
    window = getattr(config, "sliding_window", None)
    return (
        (given.get("position_ids") is None if cache is None else tokens == 1)
        and (window is None or tokens < window)
        and getattr(config, "is_causal", True)
        and not getattr(config, "use_bidirectional_attention", False)
    )


def call_of(model, given, most: int):
    """The call, or None where it may be another one when it is replayed, or is longer than `most` tokens."""
    device = here()
    if device is None or _intercepted() or not given.keys() <= _NAMES:
        return None
    ropes = getattr(model.rotary_emb, "rope_type", None)
    if not set(ropes.values() if isinstance(ropes, dict) else [ropes]) <= _FIXED_ROPES:
        return None
    if (
        model.config._attn_implementation != "sdpa"
        or ALL_ATTENTION_FUNCTIONS["sdpa"] is not sdpa_attention_forward
        or ALL_MASK_ATTENTION_FUNCTIONS["sdpa"] is not sdpa_mask
    ):
        return None
    text = given.get("input_ids") if given.get("inputs_embeds") is None else given["inputs_embeds"]
    if type(text) not in _TENSORS or text.dim() < 2 or not 0 < text.shape[1] <= most:
        return None
    if given.get("attention_mask") is None and not _reads_nothing(model, given, text.shape[1]):
        return None
    key, tensors = [_settings()], []
    for name, value in given.items():
        if name == "past_key_values" and value is not None:
            key.append(_static(value, device))
            if key[-1] is None:
                return None
            continue
        for of, one in value.items() if type(value) is dict else [(None, value)]:
            if type(one) in _PLAIN:
                key.append((name, of, type(one), one))
            # Of a mask of fewer dimensions transformers reads the values.
            elif _lies_on(device, one) and (name != "attention_mask" or one.dim() == 4):
                key.append((name, of, *_form(one)))
                tensors.append(one)
            else:
                return None
    return Call(tuple(key), device, given, tensors)


class Seen:
    """The modules as they are now. A replaced module lives on in here until the next call; a replaced weight does not."""

    def __init__(self, model):
        modules = list(model.modules())
        # Of the model itself nothing is kept that would keep it.
        self.modules, self.config, self.own = modules[1:], model.config, _without_graphs(model)
        self.dicts = [vars(module) for module in self.modules]
        every = [vars(model), *self.dicts]
        self.hooks = [own[name] for own in every for name in _HOOKS]
        self.children = [own["_modules"] for own in every]
        self.tensors = [own[name] for own in every for name in ("_parameters", "_buffers")]
        self.classes = set(map(type, modules)) | {type(model)._stock}
        # They are compared with what is there later, hence copies.
        self.before = self._now(), [dict(own) for own in self.dicts], [dict(own) for own in self.children]

    def _now(self):
        return (
            repr(vars(self.config)),
            [type(module) for module in self.modules],
            [cls.forward for cls in self.classes],
            [
                (type(one), one.data_ptr(), *_form(one))
                for own in self.tensors
                for one in own.values()
                if one is not None
            ],
        )

    def holds(self, model) -> bool:
        """Whether all is still so, and nobody observes it. Lists are compared whole, for this is done in each call."""
        try:
            now = self._now(), self.dicts, self.children
            return not any(self.hooks) and now == self.before and _without_graphs(model) == self.own
        except Exception:  # of attributes that cannot be compared, at least one is another
            return False


def _without_graphs(model):
    return {name: value for name, value in vars(model).items() if name != GRAPHS}


def seen(model, device):
    """The modules, or None where they are not all known, at rest, unobserved and on the device."""
    modeling = type(model)._stock.__module__
    for module in model.modules():
        own, whence = vars(module), type(module).__module__
        if module.training or watched(module) or own.get("config", model.config) is not model.config:
            return None
        if not whence.startswith("torch.nn.modules.") and whence not in (modeling, "transformers.activations"):
            return None
        tensors = (*own["_parameters"].values(), *own["_buffers"].values())
        if not _lies_on(device, *(one for one in tensors if one is not None)):
            return None
    return Seen(model)
