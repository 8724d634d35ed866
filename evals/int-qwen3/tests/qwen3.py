"""Small Qwen3 models with random weights."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm


def make(seed):
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2 + seed % 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 64, "max_position_embeddings": 64}
    return Qwen3ForCausalLM(Qwen3Config(**sizes, rms_norm_eps=0.05 + seed % 3 / 10, bos_token_id=1, eos_token_id=2))


def run(model):
    return model(torch.arange(14).reshape(2, 7), use_cache=False).logits


def norms(model):
    return [module for module in model.modules() if type(module) is Qwen3RMSNorm]


def width(norm):
    return norm.weight.numel()


class Other(Qwen3RMSNorm):
    def forward(self, hidden_states):
        return hidden_states + self.weight


def strange(model):
    model.model.layers[0].input_layernorm.__class__ = Other
