"""The models' sizes, so that a model can be made with random weights where none can be downloaded."""

# The values of config.json of the Hub repository Qwen/Qwen3-8B that affect the computation.
_8B = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "attention_bias": False,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}

# Like 8b except for the size: four q heads per kv head, head_dim 128, intermediate size three times the hidden size.
_SMOKE = {
    **_8B,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "vocab_size": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

CONFIGS = {"8b": _8B, "smoke": _SMOKE}


def config(name: str):
    """A ``transformers.Qwen3Config``: "8b" is Qwen3-8B's own, "smoke" a small one of the same proportions."""
    from transformers import Qwen3Config

    if name not in CONFIGS:
        raise ValueError(f"no config is called {name!r}; there are: {', '.join(CONFIGS)}")
    values = dict(CONFIGS[name])
    rope = {"rope_type": "default", "rope_theta": values.pop("rope_theta")}
    return Qwen3Config(**values, rope_parameters=rope)
