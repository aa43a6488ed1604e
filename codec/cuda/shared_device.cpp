#include "codec/cuda/shared_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace varve::codec::cuda {

SharedDevice::SharedDevice(std::unique_ptr<DeviceCodec> device, std::function<void(const std::string&)> log)
    : device_(std::move(device)), log_(std::move(log)), name_(device_->name()) {}

std::optional<std::vector<Record>> SharedDevice::encode_tile(const Settings& settings, uint64_t tile,
                                                             const std::byte* data, WorkErrors* errors) {
  if (why_unsupported(settings) != Unsupported::no) {
    return std::nullopt;
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || device_ == nullptr) {
    return std::nullopt;
  }
  EncodeCounts counts;
  std::vector<WorkErrors> found;
  auto made = device_->encode(settings, {tile}, settings.geometry.tile_box(tile), data, counts,
                              errors != nullptr ? &found : nullptr);
  if (!made.ok()) {
    log_(fmt::format("{} is not used any more, the CPU goes on: {}", name_, made.error().text));
    device_.reset();
    return std::nullopt;
  }
  tiles_ += counts.device_tiles;
  if (errors != nullptr) {
    *errors = found.at(0);
  }
  return std::move(made->at(0));
}

std::shared_ptr<SharedDevice> open_shared_device(const DeviceChoice& choice, const std::vector<std::string>& plugins,
                                                 const std::function<void(const std::string&)>& log) {
  if (choice.kind == DeviceChoice::Kind::cpu) {
    return nullptr;
  }
  const auto plugin = std::find_if(plugins.begin(), plugins.end(),
                                   [](const std::string& path) { return access(path.c_str(), R_OK) == 0; });
  if (plugin == plugins.end()) {
    log("no CUDA plug-in is installed: the CPU does all");
    return nullptr;
  }
  auto device = open_device(*plugin, choice.number);
  if (!device.ok()) {
    log(fmt::format("the CPU does all: {}", device.error().text));
    return nullptr;
  }
  return std::make_shared<SharedDevice>(*std::move(device), log);
}

}  // namespace varve::codec::cuda
