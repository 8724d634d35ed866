#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <stdexcept>

#include "registration.h"
#include "torch_binding.h"

using torch::stable::Tensor;

// torch's C interface declares it under USE_CUDA alone.
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

namespace {

void squared_relu(Tensor out, const Tensor x) {
  if (!x.is_cuda() || !x.is_contiguous() || !out.is_contiguous() || out.numel() != x.numel()) {
    throw std::runtime_error("squared_relu: out and x must be contiguous CUDA tensors of one size");
  }
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  if (squared_relu_launch(out.mutable_data_ptr(), x.const_data_ptr(), x.numel(), stream) != 0) {
    throw std::runtime_error("squared_relu: the launch failed");
  }
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("squared_relu(Tensor! out, Tensor x) -> ()"); }

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) { ops.impl("squared_relu", TORCH_BOX(&squared_relu)); }

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
