// The plug-in that nvcc compiled, on device 0.
#include <cstdio>

#include "tests/codec/cuda/device.h"

namespace varve::codec::testing {

std::shared_ptr<cuda::DeviceCodec> make_device(unsigned /*order*/) {
  static const std::shared_ptr<cuda::DeviceCodec> device = []() -> std::shared_ptr<cuda::DeviceCodec> {
    auto opened = cuda::open_device(VARVE_CUDA_PLUGIN, 0);
    if (!opened.ok()) {
      std::printf("%s\n", opened.error().text.c_str());
      return nullptr;
    }
    return *std::move(opened);
  }();
  return device;
}

}  // namespace varve::codec::testing
