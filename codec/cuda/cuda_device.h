// A CUDA device as host_jobs.h wants one. For nvcc alone.
#pragma once

#include <string>
#include <utility>

#include "codec/cuda/host_jobs.h"

namespace varve::codec::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw DeviceError(std::string(what) + ": " + cudaGetErrorString(status));
  }
}

/// Not thread-safe; one thread after the other may use it.
class CudaDevice {
 public:
  template <typename T>
  class Buffer {
   public:
    Buffer(size_t count, const char* name) : count_(count), name_(name) {
      if (count > 0) {
        check(cudaMalloc(reinterpret_cast<void**>(&at_), count * sizeof(T)), name);
      }
    }
    Buffer(Buffer&& from) noexcept : at_(std::exchange(from.at_, nullptr)), count_(from.count_), name_(from.name_) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Buffer& operator=(Buffer&&) = delete;
    ~Buffer() { cudaFree(at_); }
    T* get() const { return at_; }
    void download(T* to, size_t count) const {
      if (count > 0) {
        check(cudaMemcpy(to, at_, count * sizeof(T), cudaMemcpyDeviceToHost), name_);
      }
    }
    void upload(const std::vector<T>& from) {
      if (!from.empty()) {
        check(cudaMemcpy(at_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), name_);
      }
    }

   private:
    T* at_ = nullptr;
    size_t count_;
    const char* name_;
  };

  /// How many there are; 0 without a driver.
  static int count() {
    int found = 0;
    return cudaGetDeviceCount(&found) == cudaSuccess ? found : 0;
  }
  explicit CudaDevice(int number) : number_(number) {
    use();
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, number), "the device tells nothing of itself");
    processors_ = properties.multiProcessorCount;
    name_ = properties.name;
  }
  const std::string& name() const { return name_; }
  /// Makes what the calling thread does go to this device.
  void use() const { check(cudaSetDevice(number_), "the device cannot be used"); }

  template <typename T>
  Buffer<T> make(size_t count, const char* name) {
    return {count, name};
  }
  template <typename T>
  Buffer<T> upload(const std::vector<T>& from, const char* name) {
    Buffer<T> out(from.size(), name);
    out.upload(from);
    return out;
  }
  template <typename Job>
  void launch(void (*kernel)(Job), unsigned blocks, const Job& job) {
    kernel<<<blocks, kThreads>>>(job);
    check(cudaGetLastError(), "a kernel was not started");
    check(cudaDeviceSynchronize(), "a kernel failed");
  }
  /// As many as run at once: kernels use up to 128 registers a thread.
  unsigned blocks(size_t work) const {
    constexpr unsigned kResident = 4;  // of each multiprocessor
    return static_cast<unsigned>(std::min<size_t>(work, kResident * static_cast<unsigned>(processors_)));
  }

 private:
  int number_;
  int processors_ = 1;
  std::string name_;
};

}  // namespace varve::codec::cuda
