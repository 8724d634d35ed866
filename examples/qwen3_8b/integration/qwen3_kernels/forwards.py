"""What the replaced modules compute. Each function makes a forward of one kernel and one family.

Between the layers goes a list, [what the last block added, the residual that it is to be added to], for the addition is
the first half of the next norm. The stock model's loop passes it on unseen, to the next layer and at last to the norm.
Who gets it takes both out, so that the loop, which holds the list until the layer returns, holds no tensor with it.
"""

import functools
import importlib
import inspect

import torch
from transformers.cache_utils import DynamicCache

from .errors import OptimizeError
from .families import Family
from .hooks import observed, watched

try:
    from transformers.cache_utils import DynamicLayer
except ImportError:  # an older cache, which is never filled directly
    DynamicLayer = None

# What the model tells its attention, through the layers' arguments.
ONLY_CAUSAL = "qwen3_kernels_only_causal"
# And its layers: those, by their index, whose output goes to a module that somebody observes.
OBSERVED_NEXT = "qwen3_kernels_observed_next"
# The attribute of a base model that replays CUDA graphs.
GRAPHS = "_qwen3_kernels_graphs"


def norm(kernel, family: Family, stock: type):
    rms_norm, add_rms_norm = kernel.rms_norm, kernel.add_rms_norm
    offset, round_first, eps = family.weight_offset, family.round_first, family.eps

    def forward(self, hidden_states, residual=None):
        """The norm of a tensor. With a residual, the norm of their sum, and the sum. Of a list, the norm of its sum."""
        weight = self.weight
        last = type(hidden_states) is list
        if last:
            residual, hidden_states = hidden_states.pop(), hidden_states.pop()
        if hidden_states.dtype != weight.dtype or (residual is not None and residual.dtype != weight.dtype):
            _refuse_mixed(self, hidden_states, residual)
        if residual is None:
            return rms_norm(hidden_states, weight, getattr(self, eps), offset, round_first)
        both = add_rms_norm(hidden_states, residual, weight, getattr(self, eps), offset, round_first)
        return both[0] if last else both

    return forward


def _refuse_mixed(module, hidden_states, residual):
    others = f"{hidden_states.dtype}" + ("" if residual is None else f" and a residual in {residual.dtype}")
    raise OptimizeError(
        f"{type(module).__name__} has its weight in {module.weight.dtype} and gets {others}: the kernels want "
        "one dtype. Cast the model whole (model.to(dtype)) and leave out torch.autocast, or restore(model)"
    )


def _one_tensor(layer, observed_next) -> bool:
    # Hooks on a layer, such as those of output_hidden_states, must see the output of the stock layer, and hooks on what
    # comes next its input. So must a checkpoint, which saves tensor arguments but not tensors in a list.
    return (
        observed(layer)
        or (layer.gradient_checkpointing and layer.training)
        or (bool(observed_next) and layer._modules["self_attn"].layer_idx in observed_next)
    )


def _apart(norm):
    """The norm, which gets one tensor, as in the stock layer, for somebody observes it."""

    def added(hidden_states, residual=None):
        if residual is None:
            return norm(hidden_states)
        residual = residual + hidden_states
        return norm(residual), residual

    return added


def layer(kernel, family: Family, stock: type):
    # Here and below, _modules avoids a call of nn.Module.__getattr__ for each child: 14 of some 100 calls per layer.
    def plain(self, hidden_states, **kwargs):
        own, observed_next = self._modules, kwargs.pop(OBSERVED_NEXT, ())
        first, second = own["input_layernorm"], own["post_attention_layernorm"]
        if observed(first, second):
            first, second = _apart(first), _apart(second)
        if type(hidden_states) is list:
            residual = hidden_states.pop()
            hidden_states, residual = first(hidden_states.pop(), residual)
        else:
            residual, hidden_states = hidden_states, first(hidden_states)
        hidden_states, _ = own["self_attn"](hidden_states=hidden_states, **kwargs)
        hidden_states, residual = second(hidden_states, residual)
        hidden_states = own["mlp"](hidden_states)
        return residual + hidden_states if _one_tensor(self, observed_next) else [hidden_states, residual]

    def sandwich(self, hidden_states, **kwargs):
        own, observed_next = self._modules, kwargs.pop(OBSERVED_NEXT, ())
        first, second = own["input_layernorm"], own["pre_feedforward_layernorm"]
        if observed(first, second):
            first, second = _apart(first), _apart(second)
        if type(hidden_states) is list:
            residual = hidden_states.pop()
            hidden_states, residual = first(hidden_states.pop(), residual)
        else:
            residual, hidden_states = hidden_states, first(hidden_states)
        hidden_states, _ = own["self_attn"](hidden_states=hidden_states, **kwargs)
        hidden_states = own["post_attention_layernorm"](hidden_states)
        hidden_states, residual = second(hidden_states, residual)
        hidden_states = own["post_feedforward_layernorm"](own["mlp"](hidden_states))
        return residual + hidden_states if _one_tensor(self, observed_next) else [hidden_states, residual]

    return sandwich if family.sandwich else plain


def mlp(kernel, family: Family, stock: type):
    swiglu = kernel.swiglu

    def forward(self, x):
        own = self._modules
        if observed(own["act_fn"]):
            return stock.forward(self, x)
        return own["down_proj"](swiglu(own["gate_proj"](x), own["up_proj"](x)))

    return forward


def _through_the_norms(q_norm, k_norm, query, key, q_weight, k_weight) -> bool:
    # qk_norm_rope has no gradient, and it reads the norms' weights without calling the norms. If somebody follows a
    # norm's calls, call the norms themselves and then rope.
    if torch.is_grad_enabled() and (
        query.requires_grad or key.requires_grad or q_weight.requires_grad or k_weight.requires_grad
    ):
        return True
    return watched(q_norm, k_norm) or query.dtype != q_weight.dtype or key.dtype != k_weight.dtype


def _first_of(cache, index: int):
    """The layer of a cache that has nothing yet and grows by torch.cat, else None."""
    layers = getattr(cache, "layers", ())
    if type(cache) is not DynamicCache or cache.offloading or len(layers) <= index:
        return None
    held = layers[index]
    return held if type(held) is DynamicLayer and not held.is_initialized else None


def _is_square(query, key, window) -> bool:
    """Whether each query sees all keys up to its own: none before them, and none too far away."""
    tokens = key.shape[2]
    return query.shape[2] == tokens and (window is None or tokens < window)


def _is_empty(cache) -> bool:
    return cache is None or (type(cache) is DynamicCache and cache.get_seq_length() == 0)


def _observed_next(model):
    layers = list(model.layers)[: model.config.num_hidden_layers]
    after = [*layers[1:], model.norm]
    if not observed(*after):
        return ()
    return tuple(layer.self_attn.layer_idx for layer, one in zip(layers, after) if observed(one))


def model(kernel, family: Family, stock: type):
    """The stock forward. It leaves out the mask of a causal attention and says is_causal instead, but not while torch.compile
    traces it: then it makes the mask, with which attention takes up to three times as long. Where the arguments alone say
    that the mask would be causal and nothing else, the attention is told so here."""
    names = list(inspect.signature(stock.forward).parameters)[1:]

    def plain(self, *args, **kwargs):
        if indices := _observed_next(self):
            kwargs[OBSERVED_NEXT] = indices
        return stock.forward(self, *args, **kwargs)

    @functools.wraps(stock.forward)
    def forward(self, *args, **kwargs):
        if torch.compiler.is_dynamo_compiling():
            given = {**dict(zip(names, args)), **kwargs}
            if (
                given.get("attention_mask") is None
                and given.get("position_ids") is None
                and _is_empty(given.get("past_key_values"))
                and getattr(self.config, "is_causal", True)
                and not getattr(self.config, "use_bidirectional_attention", False)
            ):
                kwargs[ONLY_CAUSAL] = True
        elif GRAPHS in self.__dict__:
            return self.__dict__[GRAPHS].call(self, plain, names, args, kwargs)
        return plain(self, *args, **kwargs)

    return forward


def attention(kernel, family: Family, stock: type):
    rope, qk_norm_rope = kernel.rope, kernel.qk_norm_rope
    offset, round_first, eps = family.weight_offset, family.round_first, family.eps
    qk_norm, window, softcap = family.qk_norm, family.window, family.softcap

    modeling = importlib.import_module(stock.__module__)
    eager, interfaces = modeling.eager_attention_forward, modeling.ALL_ATTENTION_FUNCTIONS
    get_interface = getattr(interfaces, "get_interface", None)
    # transformers 5.0 passes the cache the positions to write; in later versions the cache tracks them.
    tells_the_cache = "cache_position" in inspect.signature(stock.forward).parameters

    def forward(self, hidden_states, position_embeddings, attention_mask=None, past_key_values=None, **kwargs):
        only_causal = kwargs.pop(ONLY_CAUSAL, False)
        input_shape = hidden_states.shape[:-1]
        by_heads = (*input_shape, -1, self.head_dim)
        own = self._modules
        query = own["q_proj"](hidden_states).view(by_heads)
        key = own["k_proj"](hidden_states).view(by_heads)
        value = own["v_proj"](hidden_states).view(by_heads).transpose(1, 2)

        cos, sin = position_embeddings
        if qk_norm:
            q_norm, k_norm = own["q_norm"], own["k_norm"]
            q_weight, k_weight = q_norm.weight, k_norm.weight
            if _through_the_norms(q_norm, k_norm, query, key, q_weight, k_weight):
                query, key = rope(q_norm(query), k_norm(key), cos, sin)
            else:
                query, key = qk_norm_rope(
                    query, key, q_weight, k_weight, cos, sin, getattr(q_norm, eps), None, offset, round_first
                )
        else:
            query, key = rope(query, key, cos, sin)
        query, key = query.transpose(1, 2), key.transpose(1, 2)

        if past_key_values is not None:
            empty = _first_of(past_key_values, self.layer_idx)
            if empty is not None:
                # The stock cache concatenates them to an empty tensor: two launches, and a copy of all bytes.
                empty.lazy_initialization(key, value)
                empty.keys, empty.values = key, value
            elif tells_the_cache:
                told = {"sin": sin, "cos": cos, "cache_position": kwargs.get("cache_position")}
                key, value = past_key_values.update(key, value, self.layer_idx, told)
            else:
                key, value = past_key_values.update(key, value, self.layer_idx)
        if tells_the_cache:
            kwargs.pop("cache_position", None)

        name = self.config._attn_implementation
        if get_interface is not None:
            attend = get_interface(name, eager)
        else:
            attend = eager if name == "eager" else interfaces[name]
        if window == "layer":
            kwargs["sliding_window"] = self.sliding_window
        elif window == "config":
            kwargs["sliding_window"] = getattr(self.config, "sliding_window", None)
        if softcap:
            kwargs["softcap"] = self.attn_logit_softcapping
        if only_causal and name == "sdpa" and _is_square(query, key, kwargs.get("sliding_window")):
            attention_mask = None
        dropout = self.attention_dropout if self.training else 0.0
        output, weights = attend(
            self, query, key, value, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs
        )
        return own["o_proj"](output.reshape(*input_shape, -1)), weights

    return forward


MAKERS = {"Model": model, "RMSNorm": norm, "MLP": mlp, "Attention": attention, "DecoderLayer": layer}
