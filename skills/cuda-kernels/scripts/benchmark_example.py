#!/usr/bin/env python3
"""Check and time one CUDA kernel against its reference. Copy this file and edit the part between the two rulers.

As it stands it runs GEGLU in diffusers' order (value first, exact erf). It compiles the kernel with nvcc, checks it
against fp64 into NaN-filled outputs, and only then times it: CUDA graphs over rotating buffers of more than four times
the L2 cache, candidates alternating, medians with the 10th and 90th percentile, beside eager torch, torch.compile and
a copy of the same number of bytes (the roof).

    python benchmark_example.py [--shape ROWS,INNER ...] [--dtype bfloat16] [--no-compile] [--json]

Exit code 0: right and timed; 1: wrong result; 2: torch, a card or nvcc is missing, or bad usage."""
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

# ------------------------------------------------------------------------------------------- edit from here
SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };

// x: [rows, 2 * inner], value in the first half, gate in the second. One pack of N outputs a thread.
template <typename T, int N>
__global__ void __launch_bounds__(256) geglu(T* out, const T* x, int64_t packs, int64_t total) {
  const int64_t i = blockIdx.x * int64_t(256) + threadIdx.x;
  if (i >= total) return;
  const int64_t row = i / packs, col = i - row * packs;
  const Pack<T, N>* in = reinterpret_cast<const Pack<T, N>*>(x) + row * packs * 2 + col;
  const Pack<T, N> value = in[0], gate = in[packs];
  Pack<T, N> y;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float g = float(gate.v[j]);
    y.v[j] = T(float(value.v[j]) * 0.5f * g * (1.0f + erff(g * 0.70710678118654752f)));
  }
  reinterpret_cast<Pack<T, N>*>(out)[i] = y;
}

template <typename T, int N>
int run(void* out, const void* x, int64_t rows, int64_t inner, void* stream) {
  const int64_t packs = inner / N, total = rows * packs, blocks = (total + 255) / 256;
  if (blocks > 2147483647) return cudaErrorInvalidConfiguration;
  geglu<T, N><<<unsigned(blocks), 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<T*>(out), static_cast<const T*>(x), packs, total);
  return cudaGetLastError();
}

template <typename T>
int choose(void* out, const void* x, int64_t rows, int64_t inner, void* stream) {
  constexpr int N = 16 / sizeof(T);
  const bool aligned = (reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(x)) % 16 == 0;
  return aligned && inner % N == 0 ? run<T, N>(out, x, rows, inner, stream) : run<T, 1>(out, x, rows, inner, stream);
}

extern "C" int launch(void* out, const void* x, int64_t rows, int64_t inner, int dtype, void* stream) {
  if (rows < 0 || inner < 0) return cudaErrorInvalidValue;
  if (rows == 0 || inner == 0) return cudaSuccess;
  switch (dtype) {
    case 0: return choose<float>(out, x, rows, inner, stream);
    case 1: return choose<__half>(out, x, rows, inner, stream);
    case 2: return choose<__nv_bfloat16>(out, x, rows, inner, stream);
    default: return cudaErrorInvalidValue;
  }
}
"""
ARGTYPES = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p]
SHAPES = ["8192,1280", "2048,4096", "8192,5120"]
CHECK_SHAPES = ["0,64", "3,1", "5,7", "33,1280", "17,2056"]


def make_inputs(torch, shape, dtype):
    """A tuple of input tensors for one call. Random, never ones or zeros."""
    rows, inner = shape
    return (torch.randn(rows, 2 * inner, device="cuda", dtype=torch.float32).mul_(2).to(dtype),)


def make_output(torch, inputs):
    x = inputs[0]
    return torch.full((x.shape[0], x.shape[1] // 2), float("nan"), device="cuda", dtype=x.dtype)


def call_kernel(lib, out, inputs, dtype_code, stream):
    x = inputs[0]
    return lib.launch(out.data_ptr(), x.data_ptr(), x.shape[0], x.shape[1] // 2, dtype_code, stream)


def baseline(torch, x):
    """What the framework does today; also the reference when it is given fp64."""
    value, gate = x.chunk(2, dim=-1)
    return value * torch.nn.functional.gelu(gate)


def magnitude(torch, x):
    """Size of the terms that the kernel adds or multiplies in fp32: what its rounding errors scale with."""
    value, gate = x.chunk(2, dim=-1)
    return (value * gate).abs()


# --------------------------------------------------------------------------------------------- edit up to here
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
    return torch


def find_nvcc():
    wheel = os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "nvcc")
    homes = [os.path.join(os.environ[v], "bin", "nvcc") for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    for path in [os.environ.get("NVCC"), *homes, shutil.which("nvcc"), wheel, "/usr/local/cuda/bin/nvcc"]:
        if path and os.path.isfile(path):
            return path
    die("nvcc was not found (set NVCC or CUDA_HOME, or pip install the nvidia-cuda-nvcc wheel)")


def build(torch, source, symbol, argtypes):
    """Compile once per source and architecture, and load the shared object."""
    nvcc, (major, minor) = find_nvcc(), torch.cuda.get_device_capability()
    arch = "{}{}".format(major, minor)
    key = hashlib.sha256((source + arch + nvcc).encode()).hexdigest()[:16]
    folder = os.path.join(tempfile.gettempdir(), "cuda-kernels-{}".format(os.getuid()))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lib = os.path.join(folder, key + ".so")
    if not os.path.exists(lib):
        src, part = os.path.join(folder, key + ".cu"), lib + ".{}".format(os.getpid())
        with open(src, "w") as f:
            f.write(source)
        cmd = [nvcc, "-O3", "-std=c++17", "-gencode=arch=compute_{0},code=sm_{0}".format(arch), "-shared",
               "-Xcompiler", "-fPIC", "-L" + os.path.join(os.path.dirname(nvcc), "..", "lib"), "-o", part, src]
        done = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        if done.returncode:
            die("nvcc failed: " + " ".join(cmd) + "\n" + done.stdout)
        os.replace(part, lib)
    loaded = ctypes.CDLL(lib)
    getattr(loaded, symbol).argtypes = argtypes
    getattr(loaded, symbol).restype = ctypes.c_int
    return loaded


def compare(torch, out, ref, mag):
    """Largest error in units of its bound: half an ulp of the result's dtype plus fp32 rounding. NaN never passes."""
    half_ulp = torch.finfo(out.dtype).eps / 2
    bound = half_ulp * 1.01 * ref.abs() + 4e-6 * mag + torch.finfo(out.dtype).tiny * torch.finfo(out.dtype).eps
    ratio = (out.double() - ref).abs() / bound
    if ratio.numel() == 0:
        return 0.0
    return float("inf") if not torch.isfinite(ratio).all() else ratio.max().item()


def measure(torch, candidates, rounds, poison):
    """candidates: name -> one callable for each rotating buffer set. Returns name -> us per call (median, p10, p90).

    A callable returns its output or None; outputs stay alive, so that no candidate writes into memory still hot in L2."""
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
    p.add_argument("--shape", action="append", metavar="ROWS,INNER", help="may be repeated; default: " + " ".join(SHAPES))
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--rounds", type=int, default=50, help="timed graph replays a candidate")
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    try:
        shapes = [tuple(int(n) for n in s.split(",")) for s in a.shape or SHAPES]
    except ValueError:
        p.error("--shape takes integers separated by commas")
    torch = need_cuda()
    torch.manual_seed(torch.seed() if a.seed is None else a.seed)
    lib = build(torch, SOURCE, "launch", ARGTYPES)
    dtype = getattr(torch, a.dtype)
    code = {"float32": 0, "float16": 1, "bfloat16": 2}[a.dtype]

    def kernel(out, inputs):
        error = call_kernel(lib, out, inputs, code, torch.cuda.current_stream().cuda_stream)
        if error:
            raise RuntimeError("launch failed with cudaError_t {}".format(error))

    def check(out, inputs):
        wide = [t.double() for t in inputs]
        return compare(torch, out, baseline(torch, *wide), magnitude(torch, *wide))

    worst = 0.0
    for shape in [tuple(int(n) for n in s.split(",")) for s in CHECK_SHAPES] + shapes:
        inputs = make_inputs(torch, shape, dtype)
        before = [t.clone() for t in inputs]
        out = make_output(torch, inputs)
        kernel(out, inputs)
        torch.cuda.synchronize()
        ratio = check(out, inputs)
        if not all(torch.equal(x, y) for x, y in zip(inputs, before)):
            ratio = float("inf")
        worst = max(worst, ratio)
        if not ratio <= 1.0:
            print("FAIL {}: error is {:.3g} times its bound".format(shape, ratio), file=sys.stderr)
            return 1

    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    rows = []
    for shape in shapes:
        inputs, out = make_inputs(torch, shape, dtype), None
        out = make_output(torch, inputs)
        moved = sum(t.numel() * t.element_size() for t in (*inputs, out))  # each read once, each written once
        if moved == 0:
            continue
        sets = [(inputs, out)]
        while len(sets) < min(400, max(4, -(-4 * l2 // moved))):
            i = make_inputs(torch, shape, dtype)
            sets.append((i, make_output(torch, i)))
        half = -(-moved // 8192) * 4096  # whole pages: an odd size can take a slower path and be no roof
        copies = [(torch.randint(0, 255, (half,), device="cuda", dtype=torch.uint8),
                   torch.empty(half, device="cuda", dtype=torch.uint8)) for _ in sets]
        candidates = {
            "kernel": [lambda i=i, o=o: kernel(o, i) for i, o in sets],
            "copy": [lambda s=s, d=d: d.copy_(s) for s, d in copies],
            "eager": [lambda i=i: baseline(torch, *i) for i, _ in sets],
        }
        if not a.no_compile:
            compiled = torch.compile(lambda *x: baseline(torch, *x), dynamic=False)
            candidates["compile"] = [lambda i=i: compiled(*i) for i, _ in sets]
        times = measure(torch, candidates, a.rounds, lambda: [o.fill_(float("nan")) for _, o in sets])
        ratio = max(check(o, i) for i, o in (sets[0], sets[-1]))
        if not ratio <= 1.0:
            print("FAIL {}: a timed output is wrong".format(shape), file=sys.stderr)
            return 1
        rows.append({"shape": list(shape), "bytes": moved, "ring_over_l2": len(sets) * moved / l2,
                     "us": {k: {"median": v[0], "p10": v[1], "p90": v[2]} for k, v in times.items()},
                     "percent_of_copy": 100 * times["copy"][0] / times["kernel"][0]})
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
              "dtype": a.dtype, "l2_bytes": l2, "worst_error_over_bound": worst, "results": rows}
    if a.json:
        print(json.dumps(result))
        return 0
    print("{device}, torch {torch}, {dtype}; us per call in a CUDA graph over rotating buffers, median [p10 p90]".format(**result))
    for r in rows:
        cells = ["{} {:.2f} [{:.2f} {:.2f}]".format(k, v["median"], v["p10"], v["p90"]) for k, v in r["us"].items()]
        print("{:>14}  {:6.1f} MB, {}  {}  kernel at {:.0f} % of copy".format(
            "x".join(map(str, r["shape"])), r["bytes"] / 1e6, "cold" if r["ring_over_l2"] >= 4 else "hot in L2",
            "  ".join(cells), r["percent_of_copy"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
