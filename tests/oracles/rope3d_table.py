"""Writes rope3d_table.json: the cosines and sines of diffusers' LTXVideoRotaryPosEmbed, by axis and position.

The class computes them in float32 for every token and element; here each is taken from the first token that has the
position, and from the elements of its axis, which checks the order of tokens and elements as well.
"""

import json
import pathlib

import diffusers
import torch
from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed


def case(dim, batch, frames, height, width, scale):
    rope = LTXVideoRotaryPosEmbed(dim)
    hidden = torch.zeros(batch, frames * height * width, dim)
    grid = rope._prepare_video_coords(batch, frames, height, width, scale, hidden.device)
    cos, sin = rope(hidden, frames, height, width, scale)
    padding, count = dim % 6, dim // 6
    coords, table = [], []
    for b in range(batch):
        for axis, length in enumerate((frames, height, width)):
            for position in range(length):
                token = position * (height * width, width, 1)[axis]
                coords.append(float(grid[b, token, axis]))
                row = [1.0, 0.0]
                for frequency in range(count):
                    element = padding + 2 * (3 * frequency + axis)
                    row += [float(cos[b, token, element]), float(sin[b, token, element])]
                    assert cos[b, token, element] == cos[b, token, element + 1]
                table += row
    positions = frames + height + width
    return {
        "values": {"tables": batch, "positions": positions, "dim": dim, "theta": rope.theta},
        "tensors": {
            "coords": {"dtype": "f32", "shape": [batch, positions], "data": coords},
            "table": {"dtype": "f32", "shape": [batch, positions, 2 * count + 2], "data": [0.0] * len(table)},
        },
        "outputs": {"table": {"shape": [batch, positions, 2 * count + 2], "data": table}},
    }


def main():
    fps = torch.tensor([24.0, 25.0]).view(2, 1, 1, 1, 1)
    cases = [
        case(20, 1, 3, 2, 4, (8 / 24, 32, 32)),
        case(16, 2, 2, 3, 2, (8 / fps, 32, 32)),
        case(12, 1, 2, 2, 2, None),
        case(256, 1, 4, 2, 3, (8 / 25, 32, 32)),
    ]
    document = {
        "operation": "rope3d_table",
        "source": f"diffusers {diffusers.__version__} "
        "diffusers.models.transformers.transformer_ltx.LTXVideoRotaryPosEmbed, "
        f"torch {torch.__version__}, float32 on a CPU",
        "cases": cases,
    }
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


main()
