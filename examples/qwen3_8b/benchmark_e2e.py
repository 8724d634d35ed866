"""Times Qwen3-8B whole, prefill, decode and generate(): eager, with the kernels, compiled, and both.

    python benchmark_e2e.py [--smoke] [--cases NAMES] [--contenders NAMES] [--seconds BUDGET] [--out FILE.json]

Needs transformers, and the kernel: `kernels build --torch` in this folder. The weights are drawn, or with --weights
those of a checkpoint. docs/end-to-end.md of the repository says how it is measured.
"""

import functools
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "integration")]

from end_to_end import Case, Draw, Subject, main  # noqa: E402


# The tokens up to which the contender `graphs` replays a call: where the host is the limit.
IN_GRAPHS = 1024


def config_of(name):
    from qwen3_kernels.configs import config

    return config(name)


def shown(name):
    """What of the configuration is the model's shape; the rest depends on the library's version."""
    names = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "vocab_size", "rms_norm_eps",
    )  # fmt: skip
    config = config_of(name)
    return {one: getattr(config, one) for one in names}


def build(name, weights):
    from transformers import Qwen3ForCausalLM

    if weights:
        tree = Qwen3ForCausalLM.from_pretrained(weights, dtype=torch.get_default_dtype())
    else:
        tree = Qwen3ForCausalLM(config_of(name))
    # So many tokens are asked for, and none of a random model's ends the text.
    tree.generation_config.eos_token_id = None
    tree.generation_config.pad_token_id = 0
    return tree


def prefill(tokens):
    def make(tree, device, dtype):
        return {"input_ids": Draw(device, dtype).whole(tree.config.vocab_size, 1, tokens)}

    def step(tree, call, inputs, compiled):
        # As generate() begins: a new cache, and of the logits the last token's.
        return call(**inputs, use_cache=True, logits_to_keep=1, return_dict=True).logits

    return Case(f"prefill-{tokens}", f"prefill, {tokens} tokens", make, step, graphs=tokens <= IN_GRAPHS)


def fill(cache, tree, device, dtype, tokens):
    """Keys and values of so many tokens; drawn, so that they are the same in fp32."""
    draw = Draw(device, dtype)
    config = tree.config
    for layer in range(config.num_hidden_layers):
        shape = (1, config.num_key_value_heads, tokens, config.head_dim)
        cache.update(draw(*shape), draw(*shape), layer)
    return cache


def decode(tokens):
    def make(tree, device, dtype):
        from transformers import DynamicCache

        cache = fill(DynamicCache(config=tree.config), tree, device, dtype, tokens)
        return {"input_ids": Draw(device, dtype).whole(tree.config.vocab_size, 1, 1), "past_key_values": cache}

    def step(tree, call, inputs, compiled):
        logits = call(**inputs, use_cache=True, logits_to_keep=1, return_dict=True).logits
        # Without the token again: each step sees a cache of one length.
        inputs["past_key_values"].crop(-1)
        return logits

    note = "the cache grows by concatenation, as generate() has it by default; compiled for this one length"
    return Case(f"decode-{tokens}", f"decode, {tokens} tokens in a growing cache", make, step, note=note)


def decode_static(tokens, room=64):
    def make(tree, device, dtype):
        from transformers import StaticCache

        cache = fill(StaticCache(config=tree.config, max_cache_len=tokens + room), tree, device, dtype, tokens)
        given = {
            "input_ids": Draw(device, dtype).whole(tree.config.vocab_size, 1, 1),
            "past_key_values": cache,
            "position_ids": torch.full((1, 1), tokens, device=device),
        }
        # Where a step writes: counted by the layers from 5.13 or so on, and told by the caller before.
        lengths = [getattr(layer, "cumulative_length", None) for layer in cache.layers]
        return {"given": given, "lengths": [length for length in lengths if isinstance(length, torch.Tensor)]}

    def step(tree, call, inputs, compiled):
        given = dict(inputs["given"])
        if inputs["lengths"]:
            torch._foreach_zero_(inputs["lengths"])
            torch._foreach_add_(inputs["lengths"], tokens)
        else:
            given["cache_position"] = given["position_ids"][0]
        return call(**given, use_cache=True, logits_to_keep=1, return_dict=True).logits

    note = "the cache has its full length from the start, which is what compiled decoding takes"
    label = f"decode, {tokens} tokens in a cache of {tokens + room}"
    return Case(f"decode-static-{tokens}", label, make, step, note=note, graphs=True)


def generate(prompt, new):
    def make(tree, device, dtype):
        ids = Draw(device, dtype).whole(tree.config.vocab_size, 1, prompt)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def step(tree, call, inputs, compiled):
        more = {"cache_implementation": "static"} if compiled else {"disable_compile": True}
        return tree.generate(**inputs, max_new_tokens=new, do_sample=False, **more)[:, prompt:]

    note = "compiled: the library's own, which compiles the decoding over a static cache"
    label = f"generate(), {prompt} tokens in, {new} out"
    return Case(f"generate-{new}", label, make, step, per=f"call of {new} tokens", own_compile=True, note=note)


def cases(config):
    if config == "smoke":
        return [prefill(16), prefill(64), decode(32), decode_static(32), generate(8, 4)]
    return [prefill(8192), prefill(1024), prefill(128), decode(1024), decode_static(1024), generate(128, 32)]


def optimize(tree, kernel, graphs=0):
    from qwen3_kernels.integration import optimize

    return optimize(tree, kernel=kernel, graphs=graphs)


SUBJECT = Subject(
    name="qwen3_8b",
    title="Qwen3-8B",
    folder=str(HERE),
    environment="QWEN3_KERNELS",
    configs=["8b", "smoke"],
    config=shown,
    build=build,
    cases=cases,
    optimize=optimize,
    packages=["transformers"],
    optimize_in_graphs=functools.partial(optimize, graphs=IN_GRAPHS),
)

if __name__ == "__main__":
    sys.exit(main(SUBJECT))
