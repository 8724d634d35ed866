#!/usr/bin/env python3
"""Put fused kernels into a transformers model (Qwen3, Llama, Gemma) layer by layer, prove that nothing but rounding
changes, take them out again. Real configurations with random weights: nothing is downloaded.

    python transformers_injection_example.py --smoke --cpu             # the wiring alone, with plain torch as the kernel
    python transformers_injection_example.py --kernel build --bench    # a `kernels build --torch` folder, on the card
    python transformers_injection_example.py --kernel mine.py --family llama    # a file with some of the functions

    rms_norm       every norm. Llama and Qwen round the normalised x before the weight (round_first); Gemma multiplies by
                   1 + weight (weight_offset) and rounds once, although its class is a ...RMSNorm too: so classes are
                   exchanged by exact type, and FAMILIES says what each computes
    add_rms_norm   the residual behind attention, and the norm behind it, in one pass
    qk_norm_rope   Qwen3's norms of q and k and the rotation in one pass, rope the rotation alone (Llama, Gemma)
    swiglu         silu(gate) * up; Gemma's MLP has gelu and stays
--kernel has functions of these names with the arguments of the Plain ones below; what it lacks stays plain torch.
Carrying the residual into the next layer's norm saves one pass more (examples/qwen3_8b/integration of the kernels
repository).

Checked: what was patched, and how often each function ran; in fp32 the logits (1e-4), what generate() answers with its
cache, and the gradients, which match or are refused, against the stock model; in --dtype the distance from the fp32 run
beside the stock model's; that restore() restores.
Exit code: 0 all hold, 1 a check failed, 2 torch, transformers, a card or the kernel is missing."""
import argparse
import collections
import copy
import importlib
import importlib.util
import itertools
import json
import os
import pathlib
import sys

torch = None  # imported by main(), so that --help needs nothing
FUNCTIONS = ("rms_norm", "add_rms_norm", "rope", "qk_norm_rope", "swiglu")
# offset, first: of the norm; eps: its attribute's name. qk: whether q and k are normed. silu: of the MLP. The sizes are
# those of Qwen3-8B, Meta-Llama-3-8B and gemma-7b.
FAMILIES = {
    "qwen3": dict(
        prefix="Qwen3",
        offset=0.0,
        first=True,
        eps="variance_epsilon",
        qk=True,
        silu=True,
        config=dict(
            hidden_size=4096,
            intermediate_size=12288,
            num_hidden_layers=36,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=128,
            vocab_size=151936,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        ),
    ),
    "llama": dict(
        prefix="Llama",
        offset=0.0,
        first=True,
        eps="variance_epsilon",
        qk=False,
        silu=True,
        config=dict(
            hidden_size=4096,
            intermediate_size=14336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=128,
            vocab_size=128256,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        ),
    ),
    "gemma": dict(
        prefix="Gemma",
        offset=1.0,
        first=False,
        eps="eps",
        qk=False,
        silu=False,
        config=dict(
            hidden_size=3072,
            intermediate_size=24576,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=16,
            head_dim=256,
            vocab_size=256000,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        ),
    ),
}
TOO_SMALL = "the card's memory is too small; fewer --layers, --tokens or --batch: "
SMOKE = dict(hidden_size=256, intermediate_size=768, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1,
             head_dim=64, vocab_size=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def die(message):
    print("error: " + message, file=sys.stderr)
    raise SystemExit(2)


def stdout_alone():
    """Where --json writes. What a candidate prints, C's and a kernel's printf too, goes to stderr from here on."""
    out, sys.stdout = sys.stdout, sys.stderr
    if out is sys.__stdout__:
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
    return out


# ------------------------------------------------------------------------- the kernel's functions, and plain torch's
class Plain:
    """fp32 arithmetic, one rounding at the end: what a kernel computes. All of them have gradients."""

    @staticmethod
    def rms_norm(x, weight, eps, weight_offset=0.0, round_first=False):
        n = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
        if round_first:
            n = n.to(x.dtype).float()
        return (n * (weight.float() + weight_offset)).to(x.dtype)

    @staticmethod
    def add_rms_norm(x, residual, weight, eps, weight_offset=0.0, round_first=False):
        total = x + residual
        return Plain.rms_norm(total, weight, eps, weight_offset, round_first), total

    @staticmethod
    def rope(q, k, cos, sin):
        """q, k: [batch, tokens, heads, head_dim]; half against half."""
        def turned(x):
            half = x.shape[-1] // 2
            c, s, a, b = (
                cos[..., None, :half].float(),
                sin[..., None, :half].float(),
                x[..., :half].float(),
                x[..., half:].float(),
            )
            return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)

        return turned(q), turned(k)

    @staticmethod
    def qk_norm_rope(q, k, q_weight, k_weight, cos, sin, eps, rotary_dim=None, weight_offset=0.0, round_first=False):
        q, k = (Plain.rms_norm(x, w, eps, weight_offset, round_first) for x, w in ((q, q_weight), (k, k_weight)))
        return Plain.rope(q, k, cos, sin)

    @staticmethod
    def swiglu(gate, up):
        return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)


def load_module(text):
    """Of FILE.py, or of a build folder through the Hub's library."""
    if text == "torch":
        return Plain
    path = pathlib.Path(text).resolve()
    try:
        if path.suffix == ".py":
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        if not path.is_dir():
            die("--kernel {}: no such folder or .py file".format(text))
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import kernels

        return kernels.get_local_kernel(path)
    except Exception as e:
        die("--kernel {}: {}: {}".format(text, type(e).__name__, " ".join(str(e).split())[:400]))


class Kernel:
    """The functions, looked up once. calls: counts them, where it is not None."""

    def __init__(self, module, calls=None):
        self.own = sorted(name for name in FUNCTIONS if callable(getattr(module, name, None)))
        if not self.own:
            die("the kernel has none of " + ", ".join(FUNCTIONS))
        for name in FUNCTIONS:
            function = getattr(module if name in self.own else Plain, name)
            setattr(self, name, function if calls is None else self.counted(name, function, calls))

    @staticmethod
    def counted(name, function, calls):
        def run(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        return run


# --------------------------------------------------------------------------------------------------------- the wiring
def make_forwards(kernel, family, modeling):
    offset, first, eps = family["offset"], family["first"], family["eps"]

    def norm(self, x):
        return kernel.rms_norm(x, self.weight, getattr(self, eps), offset, first)

    def layer(self, hidden_states, **kwargs):
        residual, between = hidden_states, self.post_attention_layernorm
        x, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)
        x, residual = kernel.add_rms_norm(x, residual, between.weight, getattr(between, eps), offset, first)
        return residual + self.mlp(x)

    def mlp(self, x):
        return self.down_proj(kernel.swiglu(self.gate_proj(x), self.up_proj(x)))

    def attention(self, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
        by_heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        q, k = self.q_proj(hidden_states).view(by_heads), self.k_proj(hidden_states).view(by_heads)
        v, (cos, sin) = self.v_proj(hidden_states).view(by_heads), position_embeddings
        if not family["qk"]:
            q, k = kernel.rope(q, k, cos, sin)
        elif torch.is_grad_enabled() and q.requires_grad:  # the fused pass has no gradient; its halves have
            q, k = kernel.rope(self.q_norm(q), self.k_norm(k), cos, sin)
        else:
            q, k = kernel.qk_norm_rope(
                q, k, self.q_norm.weight, self.k_norm.weight, cos, sin, getattr(self.q_norm, eps), None, offset, first
            )
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = modeling.ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation,
                                                                modeling.eager_attention_forward)
        if hasattr(self, "sliding_window"):
            kwargs["sliding_window"] = self.sliding_window
        dropout = self.attention_dropout if self.training else 0.0
        out, weights = attend(self, q, k, v, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs)
        return self.o_proj(out.reshape(*hidden_states.shape[:-1], -1)), weights

    forwards = {"RMSNorm": norm, "DecoderLayer": layer, "Attention": attention}
    return dict(forwards, MLP=mlp) if family["silu"] else forwards


def patch(model, kernel, family):
    """In place. A module's class is exchanged, so parameters, hooks and names stay. Returns (counts, restore)."""
    name = family["prefix"].lower()
    modeling = importlib.import_module("transformers.models.{0}.modeling_{0}".format(name))
    classes = {}
    for kind, forward in make_forwards(kernel, family, modeling).items():
        stock = getattr(modeling, family["prefix"] + kind)
        # kernel_condition: kernelize, called later, is to leave it alone.
        body = {
            "forward": forward,
            "__module__": stock.__module__,
            "kernel_condition": staticmethod(lambda module: False),
        }
        classes[stock] = kind, type(stock.__name__, (stock,), body)
    found = [(module, type(module)) for module in model.modules() if type(module) in classes]  # never a subclass
    for module, stock in found:
        if "forward" in vars(module):
            raise RuntimeError("a {} has a forward of its own: kernelize, or accelerate's hooks".format(stock.__name__))
        if classes[stock][0] == "RMSNorm" and (module._forward_hooks or module._forward_pre_hooks):
            raise RuntimeError("a {} has hooks, and its weight is read without a call".format(stock.__name__))
    for module, stock in found:
        module.__class__ = classes[stock][1]

    def restore():
        for module, stock in found:
            module.__class__ = stock

    return dict(collections.Counter(classes[stock][0] for _, stock in found)), restore


def expected(family, layers):
    """(modules patched, calls of a forward without gradients)"""
    modules = dict(RMSNorm=(4 if family["qk"] else 2) * layers + 1, DecoderLayer=layers, Attention=layers)
    calls = {"rms_norm": layers + 1, "add_rms_norm": layers, "qk_norm_rope" if family["qk"] else "rope": layers}
    return (dict(modules, MLP=layers), dict(calls, swiglu=layers)) if family["silu"] else (modules, calls)


# ------------------------------------------------------------------------------------------------- model, checks, times
def make_model(a, family, device):
    import transformers

    config = dict(family["config"], **(SMOKE if a.smoke else {}))
    config["num_hidden_layers"] = min(a.layers, config["num_hidden_layers"]) or config["num_hidden_layers"]
    config = getattr(transformers, family["prefix"] + "Config")(**config, tie_word_embeddings=False)
    with torch.device(device):
        model = getattr(transformers, family["prefix"] + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):  # ones, or zeros, would hide a kernel that ignores them
                module.weight.uniform_(0.5 - family["offset"], 1.5 - family["offset"])
            if type(module).__name__.endswith("Attention") and family["qk"]:
                module.q_proj.weight.mul_(1e-3)  # so small that the norm's eps counts
    return model


def distance(a, b):
    off = ((a.double() - b.double()).norm() / b.double().norm()).item()
    return off if off < 1e9 else 1e9  # JSON has no NaN


def loss_of(model, ids):
    with torch.enable_grad():
        return model(input_ids=ids, use_cache=False).logits.float().square().mean()


def gradients(model, loss):
    """Of parameters in front of each function; zeros where nothing arrives: an op without autograd detaches in silence."""
    layer = model.model.layers[0]
    params = [
        layer.input_layernorm.weight,
        layer.self_attn.q_proj.weight,
        layer.mlp.gate_proj.weight,
        model.model.norm.weight,
    ]
    found = torch.autograd.grad(loss, params, allow_unused=True) if loss.requires_grad else [None] * len(params)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, params)]


def times(steps, rounds):
    """Milliseconds a step by CUDA events, contenders in turns; a sample is the mean of steps that last some 100 ms."""
    def once(step, repeat):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        for _ in range(repeat):
            step()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / repeat

    repeat, samples = {}, {name: [] for name in steps}
    for name, step in steps.items():
        once(step, 2)
        repeat[name] = max(1, min(20, int(100 / once(step, 2))))
    for number in range(rounds):
        for name in sorted(steps, reverse=number % 2 == 1):
            samples[name].append(once(steps[name], repeat[name]))
    at = (("median", 0.5), ("p10", 0.1), ("p90", 0.9))
    return {name: {k: sorted(s)[min(len(s) - 1, int(len(s) * q))] for k, q in at} for name, s in samples.items()}


def bench(model, module, family, ids, rounds, report):
    """A prefill: eager, kernels, compile, both: copies that share the weights, so that each keeps its own code."""
    shared = {id(t): t for t in itertools.chain(model.parameters(), model.buffers())}
    steps, want = {}, model(input_ids=ids, use_cache=False).logits
    for name, patched, compiled in (("eager", 0, 0), ("kernels", 1, 0), ("compile", 0, 1), ("both", 1, 1)):
        twin = copy.deepcopy(model, dict(shared))
        if patched:
            patch(twin, Kernel(module), family)
        call = torch.compile(twin, dynamic=False) if compiled else twin
        try:
            off = distance(call(input_ids=ids, use_cache=False).logits, want)
            steps[name] = lambda call=call: call(input_ids=ids, use_cache=False)
            report.setdefault("distance_from_eager", {})[name] = off
            if not off <= 3 * report["relative_error"]["stock"] + 1e-3:  # both are about as far from fp32
                report["failures"].append("{} is {:.2g} from eager".format(name, off))
        except Exception as e:
            report.setdefault("left_out", {})[name] = " ".join(str(e).split())[:300] or type(e).__name__
    report["prefill_ms"] = times(steps, rounds)
    report["faster_than_eager"] = {n: report["prefill_ms"]["eager"]["median"] / t["median"]
                                   for n, t in report["prefill_ms"].items()}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", default="torch", metavar="WHAT", help="a build folder, FILE.py, or torch [torch]")
    p.add_argument("--family", default="qwen3", choices=sorted(FAMILIES), help="[qwen3]")
    p.add_argument("--smoke", action="store_true", help="a small model")
    p.add_argument("--layers", type=int, default=4, help="0: all of them [4]")
    p.add_argument("--tokens", type=int, default=0, help="[512, with --smoke 24]")
    p.add_argument("--batch", type=int, default=1, help="[1]")
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--no-fp32", action="store_true", help="leave the fp32 checks out, for a kernel without fp32")
    p.add_argument("--cpu", action="store_true", help="without a card")
    p.add_argument("--bench", action="store_true", help="time a prefill as well: eager, kernels, torch.compile, both")
    p.add_argument("--rounds", type=int, default=15, help="timed rounds [15]")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    if min(a.batch, a.rounds) < 1 or min(a.layers, a.tokens) < 0:
        p.error("--batch and --rounds are 1 at least, --layers and --tokens 0")
    if a.bench and a.cpu:
        p.error("--bench needs a card")
    return a


def main():
    global torch
    a = arguments()
    try:
        import torch
    except ImportError:
        die("torch is not installed for {} (pip install torch)".format(sys.executable))
    if not a.cpu and not torch.cuda.is_available():
        die("no CUDA device is visible to torch {}; --cpu proves the wiring without one".format(torch.__version__))
    try:
        import transformers
        from transformers import Qwen3ForCausalLM  # noqa: F401
    except ImportError as e:
        die("transformers 5 with Qwen3 is missing ({}); pip install transformers".format(e))
    out = stdout_alone() if a.json else None
    torch.manual_seed(a.seed)
    device, dtype, failures, calls = "cpu" if a.cpu else "cuda", getattr(torch, a.dtype), [], collections.Counter()
    family, module = FAMILIES[a.family], load_module(a.kernel)
    kernel = Kernel(module, calls)
    try:
        model = make_model(a, family, device)
    except torch.cuda.OutOfMemoryError as e:
        die(TOO_SMALL + " ".join(str(e).split())[:200])
    layers, vocabulary = len(model.model.layers), model.config.vocab_size
    ids = torch.randint(3, vocabulary, (a.batch, a.tokens or (24 if a.smoke else 512)), device=device)
    report = {"script": "transformers_injection_example", "verdict": "PASS", "failures": failures, "kernel": a.kernel,
              "from_kernel": kernel.own, "from_torch": sorted(set(FUNCTIONS) - set(kernel.own)),
              "device": device if a.cpu else torch.cuda.get_device_name(), "torch": torch.__version__,
              "transformers": transformers.__version__, "family": a.family, "dtype": a.dtype, "layers": layers,
              "tokens": list(ids.shape)}

    def hold(condition, message):
        if not condition:
            failures.append(message)

    def logits():
        return model(input_ids=ids, use_cache=False).logits

    def answer():
        return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)

    try:
        with torch.no_grad():
            exact, off = logits(), report.setdefault("relative_error", {})
            if not a.no_fp32:
                said, wanted = answer(), gradients(model, loss_of(model, ids))
                report["patched"], restore = patch(model, kernel, family)
                off["fp32"] = distance(logits(), exact)
                hold(off["fp32"] <= 1e-4, "in fp32 the patched model differs by {fp32:.2g}".format(**off))
                hold(torch.equal(answer(), said), "in fp32 generate() answers something else")
                try:
                    loss = loss_of(model, ids)
                except RuntimeError as e:  # to refuse is right, to detach without a word is not
                    loss, report["gradients_refused"] = None, " ".join(str(e).split())[:300]
                if loss is not None:
                    off["gradients"] = max(distance(g, w) for g, w in zip(gradients(model, loss), wanted))
                    hold(off["gradients"] <= 1e-3, "a gradient differs by {gradients:.2g}".format(**off))
                restore()
            model.to(dtype)
            stock = logits()
            report["patched"], restore = patch(model, kernel, family)
            modules, wanted = expected(family, layers)
            hold(report["patched"] == modules, "patched were {}, not {}".format(report["patched"], modules))
            calls.clear()
            patched = logits()
            report["calls"] = dict(calls)
            hold(report["calls"] == wanted, "the functions ran {} times, not {}".format(report["calls"], wanted))
            off.update(stock=distance(stock, exact), patched=distance(patched, exact))
            hold(off["patched"] <= 1.25 * off["stock"] + 1e-4,
                 "the patched model is {patched:.2g} from fp32, the stock one {stock:.2g}".format(**off))
            restore()
            calls.clear()
            hold(distance(logits(), stock) <= 1e-6 and not calls, "restore() did not restore")
            if a.bench:
                bench(model, module, family, ids, a.rounds, report)
    except torch.cuda.OutOfMemoryError as e:
        die(TOO_SMALL + " ".join(str(e).split())[:200])
    except Exception as e:
        failures.append("{}: {}".format(type(e).__name__, " ".join(str(e).split())[:500]))
    report["verdict"] = "FAIL" if failures else "PASS"
    if a.json:
        print(json.dumps(report), file=out, flush=True)
    else:
        for key, value in report.items():
            print("{:<20}{}".format(key, value))
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
