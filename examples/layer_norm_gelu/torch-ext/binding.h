// What the bindings have in common: tensors as the launchers take them, outputs, the stream, errors that Python shows.
//
// Only torch's stable headers: one library serves every torch from 2.11 on. Each question to torch crosses its C
// interface, and a call of an op is a few microseconds in all: so a tensor is asked once, outputs are made without a
// look-up of torch's ops by name, and arguments are unpacked here, where TORCH_BOX allocates for each tensor twice.
#pragma once
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "registration.h"

// The builder's registration.h expands the name for whole libraries only.
#ifndef STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND
#define STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY_FRAGMENT(NAME, MODULE)
#endif

// torch's C interface declares it under USE_CUDA alone.
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

// Hidden, as torch's own headers are: two kernels in one process share nothing of it.
namespace __attribute__((visibility("hidden"))) binding {

  // A tensor that is owned.
  class Tensor {
   public:
    Tensor() = default;
    explicit Tensor(AtenTensorHandle handle) : handle_(handle) {}
    Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Tensor& operator=(Tensor&& other) noexcept {
      std::swap(handle_, other.handle_);
      return *this;
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() {
      if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
    }

    bool present() const { return handle_ != nullptr; }
    AtenTensorHandle get() const { return handle_; }
    AtenTensorHandle release() { return std::exchange(handle_, nullptr); }
    // The first element, null for an absent tensor.
    void* data() const {
      void* data = nullptr;
      if (handle_ != nullptr) TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(handle_, &data));
      return data;
    }

   private:
    AtenTensorHandle handle_ = nullptr;
  };

  // An argument `Tensor?`, which may be absent.
  class OptionalTensor : public Tensor {
   public:
    using Tensor::Tensor;
  };

  constexpr int64_t kMostDimensions = 64;  // torch's own limit

  // What torch keeps of a tensor.
  struct Array {
    const char* name;  // of the argument
    void* data;
    int64_t dims;
    const int64_t* sizes;
    const int64_t* strides;  // elements

    int64_t width() const { return sizes[dims - 1]; }
    int64_t elements() const {
      int64_t product = 1;
      for (int64_t i = 0; i < dims; ++i) product *= sizes[i];
      return product;
    }
  };

  // `count` rows of `width` elements side by side, `stride` elements from row to row.
  struct Rows {
    void* data = nullptr;
    int64_t count = 0, width = 0, stride = 0;
  };

  // An input as rows. Where its own are no even distance apart, `copy` keeps one whose are.
  struct Input : Rows {
    Tensor copy;
  };

  // The sizes and strides of an output: without gaps, the last dimension innermost.
  class Shape {
   public:
    Shape(const Array& like, int64_t width) : dims_(like.dims) {
      int64_t stride = 1;
      for (int64_t i = dims_ - 1; i >= 0; --i) {
        sizes[i] = i == dims_ - 1 ? width : like.sizes[i];
        strides[i] = stride;
        stride *= sizes[i] > 1 ? sizes[i] : 1;
      }
    }
    explicit Shape(const Array& like) : Shape(like, like.width()) {}
    Shape(std::initializer_list<int64_t> of) : dims_(static_cast<int64_t>(of.size())) {
      int64_t stride = 1;
      for (int64_t i = dims_ - 1; i >= 0; --i) {
        sizes[i] = of.begin()[i];
        strides[i] = stride;
        stride *= sizes[i] > 1 ? sizes[i] : 1;
      }
    }
    int64_t dims() const { return dims_; }

    int64_t sizes[kMostDimensions], strides[kMostDimensions];

   private:
    int64_t dims_;
  };

  inline std::ostream& operator<<(std::ostream& out, const Array& a) {
    out << "[";
    for (int64_t i = 0; i < a.dims; ++i) out << (i > 0 ? ", " : "") << a.sizes[i];
    out << "] with strides [";
    for (int64_t i = 0; i < a.dims; ++i) out << (i > 0 ? ", " : "") << a.strides[i];
    return out << "]";
  }

  // Whether a tensor is rows; these then are in `rows`.
  inline bool are_rows(const Array& a, Rows& rows) {
    const int64_t width = a.width(), last = a.dims - 1;
    rows = {a.data, 1, width, width};
    for (int64_t i = 0; i < last; ++i) rows.count *= a.sizes[i];
    if (rows.count == 0 || width == 0) return true;
    if (width > 1 && a.strides[last] != 1) return false;
    int64_t next = 0;  // what the next dimension outward has to step by
    for (int64_t i = last - 1; i >= 0; --i) {
      if (a.sizes[i] == 1) continue;
      if (next == 0) {
        if (a.strides[i] < width) return false;
        rows.stride = next = a.strides[i];
      } else if (a.strides[i] != next) {
        return false;
      }
      next *= a.sizes[i];
    }
    return true;
  }

  // A call of an op. All its tensors are on the device of the first one, and of its dtype where nothing else is said.
  class Call {
   public:
    Call(const char* op, const char* name, const Tensor& first) : op_(op) {
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(first.get(), &device_type_));
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(first.get(), &device_));
      first_ = describe(name, first);
      dtype_ = code_of(first);
      if (dtype_ < 0) fail(name, " must be float32, float16 or bfloat16, but is ", type_name(first));
    }

    // 0 f32, 1 f16, 2 bf16, as the launchers number them
    int dtype() const { return dtype_; }
    int64_t element_size() const { return dtype_ == 0 ? 4 : 2; }
    int32_t device() const { return device_; }
    const Array& first() const { return first_; }

    template <typename... Parts>
    [[noreturn]] __attribute__((noinline, cold)) void fail(const Parts&... parts) const {
      std::ostringstream message;
      message << op_ << ": ";
      (message << ... << parts);
      throw std::runtime_error(message.str());
    }

    // A tensor of the call's device and element type.
    Array array(const char* name, const Tensor& t) const {
      const Array a = array_of_any_type(name, t);
      if (code_of(t) != dtype_) {
        fail(name, " must be of ", first_.name, "'s dtype, but is ", type_name(t));
      }
      return a;
    }

    // A tensor of the call's device.
    Array array_of_any_type(const char* name, const Tensor& t) const {
      int32_t device = 0;
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(t.get(), &device));  // -1 for the CPU
      if (device != device_) fail(name, " must be on ", first_.name, "'s device");
      return describe(name, t);
    }

    bool is_float32(const Tensor& t) const { return code_of(t) == 0; }

    // The rows of a tensor that is written where it is.
    Rows rows(const Array& a) const {
      Rows rows;
      if (!are_rows(a, rows)) {
        fail(a.name, " must have rows of side-by-side elements at one distance, but is ", a,
             "; use the op that does not work in place");
      }
      return rows;
    }

    // The rows of an input.
    Input input(const Array& a, const Tensor& t) const {
      Input in;
      if (!are_rows(a, in)) {
        in.copy = contiguous(t);
        are_rows(describe(a.name, in.copy), in);
      }
      return in;
    }

    // A copy without gaps.
    Tensor contiguous(const Tensor& t) const {
      AtenTensorHandle handle = nullptr;
      TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(torch::stable::contiguous(shared(t)).get(), &handle));
      return Tensor(handle);
    }

    void same_shape(const Array& a, const Array& as) const {
      bool same = a.dims == as.dims;
      for (int64_t i = 0; same && i < a.dims; ++i) same = a.sizes[i] == as.sizes[i];
      if (!same) fail(a.name, " must have ", as.name, "'s shape, ", as, ", but is ", a);
    }

    // One row for all: [width], or null where there is none.
    const void* row(const char* name, const OptionalTensor& t, int64_t width) const {
      if (!t.present()) return nullptr;
      const Array a = array(name, t);
      if (a.dims != 1 || a.sizes[0] != width || (width > 1 && a.strides[0] != 1)) {
        fail(name, " must be [", width, "] with stride 1, but is ", a);
      }
      return a.data;
    }

    // Behind the last check of an argument and in front of the first launch: makes the tensors' device the current one.
    void begin() {
      static const int32_t cuda = aoti_torch_device_type_cuda();
      if (device_type_ != cuda) fail(first_.name, " must be on a CUDA device");
      int32_t current = 0;
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_device_index(&current));
      if (current != device_) guard_.emplace(device_);
    }

    // An output.
    Tensor empty(const Shape& shape) const { return empty(shape, dtype_); }
    Tensor empty(const Shape& shape, int dtype) const {
      AtenTensorHandle made = nullptr;
      if (aoti_torch_empty_strided(shape.dims(), shape.sizes, shape.strides, torch_types()[dtype], device_type_,
                                   device_, &made) != TORCH_SUCCESS) {
        fail("an output could not be allocated");
      }
      return Tensor(made);
    }

    // torch's current stream of the device.
    void* stream() const {
      void* stream = nullptr;
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_, &stream));
      return stream;
    }

    // What a launcher returned, and the function that explains it.
    void check(int code, const char* (*explain)(int)) const {
      if (code != 0) fail(code < 10000 ? "CUDA: " : "", explain(code));
    }

   private:
    static const int32_t* torch_types() {
      static const int32_t types[] = {aoti_torch_dtype_float32(), aoti_torch_dtype_float16(),
                                      aoti_torch_dtype_bfloat16()};
      return types;
    }
    static int code_of(const Tensor& t) {
      int32_t type = 0;
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(t.get(), &type));
      const int32_t* types = torch_types();
      return type == types[2] ? 2 : type == types[1] ? 1 : type == types[0] ? 0 : -1;
    }

    static torch::stable::Tensor shared(const Tensor& t) {
      AtenTensorHandle handle = nullptr;
      TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(t.get(), &handle));
      return torch::stable::Tensor(handle);
    }
    static const char* type_name(const Tensor& t) { return torch::headeronly::toString(shared(t).scalar_type()); }

    Array describe(const char* name, const Tensor& t) const {
      Array a = {name, t.data(), 0, nullptr, nullptr};
      int64_t *sizes = nullptr, *strides = nullptr;
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(t.get(), &a.dims));
      if (a.dims < 1 || a.dims > kMostDimensions) fail(name, " must have at least one dimension, but has ", a.dims);
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(t.get(), &sizes));
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(t.get(), &strides));
      a.sizes = sizes, a.strides = strides;
      return a;
    }

    const char* op_;
    Array first_;
    int dtype_;
    int32_t device_type_, device_;
    std::optional<torch::stable::accelerator::DeviceGuard> guard_;
  };

  // An argument as torch hands it over.
  template <typename T>
  struct Argument {
    static T take(StableIValue value) { return torch::stable::detail::to<T>(value); }
  };
  template <>
  struct Argument<Tensor> {
    static Tensor take(StableIValue value) { return Tensor(torch::stable::detail::to<AtenTensorHandle>(value)); }
  };
  template <>
  struct Argument<OptionalTensor> {
    static OptionalTensor take(StableIValue value) {
      const auto handle = torch::stable::detail::to<std::optional<AtenTensorHandle>>(value);
      return OptionalTensor(handle.has_value() ? *handle : nullptr);
    }
  };

  inline void give(StableIValue * stack, Tensor result) { stack[0] = torch::stable::detail::from(result.release()); }
  inline void give(StableIValue * stack, std::tuple<Tensor, Tensor> results) {
    stack[0] = torch::stable::detail::from(std::get<0>(results).release());
    stack[1] = torch::stable::detail::from(std::get<1>(results).release());
  }

  // A function as torch calls it: it takes its arguments from a stack, and leaves its results there.
  template <auto function>
  struct Boxed;
  template <typename Result, typename... Parameters, Result (*function)(Parameters...)>
  struct Boxed<function> {
    static void call(StableIValue* stack, uint64_t arguments, uint64_t) {
      if (arguments != sizeof...(Parameters)) throw std::runtime_error("a schema and its function differ");
      call(stack, std::make_index_sequence<sizeof...(Parameters)>());
    }

   private:
    template <std::size_t... I>
    static void call(StableIValue* stack, std::index_sequence<I...>) {
      std::tuple<std::decay_t<Parameters>...> taken{Argument<std::decay_t<Parameters>>::take(stack[I])...};
      if constexpr (std::is_void_v<Result>) {
        function(std::get<I>(taken)...);
      } else {
        give(stack, function(std::get<I>(taken)...));
      }
    }
  };

}  // namespace binding

#define BINDING(function) (&binding::Boxed<&(function)>::call)
