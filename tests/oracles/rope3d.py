"""Writes rope3d.json: diffusers' apply_rotary_emb in float64, on cosines and sines of LTXVideoRotaryPosEmbed."""

import json
import pathlib

import diffusers
import torch
from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed, apply_rotary_emb


def table_of(cos, sin, dim, frames, height, width):
    """[batch, frames + height + width, dim // 6 + 1, 2] of the class's [batch, tokens, dim]."""
    padding, rows = dim % 6, []
    for axis, length in enumerate((frames, height, width)):
        for position in range(length):
            token = position * (height * width, width, 1)[axis]
            elements = [padding + 2 * (3 * frequency + axis) for frequency in range(dim // 6)]
            turns = torch.stack([cos[:, token, elements], sin[:, token, elements]], dim=-1)
            first = torch.tensor([1.0, 0.0]).expand(cos.shape[0], 1, 2)
            rows.append(torch.cat([first, turns], dim=1))
    return torch.stack(rows, dim=1)


def tensor(values):
    return {"dtype": "f32", "shape": list(values.shape), "data": values.flatten().tolist()}


def case(dim, batch, frames, height, width, own_tables, inverse):
    generator = torch.Generator().manual_seed(dim + batch)
    tokens = frames * height * width
    q, k = (torch.randn(batch, tokens, dim, generator=generator) for _ in range(2))
    fps = torch.tensor([24.0, 25.0][:batch] if own_tables else [24.0] * batch).view(batch, 1, 1, 1, 1)
    cos, sin = LTXVideoRotaryPosEmbed(dim)(q, frames, height, width, (8 / fps, 32, 32))
    table = table_of(cos, sin, dim, frames, height, width)
    freqs = (cos.double(), -sin.double() if inverse else sin.double())
    out = [apply_rotary_emb(x.double(), freqs).flatten(0, 1) for x in (q, k)]
    table = table.flatten(2) if own_tables else table.flatten(2)[:1]
    zeros = torch.zeros(batch * tokens, dim)
    return {
        "values": {
            "batch": batch,
            "frames": frames,
            "height": height,
            "width": width,
            "dim": dim,
            "tables": table.shape[0],
            "inverse": inverse,
        },
        "tensors": {
            "q_out": tensor(zeros),
            "k_out": tensor(zeros),
            "q": tensor(q.flatten(0, 1)),
            "k": tensor(k.flatten(0, 1)),
            "table": tensor(table),
        },
        "outputs": {
            name: {"shape": list(x.shape), "data": x.flatten().tolist()} for name, x in zip(("q_out", "k_out"), out)
        },
    }


def main():
    cases = [
        case(20, 1, 2, 2, 3, False, 0),
        case(16, 2, 2, 1, 2, True, 0),
        case(12, 2, 1, 3, 2, False, 1),
    ]
    document = {
        "operation": "rope3d",
        "source": f"diffusers {diffusers.__version__} diffusers.models.transformers.transformer_ltx.apply_rotary_emb, "
        f"torch {torch.__version__}, float64",
        "cases": cases,
    }
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
