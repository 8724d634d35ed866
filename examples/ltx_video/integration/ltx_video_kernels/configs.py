"""The sizes of LTX-Video, as keyword arguments of diffusers' LTXVideoTransformer3DModel."""

from typing import Any, Dict

# The common values: the defaults of LTXVideoTransformer3DModel.
_COMMON: Dict[str, Any] = {
    "in_channels": 128,
    "out_channels": 128,
    "patch_size": 1,
    "patch_size_t": 1,
    "activation_fn": "gelu-approximate",
    "qk_norm": "rms_norm_across_heads",
    "norm_elementwise_affine": False,
    "norm_eps": 1e-6,
    "caption_channels": 4096,
    "attention_bias": True,
    "attention_out_bias": True,
}

_SIZES: Dict[str, Dict[str, int]] = {
    # The class's defaults in diffusers 0.42, with which its scripts/convert_ltx_to_diffusers.py loads Lightricks'
    # checkpoint.
    "2b": {"num_attention_heads": 32, "attention_head_dim": 64, "cross_attention_dim": 2048, "num_layers": 28},
    # Lightricks' checkpoint of 13B: its configuration is in xora_v1.2-13B-balanced-128.json of
    # AI-Hypercomputer/maxdiffusion.
    "13b": {"num_attention_heads": 32, "attention_head_dim": 128, "cross_attention_dim": 4096, "num_layers": 48},
    # 2B with fewer and narrower layers, with the same ratios of widths and 128 % 6 = 2048 % 6.
    "smoke": {"num_attention_heads": 4, "attention_head_dim": 32, "cross_attention_dim": 128, "num_layers": 2},
    # As 13B: 256 % 6 = 4096 % 6, and the same head size.
    "smoke-13b": {"num_attention_heads": 2, "attention_head_dim": 128, "cross_attention_dim": 256, "num_layers": 2},
}


def config(name: str) -> Dict[str, Any]:
    """Of "2b", "13b", "smoke" or "smoke-13b", a fresh dictionary."""
    if name not in _SIZES:
        raise ValueError(f"no size {name!r}: one of {', '.join(_SIZES)}")
    made = {**_COMMON, **_SIZES[name]}
    if name.startswith("smoke"):
        made.update(in_channels=16, out_channels=16, caption_channels=64)
    return made
