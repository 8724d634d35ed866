"""Writes qk_norm_rope3d.json: q and k as diffusers' LTXVideoAttnProcessor hands them to the attention, in float64.

Only the projections are replaced, by identities, and the attention by one that keeps its arguments.
"""

import json
import pathlib

import diffusers
import torch
from diffusers.models.transformers import transformer_ltx
from rope3d import table_of, tensor


def case(heads, head_dim, batch, frames, height, width):
    dim, tokens = heads * head_dim, frames * height * width
    generator = torch.Generator().manual_seed(dim)
    q, k = (torch.randn(batch, tokens, dim, generator=generator) for _ in range(2))
    attention = transformer_ltx.LTXAttention(dim, heads=heads, kv_heads=heads, dim_head=head_dim)
    for norm in (attention.norm_q, attention.norm_k):
        norm.weight.data = torch.randn(dim, generator=generator)
    weights = [attention.norm_q.weight.detach().clone(), attention.norm_k.weight.detach().clone()]
    attention = attention.double()
    attention.to_q = attention.to_k = attention.to_v = torch.nn.Identity()
    cos, sin = transformer_ltx.LTXVideoRotaryPosEmbed(dim)(q, frames, height, width, (8 / 24, 32, 32))
    kept = []

    def keep(query, key, value, **_):
        kept.extend([query.flatten(2).flatten(0, 1), key.flatten(2).flatten(0, 1)])
        return value

    # The rotation casts to float32 first, which float64 is to be spared.
    original, transformer_ltx.dispatch_attention_fn = transformer_ltx.dispatch_attention_fn, keep
    as_float, torch.Tensor.float = torch.Tensor.float, lambda x: x
    try:
        with torch.no_grad():
            attention(q.double(), k.double(), image_rotary_emb=(cos.double(), sin.double()))
    finally:
        transformer_ltx.dispatch_attention_fn, torch.Tensor.float = original, as_float
    zeros = torch.zeros(batch * tokens, dim)
    return {
        "values": {
            "batch": batch,
            "frames": frames,
            "height": height,
            "width": width,
            "dim": dim,
            "tables": 1,
            "eps": attention.norm_q.eps,
            "round_first": 0,
        },
        "tensors": {
            "q_out": tensor(zeros),
            "k_out": tensor(zeros),
            "q": tensor(q.flatten(0, 1)),
            "k": tensor(k.flatten(0, 1)),
            "q_weight": tensor(weights[0]),
            "k_weight": tensor(weights[1]),
            "table": tensor(table_of(cos, sin, dim, frames, height, width).flatten(2)[:1]),
        },
        "outputs": {
            name: {"shape": list(x.shape), "data": x.flatten().tolist()} for name, x in zip(("q_out", "k_out"), kept)
        },
    }


def main():
    document = {
        "operation": "qk_norm_rope3d",
        "source": f"diffusers {diffusers.__version__} "
        "diffusers.models.transformers.transformer_ltx.LTXVideoAttnProcessor and LTXAttention, "
        f"torch {torch.__version__}, float64",
        "cases": [case(2, 10, 1, 2, 2, 3), case(2, 8, 2, 1, 2, 2)],
    }
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


main()
