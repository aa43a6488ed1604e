// CUDA kernels as ordinary C++: a source that spells its types as codec/cuda/target.h does is compiled by g++ or clang,
// and each thread of a block is a fiber of one OS thread. Include it before the kernels.
//
// What ends a launch with an Error that says where:
// - a thread at a barrier that another thread of its block does not reach, or reaches elsewhere in the source;
// - a warp's function called with a mask that lacks the caller, names threads that are gone, or differs from that of
//   the others it names; or called by them at different places;
// - an access outside of an allocation or of an array in shared memory (checked.h).
// Shared memory and device memory are filled with 0xcd before a kernel sees them, and a Schedule changes the order in
// which threads run: what a kernel reads without having waited for it differs between schedules.
// Blocks run one after the other: kernels whose blocks wait for each other are not supported. Memory is not weak:
// a missing fence between blocks is not seen. One launch at a time for each OS thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "tests/simt/checked.h"

#define VARVE_SIMT 1

namespace varve::simt {

inline constexpr unsigned kWarp = 32;
inline constexpr size_t kSharedBytes = 48 * 1024;

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Order : uint8_t { forward, backward, shuffled };

/// In which order blocks, and of a block threads, go on.
struct Schedule {
  Order order = Order::forward;
  uint64_t seed = 1;  ///< of `shuffled`
};

/// Runs body() for each thread of each block and returns when all are done. `threads`: 1 to 1,024. Errors: Error.
void launch(unsigned blocks, unsigned threads, const Schedule& schedule, const std::function<void()>& body);

/// What launches of this OS thread did so far.
struct Counts {
  uint64_t launches = 0;
  uint64_t switches = 0;
  uint64_t barriers = 0;     ///< of blocks
  uint64_t collectives = 0;  ///< of warps
};
const Counts& counts();

struct Index {
  unsigned x = 0;
};
/// Of the thread that runs.
Index thread_index();
Index block_index();
Index block_size();
Index grid_size();
/// The block's shared memory.
void* shared_memory(size_t size);

/// A place in the source.
struct Where {
  const char* file;
  int line;
};

enum class Operation : uint8_t { block, warp, ballot, shuffle };

/// Waits until all threads of the block are here.
void block_barrier(Where where);
/// Waits until all threads named by `mask` are here with the same operation. ballot: gives the mask of those with
/// value != 0. shuffle: gives the value of thread `source` of the warp, which `mask` must name (else a pattern).
uint64_t warp_wait(Operation operation, uint32_t mask, uint64_t value, unsigned source, Where where);
/// The caller's number within its warp.
unsigned lane();

template <typename T>
T shuffle(uint32_t mask, T value, unsigned source, Where where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_wait(Operation::shuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace varve::simt

// NOLINTBEGIN: names and macros as CUDA has them
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (::varve::simt::thread_index())
#define blockIdx (::varve::simt::block_index())
#define blockDim (::varve::simt::block_size())
#define gridDim (::varve::simt::grid_size())

#define VARVE_SIMT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(VARVE_SIMT_HERE) { ::varve::simt::block_barrier({file, line}); }
inline void __syncwarp(unsigned mask = ~0U, VARVE_SIMT_HERE) {
  ::varve::simt::warp_wait(::varve::simt::Operation::warp, mask, 0, 0, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, VARVE_SIMT_HERE) {
  return static_cast<unsigned>(::varve::simt::warp_wait(::varve::simt::Operation::ballot, mask,
                                                        static_cast<uint64_t>(predicate != 0), 0, {file, line}));
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, VARVE_SIMT_HERE) {
  return ::varve::simt::shuffle(mask, value, static_cast<unsigned>(source) % ::varve::simt::kWarp, {file, line});
}
/// A thread without one below it at this distance gets its own value.
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, VARVE_SIMT_HERE) {
  const unsigned own = ::varve::simt::lane();
  return ::varve::simt::shuffle(mask, value, own < distance ? own : own - distance, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, VARVE_SIMT_HERE) {
  return ::varve::simt::shuffle(mask, value, ::varve::simt::lane() ^ static_cast<unsigned>(bits), {file, line});
}

template <typename T>
T atomicAdd(T* at, T value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicOr(T* at, T value) {
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <typename T>
T atomicMax(T* at, T value) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }
inline int __clzll(long long value) {
  return value == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(value));
}
// NOLINTEND
