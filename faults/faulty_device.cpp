#include "faults/faulty_device.h"

#include <cerrno>

namespace varve::faults {
namespace {

template <typename T, typename Pass>
Result<T> around(Injector& injector, Op op, const std::string& path, const Pass& pass) {
  if (!injector.armed(Seam::device)) {
    return pass();
  }
  return injector.around_result<T>({Seam::device, op, path, 0}, pass);
}

class FaultyFile final : public index::DeviceFile {
 public:
  FaultyFile(std::unique_ptr<index::DeviceFile> below, std::string path, Injector& injector)
      : below_(std::move(below)), path_(std::move(path)), injector_(injector) {}

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    if (!injector_.armed(Seam::device)) {
      return below_->read(offset, out);
    }
    DeviceMedium file(*below_);
    return until_done(out.size(), [&](size_t done) {
      return injector_.read(call(Op::read), file, offset + done, out.subspan(done));
    });
  }
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    if (!injector_.armed(Seam::device)) {
      return below_->write(offset, data);
    }
    DeviceMedium file(*below_);
    const auto done = until_done(
        data.size(), [&](size_t at) { return injector_.write(call(Op::write), file, offset + at, data.subspan(at)); });
    if (!done.ok()) {
      return done.error();
    }
    return *done == data.size() ? Status() : Status(Error{EIO, "the disk took no more bytes of " + path_});
  }
  Status truncate(uint64_t size) override {
    if (!injector_.armed(Seam::device)) {
      return below_->truncate(size);
    }
    DeviceMedium file(*below_);
    return injector_.truncate(call(Op::truncate), file, size, [&] { return below_->truncate(size); });
  }
  Status punch(uint64_t offset, uint64_t length) override {
    return around<void>(injector_, Op::allocate, path_, [&] { return below_->punch(offset, length); });
  }
  Status reserve(uint64_t offset, uint64_t length) override {
    return around<void>(injector_, Op::allocate, path_, [&] { return below_->reserve(offset, length); });
  }
  Status sync() override {
    const auto pass = [&] { return below_->sync(); };
    return injector_.armed(Seam::device) ? injector_.fsync(call(Op::fsync), pass) : pass();
  }
  Result<uint64_t> size() override { return below_->size(); }
  Result<uint64_t> allocated() override { return below_->allocated(); }
  Result<uint64_t> seek(uint64_t offset, bool data) override {
    return around<uint64_t>(injector_, Op::seek, path_, [&] { return below_->seek(offset, data); });
  }

 private:
  Call call(Op op) const { return {Seam::device, op, path_, 0}; }

  std::unique_ptr<index::DeviceFile> below_;
  const std::string path_;
  Injector& injector_;
};

class FaultyDevice final : public index::Device {
 public:
  FaultyDevice(std::shared_ptr<index::Device> below, std::string store, Injector& injector)
      : below_(std::move(below)), store_(std::move(store)), injector_(injector) {}

  Result<std::unique_ptr<index::DeviceFile>> open(const std::string& path, Mode mode) override {
    using File = std::unique_ptr<index::DeviceFile>;
    std::string inside = path_in_store(store_, path);
    VARVE_ASSIGN(File file, around<File>(injector_, mode == Mode::create ? Op::create : Op::open, inside,
                                         [&] { return below_->open(path, mode); }));
    return File(std::make_unique<FaultyFile>(std::move(file), std::move(inside), injector_));
  }
  Status remove(const std::string& path) override {
    const std::string inside = path_in_store(store_, path);
    VARVE_TRY(around<void>(injector_, Op::unlink, inside, [&] { return below_->remove(path); }));
    injector_.removed(Seam::device, inside);
    return {};
  }
  Status make_directory(const std::string& path) override {
    return around<void>(injector_, Op::mkdir, path_in_store(store_, path),
                        [&] { return below_->make_directory(path); });
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return around<std::vector<std::string>>(injector_, Op::readdir, path_in_store(store_, path),
                                            [&] { return below_->list(path); });
  }
  Status sync_directory(const std::string& path) override {
    return around<void>(injector_, Op::fsync, path_in_store(store_, path),
                        [&] { return below_->sync_directory(path); });
  }
  Result<index::DeviceSpace> space(const std::string& path) override {
    return around<index::DeviceSpace>(injector_, Op::statfs, path_in_store(store_, path),
                                      [&] { return below_->space(path); });
  }

 private:
  std::shared_ptr<index::Device> below_;
  const std::string store_;
  Injector& injector_;
};

}  // namespace

std::string path_in_store(const std::string& store, const std::string& path) {
  const bool inside = path.starts_with(store) && (path.size() == store.size() || path[store.size()] == '/');
  return inside ? path.substr(std::min(store.size() + 1, path.size())) : path;
}

std::shared_ptr<index::Device> faulty_device(std::shared_ptr<index::Device> below, std::string store,
                                             Injector& injector) {
  injector.set_reopen(Seam::device, [below, store](const std::string& path) -> Result<std::unique_ptr<Medium>> {
    VARVE_ASSIGN(auto file, below->open(store + "/" + path, index::Device::Mode::write));
    return std::unique_ptr<Medium>(std::make_unique<DeviceMedium>(std::move(file)));
  });
  return std::make_shared<FaultyDevice>(std::move(below), std::move(store), injector);
}

}  // namespace varve::faults
