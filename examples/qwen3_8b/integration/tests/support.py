"""Small models of every family, and a kernel that counts."""

import collections
import copy
import functools
import os
import pathlib
import types

import pytest
import torch
import transformers

needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: the kernels run nowhere else")
needs_two_cards = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices")

NAMES = ("rms_norm", "add_rms_norm", "rope", "qk_norm_rope", "swiglu")

# Four q heads per kv head, and a width of q that no other tensor has.
_COMMON = dict(
    vocab_size=97,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=256,
    rms_norm_eps=1e-3,  # large enough that another one shows
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)

_SOME_SLIDE = dict(layer_types=["full_attention", "sliding_attention", "full_attention"], sliding_window=6)

FAMILIES = {
    "qwen3": ("Qwen3", {}),
    "qwen3-sliding": ("Qwen3", dict(use_sliding_window=True, attention_bias=True, **_SOME_SLIDE)),
    "qwen2": ("Qwen2", {}),
    "llama": ("Llama", dict(mlp_bias=True, attention_bias=True)),
    "mistral": ("Mistral", dict(sliding_window=6)),
    "gemma": ("Gemma", dict(hidden_activation="gelu_pytorch_tanh")),
    "gemma2": ("Gemma2", dict(_SOME_SLIDE, query_pre_attn_scalar=24, attn_logit_softcapping=5.0)),
    "gemma3": ("Gemma3", dict(_SOME_SLIDE, query_pre_attn_scalar=24)),
}

# The calls of a forward of three layers: both norms of each layer and the final norm. Only the first norm has no
# residual, and in sandwich layers the norms after attention and MLP.
CALLS = {
    "qwen3": dict(rms_norm=1, add_rms_norm=6, qk_norm_rope=3, swiglu=3),
    "llama": dict(rms_norm=1, add_rms_norm=6, rope=3, swiglu=3),
    "gemma": dict(rms_norm=1, add_rms_norm=6, rope=3),
    "gemma2": dict(rms_norm=7, add_rms_norm=6, rope=3),
    "gemma3": dict(rms_norm=7, add_rms_norm=6, qk_norm_rope=3),
}
CALLS.update({"qwen3-sliding": CALLS["qwen3"], "qwen2": CALLS["llama"], "mistral": CALLS["llama"]})


def randomised(model, seed=0):
    """Weights that hide nothing: no norm of ones, no bias of zeros, every layer different."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                drawn = drawn * 0.3 + (0 if "Gemma" in type(model).__name__ else 1)
            elif parameter.dim() == 2 and "embed" not in name:
                drawn = drawn / parameter.shape[1] ** 0.5
            else:
                drawn = drawn * 0.5
            parameter.copy_(drawn.to(parameter.dtype))
    return model


def model(family="qwen3", dtype=torch.float32, attention="sdpa", device="cpu", **changes):
    prefix, own = FAMILIES[family]
    suffix = "TextConfig" if prefix == "Gemma3" else "Config"
    made = getattr(transformers, prefix + suffix)(**{**_COMMON, **own, **changes})
    kind = getattr(transformers, prefix + "ForCausalLM")
    # transformers 5.22 has no sdpa for Gemma 2.
    made._attn_implementation = attention if attention != "sdpa" or kind._supports_sdpa else "eager"
    return randomised(kind(made)).to(device, dtype).eval()


def twin(stock):
    return copy.deepcopy(stock)


def tokens(batch=2, length=11, seed=1, device="cpu"):
    return torch.randint(3, 97, (batch, length), generator=torch.Generator().manual_seed(seed)).to(device)


def left_padded(ids, *lengths):
    """The ids with all but the last `length` of each row masked out, and the mask."""
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        mask[row, -length:] = 1
    return ids * mask, mask


def counting(kernel):
    """The kernel's functions, with the calls counted in .calls."""
    counted = types.ModuleType("counting")
    counted.calls = collections.Counter()
    for name in NAMES:

        def function(*args, _name=name, **kwargs):
            counted.calls[_name] += 1
            return getattr(kernel, _name)(*args, **kwargs)

        setattr(counted, name, function)
    return counted


@functools.lru_cache(maxsize=None)
def built():
    """The built kernel: from $QWEN3_KERNELS or KERNEL_BUILD, else the example's build folder."""
    from qwen3_kernels import loader

    folder = os.environ.get("KERNEL_BUILD")
    return loader.load(pathlib.Path(folder) if folder else None)
