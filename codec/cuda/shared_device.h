// One device for all threads that encode.
#pragma once

#include <atomic>
#include <mutex>

#include "codec/cuda/device_codec.h"

namespace varve::codec::cuda {

/// Thread-safe. A device takes one tile at a time: who finds it busy works on the CPU, to the same bytes. A device that
/// fails is not used again.
class SharedDevice {
 public:
  /// `log`: takes a sentence when the device fails.
  SharedDevice(std::unique_ptr<DeviceCodec> device, std::function<void(const std::string&)> log);

  /// The records of a tile; `errors` as of DeviceCodec. Nothing: the CPU is to encode it, as the array is not for
  /// devices, or the device is busy or gone.
  std::optional<std::vector<Record>> encode_tile(const Settings& settings, uint64_t tile, const std::byte* data,
                                                 WorkErrors* errors);
  /// How many tiles it has encoded.
  uint64_t tiles() const { return tiles_.load(std::memory_order_relaxed); }
  const std::string& name() const { return name_; }

 private:
  std::mutex mutex_;
  std::unique_ptr<DeviceCodec> device_;  ///< null: it has failed
  std::function<void(const std::string&)> log_;
  std::string name_;
  std::atomic<uint64_t> tiles_{0};
};

/// The device of a choice, its plug-in being the first of `plugins` that is there. Null: none; unless the choice says
/// so, `log` is told why.
std::shared_ptr<SharedDevice> open_shared_device(const DeviceChoice& choice, const std::vector<std::string>& plugins,
                                                 const std::function<void(const std::string&)>& log);

}  // namespace varve::codec::cuda
