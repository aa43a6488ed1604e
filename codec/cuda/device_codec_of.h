// A DeviceCodec of any Device: see host_jobs.h.
#pragma once

#include "codec/cuda/host_decode.h"
#include "codec/cuda/host_encode.h"

namespace varve::codec::cuda {

template <typename Device>
class DeviceCodecOf : public DeviceCodec {
 public:
  explicit DeviceCodecOf(Device device) : device_(std::move(device)) {}

  std::string name() const override { return device_.name(); }

  Status decode(const Settings& settings, const std::vector<uint64_t>& tiles, const FindRecord& find, uint8_t finest,
                const Box& into, std::byte* out, DecodeCounts& counts) override {
    return guarded([&]() -> Status {
      if (settings.dtype == DType::f32) {
        return TileDecoder<float, Device>(device_, settings, find, finest, into, out).decode(tiles, counts);
      }
      return TileDecoder<double, Device>(device_, settings, find, finest, into, out).decode(tiles, counts);
    });
  }

  Result<std::vector<std::vector<Record>>> encode(const Settings& settings, const std::vector<uint64_t>& tiles,
                                                  const Box& from, const std::byte* data, EncodeCounts& counts,
                                                  std::vector<WorkErrors>* errors) override {
    return guarded([&]() -> Result<std::vector<std::vector<Record>>> {
      if (settings.dtype == DType::f32) {
        return DeviceTileEncoder<float, Device>(device_, settings, from, data).encode(tiles, counts, errors);
      }
      return DeviceTileEncoder<double, Device>(device_, settings, from, data).encode(tiles, counts, errors);
    });
  }

 private:
  template <typename F>
  auto guarded(const F& work) -> decltype(work()) {
    try {
      device_.use();
      return work();
    } catch (const DeviceError& error) {
      return Error{ENODEV, std::string(error.what())};
    }
  }
  Device device_;
};

}  // namespace varve::codec::cuda
