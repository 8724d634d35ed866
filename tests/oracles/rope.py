"""Writes rope.json and qk_norm_rope.json: what transformers' own functions give in double precision.

    python tests/oracles/rope.py        # transformers 5.17, torch 2.11; writes beside this file
"""

import json
from pathlib import Path

import torch
import transformers
from transformers.models.qwen3 import modeling_qwen3 as qwen3

torch.manual_seed(20261121)
VERSION = f"transformers {transformers.__version__}"


def normal(*shape, dtype=torch.float32):
    """Numbers that the type holds exactly."""
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def tensor(values):
    name = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[values.dtype]
    return {"dtype": name, "shape": list(values.shape), "data": values.double().flatten().tolist()}


def output(values):
    values = values.transpose(1, 2).contiguous()  # [batch, tokens, heads, head_dim] again
    return {"shape": list(values.shape), "data": values.flatten().tolist()}


def tables(batch, tokens, head_dim, dtype):
    """As Qwen3RotaryEmbedding makes them, for positions that differ within the batch."""
    config = qwen3.Qwen3Config(
        hidden_size=4 * head_dim, num_attention_heads=4, num_key_value_heads=2, head_dim=head_dim, num_hidden_layers=1
    )
    positions = torch.stack([torch.arange(tokens) + 1000 * b + 3 for b in range(batch)])
    like = torch.zeros(1, dtype=dtype)
    return qwen3.Qwen3RotaryEmbedding(config)(like, positions)


def rotated(q, k, cos, sin):
    """Qwen3Attention.forward: heads before tokens, then the rotation."""
    q, k = q.transpose(1, 2), k.transpose(1, 2)
    return qwen3.apply_rotary_pos_emb(q, k, cos.double(), sin.double())


def normed(x, weight, eps):
    """Qwen3RMSNorm.forward, which casts to fp32 inside: torch's own rms_norm does not."""
    return torch.nn.functional.rms_norm(x.double(), (x.shape[-1],), weight.double(), eps)


def partly(x, rotary, rotate):
    """As the models with a partial_rotary_factor do it, e.g. modeling_phi: the rest is joined on again."""
    return torch.cat((rotate(x[..., :rotary]), x[..., rotary:].double()), dim=-1)


def rope():
    cases = []
    for batch, tokens, heads, head_dim, rotary, dtype in [
        (1, 3, (3, 1), 16, 16, torch.float32),
        (2, 2, (2, 1), 20, 20, torch.bfloat16),
        (2, 2, (3, 1), 12, 8, torch.float16),
    ]:
        q = normal(batch, tokens, heads[0], head_dim, dtype=dtype)
        k = normal(batch, tokens, heads[1], head_dim, dtype=dtype)
        cos, sin = tables(batch, tokens, rotary, dtype)
        for inverse in (0, 1):
            # A rotation's transpose is the rotation by the opposite angle.
            signed = -sin if inverse else sin
            out = [
                partly(x, rotary, lambda part: rotated(part.double(), part.double(), cos, signed)[0].transpose(1, 2))
                for x in (q, k)
            ]
            if rotary == head_dim:
                together = rotated(q.double(), k.double(), cos, signed)
                assert all(torch.equal(a, b.transpose(1, 2)) for a, b in zip(out, together))
            names = {"q": q, "k": k, "cos": cos, "sin": sin}
            cases.append(
                {
                    "values": {"rotary_dim": rotary, "inverse": inverse},
                    "tensors": {name: tensor(values) for name, values in names.items()},
                    "outputs": {f"{side}_out": output(x.transpose(1, 2)) for side, x in zip("qk", out)},
                }
            )
    return cases


def qk_norm_rope():
    cases = []
    for batch, tokens, heads, head_dim, eps in [(1, 3, (4, 2), 16, 1e-6), (2, 2, (2, 1), 20, 0.25)]:
        q, k = (normal(batch, tokens, h, head_dim) for h in heads)
        weights = [normal(head_dim) for _ in heads]
        cos, sin = tables(batch, tokens, head_dim, torch.float32)
        eps = torch.tensor(eps, dtype=torch.float32).item()
        out = rotated(normed(q, weights[0], eps), normed(k, weights[1], eps), cos, sin)
        # The module itself, which is fp32 inside, is as near as that.
        module = qwen3.Qwen3RMSNorm(head_dim, eps)
        module.weight.data = weights[0]
        assert torch.allclose(module(q).double(), normed(q, weights[0], eps), rtol=1e-6, atol=1e-6)
        names = {"q": q, "k": k, "q_weight": weights[0], "k_weight": weights[1], "cos": cos, "sin": sin}
        cases.append(
            {
                "values": {"rotary_dim": head_dim, "eps": eps},
                "tensors": {name: tensor(values) for name, values in names.items()},
                "outputs": {f"{side}_out": output(x) for side, x in zip("qk", out)},
            }
        )
    return cases


MODULE = f"{VERSION} transformers.models.qwen3.modeling_qwen3"
for operation, source, cases in [
    ("rope", f"{MODULE}.apply_rotary_pos_emb in float64", rope()),
    (
        "qk_norm_rope",
        f"{MODULE}.apply_rotary_pos_emb in float64, after torch {torch.__version__} rms_norm in float64 "
        "(Qwen3RMSNorm casts to float32 inside)",
        qk_norm_rope(),
    ),
]:
    path = Path(__file__).with_name(f"{operation}.json")
    path.write_text(json.dumps({"operation": operation, "source": source, "cases": cases}) + "\n")
    print(path, path.stat().st_size)
