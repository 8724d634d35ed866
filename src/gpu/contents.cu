// The contents of timed slots: draws inputs by a counter-based generator, overwrites outputs, adds up digests, compares images.
// contents.ptx is made from this file: UPDATE=1 cargo test --test cuda the_ptx
#include <cuda_fp16.h>
#include <stdint.h>

// A tensor in every slot of an image, as `Region` of contents.rs writes it. Strides are in elements, none zero.
struct Region {
  uint64_t at, step, elements, size, rank, shape[8], stride[8];
};

enum Operation : uint32_t { kBf16, kF16, kF32, kE4m3, kE5m2, kWhole, kWord };

__device__ uint64_t mix(uint64_t value) {  // base::SplitMix64::mix
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// verify/timed.rs has the same function: the sum of eight bytes and twelve more bits, an integer of 23 bits whose standard
// deviation is 0.82 * 2^20.
__device__ int32_t normal(uint64_t bits) {
  uint64_t sum = (bits & 0x00ff00ff00ff00ffu) + (bits >> 8 & 0x00ff00ff00ff00ffu);
  sum = (sum & 0xffffffffu) + (sum >> 32);
  sum = (sum & 0xffffu) + (sum >> 16 & 0xffffu);
  const uint32_t fraction = static_cast<uint32_t>(bits * 0x9e3779b97f4a7c15u >> 52);
  return (static_cast<int32_t>(sum) - 1020) * 4096 + static_cast<int32_t>(fraction) - 2048;
}

// The bits of an 8-bit float, rounded to nearest, ties to even: those of a binary32 scaled by `bias`, which makes the
// exponent fields equal, without `dropped` bits of the fraction. Binding has checked that the number is in range.
__device__ uint64_t eight(float real, float bias, uint32_t dropped) {
  const uint32_t word = __float_as_uint(real * bias), magnitude = word & 0x7fffffff;
  return word >> 24 & 0x80 | (magnitude + (1u << (dropped - 1)) - 1 + (magnitude >> dropped & 1)) >> dropped;
}

// Where an element of a slot lies, in bytes from the beginning of the image.
__device__ uint64_t offset_of(const Region& region, uint64_t slot, uint64_t element) {
  uint64_t offset = 0;
#pragma unroll 1
  for (uint32_t dimension = region.rank; dimension-- > 1;) {
    offset += element % region.shape[dimension] * region.stride[dimension];
    element /= region.shape[dimension];
  }
  return slot * region.step + region.at + (offset + element * region.stride[0]) * region.size;
}

// blockIdx.y is the slot. `seed` depends on the round and the tensor for a drawn tensor; it is the word to write for
// kWord. Numbers are drawn from the `count` integers from `first` on, in units of 2^-20 for floating-point types; if `count` is
// 0 they are normal.
extern "C" __global__ void kernels_contents(const __grid_constant__ Region region, uint8_t* image, uint64_t seed, int64_t first,
                                            uint64_t count, uint32_t operation) {
  const uint64_t slot = blockIdx.y;
  const uint64_t key = mix(seed + slot);
#pragma unroll 1
  for (uint64_t element = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; element < region.elements;
       element += uint64_t(gridDim.x) * blockDim.x) {
    uint64_t value = seed;
    if (operation < kWord) {
      const uint64_t bits = mix(key + element * 0x9e3779b97f4a7c15u);
      const int64_t number = count ? first + static_cast<int64_t>(__umul64hi(bits, count)) : normal(bits);
      const float real = static_cast<float>(number) * 0x1p-20f;
      const uint32_t word = __float_as_uint(real);
      if (operation == kBf16) value = (word + 0x7fff + (word >> 16 & 1)) >> 16;
      else if (operation == kF16) value = __half_as_ushort(__float2half_rn(real));
      else if (operation == kF32) value = word;
      else if (operation == kE4m3) value = eight(real, 0x1p-120f, 20);
      else if (operation == kE5m2) value = eight(real, 0x1p-112f, 21);
      else value = count ? number : number >> 12;
    }
    uint8_t* const to = image + offset_of(region, slot, element);
    if (region.size == 1)
      *to = static_cast<uint8_t>(value);
    else if (region.size == 2)
      *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(value);
    else if (region.size == 4)
      *reinterpret_cast<uint32_t*>(to) = static_cast<uint32_t>(value);
    else
      *reinterpret_cast<uint64_t*>(to) = value;
  }
}

// Adds to sums[slot] a function of each element, its place and a key. Of two contents that were chosen without knowing the key the
// sums are equal with a probability of some 2^-64. blockIdx.y is the slot.
extern "C" __global__ void kernels_digest(const __grid_constant__ Region region, const uint8_t* image, uint64_t key,
                                          unsigned long long* sums) {
  const uint64_t slot = blockIdx.y;
  unsigned long long sum = 0;
#pragma unroll 1
  for (uint64_t element = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; element < region.elements;
       element += uint64_t(gridDim.x) * blockDim.x) {
    const uint8_t* const from = image + offset_of(region, slot, element);
    const uint64_t value = region.size == 1   ? *from
                           : region.size == 2 ? *reinterpret_cast<const uint16_t*>(from)
                           : region.size == 4 ? *reinterpret_cast<const uint32_t*>(from)
                                              : *reinterpret_cast<const uint64_t*>(from);
    sum += mix(value ^ mix(key + element * 0x9e3779b97f4a7c15u));
  }
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffff, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sums + slot, sum);
}

// Compares packs of 16 bytes: found[0] counts the pairs that differ, found[1] is the index of the first.
extern "C" __global__ void kernels_compare(const uint4* one, const uint4* other, uint64_t packs,
                                           unsigned long long* found) {
#pragma unroll 1
  for (uint64_t pack = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; pack < packs;
       pack += uint64_t(gridDim.x) * blockDim.x) {
    const uint4 a = one[pack], b = other[pack];
    if (a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w) continue;
    atomicAdd(found, 1ull);
    atomicMin(found + 1, static_cast<unsigned long long>(pack));
  }
}

// Keeps the stream busy while the host queues the timed work.
extern "C" __global__ void kernels_wait(uint64_t cycles) {
  const uint64_t start = clock64();
  while (clock64() - start < cycles) {
  }
}
