"""Where the time of a step goes, by the names of the kernels that ran."""

import re
from typing import Dict, Iterable, Tuple

# In the order of the legend. `idle` is the time in which the GPU waits for the host.
CATEGORIES = ("gemm", "attention", "norm", "activation", "elementwise", "copy", "other", "idle")

# Descriptions of the categories.
LABELS = {
    "gemm": "matrix products",
    "attention": "attention",
    "norm": "norms, modulation, RoPE",
    "activation": "activations",
    "elementwise": "other elementwise",
    "copy": "copies, casts",
    "other": "other",
    "idle": "idle",
}

# The first match in a name decides, ignoring case. Names have two limits: a compiled kernel that does several jobs counts
# for the first category that its name matches; torch eager composes its norms, modulations and rotations of plain additions
# and products, which count as other elementwise.
RULES: Tuple[Tuple[str, str], ...] = (
    ("copy", r"^mem(cpy|set)"),
    # Inductor names its kernels after the fused operations, which of attention are only the neighbouring ones.
    ("attention", r"^(?!triton_).*(flash|fmha|fprop.*attn|attention|sdpa|attn_(fwd|kernel))"),
    # this project's
    ("norm", r"rms_norm_(elements|narrow|rows|twice|unaligned)|adaln_|gate_residual_(elements|packs)"),
    ("norm", r"rope3d_(tokens|twice|table)|qk_norm_rope|\brope_|rotate_half"),
    ("activation", r"\bgated(_backward)?\b|swiglu|geglu"),
    # Inductor's: triton_poi_fused_…, triton_red_…, triton_per_…; templates are matrix products
    ("gemm", r"triton_tem"),
    ("norm", r"triton_.*(rsqrt|rms_norm|layer_norm|_mean|_cos|_sin|_stack|_neg)"),
    ("activation", r"triton_.*(gelu|silu|sigmoid|tanh|erf)"),
    ("attention", r"triton_.*softmax"),
    ("copy", r"triton_\w*fused_(_to_copy|clone|cat|copy)(_\d+)?$"),
    ("elementwise", r"triton_"),
    # torch's, cuBLAS's and CUTLASS's
    ("gemm", r"gemm|gemv|nvjet|cutlass|xmma|cublas|splitk|dot_kernel|wgmma|matmul"),
    ("attention", r"softmax"),
    ("norm", r"layer_?norm|rms_?norm|rotary|rsqrt|meanops|pow_tensor_scalar|sin_kernel|cos_kernel|cos_sin"),
    ("activation", r"gelu|silu|swish|sigmoid|relu"),
    ("copy", r"direct_copy|catarray|copy_kernel|copy_device|transpose|_to_copy|fillfunctor|arange|index_copy"),
    ("elementwise", r"elementwise|vectorized|functor"),
)

_COMPILED = tuple((category, re.compile(rule, re.IGNORECASE)) for category, rule in RULES)


def category_of(kernel: str) -> str:
    """The category of a kernel, of a copy or of a fill, by its name."""
    for category, rule in _COMPILED:
        if rule.search(kernel):
            return category
    return "other"


def by_category(times: Iterable[Tuple[str, float]]) -> Dict[str, float]:
    """Sums of (name, time), every category but `idle` among them."""
    sums = {category: 0.0 for category in CATEGORIES if category != "idle"}
    for name, time in times:
        sums[category_of(name)] += time
    return sums
