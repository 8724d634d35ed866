// Torch's stable ABI: one shared object for every torch from 2.11 on.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "registration.h"  // of the builder; by-hand/registration.h without one

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

extern "C" {
int rms_norm_launch(void* out, const void* x, const void* weight, int64_t rows, int64_t width, int64_t out_stride,
                    int64_t x_stride, float eps, float weight_offset, int round_first, int dtype, void* stream);
int add_rms_norm_launch(void* out, void* sum, const void* x, const void* residual, const void* weight, int64_t rows,
                        int64_t width, int64_t out_stride, int64_t sum_stride, int64_t x_stride,
                        int64_t residual_stride, float eps, float weight_offset, int round_first, int dtype,
                        void* stream);
const char* rms_norm_error(int code);
// torch declares it under USE_CUDA only.
AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);
}

namespace {

int dtype_of(const Tensor& t) {
  switch (t.scalar_type()) {
    case ScalarType::Float: return 0;
    case ScalarType::Half: return 1;
    case ScalarType::BFloat16: return 2;
    default: STD_TORCH_CHECK(false, "dtype must be float32, float16 or bfloat16"); return -1;
  }
}

// An input as rows of one distance; what is none is copied.
Tensor as_rows(const Tensor& t, const Tensor& like, const char* name) {
  STD_TORCH_CHECK(t.is_cuda() && t.get_device_index() == like.get_device_index(), name, " must be on x's CUDA device");
  STD_TORCH_CHECK(t.scalar_type() == like.scalar_type(), name, " must have x's dtype");
  STD_TORCH_CHECK(t.dim() >= 1 && t.sizes().equals(like.sizes()), name, " must have x's shape");
  const bool two_dimensional_rows = t.dim() == 2 && t.stride(1) == 1 && t.stride(0) >= t.size(1);
  return t.is_contiguous() || two_dimensional_rows ? t : torch::stable::contiguous(t);
}

// A single row may have any stride, 0 too.
int64_t stride_of(const Tensor& rows) {
  return rows.dim() == 2 && rows.size(0) > 1 ? rows.stride(0) : rows.size(-1);
}

int64_t count_of(const Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

const void* weight_of(const std::optional<Tensor>& weight, const Tensor& x) {
  if (!weight.has_value()) return nullptr;
  STD_TORCH_CHECK(weight->is_cuda() && weight->get_device_index() == x.get_device_index(),
                  "weight must be on x's device");
  STD_TORCH_CHECK(weight->scalar_type() == x.scalar_type(), "weight must have x's dtype");
  STD_TORCH_CHECK(weight->dim() == 1 && weight->is_contiguous() && weight->size(0) == x.size(-1),
                  "weight must be contiguous, of shape [x.shape[-1]]");
  return weight->data_ptr();
}

// torch's current stream: the default stream would race with it and break graph capture.
void* stream_of(const Tensor& x) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  return stream;
}

Tensor empty_rows(const Tensor& x) { return torch::stable::new_empty(x, x.sizes()); }

Tensor rms_norm(const Tensor& x, const std::optional<Tensor>& weight, double eps, double weight_offset,
                bool round_first) {
  const Tensor in = as_rows(x, x, "x");
  const void* w = weight_of(weight, x);
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  Tensor out = empty_rows(x);  // contiguous, and allocated here: no ones, no zeros, no copy
  const int error =
      rms_norm_launch(out.data_ptr(), in.data_ptr(), w, count_of(x), x.size(-1), x.size(-1), stride_of(in),
                      static_cast<float>(eps), static_cast<float>(weight_offset), round_first, dtype_of(x), stream_of(x));
  STD_TORCH_CHECK(error == 0, "rms_norm: ", rms_norm_error(error));
  return out;
}

std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& residual, const std::optional<Tensor>& weight,
                                        double eps, double weight_offset, bool round_first) {
  const Tensor in = as_rows(x, x, "x"), add = as_rows(residual, x, "residual");
  const void* w = weight_of(weight, x);
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  Tensor out = empty_rows(x), sum = empty_rows(x);
  const int64_t width = x.size(-1);
  const int error = add_rms_norm_launch(out.data_ptr(), sum.data_ptr(), in.data_ptr(), add.data_ptr(), w, count_of(x),
                                        width, width, width, stride_of(in), stride_of(add), static_cast<float>(eps),
                                        static_cast<float>(weight_offset), round_first, dtype_of(x), stream_of(x));
  STD_TORCH_CHECK(error == 0, "add_rms_norm: ", rms_norm_error(error));
  return {out, sum};
}

}  // namespace

STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("rms_norm(Tensor x, Tensor? weight, float eps, float weight_offset=0.0, bool round_first=False) -> Tensor");
  ops.def(
      "add_rms_norm(Tensor x, Tensor residual, Tensor? weight, float eps, float weight_offset=0.0, "
      "bool round_first=False) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("rms_norm", TORCH_BOX(&rms_norm));
  ops.impl("add_rms_norm", TORCH_BOX(&add_rms_norm));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
