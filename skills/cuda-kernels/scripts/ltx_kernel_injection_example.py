#!/usr/bin/env python3
"""Put fused kernels into diffusers' LTX-Video transformer at block level, prove that nothing but rounding changes, take
them out again. The model is made from the real configuration with random weights: nothing is downloaded.

    python ltx_kernel_injection_example.py --smoke --cpu             # the wiring alone, with plain torch as the kernel
    python ltx_kernel_injection_example.py --kernel build --bench    # a `kernels build --torch` folder, on the card
    python ltx_kernel_injection_example.py --kernel mine.py          # a Python file with some of the functions

A block is five passes over the hidden states instead of some twenty launches of norms, modulations and residuals:
    x = adaln(h, scale, shift)                       norm1 and modulation; the rows of scale_shift_table are added inside
    attn1: qk_norm_rope3d(q, k)                      both norms over all heads, and the rotation
    h = gate_residual(h, x, gate)
    attn2: rms_norm(q), rms_norm(k)
    x, h = gate_residual_adaln(h, x, scale, shift)   residual, norm2 and modulation
    h = gate_residual(h, ff(x), gate)
--kernel has functions of these names with the arguments of the Plain ones below, and rope3d_coords and rope3d_table
beside qk_norm_rope3d; what it lacks stays plain torch. Carrying a residual into the next block's norm saves one pass
more (examples/ltx_video/integration of the kernels repository).

Checked: what was patched, and how often each function ran; the patched model in fp32 against the stock one (5e-4); in
--dtype its distance from the fp32 run beside the stock model's; that gradients are refused; that restore() restores.
Exit code: 0 all hold, 1 a check failed, 2 torch, diffusers, a card or the kernel is missing."""
import argparse
import collections
import copy
import importlib.util
import itertools
import json
import math
import os
import pathlib
import sys

torch = None  # imported by main(), so that --help needs nothing
FUNCTIONS = (
    "adaln",
    "gate_residual",
    "gate_residual_adaln",
    "rms_norm",
    "qk_norm_rope3d",
    "rope3d_table",
    "rope3d_coords",
)
SIZES = {  # diffusers' own defaults; Lightricks' 13B; 2B's proportions, small
    "2b": dict(num_attention_heads=32, attention_head_dim=64, cross_attention_dim=2048, num_layers=28),
    "13b": dict(num_attention_heads=32, attention_head_dim=128, cross_attention_dim=4096, num_layers=48),
    "smoke": dict(num_attention_heads=4, attention_head_dim=32, cross_attention_dim=128, num_layers=2, in_channels=16,
                  out_channels=16, caption_channels=64),
}
TOO_SMALL = "the card's memory is too small; fewer --layers, --tokens or --batch: "
FP32 = 5e-4  # angles reach 15,000 rad, where an ulp is 1e-3; what is wrong in a block is over 3e-3
Grid = collections.namedtuple("Grid", "table frames height width")  # stands where diffusers passes (cos, sin)


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
def wide(*tensors):
    return [t if t is None else t.double() if t.dtype == torch.float64 else t.float() for t in tensors]


def normed(x, weight, eps):
    x, weight = wide(x, weight)
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return x if weight is None else x * weight


class Plain:
    """Wide arithmetic, one rounding at the end: what a kernel computes. Modulations are [batch, 1 or tokens, width]."""

    @staticmethod
    def rms_norm(x, weight=None, eps=1e-6):
        return normed(x, weight, eps).to(x.dtype)

    @staticmethod
    def adaln(x, scale, shift, scale_table, shift_table, weight=None, bias=None, eps=1e-6, norm="rms"):
        s, t, s_table, t_table = wide(scale, shift, scale_table, shift_table)
        return (normed(x, weight, eps) * (1 + s + s_table) + t + t_table).to(x.dtype)

    @staticmethod
    def gate_residual(h, x, gate=None, gate_table=None):
        wide_h, wide_x, g, g_table = wide(h, x, gate, gate_table)
        return (wide_h + (wide_x if g is None else wide_x * (g + g_table))).to(h.dtype)

    @staticmethod
    def gate_residual_adaln(
        h, x, gate, scale, shift, gate_table, scale_table, shift_table, weight=None, bias=None, eps=1e-6, norm="rms"
    ):
        total = Plain.gate_residual(h, x, gate, gate_table)
        return Plain.adaln(total, scale, shift, scale_table, shift_table, weight, bias, eps, norm), total

    @staticmethod
    def rope3d_coords(frames, height, width, scale, device, base, patch):
        """[1, frames + height + width]: an angle follows from one coordinate alone, so a table has a row for each."""
        axes = [torch.arange(n, dtype=torch.float32, device=device) for n in (frames, height, width)]
        if scale is not None:
            axes = [a * s * p / b for a, s, p, b in zip(axes, scale, (patch[0], patch[1], patch[1]), base)]
        return torch.cat(axes)[None]

    @staticmethod
    def rope3d_table(coords, dim, theta=10000.0):
        """[1, coordinates, 1 + frequencies, (cos, sin)]; the first pair stands still. The model's angles are fp32."""
        f = theta ** torch.linspace(0.0, 1.0, dim // 6, dtype=torch.float32, device=coords.device) * math.pi / 2.0
        angles = f * (coords[..., None] * 2 - 1)
        angles = torch.cat([torch.zeros_like(angles[..., :1]), angles], -1)
        return torch.stack([angles.cos(), angles.sin()], -1)

    @staticmethod
    def qk_norm_rope3d(q, k, q_weight, k_weight, table, frames, height, width, eps=1e-5):
        f, h, w = table[:, :, 1:].split([frames, height, width], dim=1)
        full = (1, frames, height, width, *f.shape[2:])
        axes = f[:, :, None, None].expand(full), h[:, None, :, None].expand(full), w[:, None, None].expand(full)
        cos, sin = (
            torch.stack([a.flatten(1, 3) for a in axes], 3).flatten(2, 3).unbind(-1)
        )  # frequency by frequency, f h w

        def turned(x, weight):
            y, front = normed(x, weight, eps), x.shape[-1] % 6  # so many elements in front stand still
            a, b = y[..., front::2], y[..., front + 1::2]
            return torch.cat(
                [y[..., :front], torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(2)], -1
            ).to(x.dtype)

        return turned(q, q_weight), turned(k, k_weight)


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
        has = {name for name in FUNCTIONS if callable(getattr(module, name, None))}
        if not {"qk_norm_rope3d", "rope3d_table", "rope3d_coords"} <= has:
            has -= {"qk_norm_rope3d", "rope3d_table", "rope3d_coords"}  # one layout of the table, or none
        if not has:
            die("the kernel has none of " + ", ".join(FUNCTIONS))
        self.own = sorted(has)
        for name in FUNCTIONS:
            function = getattr(module if name in has else Plain, name)
            setattr(self, name, function if calls is None else self.counted(name, function, calls))

    @staticmethod
    def counted(name, function, calls):
        def run(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        return run

    def __deepcopy__(self, memo):
        return self


# --------------------------------------------------------------------------------------------------------- the wiring
def make_classes(kernel):
    """Classes that take the stock ones' places. A class is exchanged, so parameters, hooks and names stay as they are."""
    from diffusers.models.attention_dispatch import dispatch_attention_fn
    from diffusers.models.transformers import transformer_ltx as stock

    class Rope(stock.LTXVideoRotaryPosEmbed):
        def forward(self, hidden_states, num_frames=None, height=None, width=None, rope_interpolation_scale=None,
                    video_coords=None):
            if video_coords is not None:  # any positions: the stock tables, and norm and rotation apart
                return super().forward(hidden_states, num_frames, height, width, rope_interpolation_scale, video_coords)
            base = (self.base_num_frames, self.base_height, self.base_width)
            coords = kernel.rope3d_coords(
                num_frames,
                height,
                width,
                rope_interpolation_scale,
                hidden_states.device,
                base,
                (self.patch_size_t, self.patch_size),
            )
            return Grid(kernel.rope3d_table(coords, self.dim, self.theta), num_frames, height, width)

    class Processor(stock.LTXVideoAttnProcessor):
        def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, image_rotary_emb=None):
            text = hidden_states if encoder_hidden_states is None else encoder_hidden_states
            if attention_mask is not None:
                attention_mask = attn.prepare_attention_mask(attention_mask, text.shape[1], text.shape[0])
                attention_mask = attention_mask.view(text.shape[0], attn.heads, -1, attention_mask.shape[-1])
            q, k, v = attn.to_q(hidden_states), attn.to_k(text), attn.to_v(text)
            norm_q, norm_k, rotary = attn.norm_q, attn.norm_k, image_rotary_emb
            if isinstance(rotary, Grid):
                q, k = kernel.qk_norm_rope3d(q, k, norm_q.weight, norm_k.weight, *rotary, norm_q.eps)
            else:
                q, k = kernel.rms_norm(q, norm_q.weight, norm_q.eps), kernel.rms_norm(k, norm_k.weight, norm_k.eps)
                if rotary is not None:
                    q, k = stock.apply_rotary_emb(q, rotary), stock.apply_rotary_emb(k, rotary)
            q, k, v = (t.unflatten(2, (attn.heads, -1)) for t in (q, k, v))
            out = dispatch_attention_fn(q, k, v, attn_mask=attention_mask, dropout_p=0.0, is_causal=False,
                                        backend=self._attention_backend, parallel_config=self._parallel_config)
            return attn.to_out[1](attn.to_out[0](out.flatten(2, 3).to(q.dtype)))

    class Block(stock.LTXVideoTransformerBlock):
        def forward(
            self, hidden_states, encoder_hidden_states, temb, image_rotary_emb=None, encoder_attention_mask=None
        ):
            if torch.is_grad_enabled() and hidden_states.requires_grad:
                raise RuntimeError("the fused block has no gradient: torch.no_grad(), or restore() to train")
            h, table = hidden_states, self.scale_shift_table
            ada = temb.reshape(temb.shape[0], temb.shape[1], table.shape[0], -1).unbind(2)
            # The order of the rows, in temb and in the table: shift, scale, gate of attention; shift, scale, gate of ff.
            x = kernel.adaln(h, ada[1], ada[0], table[1], table[0], None, None, self.norm1.eps, "rms")
            x = self.attn1(x, encoder_hidden_states=None, image_rotary_emb=image_rotary_emb)
            h = kernel.gate_residual(h, x, ada[2], table[2])
            x = self.attn2(h, encoder_hidden_states=encoder_hidden_states, attention_mask=encoder_attention_mask)
            x, h = kernel.gate_residual_adaln(
                h, x, None, ada[4], ada[3], None, table[4], table[3], None, None, self.norm2.eps, "rms"
            )
            return kernel.gate_residual(h, self.ff(x), ada[5], table[5])

    for new, old in ((Block, stock.LTXVideoTransformerBlock), (Rope, stock.LTXVideoRotaryPosEmbed)):
        new.__name__, new.__module__ = old.__name__, old.__module__  # device maps and saved configurations name classes
    return stock, Rope, Processor, Block


def patch(model, kernel):
    """In place. Refuses what it does not know, before anything changes. Returns (counts, restore)."""
    stock, Rope, Processor, Block = make_classes(kernel)
    blocks = list(model.transformer_blocks)
    attentions = [attn for block in blocks for attn in (block.attn1, block.attn2)]
    known = [(model.rope, stock.LTXVideoRotaryPosEmbed), *((block, stock.LTXVideoTransformerBlock) for block in blocks)]
    for module, cls in known:
        if type(module) is not cls or "forward" in vars(module):
            raise RuntimeError(
                "{} is not diffusers' own {}, or something hooks it".format(type(module).__name__, cls.__name__)
            )
    for attn in attentions:
        if type(attn.processor) is not stock.LTXVideoAttnProcessor or attn.norm_q.eps != attn.norm_k.eps:
            raise RuntimeError("an attention has {}, which is not known".format(type(attn.processor).__name__))
    for block in blocks:
        if block.norm1.weight is not None or block.norm2.weight is not None:
            raise RuntimeError("norm1 or norm2 has a weight, which no released LTX-Video has")
    norms = [n for b in blocks for n in (b.norm1, b.norm2, b.attn1.norm_q, b.attn1.norm_k, b.attn2.norm_q, b.attn2.norm_k)]
    if any("forward" in vars(n) or n._forward_hooks or n._forward_pre_hooks for n in norms):
        raise RuntimeError("a norm has hooks, as of offloading; its weight would be read without a call that brings it")
    former = [attn.processor for attn in attentions]
    for attn in attentions:
        new = Processor()
        vars(new).update(vars(attn.processor))  # the attention backend that was chosen
        attn.set_processor(new)
    for block in blocks:
        block.__class__ = Block
    if "qk_norm_rope3d" in kernel.own:
        model.rope.__class__ = Rope

    def restore():
        model.rope.__class__ = stock.LTXVideoRotaryPosEmbed
        for block in blocks:
            block.__class__ = stock.LTXVideoTransformerBlock
        for attn, processor in zip(attentions, former):
            attn.set_processor(processor)

    return {"blocks": len(blocks), "attentions": len(attentions), "rope": int(type(model.rope) is Rope)}, restore


def expected_calls(layers, fused_rope):
    rope = {"qk_norm_rope3d": layers, "rope3d_table": 1, "rope3d_coords": 1} if fused_rope else {}
    return dict(
        adaln=layers, gate_residual=2 * layers, gate_residual_adaln=layers, rms_norm=(2 if rope else 4) * layers, **rope
    )


# ------------------------------------------------------------------------------------------------- model, checks, times
def make_model(config, device):
    from diffusers import LTXVideoTransformer3DModel

    with torch.device(device):
        model = LTXVideoTransformer3DModel(**config).eval()
    with torch.no_grad():
        for block in model.transformer_blocks:
            for attn in (block.attn1, block.attn2):
                for norm in (attn.norm_q, attn.norm_k):
                    norm.weight.uniform_(0.5, 1.5)  # ones would hide a kernel that ignores them
                attn.to_q.weight.mul_(0.01), attn.to_q.bias.mul_(0.01)  # so small that eps counts
    return model


def make_inputs(config, batch, grid, device):
    text = 128
    mask = torch.ones(batch, text, device=device)
    mask[-1, text // 2:] = 0
    return dict(
        hidden_states=torch.randn(batch, math.prod(grid), config.get("in_channels", 128), device=device),
        encoder_hidden_states=torch.randn(batch, text, config.get("caption_channels", 4096), device=device),
        timestep=torch.linspace(900, 100, batch, device=device),
        encoder_attention_mask=mask,
        num_frames=grid[0],
        height=grid[1],
        width=grid[2],
        rope_interpolation_scale=(8 / 25, 32, 32),
        return_dict=False,
    )


def run(model, inputs, dtype):
    cast = {k: v.to(dtype) if k.endswith("hidden_states") else v for k, v in inputs.items()}
    return model(**cast)[0]


def distance(a, b):
    off = ((a.double() - b.double()).norm() / b.double().norm()).item()
    return off if off < 1e9 else 1e9  # JSON has no NaN


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


def bench(model, module, inputs, dtype, rounds, report):
    """Eager, kernels, compile, both: copies that share the weights, so that each keeps its own code."""
    shared = {id(t): t for t in itertools.chain(model.parameters(), model.buffers())}
    steps, expected = {}, run(model, inputs, dtype)
    for name, patched, compiled in (("eager", 0, 0), ("kernels", 1, 0), ("compile", 0, 1), ("both", 1, 1)):
        twin = copy.deepcopy(model, dict(shared))
        if patched:
            patch(twin, Kernel(module))
        call = torch.compile(twin, dynamic=False) if compiled else twin
        try:
            off = distance(run(call, inputs, dtype), expected)
            steps[name] = lambda call=call: run(call, inputs, dtype)
            report.setdefault("distance_from_eager", {})[name] = off
            if not off <= 3 * report["relative_error"]["stock"] + 1e-3:  # both are about as far from fp32
                report["failures"].append("{} is {:.2g} from eager".format(name, off))
        except Exception as e:
            report.setdefault("left_out", {})[name] = " ".join(str(e).split())[:300] or type(e).__name__
    report["step_ms"] = times(steps, rounds)
    report["faster_than_eager"] = {
        n: report["step_ms"]["eager"]["median"] / t["median"] for n, t in report["step_ms"].items()
    }


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", default="torch", metavar="WHAT", help="a build folder, FILE.py, or torch [torch]")
    p.add_argument("--size", default="2b", choices=["2b", "13b"], help="[2b]")
    p.add_argument("--smoke", action="store_true", help="a small model of the same proportions")
    p.add_argument("--layers", type=int, default=4, help="0: all of them [4]")
    p.add_argument(
        "--tokens", metavar="F,H,W", help="latent frames, rows, columns; 7,16,24 is 49 frames of 512 x 768 [2,16,24]"
    )
    p.add_argument("--batch", type=int, default=2, help="[2]")
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--no-fp32", action="store_true", help="leave the fp32 check out, for a kernel without fp32")
    p.add_argument("--cpu", action="store_true", help="without a card")
    p.add_argument("--bench", action="store_true", help="time a step as well: eager, kernels, torch.compile, both")
    p.add_argument("--rounds", type=int, default=15, help="timed rounds [15]")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    try:
        a.grid = tuple(int(n) for n in (a.tokens or ("2,4,6" if a.smoke else "2,16,24")).split(","))
        frames, height, width = a.grid
    except ValueError:
        p.error("--tokens takes F,H,W")
    if min(*a.grid, a.batch, a.rounds) < 1 or a.layers < 0:
        p.error("--tokens, --batch and --rounds are 1 at least, --layers 0")
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
        import diffusers
        from diffusers import LTXVideoTransformer3DModel  # noqa: F401
    except ImportError as e:
        die("diffusers with LTX-Video is missing ({}); pip install diffusers transformers".format(e))
    out = stdout_alone() if a.json else None
    torch.manual_seed(a.seed)
    device, dtype, failures, calls = "cpu" if a.cpu else "cuda", getattr(torch, a.dtype), [], collections.Counter()
    config = dict(SIZES["smoke" if a.smoke else a.size])
    config["num_layers"] = min(a.layers, config["num_layers"]) or config["num_layers"]
    module = load_module(a.kernel)
    kernel = Kernel(module, calls)
    try:
        model, inputs = make_model(config, device), make_inputs(config, a.batch, a.grid, device)
    except torch.cuda.OutOfMemoryError as e:
        die(TOO_SMALL + " ".join(str(e).split())[:200])
    report = {"script": "ltx_kernel_injection_example", "verdict": "PASS", "failures": failures, "kernel": a.kernel,
              "from_kernel": kernel.own, "from_torch": sorted(set(FUNCTIONS) - set(kernel.own)),
              "device": device if a.cpu else torch.cuda.get_device_name(), "torch": torch.__version__,
              "diffusers": diffusers.__version__, "dtype": a.dtype, "layers": config["num_layers"], "grid": a.grid,
              "batch": a.batch}

    def hold(condition, message):
        if not condition:
            failures.append(message)

    try:
        with torch.no_grad():
            exact = run(model, inputs, torch.float32)
            off = report["relative_error"] = {}
            if not a.no_fp32:
                report["patched"], restore = patch(model, kernel)
                off["fp32"] = distance(run(model, inputs, torch.float32), exact)
                restore()
                hold(off["fp32"] <= FP32, "in fp32 the patched model differs by {fp32:.2g}".format(**off))
            model.to(dtype)
            stock = run(model, inputs, dtype)
            report["patched"], restore = patch(model, kernel)
            hold(report["patched"]["blocks"] == config["num_layers"] > 0, "nothing was patched, or not all blocks")
            calls.clear()
            patched = run(model, inputs, dtype)
            report["calls"] = dict(calls)
            want = expected_calls(config["num_layers"], "qk_norm_rope3d" in kernel.own)
            hold(report["calls"] == want, "the functions ran {} times, not {}".format(report["calls"], want))
            off.update(stock=distance(stock, exact), patched=distance(patched, exact))
            hold(off["patched"] <= 1.25 * off["stock"] + (FP32 if dtype == torch.float32 else 1e-4),
                 "the patched model is {patched:.2g} from fp32, the stock one {stock:.2g}".format(**off))
        try:
            with torch.enable_grad():
                run(model, inputs, dtype)
            failures.append("gradients were not refused")
        except RuntimeError as e:
            hold("no gradient" in str(e), "under gradients: {}".format(e))
        with torch.no_grad():
            restore()
            calls.clear()
            hold(distance(run(model, inputs, dtype), stock) <= 1e-6 and not calls, "restore() did not restore")
            if a.bench:
                bench(model, module, inputs, dtype, a.rounds, report)
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
