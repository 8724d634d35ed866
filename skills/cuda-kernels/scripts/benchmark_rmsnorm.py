#!/usr/bin/env python3
"""Check and time an RMSNorm kernel at the shapes of LTX-Video and Qwen3-8B.

Candidates: the kernel, F.rms_norm of the installed torch, the composed formula, torch.compile of both, and a copy of
the same number of bytes (the roof). Device time from CUDA graphs over rotating buffers of more than four times L2;
candidates alternate; medians with p10 and p90. Weights are random. Every result is checked against fp64 first.

    python benchmark_rmsnorm.py                                # the small kernel in this file
    python benchmark_rmsnorm.py --source csrc/norm.cu          # yours, or the one of references/kernel-templates.md

The source must export
    int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width, float eps,
                        float weight_offset, int round_first, int dtype /* 0 f32, 1 f16, 2 bf16 */, void* stream)
which returns a cudaError_t. Exit code 0: right and timed; 1: wrong; 2: torch, a card or nvcc is missing, or bad usage."""
import argparse
import ctypes
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile

SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };

// One row a block, kept in registers: NV packs of N elements a thread.
template <typename T, int N, int THREADS, int NV>
__global__ void __launch_bounds__(THREADS) rms_norm(T* out, const T* x, const T* weight, int packs, float eps,
                                                    float offset, bool round_first) {
  using P = Pack<T, N>;
  __shared__ float warp_sums[32];
  const P* in = reinterpret_cast<const P*>(x) + int64_t(blockIdx.x) * packs;
  const P* w = reinterpret_cast<const P*>(weight);
  P* to = reinterpret_cast<P*>(out) + int64_t(blockIdx.x) * packs;
  P r[NV], m[NV];
  float sum = 0.0f;
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    const int i = threadIdx.x + v * THREADS;
    if (i < packs) r[v] = in[i];
    if (i < packs && weight) m[v] = w[i];
  }
#pragma unroll
  for (int v = 0; v < NV; ++v)
    if (threadIdx.x + v * THREADS < packs)
#pragma unroll
      for (int j = 0; j < N; ++j) sum = fmaf(float(r[v].v[j]), float(r[v].v[j]), sum);
#pragma unroll
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if constexpr (THREADS > 32) {
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x % 32 < THREADS / 32 ? warp_sums[threadIdx.x % 32] : 0.0f;
#pragma unroll
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  }
  const float inv = rsqrtf(sum / (float(packs) * N) + eps);
#pragma unroll
  for (int v = 0; v < NV; ++v) {
    const int i = threadIdx.x + v * THREADS;
    if (i >= packs) continue;
    P y;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float f = float(r[v].v[j]) * inv;
      if (round_first) f = float(T(f));
      y.v[j] = T(weight ? f * (float(m[v].v[j]) + offset) : f);
    }
    to[i] = y;
  }
}

// Any width, any alignment; reads the row twice.
template <typename T>
__global__ void __launch_bounds__(256) rms_norm_any(T* out, const T* x, const T* weight, int64_t width, float eps,
                                                    float offset, bool round_first) {
  __shared__ float warp_sums[8];
  const int64_t base = int64_t(blockIdx.x) * width;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < width; i += 256) sum = fmaf(float(x[base + i]), float(x[base + i]), sum);
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int k = 0; k < 8; ++k) sum += warp_sums[k];
  const float inv = rsqrtf(sum / float(width) + eps);
  for (int64_t i = threadIdx.x; i < width; i += 256) {
    float f = float(x[base + i]) * inv;
    if (round_first) f = float(T(f));
    out[base + i] = T(weight ? f * (float(weight[i]) + offset) : f);
  }
}

template <typename T>
int run(void* out_, const void* x_, const void* w_, int64_t rows, int64_t width, float eps, float offset, bool first,
        cudaStream_t s) {
  constexpr int N = 16 / sizeof(T);
  T* out = static_cast<T*>(out_);
  const T* x = static_cast<const T*>(x_);
  const T* w = static_cast<const T*>(w_);
  const uintptr_t bits = reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(w);
  const int64_t packs = width / N;
  const unsigned grid = unsigned(rows);
  if (bits % 16 || width % N || packs > 2048) rms_norm_any<T><<<grid, 256, 0, s>>>(out, x, w, width, eps, offset, first);
  else if (packs <= 32) rms_norm<T, N, 32, 1><<<grid, 32, 0, s>>>(out, x, w, int(packs), eps, offset, first);
  else if (packs <= 256) rms_norm<T, N, 128, 2><<<grid, 128, 0, s>>>(out, x, w, int(packs), eps, offset, first);
  else if (packs <= 512) rms_norm<T, N, 128, 4><<<grid, 128, 0, s>>>(out, x, w, int(packs), eps, offset, first);
  else rms_norm<T, N, 512, 4><<<grid, 512, 0, s>>>(out, x, w, int(packs), eps, offset, first);
  return cudaGetLastError();
}

extern "C" int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width, float eps,
                               float weight_offset, int round_first, int dtype, void* stream) {
  const auto s = static_cast<cudaStream_t>(stream);
  if (rows < 0 || width < 0 || rows > 2147483647) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  switch (dtype) {
    case 0: return run<float>(out, x, weight, rows, width, eps, weight_offset, round_first != 0, s);
    case 1: return run<__half>(out, x, weight, rows, width, eps, weight_offset, round_first != 0, s);
    case 2: return run<__nv_bfloat16>(out, x, weight, rows, width, eps, weight_offset, round_first != 0, s);
    default: return cudaErrorInvalidValue;
  }
}
"""
# name, rows, width, eps, weight: rows are batch x tokens (x heads for Qwen3's q and k norms)
SHAPES = [
    ("LTX norm1, batch 1, 49 frames", 2688, 2048, 1e-6, False),
    ("LTX norm1, batch 2, 161 frames", 16128, 2048, 1e-6, False),
    ("LTX norm_q, batch 2, 49 frames", 5376, 2048, 1e-5, True),
    ("LTX norm_k of the text, batch 2", 256, 2048, 1e-5, True),
    ("Qwen3 input_layernorm, 1 token", 1, 4096, 1e-6, True),
    ("Qwen3 input_layernorm, 128 tokens", 128, 4096, 1e-6, True),
    ("Qwen3 input_layernorm, 8192 tokens", 8192, 4096, 1e-6, True),
    ("Qwen3 q_norm, 1024 tokens", 32768, 128, 1e-6, True),
    ("Qwen3 q_norm, 8192 tokens", 262144, 128, 1e-6, True),
]
CHECKS = [(0, 2048), (1, 1), (3, 7), (5, 128), (3, 2047), (4, 2056), (2, 12288), (2, 65536)]


def die(message):
    print("error: " + message, file=sys.stderr)
    raise SystemExit(2)


def need_cuda():
    try:
        import torch
    except ImportError:
        die("torch is not installed (pip install torch)")
    if not torch.cuda.is_available():
        die("no CUDA device is visible to torch " + torch.__version__)
    if not hasattr(torch.nn.functional, "rms_norm"):
        die("torch {} has no F.rms_norm; 2.4 or later is needed".format(torch.__version__))
    return torch


def find_nvcc():
    wheel = os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "nvcc")
    homes = [os.path.join(os.environ[v], "bin", "nvcc") for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    for path in [os.environ.get("NVCC"), *homes, shutil.which("nvcc"), wheel, "/usr/local/cuda/bin/nvcc"]:
        if path and os.path.isfile(path):
            return path
    die("nvcc was not found (set NVCC or CUDA_HOME, or pip install the nvidia-cuda-nvcc wheel)")


def build(torch, source, include):
    nvcc, (major, minor) = find_nvcc(), torch.cuda.get_device_capability()
    arch = "{}{}".format(major, minor)
    folder = tempfile.mkdtemp(prefix="rmsnorm-")
    src, lib = os.path.join(folder, "norm.cu"), os.path.join(folder, "norm.so")
    with open(src, "w") as f:
        f.write(source)
    cmd = [nvcc, "-O3", "-std=c++17", "-gencode=arch=compute_{0},code=sm_{0}".format(arch), "-shared", "-I" + include,
           "-Xcompiler", "-fPIC", "-L" + os.path.join(os.path.dirname(nvcc), "..", "lib"), "-o", lib, src]
    done = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    try:
        if done.returncode:
            die("nvcc failed: " + " ".join(cmd) + "\n" + done.stdout)
        launch = ctypes.CDLL(lib).rms_norm_launch
    finally:
        shutil.rmtree(folder)
    v, n, f, i = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
    launch.argtypes, launch.restype = [v, v, v, n, n, f, f, i, i, v], i
    return launch, hashlib.sha256(source.encode()).hexdigest()[:12]


def measure(torch, candidates, rounds, poison):
    """candidates: name -> one callable for each rotating buffer set. Returns name -> us per call (median, p10, p90).

    Outputs stay alive, so that no candidate writes into memory that is still hot in L2."""
    graphs, keep = {}, []
    side = torch.cuda.Stream()
    for name, calls in candidates.items():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for call in calls[:3]:
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            keep.append([call() for call in calls])
        graph.replay()
        graphs[name] = (graph, len(calls))
    poison()  # from here on only the timed replays write the outputs that are checked afterwards
    torch.cuda.synchronize()
    samples = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, (graph, count) in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples[name].append(start.elapsed_time(end) * 1e3 / count)
    result = {}
    for name, s in samples.items():
        s.sort()
        result[name] = (statistics.median(s), s[len(s) // 10], s[-1 - len(s) // 10])
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--source", metavar="FILE.cu", help="a source that exports rms_norm_launch; default: built in")
    p.add_argument("--shape", action="append", metavar="ROWS,WIDTH", help="with weight, eps 1e-6; may be repeated")
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--rounds", type=int, default=50, help="timed graph replays a candidate")
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    shapes = SHAPES
    if a.shape:
        try:
            pairs = [tuple(int(n) for n in s.split(",")) for s in a.shape]
            shapes = [("{}x{}".format(r, w), r, w, 1e-6, True) for r, w in pairs]
        except ValueError:
            p.error("--shape takes ROWS,WIDTH")
    source, include = SOURCE, "."
    if a.source:
        if not os.path.isfile(a.source):
            p.error("no such file: " + a.source)
        source, include = open(a.source).read(), os.path.dirname(os.path.abspath(a.source))
    torch = need_cuda()
    torch.manual_seed(torch.seed() if a.seed is None else a.seed)
    launch, digest = build(torch, source, include)
    dtype = getattr(torch, a.dtype)
    code = {"float32": 0, "float16": 1, "bfloat16": 2}[a.dtype]

    def kernel(out, x, w, eps, offset=0.0, round_first=0):
        error = launch(out.data_ptr(), x.data_ptr(), None if w is None else w.data_ptr(), x.shape[0], x.shape[1], eps,
                       offset, round_first, code, torch.cuda.current_stream().cuda_stream)
        if error:
            raise RuntimeError("launch failed with cudaError_t {} at {}".format(error, tuple(x.shape)))

    def inputs(rows, width, weighted):
        x = torch.randn(rows, width, device="cuda", dtype=torch.float32).mul_(3).to(dtype)
        w = torch.rand(width, device="cuda", dtype=torch.float32).add_(0.5).to(dtype) if weighted else None
        return x, w

    def error_over_bound(out, x, w, eps, offset=0.0, round_first=0):
        ref = x.double()
        ref = ref * torch.rsqrt(ref.square().mean(-1, keepdim=True) + eps)
        scale = 1.0 if w is None else w.double() + offset
        ref = ref * scale
        half_ulp = torch.finfo(dtype).eps / 2
        bound = (half_ulp * (2.02 if round_first else 1.01) + 4e-6) * ref.abs()
        # Below the smallest normal a rounding errs by half a subnormal step; the first of two is then scaled.
        step = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
        bound = bound + step * (1.0 if w is None else 1.0 + scale.abs())
        ratio = (out.double() - ref).abs() / bound
        if ratio.numel() == 0:
            return 0.0
        return ratio.max().item() if torch.isfinite(ratio).all() else float("inf")

    worst = 0.0
    for rows, width in CHECKS + [(s[1], s[2]) for s in shapes]:
        for weighted, offset, first in ((False, 0.0, 0), (True, 0.0, 0), (True, 1.0, 0), (True, 0.0, 1)):
            x, w = inputs(rows, width, weighted)
            if rows > 2:
                x[1].zero_()
                x[2].mul_(1e-4)  # a row where eps decides
            before = x.clone()
            out = torch.full_like(x, float("nan"))
            kernel(out, x, w, 1e-6, offset, first)
            torch.cuda.synchronize()
            ratio = error_over_bound(out, x, w, 1e-6, offset, first)
            worst = max(worst, ratio)
            if not ratio <= 1.0 or not torch.equal(x, before):
                print("FAIL {}x{} weight {} offset {} round_first {}: error is {:.3g} times its bound".format(
                    rows, width, weighted, offset, first, ratio), file=sys.stderr)
                return 1
        base = torch.randn(5 * 2048 + 1, device="cuda").to(dtype)  # one element past alignment
        x = base[1:].view(5, 2048)
        out = torch.full_like(x, float("nan"))
        kernel(out, x, None, 1e-6)
        if not error_over_bound(out, x, None, 1e-6) <= 1.0:
            print("FAIL: misaligned input", file=sys.stderr)
            return 1

    F = torch.nn.functional
    l2 = torch.cuda.get_device_properties(0).L2_cache_size

    def composed(x, w, eps):
        y = (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)).to(x.dtype)
        return y if w is None else w * y

    rows_out = []
    for name, rows, width, eps, weighted in shapes:
        moved = 2 * rows * width * dtype.itemsize + (width * dtype.itemsize if weighted else 0)
        if moved == 0:
            continue
        sets = []
        while len(sets) < min(400, max(4, -(-4 * l2 // moved))):
            x, w = inputs(rows, width, weighted)
            sets.append((torch.full_like(x, float("nan")), x, w))
        # The same tensors, without the weight: a copy of an odd number of bytes can be a fifth slower.
        copies = [(inputs(rows, width, False)[0], torch.empty_like(sets[0][1])) for _ in sets]
        candidates = {
            "kernel": [lambda o=o, x=x, w=w: kernel(o, x, w, eps) for o, x, w in sets],
            "copy": [lambda s=s, d=d: d.copy_(s) for s, d in copies],
            "F.rms_norm": [lambda x=x, w=w: F.rms_norm(x, (width,), w, eps) for _, x, w in sets],
            "composed": [lambda x=x, w=w: composed(x, w, eps) for _, x, w in sets],
        }
        if not a.no_compile:
            fused = torch.compile(lambda x, w: F.rms_norm(x, (width,), w, eps), dynamic=False)
            chain = torch.compile(lambda x, w: composed(x, w, eps), dynamic=False)
            candidates["compile(F.rms_norm)"] = [lambda x=x, w=w: fused(x, w) for _, x, w in sets]
            candidates["compile(composed)"] = [lambda x=x, w=w: chain(x, w) for _, x, w in sets]
        times = measure(torch, candidates, a.rounds, lambda: [o.fill_(float("nan")) for o, _, _ in sets])
        if not a.no_compile:
            torch.compiler.reset()
        ratio = max(error_over_bound(*s, eps) for s in (sets[0], sets[-1]))  # written by the timed replays
        if not ratio <= 1.0:
            print("FAIL {}: a timed output is wrong".format(name), file=sys.stderr)
            return 1
        best = min((v[0], k) for k, v in times.items() if k not in ("kernel", "copy"))
        rows_out.append({"name": name, "rows": rows, "width": width, "weight": weighted, "bytes": moved,
                         "ring_over_l2": len(sets) * moved / l2,
                         "us": {k: {"median": v[0], "p10": v[1], "p90": v[2]} for k, v in times.items()},
                         "percent_of_copy": 100 * times["copy"][0] / times["kernel"][0],
                         "best_baseline": best[1], "over_best_baseline": best[0] / times["kernel"][0]})
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
              "dtype": a.dtype, "source": a.source or "built in", "source_sha256": digest, "l2_bytes": l2,
              "worst_error_over_bound": worst, "results": rows_out}
    if a.json:
        print(json.dumps(result))
        return 0
    print("{device}, torch {torch}, {dtype}, kernel {source} {source_sha256}; us per call, median [p10 p90]".format(**result))
    for r in rows_out:
        print("{name}: {rows}x{width}, {0:.1f} MB, {1}, kernel at {percent_of_copy:.0f} % of copy".format(
            r["bytes"] / 1e6, "cold" if r["ring_over_l2"] >= 4 else "hot in L2", **r))
        for k, v in r["us"].items():
            print("    {:<20} {:9.2f} [{:.2f} {:.2f}]".format(k, v["median"], v["p10"], v["p90"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
