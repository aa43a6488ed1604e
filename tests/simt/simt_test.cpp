// What emulated kernels do, and that each fault of a kernel that the emulator looks for is found.
#include "tests/simt/simt.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "codec/cuda/scan.h"

namespace varve::simt {
namespace {

using codec::cuda::Array;
using codec::cuda::Global;
using codec::cuda::kAllLanes;

const std::vector<Schedule> kSchedules = {
    {Order::forward}, {Order::backward}, {Order::shuffled, 1}, {Order::shuffled, 2}};

template <typename T>
Global<T> in(std::vector<T>& memory) {
  return {memory.data(), static_cast<int64_t>(memory.size()), "the memory"};
}

/// The text of the Error that a launch ends with; "": none.
std::string fault_of(unsigned threads, const std::function<void()>& kernel, const Schedule& schedule = {}) {
  try {
    launch(1, threads, schedule, kernel);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Shared {
  Array<unsigned, 128> values;
  codec::cuda::ScanMemory scan;
};

TEST(Simt, EveryThreadOfEveryBlockRunsOnce) {
  for (const Schedule& schedule : kSchedules) {
    std::vector<unsigned> seen(3 * 70, 0);
    launch(3, 70, schedule, [&] { ++in(seen)[blockIdx.x * blockDim.x + threadIdx.x]; });
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1U), 3 * 70);
  }
}

TEST(Simt, BarriersMakeSharedMemorySeen) {
  for (const Schedule& schedule : kSchedules) {
    std::vector<unsigned> out(128, 0);
    launch(1, 128, schedule, [&] {
      VARVE_SHARED(Shared, shared);
      shared.values[threadIdx.x] = threadIdx.x;
      __syncthreads();
      in(out)[threadIdx.x] = shared.values[127 - threadIdx.x];
    });
    for (unsigned i = 0; i < 128; ++i) {
      EXPECT_EQ(out[i], 127 - i);
    }
  }
}

// The same kernel without its barrier gives other results under other schedules.
TEST(Simt, AMissingBarrierShows) {
  std::vector<std::vector<unsigned>> results;
  for (const Schedule& schedule : kSchedules) {
    std::vector<unsigned> out(128, 0);
    launch(1, 128, schedule, [&] {
      VARVE_SHARED(Shared, shared);
      shared.values[threadIdx.x] = threadIdx.x;
      in(out)[threadIdx.x] = shared.values[127 - threadIdx.x];
    });
    results.push_back(out);
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
  EXPECT_EQ(results[0][0], 0xcdcdcdcdU) << "shared memory is not filled";
}

TEST(Simt, ShufflesBallotsAndAtomics) {
  for (const Schedule& schedule : kSchedules) {
    std::vector<unsigned> out(5, 0);
    launch(1, 64, schedule, [&] {
      const unsigned lane = threadIdx.x % 32;
      const unsigned odd = __ballot_sync(kAllLanes, lane % 2 != 0);
      const unsigned first = __shfl_sync(kAllLanes, threadIdx.x, 0);
      const unsigned before = __shfl_up_sync(kAllLanes, lane, 3);
      const unsigned across = __shfl_xor_sync(kAllLanes, lane, 16);
      atomicAdd(&in(out)[0], odd == 0xaaaaaaaaU ? 1U : 0U);
      atomicAdd(&in(out)[1], first == threadIdx.x / 32 * 32 ? 1U : 0U);
      atomicAdd(&in(out)[2], before == (lane < 3 ? lane : lane - 3) ? 1U : 0U);
      atomicOr(&in(out)[3], 1U << across);
      atomicMax(&in(out)[4], threadIdx.x);
      if (lane < 7) {  // some of a warp alone
        __syncwarp(0x7f);
      }
    });
    EXPECT_EQ(out, (std::vector<unsigned>{64, 64, 64, 0xffffffffU, 63}));
  }
}

TEST(Simt, ScansGiveSumsInTheOrderOfThreads) {
  for (const Schedule& schedule : kSchedules) {
    for (const unsigned threads : {32U, 96U, 1024U}) {
      std::vector<uint64_t> own(threads);
      std::iota(own.begin(), own.end(), uint64_t{1} << 33);
      std::vector<uint64_t> before(threads, 0);
      std::vector<uint64_t> total(threads, 0);
      launch(1, threads, schedule, [&] {
        VARVE_SHARED(Shared, shared);
        uint64_t all = 0;
        for (int twice = 0; twice < 2; ++twice) {
          in(before)[threadIdx.x] = scan_block(in(own)[threadIdx.x], shared.scan, all);
        }
        in(total)[threadIdx.x] = all;
      });
      uint64_t sum = 0;
      for (unsigned i = 0; i < threads; ++i) {
        EXPECT_EQ(before[i], sum);
        sum += own[i];
      }
      EXPECT_EQ(std::count(total.begin(), total.end(), sum), threads);
    }
  }
}

TEST(Simt, BarriersThatNotAllReachAreFound) {
  for (const Schedule& schedule : kSchedules) {
    const std::string ended = fault_of(
        64,
        [] {
          if (threadIdx.x != 40) {
            __syncthreads();
          }
        },
        schedule);
    EXPECT_NE(ended.find("ended"), std::string::npos) << ended;
    const std::string elsewhere = fault_of(
        64,
        [] {
          if (threadIdx.x < 32) {
            __syncthreads();
          } else {
            __syncthreads();
          }
        },
        schedule);
    EXPECT_NE(elsewhere.find("__syncthreads at simt_test.cpp:"), std::string::npos) << elsewhere;
    const std::string stuck = fault_of(
        64,
        [] {
          if (threadIdx.x < 32) {
            __syncthreads();
          } else if (threadIdx.x < 48) {
            __syncwarp();
          } else {
            __syncthreads();
          }
        },
        schedule);
    EXPECT_FALSE(stuck.empty());
  }
}

TEST(Simt, MasksThatAreWrongAreFound) {
  const std::string absent = fault_of(32, [] { __syncwarp(0xfffffffeU); });
  EXPECT_NE(absent.find("not in its own mask"), std::string::npos) << absent;
  const std::string small = fault_of(16, [] { __syncwarp(); });
  EXPECT_NE(small.find("that its warp has not"), std::string::npos) << small;
  const std::string gone = fault_of(32, [] {
    if (threadIdx.x > 0) {
      __ballot_sync(kAllLanes, 1);
    }
  });
  EXPECT_NE(gone.find("ended"), std::string::npos) << gone;
  const std::string differ = fault_of(32, [] { __syncwarp(threadIdx.x < 4 ? 0xfU : kAllLanes); });
  EXPECT_NE(differ.find("with mask"), std::string::npos) << differ;
  const std::string kinds = fault_of(32, [] {
    if (threadIdx.x < 4) {
      __syncwarp();
    } else {
      __ballot_sync(kAllLanes, 1);
    }
  });
  EXPECT_NE(kinds.find("__ballot_sync"), std::string::npos) << kinds;
}

TEST(Simt, AShuffleFromOutsideItsMaskGivesAPattern) {
  std::vector<unsigned> out(1, 0);
  launch(1, 32, {}, [&] {
    if (threadIdx.x < 4) {
      const unsigned value = __shfl_sync(0xfU, threadIdx.x, 9);
      atomicMax(&in(out)[0], value);
    }
  });
  EXPECT_EQ(out[0], 0xdeadbeefU);
}

TEST(Simt, AccessesOutOfBoundsAreFound) {
  std::vector<float> memory(10, 0);
  const std::string beyond = fault_of(32, [&] { in(memory)[threadIdx.x] = 1; });
  EXPECT_NE(beyond.find("thread 10 of block 0 takes element 10 of the memory, which has 10"), std::string::npos)
      << beyond;
  float sum = 0;
  const std::string before = fault_of(1, [&] { sum += *(in(memory) + 3 - 4); });
  EXPECT_NE(before.find("element -1"), std::string::npos) << before;
  const std::string shared = fault_of(32, [] {
    VARVE_SHARED(Shared, memory);
    memory.values[threadIdx.x + 100] = 0;
  });
  EXPECT_NE(shared.find("element 128"), std::string::npos) << shared;
  const std::string null = fault_of(1, [&] { sum += *Global<const float>(); });
  EXPECT_NE(null.find("null"), std::string::npos) << null;
  EXPECT_THROW(in(memory)[10], Error);
}

TEST(Simt, KernelsOfTooMuchSharedMemoryAreFound) {
  struct Large {
    Array<uint8_t, kSharedBytes + 1> bytes;
  };
  EXPECT_NE(fault_of(1,
                     [] {
                       VARVE_SHARED(Large, large);
                       large.bytes[0] = 1;
                     })
                .find("shared memory"),
            std::string::npos);
}

TEST(Simt, WhatAKernelThrowsEndsTheLaunch) {
  EXPECT_NE(fault_of(32, [] { throw std::out_of_range("on purpose"); }).find("on purpose"), std::string::npos);
  EXPECT_EQ(fault_of(32, [] { __syncthreads(); }), "") << "a launch after one that failed";
}

}  // namespace
}  // namespace varve::simt
