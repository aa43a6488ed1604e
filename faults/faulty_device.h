// The lower seam, first half: stands between the store and the disk for packs and staging (index::Device), and knows
// how files of the store are called here. The other half is faulty_tables.h.
#pragma once

#include "faults/injector.h"
#include "index/device.h"

namespace varve::faults {

/// A file of the store, below the seam.
class DeviceMedium final : public Medium {
 public:
  explicit DeviceMedium(index::DeviceFile& file) : file_(file) {}
  explicit DeviceMedium(std::unique_ptr<index::DeviceFile> file) : owned_(std::move(file)), file_(*owned_) {}
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override { return file_.read(offset, out); }
  Status write(uint64_t offset, std::span<const std::byte> data) override { return file_.write(offset, data); }
  Result<uint64_t> size() override { return file_.size(); }
  Status truncate(uint64_t size) override { return file_.truncate(size); }

 private:
  std::unique_ptr<index::DeviceFile> owned_;
  index::DeviceFile& file_;
};

/// Paths of schedules and journals are from the store's root: "packs/00000001.pack".
std::string path_in_store(const std::string& store, const std::string& path);

/// Short reads and writes, which faults may make, are gone on with as an operating system's callers do: `operation`
/// does what it can of the bytes from `done` on.
template <typename Operation>
Result<size_t> until_done(size_t wanted, const Operation& operation) {
  size_t done = 0;
  while (done < wanted) {
    VARVE_ASSIGN(const size_t count, operation(done));
    if (count == 0) {
      break;
    }
    done += count;
  }
  return done;
}

/// Thread-safe. `store`: the store's absolute path. `injector` must outlive it and the files that it opened.
std::shared_ptr<index::Device> faulty_device(std::shared_ptr<index::Device> below, std::string store,
                                             Injector& injector);

}  // namespace varve::faults
