"""benchmark_rmsnorm.py: its bound is tight enough for every mistake that an RMSNorm is known for, and no tighter."""

import pytest
import torch
from support import call, load

KERNEL = """
import torch

def norm(x, weight, eps, weight_offset=0.0, round_first=False):
    n = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    if round_first:
        n = n.to(x.dtype).float()
    return (n if weight is None else n * (weight.float() + weight_offset)).to(x.dtype)

def rms_norm(x, weight=None, eps=1e-6, weight_offset=0.0, round_first=False):
    BODY
"""
MISTAKES = [
    ("return x", "rows="),
    ("return torch.empty_like(x)", "times its bound"),
    ("return torch.zeros_like(x)", "times its bound"),
    ("return norm(x, None, eps, weight_offset, round_first)", "weight=1"),
    ("return norm(x, weight, 1e-5, weight_offset, round_first)", "times its bound"),
    ("return norm(x, weight, 0.0, weight_offset, round_first)", "times its bound"),
    ("return norm(x - x.float().mean(-1, keepdim=True).to(x.dtype), weight, eps, weight_offset, round_first)", "times its bound"),
    ("return norm(x, weight, eps, 0.0, round_first)", "weight_offset=1.0"),
    ("return norm(x, weight, eps, weight_offset, not round_first)", "times its bound"),
    ("return norm(x.half().to(x.dtype), weight, eps, weight_offset, round_first).mul(1.002)", "times its bound"),
    ("out = norm(x, weight, eps, weight_offset, round_first); out[..., -1:] = torch.empty_like(out[..., -1:]); return out", "inf times"),
    ("out = norm(x, weight, eps, weight_offset, round_first); x.add_(1); return out", "rows="),
    ("return norm(x, weight, eps, weight_offset, round_first).flatten()", "inf times"),
    ("return norm(x, weight, eps, weight_offset, round_first).double()", "inf times"),
    ("assert x.data_ptr() % 16 == 0 or x.numel() == 0; return norm(x, weight, eps, weight_offset, round_first)", "misaligned"),
    ("raise RuntimeError('width 7')", "width 7"),
    ("raise ValueError('no such dtype')", "no such dtype"),
    ("return None", "inf times"),
    ("out = norm(x, weight, eps, weight_offset, round_first); weight is None or weight.zero_(); return out", "changed its input"),
    ("weight is None or weight.zero_(); return norm(x, weight, eps, weight_offset, round_first)", "changed its input"),
    ("c, k = rms_norm.__dict__, (x.data_ptr(), x.shape, weight is None)\n"
     "    return c.setdefault(k, norm(x, weight, eps, weight_offset, round_first)).clone()", "times its bound"),
    ("b = rms_norm.__dict__.setdefault(x.shape, torch.empty_like(x))\n"
     "    return b.copy_(norm(x, weight, eps, weight_offset, round_first))", "earlier result"),
]  # fmt: skip


@pytest.fixture
def kernel(tmp_path):
    def write(body):
        path = tmp_path / "mine.py"
        path.write_text(KERNEL.replace("BODY", body))
        return path

    return write


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_honest_kernel_passes(kernel, monkeypatch, capsys, dtype):
    path = kernel("return norm(x, weight, eps, weight_offset, round_first)")
    for seed in range(3):
        code, report, err = call(
            monkeypatch, capsys, load("benchmark_rmsnorm"), "--kernel", path, "--cpu", "--dtype", dtype, "--seed", seed
        )
        assert code == 0, (report, err)
        assert report["verdict"] == "PASS" and 0 < report["worst_error"] <= 1


def test_so_does_one_without_offset_and_round_first(kernel, tmp_path, monkeypatch, capsys):
    path = kernel("return norm(x, weight, eps)")
    path.write_text(path.read_text().replace("eps=1e-6, weight_offset=0.0, round_first=False):", "eps=1e-6):"))
    code, report, err = call(monkeypatch, capsys, load("benchmark_rmsnorm"), "--kernel", path, "--cpu")
    assert code == 0, (report, err)


@pytest.mark.parametrize("body, said", MISTAKES)
def test_a_mistake_is_caught(kernel, monkeypatch, capsys, body, said):
    if "assert" in body:
        body = body.replace("; return", "\n    return").replace("assert ", "if not (").replace(
            "numel() == 0", "numel() == 0):\n        raise RuntimeError('an address')"
        )  # fmt: skip
    code, report, _ = call(
        monkeypatch, capsys, load("benchmark_rmsnorm"), "--kernel", kernel(body), "--cpu", "--seed", 1
    )
    assert code == 1 and report["verdict"] == "FAIL" and said in report["failure"] and "rows=" in report["failure"]


def test_the_bound():
    error = load("benchmark_rmsnorm").error_over_bound
    x = torch.randn(64, 512, dtype=torch.float64)
    exact = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        low = x.to(dtype)
        right = low.double() * torch.rsqrt(low.double().square().mean(-1, keepdim=True) + 1e-6)
        assert error(torch, right.to(dtype), low, None, 1e-6) <= 1
        if dtype != torch.float32:
            step = torch.nextafter(right.to(dtype), torch.full_like(low, 100.0))
            assert error(torch, step, low, None, 1e-6) > 1  # one unit beside the nearest
    assert error(torch, exact.float()[:, :-1], x.float(), None, 1e-6) == float("inf")
    assert error(torch, torch.zeros(0, 4), torch.zeros(0, 4), None, 1e-6) == 0


# ------------------------------------------------------------------------------------------------- on a fake card
SOURCE = """
#include <cmath>
#include <cstdint>
extern "C" const char* rmsnorm_error(int code) { return "x"; }
extern "C" int add_rms_norm_launch(void* out, void* sum, const void* x) { return 1; }
extern "C" int rms_norm_launch(void* out_, const void* x_, const void* weight, int64_t rows, int64_t width, int64_t out_stride,
                               int64_t x_stride, float eps, float weight_offset, int round_first, int dtype, void* stream) {
  if (dtype != 0) return 1;
  float* out = static_cast<float*>(out_);
  const float* x = static_cast<const float*>(x_);
  const float* w = static_cast<const float*>(weight);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += double(x[r * x_stride + i]) * x[r * x_stride + i];
    const double inv = 1 / std::sqrt(sum / width + eps);
    for (int64_t i = 0; i < width; ++i) out[r * out_stride + i] = x[r * x_stride + i] * inv * (w ? w[i] + weight_offset : 1);
  }
  return 0;
}
"""


def test_the_timed_report(tmp_path, fake_card, monkeypatch, capsys):
    source = tmp_path / "rmsnorm.cu"
    source.write_text(SOURCE)
    code, report, err = call(
        monkeypatch, capsys, load("benchmark_rmsnorm"), "--source", source, "--dtype", "float32", "--shape", "rows=64,width=256",
        "--shape", "rows=64,width=128,weight=0,eps=1e-5", "--rounds", 10, "--against", "torch,composed,compile,liger",
    )  # fmt: skip
    assert code == 0, (report, err)
    assert set(report) == {
        "script", "verdict", "device", "torch", "cuda", "dtype", "seed", "kernel", "worst_error", "results",
    }  # fmt: skip
    assert [row["shape"] for row in report["results"]] == [
        {"rows": 64, "width": 256, "weight": 1, "eps": 1e-6},
        {"rows": 64, "width": 128, "weight": 0, "eps": 1e-5},
    ]
    row = report["results"][0]
    assert set(row) == {
        "name", "shape", "bytes", "ring_over_l2", "us", "left_out", "percent_of_copy", "gb_per_s", "faster_than", "timed_error",
    }  # fmt: skip
    assert row["bytes"] == (2 * 64 * 256 + 256) * 4 and row["ring_over_l2"] >= 4 and "liger" in row["left_out"]
    assert set(row["us"]) == {"copy", "copy by a kernel", "kernel", "torch", "composed", "compile"}
    assert set(row["faster_than"]) == {"torch", "composed", "compile"}


def test_wrong_launches_behind_the_check_are_caught(tmp_path, fake_card, monkeypatch, capsys):
    source = tmp_path / "rmsnorm.cu"
    source.write_text(
        SOURCE.replace("float* out =", "static int calls = 0; if (rows == 64 && ++calls > 10) return 0; float* out =")
    )
    code, report, _ = call(
        monkeypatch, capsys, load("benchmark_rmsnorm"), "--source", source, "--dtype", "float32", "--shape", "rows=64,width=256",
        "--rounds", 2, "--against", "none",
    )  # fmt: skip
    assert code == 1 and "what the timed launches wrote" in report["failure"]


def test_who_wipes_the_inputs_as_well_is_caught_too(kernel, fake_card, monkeypatch, capsys):
    path = kernel(
        "c = rms_norm.__dict__; c['n'] = c.get('n', 0) + (x.shape == (64, 256))\n"
        "    return norm(x if c['n'] <= 10 else x.zero_(), weight, eps, weight_offset, round_first)"
    )
    code, report, err = call(
        monkeypatch, capsys, load("benchmark_rmsnorm"), "--kernel", path, "--shape", "rows=64,width=256", "--rounds", 2,
        "--against", "none",
    )  # fmt: skip
    assert code == 1 and "what is timed changed an input" in report["failure"], (report, err)


def test_the_baselines_alone(fake_card, monkeypatch, capsys):
    code, report, _ = call(monkeypatch, capsys, load("benchmark_rmsnorm"), "--shape", "rows=8,width=64", "--rounds", 2)
    assert code == 0 and report["verdict"] == "BASELINES" and report["kernel"] is None and report["worst_error"] is None
    (row,) = report["results"]
    assert (
        set(row["percent_of_copy"]) == {"torch", "composed", "compile", "compile-composed"} and "faster_than" not in row
    )


def test_the_text_report(tmp_path, fake_card, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x", "--shape", "rows=8,width=64", "--rounds", "2"])
    assert load("benchmark_rmsnorm").main() == 0
    out = capsys.readouterr().out
    assert "rows=8,width=64: " in out and "% of the copy" in out and out.endswith("BASELINES\n")
