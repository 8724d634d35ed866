// What every launcher needs: element types, error codes, and the architecture of the loaded code.
#pragma once
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace common {

enum Type : int { kF32 = 0, kF16 = 1, kBF16 = 2 };

inline int size_of(int type) { return type == kF32 ? 4 : 2; }

// Above every cudaError_t, so that a caller can tell a refused argument from a failed launch. The codes of a project
// follow.
enum ErrorCode : int {
  kNegativeSize = 10001,
  kUnknownType = 10002,
  kNullPointer = 10003,
  kStrideTooSmall = 10004,
};

inline bool divides(int64_t bytes, const void* data) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; }

// What a launcher answers must not be found again as CUDA's last error, by a caller who looks for one of its own.
inline cudaError_t cleared(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

// A number above 0 that is the current device's for good: `ask(device, number)` is called once a device.
struct OfDevice {
  std::atomic<int> known[64];

  template <typename F>
  cudaError_t get(int& number, F ask) {
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device)) return cleared(error);
    std::atomic<int>* slot = device < 64 ? &known[device] : nullptr;
    number = slot != nullptr ? slot->load(std::memory_order_relaxed) : 0;
    if (number != 0) return cudaSuccess;
    if (const cudaError_t error = ask(device, number)) return cleared(error);
    if (slot != nullptr) slot->store(number, std::memory_order_relaxed);
    return cudaSuccess;
  }
};

// The architecture that the loaded code was compiled for. It is older than the card's where the driver compiled PTX of
// an older one. Static: each project in a library may have code for other architectures.
static inline cudaError_t code_arch(const void* kernel, int& arch) {
  static OfDevice known;
  return known.get(arch, [=](int, int& found) {
    cudaFuncAttributes attributes;
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel)) return error;
    found = attributes.ptxVersion < attributes.binaryVersion ? attributes.ptxVersion : attributes.binaryVersion;
    return cudaSuccess;
  });
}

// The attribute of a launch in clusters of so many blocks.
static inline cudaLaunchAttribute in_clusters(int blocks) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(blocks);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  return attribute;
}

// How many clusters of so many blocks of a kernel the current device holds at once: not every GPC has a number of SMs
// that whole clusters fill, and no arithmetic on the SMs of a card says it. `known` is that kernel's and that size's.
static inline cudaError_t clusters_at_once(OfDevice& known, const void* kernel, int blocks, int threads, int& clusters) {
  return known.get(clusters, [=](int, int& found) {
    cudaLaunchAttribute attribute = in_clusters(blocks);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks)), config.blockDim = dim3(static_cast<unsigned>(threads));
    config.attrs = &attribute, config.numAttrs = 1;
    return cudaOccupancyMaxActiveClusters(&found, kernel, &config);
  });
}

}  // namespace common
