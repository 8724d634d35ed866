// The skill's launchers of rope and of gated activations, with the kernels that they call, against plain loops.
#include <cstdio>
#include <random>
#include <vector>

#include "cuda_runtime.h"
#include "rope/launch.cu"
#include "gated/launch.cu"

template <typename T>
struct Element;
template <>
struct Element<float> {
  static constexpr int kDtype = 0;
  static constexpr float kAllowed = 1e-5f;
  static float from(float x) { return x; }
  static float to(float x) { return x; }
};
template <>
struct Element<uint16_t> {  // bf16
  static constexpr int kDtype = 2;
  static constexpr float kAllowed = 2e-2f;
  static float from(uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); }
  static uint16_t to(float x) { return static_cast<uint16_t>(__float_as_uint(x) >> 16); }
};

std::mt19937 generator(1);

// Drawn numbers from a multiple of 16 bytes on.
template <typename T>
struct Tensor {
  std::vector<T> memory;
  T* data;
  explicit Tensor(size_t count) : memory(count + 16) {
    std::normal_distribution<float> normal;
    for (T& x : memory) x = Element<T>::to(normal(generator));
    data = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
  }
  float operator[](size_t i) const { return Element<T>::from(data[i]); }
};

int failed = 0, cases = 0;

template <typename T>
bool near(float got, float want) {
  return std::fabs(got - want) <= Element<T>::kAllowed * (1.0f + std::fabs(want));
}

template <typename T>
void rope_case(int64_t batch, int64_t tokens, int64_t q_heads, int64_t k_heads, int64_t head_dim, int64_t rotary_dim, int64_t gap) {
  const int64_t heads[] = {q_heads, k_heads}, columns = rotary_dim / 2 + 16 / sizeof(T), half = rotary_dim / 2;
  const int64_t strides[] = {q_heads * head_dim + gap, k_heads * head_dim + gap};
  const Tensor<T> in[] = {Tensor<T>(batch * tokens * strides[0]), Tensor<T>(batch * tokens * strides[1])};
  const Tensor<T> out[] = {Tensor<T>(batch * tokens * q_heads * head_dim), Tensor<T>(batch * tokens * k_heads * head_dim)};
  const Tensor<T> cos(batch * tokens * columns), sin(batch * tokens * columns);
  const int64_t table_batch = gap != 0 ? tokens * columns : 0;
  const int code = rope::rope_launch(out[0].data, out[1].data, in[0].data, in[1].data, nullptr, nullptr, cos.data, sin.data, batch,
                                     tokens, q_heads, k_heads, head_dim, rotary_dim, strides[0], strides[1], table_batch, columns,
                                     0, 0, 1e-6f, 0.0f, 0, Element<T>::kDtype, nullptr);
  int64_t wrong = code != 0;
  for (int which = 0; which < 2; ++which) {
    for (int64_t i = 0; i < batch * tokens * heads[which] * head_dim; ++i) {
      const int64_t column = i % head_dim, head = i / head_dim % heads[which], token = i / head_dim / heads[which];
      const int64_t x = token * strides[which] + head * head_dim + column;
      const int64_t table = token / tokens * table_batch + token % tokens * columns + column % std::max<int64_t>(half, 1);
      const float turned = column < half ? -in[which][x + half] : in[which][x - half];
      const float want = column < rotary_dim ? in[which][x] * cos[table] + turned * sin[table] : in[which][x];
      wrong += !near<T>(out[which][i], want);
    }
  }
  ++cases, failed += wrong != 0;
  if (wrong != 0) {
    std::printf("rope: code %d, %ld wrong: batch %ld, tokens %ld, heads %ld and %ld of %ld, %ld rotated, gap %ld, dtype %d\n", code,
                wrong, batch, tokens, q_heads, k_heads, head_dim, rotary_dim, gap, Element<T>::kDtype);
  }
}

template <typename T>
void gated_case(int64_t rows, int64_t width, int64_t value_gap, int64_t gate_gap, int64_t out_gap) {
  const int64_t value_stride = width + value_gap, gate_stride = width + gate_gap, out_stride = width + out_gap;
  const Tensor<T> value(rows * value_stride), gate(rows * gate_stride), out(rows * out_stride);
  const int code = geglu::gated_launch(out.data, value.data, gate.data, rows, width, out_stride, value_stride, gate_stride, 2,
                                       Element<T>::kDtype, nullptr);
  int64_t wrong = code != 0;
  for (int64_t i = 0; i < rows * width; ++i) {
    const int64_t row = i / width, column = i % width;
    const float x = gate[row * gate_stride + column], want = value[row * value_stride + column] * x / (1.0f + std::exp(-x));
    wrong += !near<T>(out[row * out_stride + column], want);
  }
  ++cases, failed += wrong != 0;
  if (wrong != 0) {
    std::printf("gated: code %d, %ld wrong: %ld x %ld, gaps %ld, %ld, %ld, dtype %d\n", code, wrong, rows, width, value_gap,
                gate_gap, out_gap, Element<T>::kDtype);
  }
}

int main() {
  for (const int64_t head_dim : {64, 80, 96, 128, 256}) {
    for (const int64_t rotary_dim : {head_dim, int64_t{32}, int64_t{0}}) {
      for (const int64_t tokens : {1, 7, 33}) {
        for (const int64_t gap : {0, 64}) {
          rope_case<uint16_t>(2, tokens, 4, 2, head_dim, rotary_dim, gap);
          rope_case<uint16_t>(1, tokens, 3, 0, head_dim, rotary_dim, gap);
        }
      }
    }
    rope_case<float>(2, 9, 5, 1, std::min<int64_t>(head_dim, 128), 64, 0);
  }
  for (const int64_t rows : {1, 2, 37}) {
    for (const int64_t width : {8, 72, 519, 4096}) {
      for (const int64_t gap : {0, 3, 8}) {
        gated_case<uint16_t>(rows, width, gap, 0, 2 * gap);
        gated_case<float>(rows, width, gap, gap, 0);
      }
    }
  }
  std::printf("%d cases, %d failed\n", cases, failed);
  return failed != 0;
}
