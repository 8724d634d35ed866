"""Writes softmax.json: what torch's softmax gives in float64.

    python tests/oracles/softmax.py
"""

import torch
from geglu import inputs, output, tensor, write

if __name__ == "__main__":
    cases = []
    for scale, factor, seed in ((1.0, 1.0, 80), (0.125, 8.0, 81), (-1.5, 1.0, 82), (2.0, 32.0, 83)):
        x = inputs(4, 29, seed) * factor
        cases.append(
            {
                "values": {"scale": scale},
                "tensors": {"x": tensor(x)},
                "outputs": {"out": output(torch.softmax(scale * x.double(), -1))},
            }
        )
    write(__file__, "softmax", f"torch {torch.__version__} softmax", cases)
