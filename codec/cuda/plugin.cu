// The plug-in library: the kernels for CUDA devices. See device_codec.h.
#include <algorithm>
#include <cstring>

#include "codec/cuda/cuda_device.h"
#include "codec/cuda/device_codec_of.h"

extern "C" __attribute__((visibility("default"))) varve::codec::cuda::DeviceCodec* varve_cuda_open(const char* abi,
                                                                                                   int number,
                                                                                                   char* error,
                                                                                                   size_t error_size) {
  using namespace varve::codec::cuda;  // NOLINT
  const auto fail = [&](const std::string& text) -> DeviceCodec* {
    const size_t size = std::min(error_size - 1, text.size());
    std::memcpy(error, text.data(), size);
    error[size] = 0;
    return nullptr;
  };
  if (plugin_abi() != abi) {
    return fail("the CUDA plug-in is of another build than the program: install both from one");
  }
  try {
    const int count = CudaDevice::count();
    if (number >= count) {
      return fail(count == 0 ? "there is no CUDA device, or no driver for it"
                             : "there is no CUDA device " + std::to_string(number));
    }
    return new DeviceCodecOf<CudaDevice>(CudaDevice(number));
  } catch (const std::exception& problem) {
    return fail(problem.what());
  }
}
