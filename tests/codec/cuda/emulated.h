// A device whose kernels run as C++: see tests/simt/simt.h. Include it before anything of codec/cuda.
#pragma once

#include "tests/simt/simt.h"
// The emulator comes first.
#include "codec/cuda/host_jobs.h"

namespace varve::codec::testing {

class EmulatedDevice {
 public:
  /// Memory that a kernel has not written has a pattern.
  template <typename T>
  class Buffer {
   public:
    Buffer(size_t count, const char* name) : memory_(new T[count]), count_(count), name_(name) {
      if (count > 0) {
        std::memset(static_cast<void*>(memory_.get()), 0xcd, count * sizeof(T));
      }
    }
    cuda::Global<T> get() const { return {memory_.get(), static_cast<int64_t>(count_), name_}; }
    void download(T* to, size_t count) const {
      if (count > count_) {
        throw simt::Error("more is asked for than there is");
      }
      std::copy_n(memory_.get(), count, to);
    }

   private:
    std::unique_ptr<T[]> memory_;  // NOLINT(modernize-avoid-c-arrays)
    size_t count_;
    const char* name_;
  };

  explicit EmulatedDevice(const simt::Schedule& schedule) : schedule_(schedule) {}

  template <typename T>
  Buffer<T> make(size_t count, const char* name) {
    return {count, name};
  }
  template <typename T>
  Buffer<T> upload(const std::vector<T>& from, const char* name) {
    Buffer<T> out(from.size(), name);
    std::copy(from.begin(), from.end(), out.get().begin());
    return out;
  }
  template <typename Job>
  void launch(void (*kernel)(Job), unsigned blocks, const Job& job) {
    simt::launch(blocks, cuda::kThreads, schedule_, [&] { kernel(job); });
  }
  std::string name() const { return "threads as fibers"; }
  void use() const {}
  /// Few, so that each works on several pieces.
  unsigned blocks(size_t work) const { return static_cast<unsigned>(std::min<size_t>(work, 3)); }

 private:
  simt::Schedule schedule_;
};

}  // namespace varve::codec::testing
