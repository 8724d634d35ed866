#!/usr/bin/env python3
"""Put an RMSNorm kernel into a transformers Qwen3 model, prove it changes nothing but rounding, take it out.

The model is built from a config with random weights: nothing is downloaded. A module is patched for what it computes,
not for its name: each candidate is run on random data and compared with n * w. GemmaRMSNorm computes n * (1 + w), so
it is refused although its name says RMSNorm; that is checked here too. A Qwen3 with L layers has 4 L + 1 of them: two of
the hidden size and two of head_dim (q_norm, k_norm) in each layer, and the final norm.

    python transformers_injection_example.py                # 2 layers of Qwen3-8B's width, on the card
    python transformers_injection_example.py --layers 36 --tokens 1024 --bench
    python transformers_injection_example.py --dry-run      # no card: the formula in torch stands for the kernel

Checks: how many modules were patched; that each patched forward reached the op; the logits against an fp32 run of the
stock model, beside the stock model's own error; a backward pass; torch.compile(fullgraph=True); the logits after
restoring. Exit code 0: all hold; 1: a check failed; 2: torch, transformers, a card or nvcc is missing."""
import argparse
import copy
import ctypes
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

template <int THREADS>
__device__ float row_sum(float v, float* warp_sums) {
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.0f;
  for (int k = 0; k < THREADS / 32; ++k) v += warp_sums[k];
  return v;  // called once a kernel; a second call would need a barrier here
}

// One row a block. NV > 0: the row stays in registers, NV packs of N elements a thread. NV = 0: any width, read twice.
template <typename T, int N, int THREADS, int NV>
__global__ void __launch_bounds__(THREADS) rms_norm(T* out, const T* x, const T* weight, int64_t packs, float eps,
                                                    bool round_first) {
  using P = Pack<T, N>;
  __shared__ float warp_sums[THREADS / 32];
  const P* in = reinterpret_cast<const P*>(x) + blockIdx.x * packs;
  const P* w = reinterpret_cast<const P*>(weight);
  P* to = reinterpret_cast<P*>(out) + blockIdx.x * packs;
  P r[NV ? NV : 1];
  float sum = 0.0f;
  const auto add = [&](const P& p) {
#pragma unroll
    for (int j = 0; j < N; ++j) sum = fmaf(float(p.v[j]), float(p.v[j]), sum);
  };
  if constexpr (NV > 0) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (threadIdx.x + v * THREADS < packs) r[v] = in[threadIdx.x + v * THREADS];
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (threadIdx.x + v * THREADS < packs) add(r[v]);
  } else {
    for (int64_t i = threadIdx.x; i < packs; i += THREADS) add(in[i]);
  }
  const float inv = rsqrtf(row_sum<THREADS>(sum, warp_sums) / (float(packs) * N) + eps);
  const auto finish = [&](const P& p, int64_t i) {
    P m = p, y;
    if (weight) m = w[i];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float f = float(p.v[j]) * inv;
      if (round_first) f = float(T(f));
      y.v[j] = T(weight ? f * float(m.v[j]) : f);
    }
    to[i] = y;
  };
  if constexpr (NV > 0) {
#pragma unroll
    for (int v = 0; v < NV; ++v)
      if (threadIdx.x + v * THREADS < packs) finish(r[v], threadIdx.x + v * THREADS);
  } else {
    for (int64_t i = threadIdx.x; i < packs; i += THREADS) finish(in[i], i);
  }
}

template <typename T>
int run(void* out_, const void* x_, const void* w_, int64_t rows, int64_t width, float eps, bool first, cudaStream_t s) {
  constexpr int N = 16 / sizeof(T);
  T* out = static_cast<T*>(out_);
  const T *x = static_cast<const T*>(x_), *w = static_cast<const T*>(w_);
  const uintptr_t bits = reinterpret_cast<uintptr_t>(out_) | reinterpret_cast<uintptr_t>(x_) | reinterpret_cast<uintptr_t>(w_);
  const int64_t packs = width / N;
  const unsigned grid = unsigned(rows);
  if (bits % 16 || width % N || packs > 1024) rms_norm<T, 1, 256, 0><<<grid, 256, 0, s>>>(out, x, w, width, eps, first);
  else if (packs <= 64) rms_norm<T, N, 32, 2><<<grid, 32, 0, s>>>(out, x, w, packs, eps, first);
  else rms_norm<T, N, 256, 4><<<grid, 256, 0, s>>>(out, x, w, packs, eps, first);
  return cudaGetLastError();
}

extern "C" int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width, float eps,
                               int round_first, int dtype, void* stream) {
  const auto s = static_cast<cudaStream_t>(stream);
  if (rows < 0 || width < 0 || rows > 2147483647) return cudaErrorInvalidValue;
  if (rows == 0 || width == 0) return cudaSuccess;
  switch (dtype) {
    case 0: return run<float>(out, x, weight, rows, width, eps, round_first != 0, s);
    case 1: return run<__half>(out, x, weight, rows, width, eps, round_first != 0, s);
    case 2: return run<__nv_bfloat16>(out, x, weight, rows, width, eps, round_first != 0, s);
    default: return cudaErrorInvalidValue;
  }
}
"""


def die(message):
    print("error: " + message, file=sys.stderr)
    raise SystemExit(2)


def find_nvcc():
    wheel = os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "nvcc")
    homes = [os.path.join(os.environ[v], "bin", "nvcc") for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    for path in [os.environ.get("NVCC"), *homes, shutil.which("nvcc"), wheel, "/usr/local/cuda/bin/nvcc"]:
        if path and os.path.isfile(path):
            return path
    die("nvcc was not found (set NVCC or CUDA_HOME, or pip install the nvidia-cuda-nvcc wheel)")


def build(torch):
    nvcc, (major, minor) = find_nvcc(), torch.cuda.get_device_capability()
    folder = tempfile.mkdtemp(prefix="rmsnorm-")
    src, lib = os.path.join(folder, "norm.cu"), os.path.join(folder, "norm.so")
    with open(src, "w") as f:
        f.write(SOURCE)
    cmd = [nvcc, "-O3", "-std=c++17", "-gencode=arch=compute_{0}{1},code=sm_{0}{1}".format(major, minor), "-shared",
           "-Xcompiler", "-fPIC", "-L" + os.path.join(os.path.dirname(nvcc), "..", "lib"), "-o", lib, src]
    done = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    try:
        if done.returncode:
            die("nvcc failed: " + " ".join(cmd) + "\n" + done.stdout)
        launch = ctypes.CDLL(lib).rms_norm_launch
    finally:
        shutil.rmtree(folder)
    v, n, f, i = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
    launch.argtypes, launch.restype = [v, v, v, n, n, f, i, i, v], i
    return launch


def register_op(torch, launch):
    """One functional custom op with a fake (so torch.compile keeps it in the graph) and a backward.

    launch None: the formula in torch, for a dry run without a card."""
    codes = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
    calls = {"count": 0}

    def forward(x, weight, eps, round_first):
        calls["count"] += 1
        if launch is None:
            n = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
            if weight is None:
                return n.to(x.dtype)
            return (n.to(x.dtype) * weight) if round_first else (n * weight.float()).to(x.dtype)
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        with torch.cuda.device(x.device):
            error = launch(out.data_ptr(), x.data_ptr(), None if weight is None else weight.data_ptr(),
                           x.numel() // width if width else 0, width, eps, int(round_first), codes[x.dtype],
                           torch.cuda.current_stream().cuda_stream)
        if error:
            raise RuntimeError("rms_norm launch failed with cudaError_t {}".format(error))
        return out

    op = torch.library.custom_op("cuda_kernels_example::rms_norm", forward, mutates_args=(),
                                 schema="(Tensor x, Tensor? weight, float eps, bool round_first) -> Tensor")
    op.register_fake(lambda x, weight, eps, round_first: torch.empty_like(x, memory_format=torch.contiguous_format))

    def setup(ctx, inputs, output):
        x, weight, ctx.eps, _ = inputs
        ctx.save_for_backward(x, weight)

    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        xf, g, grad_weight = x.float(), grad.float(), None
        inv = torch.rsqrt(xf.square().mean(-1, keepdim=True) + ctx.eps)
        n = xf * inv
        if weight is not None:
            if ctx.needs_input_grad[1]:
                grad_weight = (g * n).flatten(0, -2).sum(0).to(weight.dtype)
            g = g * weight.float()
        return (inv * (g - n * (g * n).mean(-1, keepdim=True))).to(x.dtype), grad_weight, None, None

    op.register_autograd(backward, setup_context=setup)
    return op, calls


def formula_of(torch, module):
    """What does this module compute? Found by running it, not by its name.

    Returns "plain" (n * w, or n without a weight), "offset" (n * (1 + w)) or None. The probe runs a float32 copy on
    the CPU with random weights and a row so small that eps decides; n = x / sqrt(mean(x^2) + eps)."""
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    weight = getattr(module, "weight", None)
    if eps is None or any(True for _ in module.children()) or (weight is not None and weight.dim() != 1):
        return None, None
    if any(name != "weight" for name, _ in module.named_parameters(recurse=False)):
        return None, None  # a bias, for one
    shape = getattr(module, "normalized_shape", getattr(module, "dim", None))  # torch's and diffusers' RMSNorm
    if weight is None and not (isinstance(shape, (tuple, list)) and len(shape) == 1):
        return None, None
    width = weight.shape[0] if weight is not None else shape[0]
    probe = copy.deepcopy(module).to(device="cpu", dtype=torch.float32)
    probe.__dict__.pop("forward", None)
    x = torch.randn(4, 3, width) + 0.5  # the mean is not zero: a LayerNorm does not pass
    x[1] *= 1e-4
    n = x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + eps)
    with torch.no_grad():
        if weight is not None:
            probe.weight.copy_(torch.rand(width) + 0.25)
        try:
            y = probe(x)
        except Exception:
            return None, None
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        return None, None
    w = probe.weight.detach().double() if weight is not None else 1.0
    for kind, want in (("plain", n * w), ("offset", n * (1 + w))):
        if torch.allclose(y.double(), want, rtol=1e-4, atol=1e-6):
            return kind, eps
    return None, None


def rounds_first(torch, module):
    """Does the module round n to 16 bits before it multiplies by the weight? Also found by running it."""
    if getattr(module, "weight", None) is None:
        return False
    probe = copy.deepcopy(module).to(device="cpu", dtype=torch.bfloat16)
    probe.__dict__.pop("forward", None)
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    x = torch.randn(64, probe.weight.shape[0], dtype=torch.bfloat16)
    with torch.no_grad():
        probe.weight.copy_(torch.rand_like(probe.weight) + 0.25)
        y = probe(x)
        n = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
        twice, once = n.bfloat16() * probe.weight, (n * probe.weight.float()).bfloat16()
    return bool((y == twice).sum() > (y == once).sum())


def patch(torch, model, op):
    """Replace the forward of every module whose formula is plain RMSNorm. Returns (patched, refused) by name."""
    patched, refused = {}, {}
    for name, module in model.named_modules():
        kind, eps = formula_of(torch, module)
        if kind == "offset":
            refused[name] = type(module).__name__ + " computes n * (1 + weight)"
        if kind != "plain":
            continue
        had = "forward" in module.__dict__  # accelerate's hooks live there; put back what was found
        patched[name] = (module, had, module.forward)
        module.forward = make_forward(torch, module, module.forward, op, float(eps), rounds_first(torch, module))
    return patched, refused


def make_forward(torch, module, original, op, eps, first):
    def forward(x, *args, **kwargs):
        w = module.weight
        same = w is None or (w.dtype == x.dtype and w.device == x.device and w.is_contiguous())
        if args or kwargs or not same or x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return original(x, *args, **kwargs)
        return op(x, w, eps, first)

    return forward


def restore(patched):
    for module, had, original in patched.values():
        if had:
            module.forward = original
        else:
            del module.forward


def relative_error(torch, a, b):
    a, b = a.double(), b.double()
    return (torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(b)).item()


def randomize_norms(torch, model):
    """Norm weights start as ones or zeros, which would hide a kernel that ignores them."""
    with torch.no_grad():
        for module in model.modules():
            if "Norm" in type(module).__name__:
                for w in module.parameters(recurse=False):
                    w.copy_(torch.rand_like(w) + 0.5)


def median_ms(torch, run, repeats=20):
    run(), run()
    times = []
    for _ in range(repeats):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    times.sort()
    return {"median": statistics.median(times), "p10": times[len(times) // 10], "p90": times[-1 - len(times) // 10]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--layers", type=int, default=2, help="36 is Qwen3-8B")
    p.add_argument("--hidden", type=int, default=4096)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--bench", action="store_true", help="also time a prefill, stock and patched, eager and compiled")
    p.add_argument("--dry-run", action="store_true", help="CPU only; checks the patching, not the kernel")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    if a.hidden % 128:
        p.error("--hidden must be a multiple of 128")
    try:
        import torch
    except ImportError:
        die("torch is not installed (pip install torch)")
    if not a.dry_run and not torch.cuda.is_available():
        die("no CUDA device is visible to torch {} (--dry-run checks the patching without one)".format(torch.__version__))
    try:
        import transformers
        from transformers import Qwen3Config, Qwen3ForCausalLM
        from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    except ImportError as e:
        die("transformers with Qwen3 is not usable here ({}); pip install transformers".format(e))
    device, dtype = torch.device("cpu" if a.dry_run else "cuda"), getattr(torch, a.dtype)
    torch.manual_seed(a.seed)
    op, calls = register_op(torch, None if a.dry_run else build(torch))
    failures = []

    gemma = torch.nn.Sequential(GemmaRMSNorm(256))
    gemma_patched, gemma_refused = patch(torch, gemma, op)
    if gemma_patched or not gemma_refused:
        failures.append("GemmaRMSNorm was patched with the plain formula")

    config = Qwen3Config(hidden_size=a.hidden, num_hidden_layers=a.layers, num_attention_heads=a.hidden // 128,
                         num_key_value_heads=max(1, a.hidden // 512), head_dim=128, intermediate_size=3 * a.hidden,
                         vocab_size=2048, max_position_embeddings=max(64, a.tokens), rms_norm_eps=1e-6,
                         attn_implementation="sdpa")
    model = Qwen3ForCausalLM(config).eval()
    randomize_norms(torch, model)
    ids = torch.randint(0, config.vocab_size, (a.batch, a.tokens), device=device)

    def run(m, grad=False):
        with torch.set_grad_enabled(grad):
            return m(input_ids=ids, use_cache=False).logits

    reference = copy.deepcopy(model).to(device, torch.float32)
    exact = run(reference).cpu()
    del reference
    model = model.to(device, dtype)
    stock = run(model).cpu()

    patched, refused = patch(torch, model, op)
    expected = 4 * a.layers + 1
    if not patched:
        failures.append("nothing was patched")
    elif len(patched) != expected:
        failures.append("{} modules were patched, {} expected".format(len(patched), expected))
    calls["count"] = 0
    fused = run(model).cpu()
    if calls["count"] != len(patched):
        failures.append("the op ran {} times for {} patched modules".format(calls["count"], len(patched)))
    error = {"stock": relative_error(torch, stock, exact), "patched": relative_error(torch, fused, exact),
             "patched_vs_stock": relative_error(torch, fused, stock)}
    if not error["patched"] <= 1.25 * error["stock"] + 1e-6:
        failures.append("the patched model is further from fp32 than the stock model: {}".format(error))

    run(model, grad=True).float().square().mean().backward()
    names = ["model.layers.0.self_attn.q_norm.weight", "model.layers.0.input_layernorm.weight"]
    params = dict(model.named_parameters())
    mine = {n: params[n].grad.clone() for n in names if params[n].grad is not None}
    model.zero_grad(set_to_none=True)

    compiled, timing = None, {}
    if not a.dry_run:
        torch.compiler.reset()
        norm = model.model.layers[0].input_layernorm
        x = torch.randn(2, 64, a.hidden, device=device, dtype=dtype)
        with torch.no_grad():
            compiled = relative_error(torch, torch.compile(norm, fullgraph=True)(x), norm(x))
        if not compiled <= 1e-6:
            failures.append("torch.compile changed the patched norm by {}".format(compiled))
        if a.bench:
            timing["patched"] = median_ms(torch, lambda: run(model))
            torch.compiler.reset()
            timing["patched, compiled"] = median_ms(torch, lambda m=torch.compile(model): run(m))

    restore(patched)
    calls["count"] = 0
    again = run(model).cpu()
    if calls["count"] or not relative_error(torch, again, stock) <= 1e-6:
        failures.append("the model was not restored")
    run(model, grad=True).float().square().mean().backward()
    gradient = {}
    for n in names:
        gradient[n] = relative_error(torch, mine[n], params[n].grad) if n in mine else float("inf")
        if not gradient[n] <= (1e-3 if dtype == torch.float32 else 6e-2):
            failures.append("gradient of {} differs by {}".format(n, gradient[n]))
    model.zero_grad(set_to_none=True)
    if a.bench and not a.dry_run:
        timing["stock"] = median_ms(torch, lambda: run(model))
        torch.compiler.reset()
        timing["stock, compiled"] = median_ms(torch, lambda m=torch.compile(model): run(m))

    widths = {}
    for module, _, _ in patched.values():
        widths[str(module.weight.shape[0])] = widths.get(str(module.weight.shape[0]), 0) + 1
    result = {"device": "cpu, dry run" if a.dry_run else torch.cuda.get_device_name(), "torch": torch.__version__,
              "transformers": transformers.__version__, "dtype": a.dtype, "layers": a.layers, "tokens": a.tokens,
              "patched": {"total": len(patched), "by_width": widths}, "refused": {**refused, "gemma": gemma_refused},
              "relative_error": error, "gradient_difference": gradient, "compile_difference": compiled,
              "prefill_ms": timing, "failures": failures}
    if a.json:
        print(json.dumps(result))
    else:
        for k, v in result.items():
            print("{:<20} {}".format(k, v))
    for f in failures:
        print("FAIL: " + f, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
