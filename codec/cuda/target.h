// What kernels are spelled with beside plain CUDA, so that one source is compiled by nvcc and, as ordinary C++, for
// tests/simt/simt.h, which must be included before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/host_device.h"

#if defined(__CUDACC__)

#include <cuda_runtime.h>

namespace varve::codec::cuda {

/// A pointer to global memory. Where kernels are emulated it knows its bounds.
template <typename T>
using Global = T*;

/// An array in shared memory or of a thread; no constructor, as shared memory must have none.
template <typename T, unsigned kCount>
struct Array {
  __host__ __device__ T& operator[](unsigned index) { return values[index]; }
  __host__ __device__ const T& operator[](unsigned index) const { return values[index]; }
  T values[kCount];  // NOLINT(modernize-avoid-c-arrays)
};

}  // namespace varve::codec::cuda

/// All shared memory of a kernel: one struct, once at the kernel's top.
#define VARVE_SHARED(Type, name) __shared__ Type name

#elif defined(VARVE_SIMT)

namespace varve::codec::cuda {

template <typename T>
using Global = simt::Checked<T>;
template <typename T, unsigned kCount>
using Array = simt::CheckedArray<T, kCount>;

}  // namespace varve::codec::cuda

#define VARVE_SHARED(Type, name) Type& name = *static_cast<Type*>(::varve::simt::shared_memory(sizeof(Type)))

#else
#error "kernels are compiled by nvcc, or after tests/simt/simt.h"
#endif

namespace varve::codec::cuda {

inline constexpr unsigned kWarpThreads = 32;
inline constexpr unsigned kAllLanes = ~0U;

__device__ inline unsigned lane_number() { return threadIdx.x % kWarpThreads; }
__device__ inline unsigned warp_number() { return threadIdx.x / kWarpThreads; }
__device__ inline unsigned warps_of_block() { return blockDim.x / kWarpThreads; }
/// The lanes below the caller's, a bit each.
__device__ inline unsigned lanes_below() { return (1U << lane_number()) - 1; }

}  // namespace varve::codec::cuda
