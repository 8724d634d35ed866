"""Writes attention.json: what torch's scaled_dot_product_attention gives in float64, with its is_causal, its lower-right causal
mask, and its grouped heads. torch does not answer the logarithm of the divisor: that is logsumexp of the scores.

    python tests/oracles/attention.py
"""

import json
import pathlib

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

HEAD_DIM = 16


def inputs(sizes, seed):
    """Normal ones, a query whose scores are large, one whose scores are all the same, and keys that are alike."""
    batch, tokens_q, tokens_k, heads, kv_heads = sizes
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(batch, tokens_q, heads, HEAD_DIM, generator=generator)
    k = torch.randn(batch, tokens_k, kv_heads, HEAD_DIM, generator=generator)
    v = torch.randn(batch, tokens_k, kv_heads, HEAD_DIM, generator=generator)
    q[0, -1] *= 40.0
    q[0, 0] = 0.0
    k[:, -1] = k[:, 0]
    return tuple(tensor.bfloat16() for tensor in (q, k, v))


def attention(q, k, v, scale, causal):
    """o [batch, tokens, heads, head_dim] and lse [batch, heads, tokens]."""
    q, k, v = (tensor.double().transpose(1, 2) for tensor in (q, k, v))
    mask = causal_lower_right(q.shape[2], k.shape[2]) if causal == 2 else None
    o = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal == 1, scale=scale, enable_gqa=True)
    scores = scale * q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(2, 3)
    if causal:
        seen = torch.ones(scores.shape[2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2] if causal == 2 else 0)
        scores = scores.masked_fill(~seen, -torch.inf)
    return o.transpose(1, 2), scores.logsumexp(-1)


def tensor(data):
    return {"dtype": "bf16", "shape": list(data.shape), "data": data.float().flatten().tolist()}


def output(data):
    return {"shape": list(data.shape), "data": data.flatten().tolist()}


if __name__ == "__main__":
    cases = []
    for seed, (sizes, causal) in enumerate(
        [
            ((2, 5, 7, 2, 2), 0),
            ((1, 9, 9, 4, 2), 1),
            ((1, 4, 11, 2, 1), 1),
            ((1, 11, 4, 2, 1), 1),
            ((2, 3, 10, 4, 1), 2),
        ]
    ):
        q, k, v = inputs(sizes, seed)
        scale = torch.tensor(HEAD_DIM**-0.5 if seed else 0.3).item()
        o, lse = attention(q, k, v, scale, causal)
        cases.append(
            {
                "values": {"scale": scale, "causal": causal},
                "tensors": {"q": tensor(q), "k": tensor(k), "v": tensor(v)},
                "outputs": {"o": output(o), "lse": output(lse)},
            }
        )
    source = f"torch {torch.__version__} torch.nn.functional.scaled_dot_product_attention"
    fixture = {"operation": "attention", "source": source, "cases": cases}
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(fixture, separators=(",", ":")) + "\n")
