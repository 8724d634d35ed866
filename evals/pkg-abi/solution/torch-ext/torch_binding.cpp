#include "torch_binding.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <stdexcept>

#include "registration.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// torch's C interface declares it under USE_CUDA alone.
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

void* stream_of(const Tensor& x) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  return stream;
}

bool is_matrix(const Tensor& x) { return x.is_cuda() && x.dim() == 2 && x.is_contiguous() && x.scalar_type() == ScalarType::Float; }

Tensor row_amax(const Tensor x) {
  require(is_matrix(x), "row_amax: x must be a contiguous float32 matrix on a card");
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  const std::array<int64_t, 1> rows = {x.size(0)};
  Tensor out = torch::stable::new_empty(x, {rows.data(), rows.size()});
  require(row_amax_launch(out.mutable_data_ptr(), x.const_data_ptr(), x.size(0), x.size(1), stream_of(x)) == 0, "row_amax: the launch failed");
  return out;
}

void scale_rows_(Tensor x, const Tensor scale) {
  require(is_matrix(x), "scale_rows_: x must be a contiguous float32 matrix on a card");
  require(scale.is_cuda() && scale.is_contiguous() && scale.numel() == x.size(0) && scale.scalar_type() == ScalarType::Float,
          "scale_rows_: scale has a float32 for each row");
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  require(scale_rows_launch(x.mutable_data_ptr(), scale.const_data_ptr(), x.size(0), x.size(1), stream_of(x)) == 0,
          "scale_rows_: the launch failed");
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("row_amax(Tensor x) -> Tensor");
  ops.def("scale_rows_(Tensor! x, Tensor scale) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("row_amax", TORCH_BOX(&row_amax));
  ops.impl("scale_rows_", TORCH_BOX(&scale_rows_));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
