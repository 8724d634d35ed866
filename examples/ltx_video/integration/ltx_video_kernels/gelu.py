"""The feed-forward's first GEMM with tanh's gelu in it: cuBLASLt adds the bias and applies it before it writes."""

import torch
from diffusers.models.activations import GELU
from diffusers.models.attention import FeedForward
from torch import nn

from .hooks import watched

# On other devices the op computes the exact gelu, or needs a separate launch for it.
DEVICES = ("cuda",)
DTYPES = (torch.float16, torch.bfloat16)

# torch.compile decomposes the aten op, so wrap it in a custom op.
_NAME = "ltx_video_integration::linear_gelu"
torch.library.define(_NAME, "(Tensor x, Tensor weight, Tensor bias) -> Tensor")


def linear_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """``gelu(x @ weight.T + bias, approximate="tanh")`` on a card."""
    out = torch._addmm_activation(bias, x.reshape(-1, x.shape[-1]), weight.t(), use_gelu=True)
    return out.view(*x.shape[:-1], weight.shape[0])


torch.library.impl(_NAME, "CompositeExplicitAutograd", linear_gelu)


@torch.library.register_fake(_NAME)
def _(x, weight, bias):
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def fuses(ff: nn.Module, x: torch.Tensor) -> bool:
    """Whether the op computes what the module does: with a plain Linear that nobody follows, wraps or casts."""
    if x.device.type not in DEVICES or x.dtype not in DTYPES or torch.is_grad_enabled():
        return False
    if type(ff) is not FeedForward or watched(ff) or not hasattr(torch, "_addmm_activation"):
        return False
    gelu = ff.net[0]
    if type(gelu) is not GELU or gelu.approximate != "tanh" or watched(gelu):
        return False
    proj = gelu.proj
    return (
        type(proj) is nn.Linear
        and not watched(proj)
        and proj.bias is not None
        and type(proj.weight) is nn.Parameter
        and proj.weight.dtype == x.dtype
        and proj.bias.dtype == x.dtype
        and proj.weight.device == x.device
    )


def feed_forward(ff: nn.Module, x: torch.Tensor) -> torch.Tensor:
    proj = ff.net[0].proj
    if torch.compiler.is_compiling():
        x = torch.ops.ltx_video_integration.linear_gelu(x, proj.weight, proj.bias)
    else:
        x = linear_gelu(x, proj.weight, proj.bias)
    for module in ff.net[1:]:
        x = module(x)
    return x
