// Sums over the threads of a block in their order.
#pragma once

#include "codec/cuda/target.h"

namespace varve::codec::cuda {

/// Shared memory of a scan.
struct ScanMemory {
  Array<uint64_t, kWarpThreads> sums;  ///< of each warp
};

/// The sum of what the threads below the caller's gave; `all`: of what all threads gave. Every thread of the block
/// calls it, warps being whole. Memory may be used again at once.
__device__ inline uint64_t scan_block(uint64_t own, ScanMemory& memory, uint64_t& all) {
  uint64_t sum = own;
  for (unsigned distance = 1; distance < kWarpThreads; distance *= 2) {
    const uint64_t below = __shfl_up_sync(kAllLanes, sum, distance);
    sum += lane_number() >= distance ? below : 0;
  }
  if (lane_number() == kWarpThreads - 1) {
    memory.sums[warp_number()] = sum;
  }
  __syncthreads();
  uint64_t before = 0;
  all = 0;
  for (unsigned warp = 0; warp < warps_of_block(); ++warp) {
    before += warp < warp_number() ? memory.sums[warp] : 0;
    all += memory.sums[warp];
  }
  __syncthreads();
  return before + sum - own;
}

}  // namespace varve::codec::cuda
