// The device that tests use.
#pragma once

#include "codec/cuda/device_codec.h"

namespace varve::codec::testing {

/// Emulated: threads run forward, backward or shuffled, as `order` % 3 says. A CUDA device has its own order.
/// Null: there is no device.
std::shared_ptr<cuda::DeviceCodec> make_device(unsigned order = 0);

}  // namespace varve::codec::testing
