"""Whether a call of the base model can be the replay of a CUDA graph. The key of a call and the state of a model together
name what a graph of it has fixed: shapes, dtypes, addresses, classes and settings."""

import functools
from typing import Any, Dict, List, NamedTuple, Optional

import torch
from transformers.cache_utils import Cache, DynamicCache, StaticCache

try:
    from transformers.cache_utils import DynamicLayer, StaticLayer
except ImportError:  # an older cache, with which nothing is captured
    DynamicLayer = StaticLayer = None

# Tokens of a prefill. With Qwen3-8B on an H100, 1,024 tokens take 22 ms of kernels and 25 ms in all: from there on the
# host keeps up with the device, and the memory of a graph, which is its activations, buys nothing.
LONGEST = 1024

_OPTIONS = {"inputs_embeds", "use_cache", "return_dict", "output_attentions", "output_hidden_states"}
_PLAIN = {torch.Tensor, torch.nn.Parameter}


class Call(NamedTuple):
    """
    key: equal for calls that one graph can serve
    inputs: the tensors that a graph reads, by the names of the arguments; masks may be a dict of tensors
    use_cache: the argument
    cache: what the call fills, or None
    static: whether that is a StaticCache, and the call a decode step
    device: of all inputs
    """

    key: tuple
    inputs: Dict[str, Any]
    use_cache: bool
    cache: Optional[Cache]
    static: bool
    device: torch.device


def leaves(inputs: Dict[str, Any]) -> List[torch.Tensor]:
    return [leaf for given in inputs.values() for leaf in (given.values() if isinstance(given, dict) else (given,))]


def call_of(model, input_ids, attention_mask, position_ids, cache, rest: Dict[str, Any]) -> Optional[Call]:
    """The call as a replay would serve it, or None where the forward has to run."""
    config = model.config
    if not _OPTIONS.issuperset(rest) or torch.is_grad_enabled() or not _is_stock(model, config, rest):
        return None
    static = type(cache) is StaticCache
    inputs = {"input_ids": input_ids, "inputs_embeds": rest.get("inputs_embeds"), "position_ids": position_ids}
    if static:
        # generate() has made the masks; where it has not, the model makes them on the device.
        inputs["attention_mask"] = attention_mask
    inputs = {name: given for name, given in inputs.items() if given is not None}
    if ("input_ids" in inputs) == ("inputs_embeds" in inputs):
        return None
    given = next(iter(inputs.values()))
    if not all(_is_input(*one, given.device) for one in inputs.items()) or _is_observed(given.device):
        return None
    use_cache = rest.get("use_cache")
    use_cache = bool(getattr(config, "use_cache", False) if use_cache is None else use_cache)
    batch, length = given.shape[:2]
    if static:
        if length != 1 or not _is_ready(cache, config, batch, given.device):
            return None
    else:
        # Without a cache and a mask the stock model reads the positions, and looks for packed sequences in them.
        if not 0 < batch * length <= LONGEST or (cache is None and not use_cache and position_ids is not None):
            return None
        if cache is None and use_cache:
            cache = DynamicCache(config=config)
        if cache is not None and not _is_unused(cache, config):
            return None
        # Last, for it waits for the device, as the stock forward does.
        if not _hides_nothing(attention_mask, batch, length):
            return None
    names = (*inputs, *inputs["attention_mask"]) if isinstance(inputs.get("attention_mask"), dict) else tuple(inputs)
    shapes = tuple((tensor.shape, tensor.dtype) for tensor in leaves(inputs))
    where = tuple(_addresses(cache)) if static else cache is not None
    key = (shapes, names, where, use_cache, given.device, config.num_hidden_layers, _settings())
    return Call(key, inputs, use_cache, cache, static, given.device)


def _is_stock(model, config, rest) -> bool:
    """Whether the output is the plain one, and the attention the causal one that can be captured: masks of the eager
    attention come from the host, and flash attention looks at the positions there."""
    rope = getattr(model._modules.get("rotary_emb"), "rope_type", "default")
    return (
        rest.get("return_dict", getattr(config, "return_dict", True)) is not False
        and not any(rest.get(name, getattr(config, name, False)) for name in ("output_attentions", "output_hidden_states"))
        and config._attn_implementation == "sdpa"
        and getattr(config, "is_causal", True)
        and not getattr(config, "use_bidirectional_attention", False)
        # These compute their frequencies from the positions, on the host.
        and not any("dynamic" in one or one == "longrope" for one in (rope.values() if isinstance(rope, dict) else (rope,)))
    )


def _is_input(name: str, given, device) -> bool:
    if isinstance(given, dict):
        return name == "attention_mask" and all(_is_input(name, mask, device) for mask in given.values())
    dimensions = {"inputs_embeds": 3, "attention_mask": 4}.get(name, 2)
    return type(given) in _PLAIN and given.dim() == dimensions and given.device == device


def _is_observed(device) -> bool:
    """Whether something outside of the model sees or changes each op: autocast, tracing, a dispatch mode, vmap, hooks."""
    hooks = torch.nn.modules.module
    return (
        torch.is_autocast_enabled(device.type)
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or bool(hooks._global_forward_hooks or hooks._global_forward_pre_hooks)
    )


def _is_unused(cache, config) -> bool:
    """Whether the cache is a DynamicCache that has nothing yet and whose layers all grow without a limit."""
    if type(cache) is not DynamicCache or cache.offloading or len(cache.layers) < config.num_hidden_layers:
        return False
    return all(type(layer) is DynamicLayer and not layer.is_initialized for layer in cache.layers)


def _is_ready(cache, config, batch: int, device) -> bool:
    """Whether the cache counts on the device alone: a StaticLayer's length is a tensor there. Where a sliding layer writes
    depends on a number in Python. The stock layer allocates at its first update."""
    if cache.offloading or len(cache.layers) != config.num_hidden_layers:
        return False
    return all(
        type(layer) is StaticLayer
        and layer.is_initialized
        and isinstance(getattr(layer, "cumulative_length", None), torch.Tensor)
        and layer.cumulative_length.device == device
        and layer.keys.device == device
        and layer.keys.shape[0] == batch
        for layer in cache.layers
    )


def _addresses(cache):
    for layer in cache.layers:
        yield layer.keys.shape
        yield layer.keys.dtype
        for tensor in (layer.keys, layer.values, layer.cumulative_length):
            yield tensor.data_ptr()


def _hides_nothing(attention_mask, batch: int, length: int) -> bool:
    if attention_mask is None:
        return True
    return type(attention_mask) is torch.Tensor and attention_mask.shape == (batch, length) and bool(attention_mask.all())


def _settings() -> tuple:
    """Of torch: which kernels it launches."""
    cuda = torch.backends.cuda
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        cuda.matmul.fp32_precision,
        cuda.matmul.allow_bf16_reduced_precision_reduction,
        cuda.matmul.allow_fp16_reduced_precision_reduction,
        torch.are_deterministic_algorithms_enabled(),
    )


@functools.lru_cache(maxsize=None)
def _is_known(cls: type) -> bool:
    """Whether modules of this class compute the same each time. An adapter's layer, for one, can be switched off."""
    home = cls.__module__
    return home.startswith(("torch.nn.modules.", "transformers.models.")) or home == "transformers.activations"


def state_of(model, device: torch.device) -> Optional[list]:
    """The classes of the modules and the addresses of their tensors. None where a graph would pass over something: hooks
    or another forward on a module, training, classes that are not known, tensors that are not plain or elsewhere."""
    found, rest = [], [model]
    while rest:
        module = rest.pop()
        own = module.__dict__
        if own["training"] or not _is_known(type(module)):
            return None
        if module is not model and (own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own):
            return None
        found.append(type(module))
        for tensors in (own["_parameters"], own["_buffers"]):
            for tensor in tensors.values():
                if tensor is not None:
                    if type(tensor) not in _PLAIN or tensor.device != device:
                        return None
                    found += (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        rest += [child for child in own["_modules"].values() if child is not None]
    return found
