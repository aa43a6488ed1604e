#include "codec/kernels.h"

#include <atomic>

namespace varve::codec {

extern const Kernels kPortableKernels;
#ifdef __x86_64__
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

namespace {

constexpr size_t kSets = 3;
std::atomic<const Kernels*> chosen{nullptr};

const Kernels* widest() {
  static const Kernels* const found = [] {
    for (size_t index = kSets; index-- > 1;) {
      if (const Kernels* set = kernel_set(index); set != nullptr) {
        return set;
      }
    }
    return &kPortableKernels;
  }();
  return found;
}

}  // namespace

const Kernels* kernel_set(size_t index) {
#ifdef __x86_64__
  if (index == 1) {
    return __builtin_cpu_supports("avx2") != 0 ? &kAvx2Kernels : nullptr;
  }
  if (index == 2) {
    const bool has = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                     __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    return has ? &kAvx512Kernels : nullptr;
  }
#endif
  return index == 0 ? &kPortableKernels : nullptr;
}

const Kernels& kernels() {
  const Kernels* set = chosen.load(std::memory_order_relaxed);
  return set != nullptr ? *set : *widest();
}

void use_kernels(const Kernels* set) { chosen.store(set, std::memory_order_relaxed); }

}  // namespace varve::codec
