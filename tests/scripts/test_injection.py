"""The two injection examples on the CPU, with plain torch in the kernel's place: they patch and match, and whatever is
wrong in a kernel, or in the wiring itself, is caught."""

import types

import pytest
import torch
from support import call, load, sabotaged

LTX, TRANSFORMERS = "ltx_kernel_injection_example", "transformers_injection_example"


@pytest.fixture(scope="module", params=[LTX, TRANSFORMERS])
def name(request):
    return request.param


def plain(name):
    """A kernel file: the script's own Plain functions, to change one of them."""
    text = load.__globals__["SCRIPTS"].joinpath(f"{name}.py").read_text()
    body = text[text.index("# ---", text.index("def die")) : text.index("def load_module")]
    exports = "\n".join(f"{n} = Plain.{n}" for n in load(name).FUNCTIONS)
    return f"import math\nimport torch\n{body}\n{exports}\n"


def changed(name, tmp_path, old, new):
    text = plain(name)
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    path = tmp_path / "mine.py"
    path.write_text(text.replace(old, new))
    return path


def smoke(monkeypatch, capsys, name, *more, text=None):
    return call(monkeypatch, capsys, load(name, text), "--smoke", "--cpu", *more)


# ------------------------------------------------------------------------------------------------------ what is right
LTX_REPORT = {
    "script", "verdict", "failures", "kernel", "from_kernel", "from_torch", "device", "torch", "diffusers", "dtype", "layers",
    "grid", "batch", "relative_error", "patched", "calls",
}  # fmt: skip
TRANSFORMERS_REPORT = (LTX_REPORT - {"diffusers", "grid", "batch"}) | {"transformers", "family", "tokens"}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_ltx_video(monkeypatch, capsys, dtype):
    code, report, err = smoke(monkeypatch, capsys, LTX, "--dtype", dtype)
    assert code == 0, (report, err)
    assert set(report) == LTX_REPORT
    assert report["patched"] == {"blocks": 2, "attentions": 4, "rope": 1} and report["layers"] == 2
    assert report["relative_error"]["fp32"] < 1e-6
    assert dtype == "float32" or report["relative_error"]["patched"] > 1e-5
    assert report["calls"] == {
        "adaln": 2, "gate_residual": 4, "gate_residual_adaln": 2, "qk_norm_rope3d": 2, "rms_norm": 4, "rope3d_coords": 1,
        "rope3d_table": 1,
    }  # fmt: skip


@pytest.mark.parametrize("family, norms", [("qwen3", 9), ("llama", 5), ("gemma", 5)])
def test_transformers(monkeypatch, capsys, family, norms):
    code, report, err = smoke(monkeypatch, capsys, TRANSFORMERS, "--family", family)
    assert code == 0, (report, err)
    assert set(report) == TRANSFORMERS_REPORT
    assert report["patched"]["RMSNorm"] == norms and report["patched"]["DecoderLayer"] == 2
    assert report["relative_error"]["fp32"] < 1e-6 and report["relative_error"]["gradients"] < 1e-6
    assert set(report["calls"]) == {"qwen3": {"rms_norm", "add_rms_norm", "qk_norm_rope", "swiglu"},
                                    "llama": {"rms_norm", "add_rms_norm", "rope", "swiglu"},
                                    "gemma": {"rms_norm", "add_rms_norm", "rope"}}[family]  # fmt: skip


def test_one_layer_another_batch_and_grid(monkeypatch, capsys):
    code, report, err = smoke(monkeypatch, capsys, LTX, "--layers", 1, "--batch", 1, "--tokens", "3,2,5")
    assert code == 0 and report["patched"]["blocks"] == 1 and report["grid"] == [3, 2, 5], (report, err)
    code, report, err = smoke(monkeypatch, capsys, TRANSFORMERS, "--layers", 1, "--batch", 3, "--tokens", 7)
    assert code == 0 and report["patched"]["DecoderLayer"] == 1 and report["tokens"] == [3, 7], (report, err)


def test_a_file_with_all_functions(monkeypatch, capsys, name, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(plain(name))
    code, report, err = smoke(monkeypatch, capsys, name, "--kernel", path)
    assert code == 0 and report["from_torch"] == [], (report, err)


def test_a_file_with_one_function(monkeypatch, capsys, name, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        plain(name).split("\nrms_norm = Plain.rms_norm")[0].rsplit("\nadaln =", 1)[0] + "\nrms_norm = Plain.rms_norm\n"
    )
    code, report, err = smoke(monkeypatch, capsys, name, "--kernel", path)
    assert code == 0 and report["from_kernel"] == ["rms_norm"], (report, err)
    if name == LTX:  # the rotation stays diffusers' own, behind four norms a block
        assert report["patched"]["rope"] == 1 or report["calls"]["rms_norm"] == 8


def test_a_file_with_none(monkeypatch, capsys, name, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def my_kernel(x): return x\n")
    code, report, err = smoke(monkeypatch, capsys, name, "--kernel", path)
    assert (code, report) == (2, None) and "none of" in err and "rms_norm" in err


def test_the_text_report(monkeypatch, capsys, name):
    monkeypatch.setattr("sys.argv", ["x", "--smoke", "--cpu"])
    assert load(name).main() == 0
    assert "PASS" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------- a kernel that is wrong
LTX_KERNELS = [
    ("(1 + s + s_table) + t + t_table", "(1 + s + s_table) - t - t_table"),  # a sign
    ("(1 + s + s_table) + t + t_table", "(1 + s + t_table) + t + s_table"),  # the other row
    ("(1 + s + s_table) + t + t_table", "(s + s_table) + t + t_table"),
    ("(1 + s + s_table) + t + t_table", "(1 + s) + t"),  # no table
    ("wide_x * (g + g_table)", "wide_x * g"),
    ("(wide_h + (wide_x if", "(wide_h - (wide_x if"),
    ("norm), total", "norm), h"),  # the residual stream without the residual
    (
        "x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)",
        "x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)",
    ),
    ("return x if weight is None else x * weight", "return x"),
    ("a * cos - b * sin, b * cos + a * sin", "a * cos + b * sin, b * cos - a * sin"),
    ("y[..., front::2], y[..., front + 1::2]", "y[..., front + 1::2], y[..., front::2]"),
    ("for a in axes], 3)", "for a in (axes[0], axes[2], axes[1])], 3)"),  # rows and columns
    ("return turned(q, q_weight), turned(k, k_weight)", "return turned(q, q_weight), turned(k, q_weight)"),
    ("return turned(q, q_weight), turned(k, k_weight)", "return q, k"),
    ("angles = f * (coords[..., None] * 2 - 1)", "angles = f * coords[..., None]"),
    ("a * s * p / b for", "a / b for"),
]
TRANSFORMERS_KERNELS = [
    ("qwen3", "        if round_first:\n            n = n.to(x.dtype).float()\n", "        weight = torch.ones_like(weight)\n"),
    ("gemma", "(n * (weight.float() + weight_offset))", "(n * weight.float())"),  # Gemma's 1 + weight
    ("llama", "+ eps)\n", "+ 1e-3)\n"),
    ("qwen3", "total = x + residual", "total = residual"),
    ("qwen3", "round_first), total", "round_first), residual"),
    ("llama", "a * c - b * s, b * c + a * s", "a * c + b * s, b * c - a * s"),
    ("qwen3", "cos[..., None, :half].float()", "cos.roll(1, -2)[..., None, :half].float()"),  # a row
    ("qwen3", "((q, q_weight), (k, k_weight))", "((q, q_weight), (k, q_weight))"),
    ("qwen3", "return Plain.rope(q, k, cos, sin)", "return q, k"),
    ("llama", "torch.nn.functional.silu(gate.float()) * up.float()", "torch.nn.functional.silu(up.float()) * gate.float()"),
    ("llama", "silu(gate.float()) * up.float()).to(gate.dtype)", "silu(gate.float()) * up.float()).to(gate.dtype).detach()"),
    ("qwen3", "return (torch.nn.functional.silu", "return torch.empty_like(gate).fill_(float('nan')) + 0 * (torch.nn.functional.silu"),
]  # fmt: skip


@pytest.mark.parametrize("old, new", LTX_KERNELS)
def test_a_wrong_kernel_in_ltx_video(monkeypatch, capsys, tmp_path, old, new):
    code, report, _ = smoke(monkeypatch, capsys, LTX, "--kernel", changed(LTX, tmp_path, old, new))
    assert code == 1 and report["verdict"] == "FAIL" and "fp32" in report["failures"][0], report


@pytest.mark.parametrize("family, old, new", TRANSFORMERS_KERNELS)
def test_a_wrong_kernel_in_transformers(monkeypatch, capsys, tmp_path, family, old, new):
    code, report, _ = smoke(
        monkeypatch, capsys, TRANSFORMERS, "--family", family, "--kernel", changed(TRANSFORMERS, tmp_path, old, new)
    )
    assert code == 1 and report["verdict"] == "FAIL" and report["failures"], report


def test_a_kernel_that_raises(monkeypatch, capsys, name, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def rms_norm(x, *args):\n    raise RuntimeError('rms_norm: x must be on a CUDA device')\n")
    code, report, _ = smoke(monkeypatch, capsys, name, "--kernel", path)
    assert code == 1 and "must be on a CUDA device" in report["failures"][0]


def test_a_kernel_without_fp32(monkeypatch, capsys, name, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        plain(name)
        + "\ndef rms_norm(x, *args):\n    assert x.dtype != torch.float32, 'no fp32'\n    return Plain.rms_norm(x, *args)\n"
    )
    code, report, _ = smoke(monkeypatch, capsys, name, "--kernel", path)
    assert code == 1 and "no fp32" in report["failures"][0]
    code, report, _ = smoke(monkeypatch, capsys, name, "--kernel", path, "--no-fp32")
    assert code == 0 and "fp32" not in report["relative_error"], report


# -------------------------------------------------------------------------------------------------- a wiring that is wrong
LTX_WIRINGS = [
    ("ada[1], ada[0], table[1], table[0]", "ada[1], ada[0], table[0], table[1]"),
    ("ada[1], ada[0], table[1], table[0]", "ada[0], ada[1], table[1], table[0]"),
    ("h = kernel.gate_residual(h, x, ada[2], table[2])", "h = kernel.gate_residual(h, x, ada[2], table[5])"),
    ("None, ada[4], ada[3], None, table[4], table[3]", "None, ada[1], ada[0], None, table[1], table[0]"),
    ("self.ff(x), ada[5], table[5])", "self.ff(x), ada[2], table[2])"),
    ("attention_mask=encoder_attention_mask)", "attention_mask=None)"),
    ("block.__class__ = Block", "pass"),
    ("attn.set_processor(new)", "pass"),
    ("        model.rope.__class__ = Rope\n", "        pass\n"),
    ("block.__class__ = stock.LTXVideoTransformerBlock", "pass"),
    ("attn.set_processor(processor)", "pass"),
    ("if torch.is_grad_enabled() and hidden_states.requires_grad:", "if False:"),
]
TRANSFORMERS_WIRINGS = [
    ("return residual + self.mlp(x)", "return self.mlp(x)"),
    ("kernel.add_rms_norm(x, residual, between.weight", "kernel.add_rms_norm(x, residual, self.input_layernorm.weight"),
    ("kernel.swiglu(self.gate_proj(x), self.up_proj(x))", "kernel.swiglu(self.up_proj(x), self.gate_proj(x))"),
    ("self.q_norm.weight, self.k_norm.weight, cos, sin", "self.k_norm.weight, self.q_norm.weight, cos, sin"),
    ("self.q_norm.weight, self.k_norm.weight, cos, sin", "self.q_norm.weight, self.k_norm.weight, sin, cos"),
    ("k, v = past_key_values.update(k, v, self.layer_idx)", "past_key_values.update(k, v, self.layer_idx)"),
    (
        "kernel.rope(self.q_norm(q), self.k_norm(k), cos, sin)",
        "kernel.rope(self.q_norm(q), self.k_norm(k).detach(), cos, sin)",
    ),
    ("module.__class__ = classes[stock][1]", "pass"),
    ("module.__class__ = stock", "pass"),
    ('"DecoderLayer": layer, ', ""),
]


@pytest.mark.parametrize("old, new", LTX_WIRINGS)
def test_a_wrong_wiring_in_ltx_video(monkeypatch, capsys, old, new):
    code, report, _ = smoke(monkeypatch, capsys, LTX, text=sabotaged(LTX, (old, new)))
    assert code == 1 and report["failures"], report


@pytest.mark.parametrize("old, new", TRANSFORMERS_WIRINGS)
def test_a_wrong_wiring_in_transformers(monkeypatch, capsys, old, new):
    code, report, _ = smoke(monkeypatch, capsys, TRANSFORMERS, text=sabotaged(TRANSFORMERS, (old, new)))
    assert code == 1 and report["failures"], report


# ---------------------------------------------------------------------------------------------------------- what is refused
@pytest.fixture
def ltx():
    module = load(LTX)
    module.torch = torch
    return module, module.make_model({**module.SIZES["smoke"], "num_layers": 1}, "cpu")


def test_ltx_video_refuses_what_it_does_not_know(ltx):
    module, model = ltx
    kernel = module.Kernel(module.Plain)

    def refused():
        before = [type(m) for m in model.modules()]
        with pytest.raises(RuntimeError):
            module.patch(model, kernel)
        assert [type(m) for m in model.modules()] == before

    block = model.transformer_blocks[0]
    block.forward = block.forward
    refused()
    del block.forward
    block.norm1.weight = torch.nn.Parameter(torch.ones(128))
    refused()
    block.norm1.weight = None
    processor = block.attn1.processor
    block.attn1.processor = type("Other", (type(processor),), {})()
    refused()
    block.attn1.processor = processor
    hook = block.attn2.norm_k.register_forward_pre_hook(lambda *_: None)
    refused()
    hook.remove()
    _, restore = module.patch(model, kernel)
    refused()  # twice
    restore()
    module.patch(model, kernel)


def test_saved_configurations_and_names_stay(ltx):
    module, model = ltx
    keys, names = list(model.state_dict()), [type(m).__name__ for m in model.modules()]
    module.patch(model, module.Kernel(module.Plain))
    assert list(model.state_dict()) == keys and [type(m).__name__ for m in model.modules()] == names


def test_the_chosen_attention_backend_stays(ltx):
    module, model = ltx
    model.set_attention_backend("native")
    chosen = model.transformer_blocks[0].attn1.processor._attention_backend
    _, restore = module.patch(model, module.Kernel(module.Plain))
    assert chosen is not None and model.transformer_blocks[0].attn1.processor._attention_backend == chosen
    restore()
    assert model.transformer_blocks[0].attn1.processor._attention_backend == chosen


def test_positions_of_another_kind_go_the_stock_way(ltx):
    module, model = ltx
    inputs = module.make_inputs(module.SIZES["smoke"], 1, (2, 3, 4), "cpu")
    inputs["video_coords"] = torch.rand(1, 3, 24) * 100
    with torch.no_grad():
        stock = module.run(model, inputs, torch.float32)
        module.patch(model, module.Kernel(module.Plain))
        assert module.distance(module.run(model, inputs, torch.float32), stock) < 1e-6


def test_a_subclass_stays_as_it_is_in_transformers():
    module = load(TRANSFORMERS)
    module.torch = torch
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    other = type("Other", (Qwen3RMSNorm,), {})
    model = torch.nn.Sequential(Qwen3RMSNorm(8), other(8), GemmaRMSNorm(8))
    counts, _ = module.patch(model, module.Kernel(module.Plain), module.FAMILIES["qwen3"])
    assert counts == {"RMSNorm": 1} and type(model[1]) is other and type(model[2]) is GemmaRMSNorm


def test_kernelized_modules_are_refused_in_transformers():
    module = load(TRANSFORMERS)
    module.torch = torch
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    model = torch.nn.Sequential(Qwen3RMSNorm(8))
    model[0].forward = model[0].forward
    with pytest.raises(RuntimeError, match="forward of its own"):
        module.patch(model, module.Kernel(module.Plain), module.FAMILIES["qwen3"])
    del model[0].forward
    model[0].register_forward_pre_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="has hooks"):
        module.patch(model, module.Kernel(module.Plain), module.FAMILIES["qwen3"])
    assert type(model[0]) is Qwen3RMSNorm


# --------------------------------------------------------------------------------------------------------- on a fake card
def test_the_timed_report(fake_card, monkeypatch, capsys, name):
    code, report, err = call(monkeypatch, capsys, load(name), "--smoke", "--bench", "--rounds", 2, "--layers", 1)
    assert code == 0, (report, err)
    key = "step_ms" if name == LTX else "prefill_ms"
    assert set(report[key]) == {"eager", "kernels", "compile", "both"} == set(report["faster_than_eager"])
    assert all(0 < t["p10"] <= t["median"] <= t["p90"] for t in report[key].values())
    assert report["distance_from_eager"]["eager"] == 0 < report["distance_from_eager"]["kernels"] < 0.05


def test_what_is_timed_is_compared_too(fake_card, monkeypatch, capsys, name):
    """A model that is wrong only when compiled."""

    def wrong(function, dynamic=None, mode=None):
        def run(**given):
            out = function(**given)
            return (out[0] * 1.5,) if name == LTX else types.SimpleNamespace(logits=out.logits * 1.5)

        return run

    monkeypatch.setattr(torch, "compile", wrong)
    code, report, _ = call(monkeypatch, capsys, load(name), "--smoke", "--bench", "--rounds", 1, "--layers", 1)
    assert code == 1 and [f.split()[0] for f in report["failures"]] == ["compile", "both"], report["failures"]


def test_a_kernel_may_raise_anything(monkeypatch, capsys, name, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def rms_norm(*args, **kwargs): return {}['no such dtype']\n")
    code, report, err = smoke(monkeypatch, capsys, name, "--kernel", path)
    assert code == 1 and "KeyError: 'no such dtype'" in report["failures"][0], (report, err)
