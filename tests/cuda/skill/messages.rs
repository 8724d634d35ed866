//! The messages of troubleshooting.md, and how each is reproduced. `tests/skill/test_messages.py` has those of
//! Python; those that need a GPU are listed with the reason.

/// How a message is reproduced.
pub(crate) enum Proof {
    /// nvcc prints it for this source with these flags.
    Nvcc(&'static str, &'static [&'static str]),
    /// g++ prints it for this source, with torch's headers.
    Gxx(&'static str),
    /// nvcc prints it when it links a program without the folder of its libraries.
    Linker,
    /// The CUDA runtime's text for this error code.
    Runtime(i32),
    /// In `tests/skill/test_messages.py`.
    Python,
    /// Not reproduced, with the reason.
    Not(&'static str),
}
use Proof::{Gxx, Linker, Not, Nvcc, Python, Runtime};

const SM_90: &[&str] = &["-arch=sm_90"];
const VERBOSE: &[&str] = &["-arch=sm_90", "-Xptxas", "-v", "-maxrregcount=24"];

pub(crate) const MESSAGES: &[(&str, Proof)] = &[
    (
        "Unsupported gpu architecture 'compute_70'",
        Nvcc("__global__ void k() {}", &["-gencode", "arch=compute_70,code=sm_70"]),
    ),
    ("'sm_70'", Nvcc("__global__ void k() {}", &["-arch=sm_70"])),
    (
        "Feature 'cp.async' requires .target sm_80 or higher",
        Nvcc(
            r#"__global__ void k(unsigned s, const void* g) {
                 asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(s), "l"(g));
               }"#,
            &["-arch=sm_75"],
        ),
    ),
    (
        "Instruction 'wgmma.fence' not supported on .target 'sm_90'",
        Nvcc(r#"__global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }"#, SM_90),
    ),
    (
        "uses too much shared data (0x10000 bytes, 0xc000 max)",
        Nvcc(
            "__global__ void k(float* o) {
               __shared__ float s[16384];
               s[threadIdx.x] = *o;
               __syncthreads();
               *o = s[threadIdx.x ^ 1];
             }",
            SM_90,
        ),
    ),
    (
        "declaration is incompatible with previous \"s\"",
        Nvcc(
            "template <typename T> __global__ void k(T* o) { extern __shared__ T s[]; o[0] = s[0]; }
             template __global__ void k<float>(float*);
             template __global__ void k<double>(double*);",
            SM_90,
        ),
    ),
    (
        "no suitable conversion function from \"const __nv_bfloat16\" to \"float\" exists",
        Nvcc(
            "#include <cuda_bf16.h>\n__global__ void k(float* o, const __nv_bfloat16* x) { *o = *x; }",
            &["-arch=sm_90", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__"],
        ),
    ),
    (
        "no operator \"=\" matches these operands",
        Nvcc(
            "#include <cuda_fp16.h>\n__global__ void k(__half* o, float x) { *o = x; }",
            &["-arch=sm_90", "-D__CUDA_NO_HALF_CONVERSIONS__"],
        ),
    ),
    ("a __global__ function call must be configured", Nvcc("__global__ void k(int) {}\nvoid f() { k(1); }", SM_90)),
    (
        "too few arguments in function call",
        Nvcc("__global__ void k(int, float) {}\nvoid f() { k<<<1, 32>>>(1); }", SM_90),
    ),
    (
        "expression must have a constant value",
        Nvcc("template <int N> __global__ void k() {}\nvoid f(int n) { k<n><<<1, 32>>>(); }", SM_90),
    ),
    (
        "calling a __host__ function(\"f(int)\") from a __global__ function(\"k\") is not allowed",
        Nvcc("int f(int x) { return x; }\n__global__ void k(int* o) { *o = f(o[0]); }", SM_90),
    ),
    (
        "calling a constexpr __host__ function(\"max\")",
        Nvcc("#include <algorithm>\n__global__ void k(int* o) { *o = std::max(o[0], o[1]); }", SM_90),
    ),
    (
        "more than one instance of overloaded function \"min\" matches the argument list",
        Nvcc("#include <cstdint>\n__global__ void k(int64_t* o, int n) { *o = min(*o, n); }", SM_90),
    ),
    (
        "variable \"x\" was declared but never referenced",
        Nvcc("__global__ void k() { int x = 1; }", &["-arch=sm_90", "-Werror", "all-warnings"]),
    ),
    ("bytes spill stores", Nvcc(SPILLS, VERBOSE)),
    ("bytes stack frame", Nvcc(SPILLS, VERBOSE)),
    ("cannot find -lcudadevrt", Linker),
    ("cannot find -lcudart_static", Linker),
    ("cannot find -lcudart", Not("cpp_extension compiles torch's whole headers: minutes")),
    (
        "‘aoti_torch_get_current_cuda_stream’ was not declared in this scope",
        Gxx("#include <torch/csrc/inductor/aoti_torch/c/shim.h>
             void* f() { void* s; aoti_torch_get_current_cuda_stream(0, &s); return s; }"),
    ),
    ("dynamic module does not define module export function (PyInit_…)", Python),
    ("undefined symbol: _ZN3c10…", Not("needs a build for another torch's C++ ABI")),
    ("undefined symbol: rms_norm_launch", Python),
    ("Only a single TORCH_LIBRARY can be used to register the namespace", Python),
    ("version `GLIBC_2.32' not found", Not("needs an older C library; tests/cuda/build_torch.rs holds the symbols")),
    ("A kernel version or revision must be specified", Python),
    ("Only one of `revision` or `version` must be specified", Python),
    ("Cannot find a build variant for this system in", Python),
    ("does not match environment Torch version", Python),
    ("does not match system backend", Python),
    ("is not available in the local cache and Hugging Face Hub is in offline mode", Python),
    ("Invalid LOCAL_KERNELS entry", Python),
    ("must not override nn.Module constructor", Python),
    ("must not contain additional members", Python),
    ("different number of arguments", Python),
    ("different kind of arguments", Python),
    ("No layer mapping for", Python),
    ("Kernels are not available. Please install a compatible version", Python),
    ("CUDA driver version is insufficient for CUDA runtime version", Runtime(35)),
    ("no CUDA-capable device is detected", Runtime(100)),
    ("invalid argument", Runtime(1)),
    ("invalid configuration argument", Runtime(9)),
    ("invalid device function", Runtime(98)),
    ("no kernel image is available for execution on the device", Runtime(209)),
    ("the provided PTX was compiled with an unsupported toolchain.", Runtime(222)),
    ("an illegal memory access was encountered", Runtime(700)),
    ("too many resources requested for launch", Runtime(701)),
    ("misaligned address", Runtime(716)),
    ("a kernel launch error has occurred due to cluster misconfiguration", Runtime(912)),
    ("operation not permitted when stream is capturing", Runtime(900)),
    ("operation would make the legacy stream depend on a capturing blocking stream", Runtime(906)),
    ("Attempted to call function marked as skipped", Python),
    ("Dynamo does not know how to trace method", Python),
    ("There was no fake impl registered for", Python),
    ("Operator does not support running with fake tensors", Python),
    ("there was no fake impl or Meta kernel registered", Python),
    ("an autograd kernel was not registered to the Autograd key(s)", Python),
    ("Found a custom (non-ATen) operator whose output has alias annotations", Python),
    ("element 0 of tensors does not require grad and does not have a grad_fn", Python),
    ("'NoneType' object has no attribute 'dtype'", Python),
    ("Regional compilation failed because", Python),
    ("Cannot dispatch to fused implementation", Python),
    ("ERR_NVGPUCTRPERM", Not("needs a card and ncu")),
];

const SPILLS: &str = "__global__ void k(float* o) {
  float f[64], s = 0;
  #pragma unroll
  for (int j = 0; j < 64; ++j) f[j] = o[j * 32];
  #pragma unroll
  for (int j = 0; j < 64; ++j) s = s * f[j] + f[63 - j];
  #pragma unroll
  for (int j = 0; j < 64; ++j) o[j * 32] = f[j] * s;
}";
