#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

extern "C" int row_amax_launch(void* out, const void* x, int64_t rows, int64_t width, void* stream);
extern "C" int scale_rows_launch(void* x, const void* scale, int64_t rows, int64_t width, void* stream);

at::Tensor row_amax(at::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.dim() == 2 && x.scalar_type() == at::kFloat, "row_amax: x must be a float32 matrix on a card");
  const c10::cuda::CUDAGuard guard(x.device());
  x = x.contiguous();
  at::Tensor out = at::empty({x.size(0)}, x.options());
  TORCH_CHECK(row_amax_launch(out.data_ptr(), x.data_ptr(), x.size(0), x.size(1), at::cuda::getCurrentCUDAStream()) == 0, "row_amax");
  return out;
}

void scale_rows_(at::Tensor x, at::Tensor scale) {
  TORCH_CHECK(x.is_cuda() && x.dim() == 2 && x.is_contiguous() && x.scalar_type() == at::kFloat, "scale_rows_: x must be a contiguous "
              "float32 matrix on a card");
  TORCH_CHECK(scale.is_cuda() && scale.is_contiguous() && scale.numel() == x.size(0), "scale_rows_: a scale for each row");
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(scale_rows_launch(x.data_ptr(), scale.data_ptr(), x.size(0), x.size(1), at::cuda::getCurrentCUDAStream()) == 0, "scale_rows_");
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("row_amax", &row_amax);
  m.def("scale_rows_", &scale_rows_);
}
