// Kernels as C++.
#include "tests/codec/cuda/emulated.h"
// The emulator comes first.
#include "codec/cuda/device_codec_of.h"
#include "tests/codec/cuda/device.h"

namespace varve::codec::testing {

std::shared_ptr<cuda::DeviceCodec> make_device(unsigned order) {
  const simt::Schedule schedule{static_cast<simt::Order>(order % 3), order};
  return std::make_shared<cuda::DeviceCodecOf<EmulatedDevice>>(EmulatedDevice(schedule));
}

}  // namespace varve::codec::testing
