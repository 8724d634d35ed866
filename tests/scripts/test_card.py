"""The scripts as they are run, on a card: with nvcc, and with the kernels that `kernels build --torch` made of examples/.

    python -m pytest tests/scripts/test_card.py

Skipped by name without a card, without nvcc, and where an example is not built.
"""

import json
import os
import pathlib
import shutil
import sysconfig

import pytest
from support import NAMES, ROOT, run

torch = pytest.importorskip("torch")


def there(name):
    return pathlib.Path(os.environ.get(f"{name.upper()}_BUILD", ROOT / "examples" / name / "build"))


def has_nvcc():
    places = [os.environ.get("NVCC"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"]
    places += [os.path.join(os.environ[v], "bin", "nvcc") for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    places += [os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "nvcc")]
    return any(p and os.path.isfile(p) for p in places)


CARD = torch.cuda.is_available()
pytestmark = pytest.mark.skipif(not CARD, reason="not run: the skill's scripts on a card, for want of one")


def needs(what, reason):
    return pytest.mark.skipif(CARD and not what, reason=f"not run: the skill's scripts {reason}")


needs_nvcc = needs(has_nvcc(), "with a .cu, for want of nvcc")
LTX, QWEN = there("ltx_video"), there("qwen3_8b")
needs_ltx, needs_qwen = (needs(f.is_dir(), f"with {f}, which is not built") for f in (LTX, QWEN))
DTYPES = ["bfloat16", "float16", "float32"]


def report(name, *arguments, code=0):
    got, out, err = run(name, *arguments, "--json")
    assert got == code, (got, out[-3000:], err[-3000:])
    return json.loads(out)


# --------------------------------------------------------------------------------------------------- benchmark_example
@needs_nvcc
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_example(dtype):
    made = report("benchmark_example", "--dtype", dtype, "--rounds", 20)
    assert made["verdict"] == "PASS" and len(made["results"]) == 4
    for row in made["results"][:2]:
        assert row["ring_over_l2"] >= 4 and not row["notes"] and not row["left_out"], row
        assert 70 <= row["percent_of_copy"] <= 103, row
        assert row["faster_than"]["torch"] > 1.3 and row["faster_than"]["compile"] > 0.7, row
        for us in row["us"].values():
            assert us["clock"] == "graph" and us["p90"] <= 1.5 * us["p10"], row


COPY = """
#include <cstdint>
__global__ void copy(float4* out, const float4* x, int64_t packs) {
  const int64_t i = blockIdx.x * int64_t(256) + threadIdx.x;
  if (i < packs) out[i] = x[i];
}
extern "C" int copy_launch(void* out, const void* x, int64_t rows, int64_t width, int dtype, cudaStream_t stream) {
  const int64_t packs = rows * width * (dtype ? 2 : 4) / 16;
  copy<<<unsigned((packs + 255) / 256), 256, 0, STREAM>>>(static_cast<float4*>(out), static_cast<const float4*>(x), PACKS);
  return cudaGetLastError();
}
"""
REFERENCE = "def reference(x):\n    return x.clone()\n"


def copier(folder, stream="stream", packs="packs", before=""):
    (folder / "copy.cu").write_text(
        COPY.replace("STREAM", stream)
        .replace("PACKS", packs)
        .replace("  const int64_t packs", before + "  const int64_t packs")
    )
    (folder / "copy.py").write_text(REFERENCE)
    return [
        "--candidate",
        folder / "copy.cu",
        "--reference",
        folder / "copy.py",
        "--shape",
        "rows=8192,width=4096",
        "--rounds",
        20,
    ]


@needs_nvcc
def test_a_copy_is_the_copy(tmp_path):
    (row,) = report("benchmark_example", *copier(tmp_path), "--against", "torch")["results"]
    assert 95 <= row["percent_of_copy"] <= 101, row
    assert row["bytes"] == 2 * 8192 * 4096 * 2 and not row["notes"]
    assert row["gb_per_s"] == pytest.approx(row["bytes"] / row["us"]["candidate"]["median"] / 1e3)
    # The clock does not depend on how much is behind each other: twice the bytes take twice the time.
    arguments = copier(tmp_path)
    arguments[arguments.index("rows=8192,width=4096")] = "rows=16384,width=4096"
    (twice,) = report("benchmark_example", *arguments, "--against", "none")["results"]
    assert 1.9 <= twice["us"]["candidate"]["median"] / row["us"]["candidate"]["median"] <= 2.1


@needs_nvcc
@pytest.mark.parametrize(
    "changes, said",
    [
        ({"packs": "0"}, "off by inf"),  # no-op
        ({"packs": "packs / 2"}, "off by inf"),
        ({"packs": "packs - 1"}, "off by inf"),
        ({"before": "  static int calls = 0; if (++calls > 2) return 0;\n"}, "what the timed launches wrote"),
        ({"before": "  static const void* seen = nullptr; if (seen == x) return 0; seen = x;\n"}, "off by inf"),
        ({"before": "  out = static_cast<char*>(out) - 16;\n"}, "outside an output"),
        ({"before": "  out = const_cast<void*>(x);\n"}, "off by inf"),
    ],
)
def test_a_cheat(tmp_path, changes, said):
    made = report("benchmark_example", *copier(tmp_path, **changes), "--against", "none", code=1)
    assert made["verdict"] == "FAIL" and said in made["failure"]


@needs_nvcc
def test_a_misaligned_address(tmp_path):
    report("benchmark_example", *copier(tmp_path), "--check-only")
    made = report("benchmark_example", *copier(tmp_path), "--check-only", "--misaligned", code=1)
    assert "misaligned" in made["failure"].lower()
    report("benchmark_example", "--misaligned", "--check-only")  # the example has a way for such


@needs_nvcc
def test_a_launch_on_the_default_stream_is_wrong(tmp_path):
    """It begins at once, beside the capture, and is in no graph: a replay writes nothing."""
    made = report("benchmark_example", *copier(tmp_path, stream="cudaStreamLegacy"), "--against", "none", code=1)
    assert "what the timed launches wrote" in made["failure"] and "stream" in made["failure"], made["failure"]


def test_a_function_that_waits(tmp_path):
    (tmp_path / "op.py").write_text(REFERENCE + "\ndef waits(x):\n    x.sum().item()\n    return x.clone()\n")
    made = report("benchmark_example", "--candidate", f"{tmp_path}/op.py:waits", "--reference", tmp_path / "op.py",
                  "--shape", "rows=2048,width=4096", "--shape", "rows=1024,width=4096", "--rounds", 5, "--against", "torch,compile")  # fmt: skip
    for row in made["results"]:
        assert row["us"]["candidate"]["clock"] == "host" and row["us"]["torch"]["clock"] == "graph", row


def test_a_function_that_writes_nothing(tmp_path):
    (tmp_path / "op.py").write_text(REFERENCE + "\nimport torch\ndef nothing(x):\n    return torch.empty_like(x)\n")
    made = report("benchmark_example", "--candidate", f"{tmp_path}/op.py:nothing", "--reference", tmp_path / "op.py",
                  "--shape", "rows=2048,width=4096", code=1)  # fmt: skip
    assert "off by inf" in made["failure"]


# --------------------------------------------------------------------------------------------------- benchmark_rmsnorm
SIMPLE = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
template <typename T> __global__ void norm(T* out, const T* x, const T* w, int64_t width, float eps) {
  __shared__ float sums[8];
  const int64_t base = int64_t(blockIdx.x) * width;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += 256) sum += float(x[base + i]) * float(x[base + i]);
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int k = 0; k < 8; ++k) sum += sums[k];
  const float inv = rsqrtf(sum / float(width) + eps);
  for (int64_t i = threadIdx.x; i < width; i += 256) out[base + i] = T(float(x[base + i]) * inv * (w ? float(w[i]) : 1.0f));
}
template <typename T> int go(void* out, const void* x, const void* w, int64_t rows, int64_t width, float eps, cudaStream_t s) {
  if (rows * width == 0) return 0;
  norm<T><<<unsigned(rows), 256, 0, s>>>((T*)out, (const T*)x, (const T*)w, width, eps);
  return cudaGetLastError();
}
extern "C" int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width, float eps, int dtype,
                               cudaStream_t stream) {
  if (dtype == 0) return go<float>(out, x, weight, rows, width, eps, stream);
  if (dtype == 1) return go<__half>(out, x, weight, rows, width, eps, stream);
  return go<__nv_bfloat16>(out, x, weight, rows, width, eps, stream);
}
"""


@needs_nvcc
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_rms_norm_of_a_source(tmp_path, dtype):
    (tmp_path / "norm.cu").write_text(SIMPLE)
    made = report(
        "benchmark_rmsnorm",
        "--source",
        tmp_path / "norm.cu",
        "--dtype",
        dtype,
        "--rounds",
        10,
        "--shape",
        "rows=8192,width=4096",
    )
    (row,) = made["results"]
    assert made["verdict"] == "PASS" and row["ring_over_l2"] >= 4 and not row["left_out"]
    assert 20 <= row["percent_of_copy"]["kernel"] <= 101, row
    wrong = SIMPLE.replace("rsqrtf(sum / float(width) + eps)", "rsqrtf(sum / float(width))")
    (tmp_path / "norm.cu").write_text(wrong)
    made = report("benchmark_rmsnorm", "--source", tmp_path / "norm.cu", "--dtype", dtype, "--check-only", code=1)
    assert "times its bound" in made["failure"]
    (tmp_path / "norm.cu").write_text(SIMPLE.replace("norm<T><<<", "if (rows < 0) norm<T><<<"))
    report("benchmark_rmsnorm", "--source", tmp_path / "norm.cu", "--dtype", dtype, "--check-only", code=1)


@needs_ltx
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_built_rms_norm(dtype):
    made = report("benchmark_rmsnorm", "--kernel", LTX, "--dtype", dtype, "--rounds", 20)
    assert made["verdict"] == "PASS" and len(made["results"]) == 7
    for row in made["results"]:
        assert row["percent_of_copy"]["kernel"] <= 103 or row["ring_over_l2"] < 4, row
        assert row["faster_than"]["composed"] > 1, row
    large = [row for row in made["results"] if row["bytes"] > 60e6]
    assert large and all(row["percent_of_copy"]["kernel"] >= 90 for row in large), large


# ------------------------------------------------------------------------------------------------------------ injections
@needs_ltx
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "more", [["--smoke"], ["--layers", 2], ["--layers", 1, "--size", "13b", "--batch", 1]], ids=str
)
def test_the_built_kernels_in_ltx_video(dtype, more):
    made = report("ltx_kernel_injection_example", "--kernel", LTX, "--dtype", dtype, *more)
    assert made["verdict"] == "PASS" and made["from_torch"] == [] and made["relative_error"]["fp32"] <= 5e-4


@needs_ltx
def test_ltx_video_timed():
    made = report(
        "ltx_kernel_injection_example", "--kernel", LTX, "--layers", 4, "--tokens", "7,16,24", "--bench", "--rounds", 5
    )
    assert "left_out" not in made and made["faster_than_eager"]["kernels"] > 1.2, made
    assert made["distance_from_eager"]["both"] < 0.05


@needs_qwen
@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_built_kernels_in_transformers(family, dtype):
    made = report("transformers_injection_example", "--kernel", QWEN, "--family", family, "--dtype", dtype, "--smoke")
    assert made["verdict"] == "PASS" and made["from_torch"] == []
    assert "gradients_refused" not in made and made["relative_error"]["gradients"] <= 1e-3


@needs_qwen
def test_transformers_timed():
    made = report(
        "transformers_injection_example", "--kernel", QWEN, "--layers", 2, "--tokens", 1024, "--bench", "--rounds", 5
    )
    assert "left_out" not in made and made["faster_than_eager"]["kernels"] > 1.1, made


WRONG = """
import pathlib
import kernels

built = kernels.get_local_kernel(pathlib.Path({path!r}))
for name in dir(built):
    if callable(getattr(built, name)) and not name.startswith("_"):
        globals()[name] = getattr(built, name)

{change}
"""


@needs_ltx
@pytest.mark.parametrize(
    "change",
    [
        "def gate_residual(h, *rest):\n    return h",
        "def rms_norm(x, *rest):\n    return x.clone()",
        "def adaln(x, a, b, c, d, *rest):\n    return built.adaln(x, a, b, d, c, *rest)",
        "def qk_norm_rope3d(q, k, a, b, table, *rest):\n    return built.qk_norm_rope3d(q, k, a, b, table.flip(1), *rest)",
    ],
)
def test_a_wrong_kernel_in_ltx_video(tmp_path, change):
    path = tmp_path / "mine.py"
    path.write_text(WRONG.format(path=str(LTX), change=change))
    made = report("ltx_kernel_injection_example", "--kernel", path, "--smoke", code=1)
    assert made["verdict"] == "FAIL" and made["failures"]


@needs_qwen
@pytest.mark.parametrize(
    "change",
    [
        "def swiglu(gate, up):\n    return built.swiglu(up, gate)",
        "def rms_norm(x, weight, eps, *rest):\n    return built.rms_norm(x, weight, 1e-3, *rest)",
        "def add_rms_norm(x, residual, *rest):\n    return built.add_rms_norm(x, residual, *rest)[0], residual",
        "def swiglu(gate, up):\n    return built.swiglu(gate.detach(), up.detach())",
    ],
)
def test_a_wrong_kernel_in_transformers(tmp_path, change):
    path = tmp_path / "mine.py"
    path.write_text(WRONG.format(path=str(QWEN), change=change))
    made = report("transformers_injection_example", "--kernel", path, "--smoke", code=1)
    assert made["verdict"] == "FAIL" and made["failures"]


# ------------------------------------------------------------------------------------------------------ the Hub's library
def test_the_throw_away_kernel():
    made = report("huggingface_kernels_example")
    assert made["device"] == "cuda" and len(made["relative_error"]) == 4


@pytest.mark.parametrize("folder", [pytest.param(LTX, marks=needs_ltx), pytest.param(QWEN, marks=needs_qwen)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_built_kernel(folder, dtype):
    made = report(
        "huggingface_kernels_example", "--path", folder, "--check-rms-norm", "--layer", "RMSNorm", "--dtype", dtype
    )
    assert set(made["relative_error"]) == {"rms_norm", "kernelize"}


@pytest.mark.parametrize("name", NAMES)
def test_no_card_is_seen(name):
    if name == "huggingface_kernels_example":
        return  # loads without one
    code, out, err = run(name, CUDA_VISIBLE_DEVICES="")
    assert (code, out) == (2, "") and "no CUDA device is visible" in err
