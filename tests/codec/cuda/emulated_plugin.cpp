// A plug-in library whose device is emulated: for tests of programs that load one. VARVE_EMULATED_LAUNCHES, if set, is
// how many kernels it runs before it fails.
#include <cstdlib>

#include "tests/codec/cuda/emulated.h"
// The emulator comes first.
#include "codec/cuda/device_codec_of.h"

namespace {

class MortalDevice : public varve::codec::testing::EmulatedDevice {
 public:
  explicit MortalDevice(uint64_t launches) : EmulatedDevice({varve::simt::Order::forward}), launches_(launches) {}
  template <typename Job>
  void launch(void (*kernel)(Job), unsigned blocks, const Job& job) {
    if (launches_ == 0) {
      throw varve::codec::cuda::DeviceError("the emulated device was to fail here");
    }
    --launches_;
    EmulatedDevice::launch(kernel, blocks, job);
  }

 private:
  uint64_t launches_;
};

}  // namespace

extern "C" varve::codec::cuda::DeviceCodec* varve_cuda_open(const char* abi, int number, char* error,
                                                            size_t error_size) {
  if (varve::codec::cuda::plugin_abi() != abi || number > 0) {
    std::strncpy(error, "the emulated device has number 0", error_size - 1);
    return nullptr;
  }
  const char* launches = std::getenv("VARVE_EMULATED_LAUNCHES");
  return new varve::codec::cuda::DeviceCodecOf<MortalDevice>(
      MortalDevice(launches != nullptr ? std::strtoull(launches, nullptr, 10) : UINT64_MAX));
}
