// Generated from kernels/common/launcher.h.
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

// The architecture that the loaded code was compiled for. It is older than the card's where the driver compiled PTX of
// an older one. Queried once a device. Static: each project in a library may have code for other architectures.
static inline cudaError_t code_arch(const void* kernel, int& arch) {
  static std::atomic<int> known[64];
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  std::atomic<int>* slot = device < 64 ? &known[device] : nullptr;
  arch = slot != nullptr ? slot->load(std::memory_order_relaxed) : 0;
  if (arch != 0) return cudaSuccess;
  cudaFuncAttributes attributes;
  if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel)) return error;
  arch = attributes.ptxVersion < attributes.binaryVersion ? attributes.ptxVersion : attributes.binaryVersion;
  if (slot != nullptr) slot->store(arch, std::memory_order_relaxed);
  return cudaSuccess;
}

}  // namespace common
