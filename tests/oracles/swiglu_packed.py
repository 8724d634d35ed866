"""Writes swiglu_packed.json: what diffusers' SwiGLU (value first) and transformers' Phi3MLP (gate first) give in
float64 between their projections.

    python tests/oracles/swiglu_packed.py
"""

import diffusers
import torch
import transformers
from diffusers.models.activations import SwiGLU
from geglu import inputs, output, tensor, write
from transformers.models.phi3.configuration_phi3 import Phi3Config
from transformers.models.phi3.modeling_phi3 import Phi3MLP


def packed(x, gate_first):
    if gate_first:
        module = Phi3MLP(Phi3Config(hidden_size=2, intermediate_size=2, pad_token_id=0)).double()
        module.gate_up_proj, module.down_proj = torch.nn.Identity(), torch.nn.Identity()
    else:
        module = SwiGLU(2, 2).double()
        module.proj = torch.nn.Identity()
    return module(x)


if __name__ == "__main__":
    cases = []
    for gate_first in (0, 1):
        x = inputs(4, 32, seed=70 + gate_first)
        cases.append(
            {
                "values": {"gate_first": gate_first},
                "tensors": {"x": tensor(x)},
                "outputs": {"out": output(packed(x.double(), gate_first))},
            }
        )
    source = (
        f"diffusers {diffusers.__version__} diffusers.models.activations.SwiGLU, gate first "
        f"transformers {transformers.__version__} transformers.models.phi3.modeling_phi3.Phi3MLP"
    )
    write(__file__, "swiglu_packed", source, cases)
