#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "registration.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

extern "C" int scale_launch(void* out, const void* x, float factor, long n, int dtype, void* stream);

namespace {

Tensor scale(const Tensor& x, double factor) {
  STD_TORCH_CHECK(x.is_cuda(), "scale: x must be a CUDA tensor");
  STD_TORCH_CHECK(x.is_contiguous(), "scale: x must be contiguous");
  const bool single = x.scalar_type() == ScalarType::Float;
  STD_TORCH_CHECK(single || x.scalar_type() == ScalarType::BFloat16, "scale: x must be float32 or bfloat16");
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  Tensor out = torch::stable::empty_like(x);
  const int error = scale_launch(out.data_ptr(), x.data_ptr(), static_cast<float>(factor), x.numel(), single ? 0 : 1, stream);
  STD_TORCH_CHECK(error == 0, "scale: the launch failed with CUDA error ", error);
  return out;
}

// Without the kernel: what a machine without a card can call.
Tensor same(const Tensor& x, int64_t rank) {
  STD_TORCH_CHECK(x.dim() == rank, "same: x has ", x.dim(), " dimensions, expected ", rank);
  return x;
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("scale(Tensor x, float factor) -> Tensor");
  ops.def("same(Tensor x, int rank) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) { ops.impl("scale", TORCH_BOX(&scale)); }

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) { ops.impl("same", TORCH_BOX(&same)); }

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
