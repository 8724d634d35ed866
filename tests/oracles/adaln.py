"""Writes adaln.json, gate_residual.json, gate_residual_adaln.json, their in-place twins and layer_norm.json: what the
real modules give in float64.

LTX-Video's block is called whole, with its attentions and its feed-forward replaced by modules that keep what they are
given and answer what they are told: so norm1, norm2 and every line that modulates are diffusers' own. diffusers'
RMSNorm takes its mean in float32 whatever its input; here that type is float64.

    python tests/oracles/adaln.py
"""

import json
import pathlib

import diffusers
import torch
from diffusers.models import normalization
from diffusers.models.normalization import AdaLayerNormZero
from diffusers.models.transformers.transformer_ltx import LTXVideoTransformerBlock

BATCH, TOKENS, WIDTH = 2, 3, 16
ROWS = BATCH * TOKENS
LTX = f"diffusers {diffusers.__version__} diffusers.models.transformers.transformer_ltx.LTXVideoTransformerBlock"
ZERO = f"diffusers {diffusers.__version__} diffusers.models.normalization.AdaLayerNormZero"


class Double:
    """torch, with float64 for float32."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


normalization.torch = Double()


class Told(torch.nn.Module):
    """In the place of an attention or a feed-forward."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, hidden_states, **_):
        self.given = hidden_states
        return self.answer


def short(generator, *shape):
    """Numbers of few bits: h + x * gate of them is exact in f32, so what is stored is what the module has."""
    return torch.randint(-512, 513, shape, generator=generator).double() / 256


def tensor(data):
    flat = data.reshape(-1, data.shape[-1]) if data.dim() > 1 else data
    assert torch.equal(flat.float().double(), flat), "inputs are exact in f32"
    return {"dtype": "f32", "shape": list(flat.shape), "data": flat.float().flatten().tolist()}


def output(data):
    flat = data.reshape(-1, data.shape[-1])
    return {"shape": list(flat.shape), "data": flat.flatten().tolist()}


def case(values, tensors, outputs):
    return {
        "values": values,
        "tensors": {name: tensor(data) for name, data in tensors.items()},
        "outputs": {name: output(data) for name, data in outputs.items()},
    }


def block(table, attn1, attn2, ff):
    module = LTXVideoTransformerBlock(WIDTH, 2, WIDTH // 2, WIDTH).double()
    module.scale_shift_table = torch.nn.Parameter(table)
    module.attn1, module.attn2, module.ff = Told(attn1), Told(attn2), Told(ff)
    return module


@torch.no_grad()
def ltx(cases, steps, seed):
    """Two blocks, `steps` rows of modulation a batch element."""
    g = torch.Generator().manual_seed(seed)
    h, attn1, attn2, ff = (short(g, BATCH, TOKENS, WIDTH) for _ in range(4))
    temb = short(g, BATCH, steps, 6 * WIDTH)
    tables = [short(g, 6, WIDTH) for _ in range(2)]
    shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = temb.reshape(BATCH, steps, 6, WIDTH).unbind(2)
    values = {"rows_per_modulation": TOKENS // steps}
    norm = {**values, "eps": 1e-6, "norm": 0}

    def run(table, h, attn1, attn2, ff):
        module = block(table, attn1, attn2, ff)
        out = module(h, h, temb)
        return out, module.attn1.given, module.attn2.given, module.ff.given

    nothing = torch.zeros_like(h)
    _, modulated, _, _ = run(tables[0], h, nothing, nothing, nothing)
    cases["adaln"].append(
        case(
            norm,
            {"x": h, "scale": scale_msa, "shift": shift_msa, "scale_table": tables[0][1], "shift_table": tables[0][0]},
            {"out": modulated},
        )
    )

    _, _, after, _ = run(tables[0], h, attn1, nothing, nothing)
    gated = {"x": attn1, "h": h, "gate": gate_msa, "gate_table": tables[0][2]}
    cases["gate_residual"].append(case(values, gated, {"out": after}))
    cases["gate_residual_in_place"].append(case(values, gated, {"h": after}))

    # The second attention has no gate; norm2 follows.
    total, _, _, modulated = run(tables[0], h, nothing, attn2, nothing)
    inputs = {
        "h": h,
        "x": attn2,
        "scale": scale_mlp,
        "shift": shift_mlp,
        "scale_table": tables[0][4],
        "shift_table": tables[0][3],
    }
    add(cases, norm, inputs, modulated, total)

    # The feed-forward's gate, and the next block's norm1.
    total, _, _, _ = run(tables[0], h, nothing, nothing, ff)
    _, modulated, _, _ = run(tables[1], total, nothing, nothing, nothing)
    inputs = {
        "h": h,
        "x": ff,
        "gate": gate_mlp,
        "gate_table": tables[0][5],
        "scale": scale_msa,
        "shift": shift_msa,
        "scale_table": tables[1][1],
        "shift_table": tables[1][0],
    }
    add(cases, norm, inputs, modulated, total)


def add(cases, values, inputs, out, total):
    # What was stored is given as well: the norm is of it.
    cases["gate_residual_adaln"].append(case(values, {**inputs, "sum": total}, {"out": out, "sum": total}))
    cases["gate_residual_adaln_in_place"].append(case(values, inputs, {"out": out, "h": total}))


@torch.no_grad()
def zero(cases, seed):
    """AdaLayerNormZero before an attention; its gate, and after it the norm2 and the shift and scale that it gives."""
    g = torch.Generator().manual_seed(seed)
    x, attention = short(g, BATCH, TOKENS, WIDTH) + 3.0, short(g, BATCH, TOKENS, WIDTH)
    emb = short(g, BATCH, 6 * WIDTH)
    module = AdaLayerNormZero(WIDTH).double()
    module.silu, module.linear = torch.nn.Identity(), torch.nn.Identity()
    out, _, _, _, _ = module(x, emb=emb)
    shift, scale = emb.chunk(6, dim=1)[:2]
    values = {"rows_per_modulation": TOKENS, "eps": 1e-6, "norm": 1}
    cases["adaln"].append(case(values, {"x": x, "scale": scale, "shift": shift}, {"out": out}))
    # A second module that is given gate, shift and scale in its own places.
    _, gate, shift, scale, _ = module(x, emb=emb)
    total = x + gate[:, None] * attention
    out = module(total, emb=torch.cat([shift, scale, emb[:, 2 * WIDTH :]], dim=1))[0]
    add(cases, values, {"h": x, "x": attention, "gate": gate, "scale": scale, "shift": shift}, out, total)


@torch.no_grad()
def layer_norm(cases, seed):
    eps = torch.tensor(1e-5).item()  # as a float, which is what a launcher takes: some of these rows are all eps
    for affine in (True, False):
        g = torch.Generator().manual_seed(seed + affine)
        x = torch.randn(4, WIDTH + 9, generator=g)
        x[1] = x[1] * 2.0**-9 + 5.0
        x[2] *= 2.0**-12
        x[3, 7] = 300.0
        x = x.double()
        module = torch.nn.LayerNorm(x.shape[1], eps=eps, elementwise_affine=affine).double()
        tensors = {"x": x}
        if affine:
            for name in ("weight", "bias"):
                data = torch.randn(x.shape[1], generator=g).double()
                setattr(module, name, torch.nn.Parameter(data))
                tensors[name] = data
        cases["layer_norm"].append(case({"eps": eps}, tensors, {"out": module(x)}))


if __name__ == "__main__":
    sources = {
        "adaln": f"{LTX}, {ZERO}",
        "gate_residual": LTX,
        "gate_residual_in_place": LTX,
        "gate_residual_adaln": f"{LTX}, {ZERO}",
        "gate_residual_adaln_in_place": f"{LTX}, {ZERO}",
        "layer_norm": f"torch {torch.__version__} torch.nn.LayerNorm",
    }
    cases = {name: [] for name in sources}
    for steps in (1, TOKENS):
        ltx(cases, steps, 40 + steps)
    zero(cases, 50)
    layer_norm(cases, 60)
    for name, source in sources.items():
        file = pathlib.Path(__file__).with_name(f"{name}.json")
        fixture = {"operation": name, "source": source, "cases": cases[name]}
        file.write_text(json.dumps(fixture, separators=(",", ":")) + "\n")
