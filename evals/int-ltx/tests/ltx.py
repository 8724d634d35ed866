"""Small LTX-Video transformers with random weights."""

import torch
from diffusers import LTXVideoTransformer3DModel
from diffusers.models.normalization import RMSNorm
from torch import nn


def make(seed):
    sizes = {"in_channels": 8, "out_channels": 8, "num_attention_heads": 2, "attention_head_dim": 16, "cross_attention_dim": 32}
    return LTXVideoTransformer3DModel(**sizes, num_layers=1 + seed % 2, caption_channels=24, norm_eps=0.05 + seed % 3 / 10)


def run(model):
    dtype = next(model.parameters()).dtype
    make = torch.Generator().manual_seed(5)
    video, text = torch.randn(1, 8, 8, generator=make).to(dtype), torch.randn(1, 5, 24, generator=make).to(dtype)
    mask, time = torch.ones(1, 5, dtype=dtype), torch.tensor([300], dtype=torch.float32)
    return model(video, text, time, mask, num_frames=2, height=2, width=2, return_dict=False)[0]


def norms(model):
    return [module for module in model.modules() if type(module) in (RMSNorm, nn.RMSNorm)]


def width(norm):
    return (norm.dim if type(norm) is RMSNorm else norm.normalized_shape)[0]


class Other(RMSNorm):
    def forward(self, x):
        return 2 * x


def strange(model):
    model.transformer_blocks[0].norm1.__class__ = Other
    model.transformer_blocks[0].norm2 = RMSNorm(32, 1e-3, bias=True)
