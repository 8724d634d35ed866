// Times every candidate configuration on every shape that matters, on one card, in one run of about a minute.
//
// Not a part of the project's build: its winners become rows of kernel_src/tuning.h. Build and run:
//   for c in "BF16 0 bf16" "BF16 1 bf16_add" "F16 0 f16" "F32 0 f32"; do set -- $c
//     nvcc -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 -DTUNE_ELEMENT=$1 -DTUNE_ADD=$2 \
//          -DTUNE_NAME=candidates_$3 -c candidates.cu -o $3.o & done; wait
//   nvcc -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 -cudart static tune.cu *.o -o tune
//   ./tune [csv file] [only shapes whose name contains this]
//
// Method: CUDA graphs over rotating buffers of more than 4 x the L2 in all, random data, every candidate of a shape
// and a copy of the same bytes once a round, so that drift hits all alike; medians of 15 rounds, then 31 more rounds
// among the best six. Each candidate's output is first compared with double precision on sampled rows.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../kernel_src/arguments.h"
#include "candidates.h"

using rmsnorm::RowArguments;

#define CHECK(call)                                                                              \
  do {                                                                                           \
    const cudaError_t e_ = (call);                                                               \
    if (e_ != cudaSuccess) {                                                                     \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
      std::exit(1);                                                                              \
    }                                                                                            \
  } while (0)

struct Shape {
  const char* name;
  Element element;
  bool add;
  int64_t rows, width;
  bool weight;
};

static const Shape kShapes[] = {
    {"LTX q/k 1x1024x2048", Element::bf16, false, 1024, 2048, true},
    {"LTX q/k 2x1024x2048", Element::bf16, false, 2048, 2048, true},
    {"LTX q/k 1x4096x2048", Element::bf16, false, 4096, 2048, true},
    {"LTX norm1 2688x2048 no weight", Element::bf16, false, 2688, 2048, false},
    {"LTX norm1 2x2688x2048 no weight", Element::bf16, false, 5376, 2048, false},
    {"LTX norm1 16128x2048 no weight", Element::bf16, false, 16128, 2048, false},
    {"LTX q/k 16128x2048", Element::bf16, false, 16128, 2048, true},
    {"4x4096x3072", Element::bf16, false, 16384, 3072, true},
    {"Qwen3 128x4096", Element::bf16, false, 128, 4096, true},
    {"Qwen3 1024x4096", Element::bf16, false, 1024, 4096, true},
    {"Qwen3 2048x4096", Element::bf16, false, 2048, 4096, true},
    {"Qwen3 8192x4096", Element::bf16, false, 8192, 4096, true},
    {"Qwen3 q/k 5120x128", Element::bf16, false, 5120, 128, true},
    {"Qwen3 q 32768x128", Element::bf16, false, 32768, 128, true},
    {"Qwen3 q 262144x128", Element::bf16, false, 262144, 128, true},
    {"heads 28672x64", Element::bf16, false, 28672, 64, true},
    {"heads 524288x64", Element::bf16, false, 524288, 64, true},
    {"heads 28672x128", Element::bf16, false, 28672, 128, true},
    {"heads 28672x256", Element::bf16, false, 28672, 256, true},
    {"heads 131072x256", Element::bf16, false, 131072, 256, true},
    {"65536x512", Element::bf16, false, 65536, 512, true},
    {"32768x1024", Element::bf16, false, 32768, 1024, true},
    {"8192x5120", Element::bf16, false, 8192, 5120, true},
    {"4x8192x8192", Element::bf16, false, 32768, 8192, true},
    {"1024x8192", Element::bf16, false, 1024, 8192, true},
    {"4096x16384", Element::bf16, false, 4096, 16384, true},
    {"2048x32768", Element::bf16, false, 2048, 32768, true},
    {"1024x65536", Element::bf16, false, 1024, 65536, true},
    {"512x131072", Element::bf16, false, 512, 131072, true},
    {"add 128x4096", Element::bf16, true, 128, 4096, true},
    {"add 1024x4096", Element::bf16, true, 1024, 4096, true},
    {"add 8192x4096", Element::bf16, true, 8192, 4096, true},
    {"add 4096x2048", Element::bf16, true, 4096, 2048, true},
    {"add 16128x2048", Element::bf16, true, 16128, 2048, true},
    {"add 8192x8192", Element::bf16, true, 8192, 8192, true},
    {"add 2048x16384", Element::bf16, true, 2048, 16384, true},
    {"add 512x65536", Element::bf16, true, 512, 65536, true},
    {"f16 4x4096x3072", Element::f16, false, 16384, 3072, true},
    {"f16 8192x4096", Element::f16, false, 8192, 4096, true},
    {"f16 262144x128", Element::f16, false, 262144, 128, true},
    {"f16 4x8192x8192", Element::f16, false, 32768, 8192, true},
    {"f32 16128x2048", Element::f32, false, 16128, 2048, true},
    {"f32 4x4096x3072", Element::f32, false, 16384, 3072, true},
    {"f32 8192x4096", Element::f32, false, 8192, 4096, true},
    {"f32 262144x128", Element::f32, false, 262144, 128, true},
    {"f32 16384x8192", Element::f32, false, 16384, 8192, true},
    {"f32 1024x32768", Element::f32, false, 1024, 32768, true},
};

static int64_t size_of(Element e) { return e == Element::f32 ? 4 : 2; }
static int64_t pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// Roughly normal numbers of standard deviation 1: a sum of four uniform ones.
__global__ void fill(void* out, int64_t n, int kind, uint64_t seed) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    uint64_t h = (static_cast<uint64_t>(i) + seed) * 0x9E3779B97F4A7C15ull;
    h = (h ^ (h >> 31)) * 0xBF58476D1CE4E5B9ull;
    h = (h ^ (h >> 29)) * 0x94D049BB133111EBull;
    h ^= h >> 32;
    float x = 0.0f;
    for (int k = 0; k < 4; ++k) x += static_cast<float>(h >> (16 * k) & 0xffff) / 65536.0f - 0.5f;
    x *= 1.7320508f;
    if (kind == 0) {
      static_cast<float*>(out)[i] = x;
    } else if (kind == 1) {
      unsigned short bits;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
      static_cast<unsigned short*>(out)[i] = bits;
    } else {
      static_cast<unsigned short*>(out)[i] = static_cast<unsigned short>(__float_as_uint(x) >> 16);
    }
  }
}

static double value(const void* p, int64_t i, Element e) {
  if (e == Element::f32) return static_cast<const float*>(p)[i];
  const uint16_t bits = static_cast<const uint16_t*>(p)[i];
  if (e == Element::bf16) {
    const uint32_t u = static_cast<uint32_t>(bits) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double m = exponent == 0    ? std::ldexp(fraction, -24)
                   : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                    : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -m : m;
}

struct Slot {
  char *x, *residual, *out, *sum;
};

static int g_sms = 0;

static cudaError_t launch(const Candidate& c, RowArguments a, cudaStream_t stream) {
  const int threads = c.threads_per_row < 128 ? 128 : c.threads_per_row, rows_per_block = threads / c.threads_per_row;
  void* parameters[] = {&a};
  return cudaLaunchKernel(c.kernel, dim3(static_cast<unsigned>((a.rows + rows_per_block - 1) / rows_per_block)),
                          dim3(threads), parameters, static_cast<size_t>(c.shared_bytes), stream);
}

struct Timed {
  const Candidate* candidate;  // null: the copy
  cudaGraphExec_t graph = nullptr;
  std::vector<float> samples;
  double worst = 0;  // error in units of its budget

  std::string name() const { return candidate == nullptr ? "COPY" : candidate->name; }
  double median() const {
    std::vector<float> s = samples;
    std::sort(s.begin(), s.end());
    return s.empty() ? 1e9 : s[s.size() / 2];
  }
};

int main(int argc, char** argv) {
  cudaDeviceProp card;
  CHECK(cudaGetDeviceProperties(&card, 0));
  g_sms = card.multiProcessorCount;
  std::printf("# %s, %d SMs, L2 %d MB\n", card.name, g_sms, card.l2CacheSize >> 20);
  std::vector<Candidate> all;
  candidates_bf16(all);
  candidates_bf16_add(all);
  candidates_f16(all);
  candidates_f32(all);
  FILE* csv = std::fopen(argc > 1 ? argv[1] : "tune.csv", "w");
  if (csv == nullptr) return std::perror("csv"), 1;
  std::fprintf(csv, "shape,element,add,rows,width,mb,configuration,us,copy_us,of_copy,worst\n");

  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  const int64_t pool_bytes = 7ll << 30;
  char* pool;
  CHECK(cudaMalloc(&pool, pool_bytes));
  Element filled = Element::f32;
  bool any_filled = false;
  int bad = 0;

  for (const Shape& shape : kShapes) {
    if (argc > 2 && std::strstr(shape.name, argv[2]) == nullptr) continue;
    const int64_t item = size_of(shape.element), tensor = shape.rows * shape.width * item;
    const int64_t gap = 33 * 4096, tensors = shape.add ? 4 : 2;
    const int64_t moved = tensors * tensor + (shape.weight ? shape.width * item : 0);
    // Inputs of a slot side by side, then its outputs; no two buffers a power of two apart.
    const int64_t span = pages(tensor) + gap, slot_bytes = tensors * span;
    const int64_t needed = 5ll * card.l2CacheSize;
    const int64_t slots = std::max<int64_t>(2, (needed + moved - 1) / moved);
    if (slots * slot_bytes + (1 << 20) > pool_bytes) {
      std::printf("%s: does not fit\n", shape.name);
      continue;
    }
    if (!any_filled || filled != shape.element) {
      const int kind = shape.element == Element::f32 ? 0 : shape.element == Element::f16 ? 1 : 2;
      fill<<<g_sms * 8, 256, 0, stream>>>(pool, pool_bytes / item, kind, 1);
      CHECK(cudaGetLastError());
      any_filled = true, filled = shape.element;
    }
    char* weight = pool;  // 1 MB for it
    std::vector<Slot> slot(slots);
    for (int64_t s = 0; s < slots; ++s) {
      char* at = pool + (1 << 20) + s * slot_bytes;
      slot[s].x = at;
      slot[s].residual = shape.add ? at + span : nullptr;
      slot[s].out = at + (shape.add ? 2 : 1) * span;
      slot[s].sum = shape.add ? at + 3 * span : nullptr;
    }
    // The outputs of an earlier shape lie here in places: fresh inputs, so that sums do not grow.
    fill<<<g_sms * 8, 256, 0, stream>>>(pool, ((1 << 20) + slots * slot_bytes) / item,
                                        shape.element == Element::f32 ? 0 : shape.element == Element::f16 ? 1 : 2, 7);
    CHECK(cudaGetLastError());
    auto arguments = [&](int64_t s) {
      RowArguments a = {};
      a.out = slot[s].out, a.sum = slot[s].sum, a.x = slot[s].x, a.residual = slot[s].residual;
      a.weight = shape.weight ? weight : nullptr;
      a.rows = shape.rows, a.width = shape.width, a.packs = shape.width * item / 16;
      a.out_stride = a.sum_stride = a.x_stride = a.residual_stride = shape.width;
      a.inverse_width = 1.0f / static_cast<float>(shape.width);
      a.eps = 1e-6f;
      return a;
    };

    // Enough launches for 200 us or more, each slot as often as any other.
    const int64_t launches =
        std::max<int64_t>(slots, std::min<int64_t>(256, (600000000 + moved - 1) / moved) / slots * slots);
    const int64_t packs = shape.width * item / 16;
    std::vector<Timed> timed;
    auto capture = [&](auto&& body) {
      cudaGraph_t graph;
      cudaGraphExec_t exec;
      CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (int64_t i = 0; i < launches; ++i) CHECK(body(i % slots));
      CHECK(cudaStreamEndCapture(stream, &graph));
      CHECK(cudaGraphInstantiate(&exec, graph, 0));
      CHECK(cudaGraphDestroy(graph));
      return exec;
    };

    std::vector<int64_t> sampled = {0, 1, shape.rows / 2, shape.rows - 1};
    std::vector<char> hx(shape.width * item), hr(hx), hw(hx), ho(hx), hs(hx);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(hw.data(), weight, hw.size(), cudaMemcpyDeviceToHost));
    for (const Candidate& c : all) {
      if (c.element != shape.element || c.add != shape.add) continue;
      const int64_t held = static_cast<int64_t>(c.threads_per_row) * c.packs_per_thread;
      if (c.most_packs != 0 ? packs < c.least_packs || packs > c.most_packs : held < packs || held > 2 * packs) continue;
      if (c.shared_bytes > 0) {
        CHECK(cudaFuncSetAttribute(c.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, c.shared_bytes));
      }
      Timed t;
      t.candidate = &c;
      CHECK(cudaMemsetAsync(slot[0].out, 0xff, tensor, stream));
      if (shape.add) CHECK(cudaMemsetAsync(slot[0].sum, 0xff, tensor, stream));
      const cudaError_t e = launch(c, arguments(0), stream);
      if (e != cudaSuccess) {
        std::printf("%s: %s: %s\n", shape.name, t.name().c_str(), cudaGetErrorString(e));
        cudaGetLastError();
        ++bad;
        continue;
      }
      CHECK(cudaStreamSynchronize(stream));
      for (const int64_t row : sampled) {
        const int64_t at = row * shape.width * item;
        CHECK(cudaMemcpy(hx.data(), slot[0].x + at, hx.size(), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(ho.data(), slot[0].out + at, ho.size(), cudaMemcpyDeviceToHost));
        if (shape.add) {
          CHECK(cudaMemcpy(hr.data(), slot[0].residual + at, hr.size(), cudaMemcpyDeviceToHost));
          CHECK(cudaMemcpy(hs.data(), slot[0].sum + at, hs.size(), cudaMemcpyDeviceToHost));
        }
        const double ulp = item == 4 ? 4 * std::ldexp(1.0, -24) : shape.element == Element::bf16 ? 0x1p-8 : 0x1p-11;
        double squares = 0;
        for (int64_t i = 0; i < shape.width; ++i) {
          const double in = value(shape.add ? hs.data() : hx.data(), i, shape.element);
          squares += in * in;
          if (shape.add) {
            const double sum = value(hx.data(), i, shape.element) + value(hr.data(), i, shape.element);
            const double off = std::fabs(in - sum) / (ulp * 1.01 * std::fabs(sum) + 1e-30);
            t.worst = off <= t.worst ? t.worst : off;
          }
        }
        const double scale = 1.0 / std::sqrt(squares / static_cast<double>(shape.width) + 1e-6);
        for (int64_t i = 0; i < shape.width; ++i) {
          const double in = value(shape.add ? hs.data() : hx.data(), i, shape.element);
          const double want = in * scale * (shape.weight ? value(hw.data(), i, shape.element) : 1.0);
          const double floor = shape.element == Element::f16 ? 0x1p-25 : 1e-30;
          const double off = std::fabs(value(ho.data(), i, shape.element) - want) /
                             (ulp * 1.01 * std::fabs(want) + floor);
          if (!(off <= t.worst)) t.worst = off;
        }
      }
      if (!(t.worst <= 1.0)) ++bad;
      t.graph = capture([&](int64_t s) { return launch(c, arguments(s), stream); });
      timed.push_back(t);
    }
    Timed copy;
    copy.candidate = nullptr;
    const int64_t half = pages(moved / 2);
    copy.graph = capture([&](int64_t s) {
      return cudaMemcpyAsync(slot[s].out, slot[s].x, std::min(half, tensors / 2 * span), cudaMemcpyDeviceToDevice,
                             stream);
    });
    timed.push_back(copy);

    auto round = [&](std::vector<Timed*>& which, bool keep) {
      for (Timed* t : which) {
        CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaGraphLaunch(t->graph, stream));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (keep) t->samples.push_back(ms * 1e3f / static_cast<float>(launches));
      }
    };
    std::vector<Timed*> which;
    for (Timed& t : timed) which.push_back(&t);
    round(which, false);
    round(which, false);
    for (int r = 0; r < 15; ++r) round(which, true);
    std::sort(which.begin(), which.end(), [](Timed* a, Timed* b) { return a->median() < b->median(); });
    std::vector<Timed*> best;
    for (Timed* t : which)
      if (t->candidate == nullptr || best.size() < 6) best.push_back(t);
    for (Timed* t : best) t->samples.clear();
    for (int r = 0; r < 31; ++r) round(best, true);
    std::sort(which.begin(), which.end(), [](Timed* a, Timed* b) { return a->median() < b->median(); });
    double copy_us = 0;
    for (Timed* t : which)
      if (t->candidate == nullptr) copy_us = t->median();
    std::printf("\n== %s: %.1f MB, copy %.2f us, %lld slots, %lld launches a graph\n", shape.name, moved / 1e6, copy_us,
                static_cast<long long>(slots), static_cast<long long>(launches));
    for (Timed* t : which) {
      std::printf("%9.2f us %6.1f %%  %-44s %s\n", t->median(), 100 * copy_us / t->median(), t->name().c_str(),
                  t->worst <= 1.0 ? "" : "WRONG");
      static const char* kNames[] = {"f32", "f16", "bf16"};
      std::fprintf(csv, "%s,%s,%d,%lld,%lld,%.2f,%s,%.3f,%.3f,%.4f,%.3f\n", shape.name,
                   kNames[static_cast<int>(shape.element)], shape.add, static_cast<long long>(shape.rows),
                   static_cast<long long>(shape.width), moved / 1e6, t->name().c_str(), t->median(), copy_us,
                   copy_us / t->median(), t->worst);
      CHECK(cudaGraphExecDestroy(t->graph));
    }
    // What a program gets whose allocator hands out the same output memory for every launch: it stays in the L2.
    if (tensor < card.l2CacheSize) {
      const Candidate* fastest = nullptr;
      for (Timed* t : which)
        if (t->candidate != nullptr && fastest == nullptr) fastest = t->candidate;
      if (fastest != nullptr) {
        Timed same;
        same.candidate = fastest;
        same.graph = capture([&](int64_t s) {
          RowArguments a = arguments(s);
          a.out = slot[0].out, a.sum = slot[0].sum;
          return launch(*fastest, a, stream);
        });
        std::vector<Timed*> alone = {&same};
        for (int r = 0; r < 17; ++r) round(alone, r >= 2);
        std::printf("%9.2f us          %s, all launches into the same output\n", same.median(), same.name().c_str());
        CHECK(cudaGraphExecDestroy(same.graph));
      }
    }
    std::fflush(stdout);
  }
  std::fclose(csv);
  std::printf("\n%d bad\n", bad);
  return bad != 0;
}
