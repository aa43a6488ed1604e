// A disk that fails when it is told to: below packs and staging, and below RocksDB.
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "index/device.h"

namespace varve::index::testing {

/// What a failing disk is asked to do. Shared by the two wrappers below.
struct Trouble {
  std::atomic<int> code{0};         ///< 0: none, else what writes fail with
  std::atomic<int64_t> allowed{0};  ///< bytes that still fit before that
  std::atomic<bool> failing_syncs{false};
  std::atomic<int> vanishing{0};  ///< so many opens for reading find no file
  std::atomic<uint64_t> opened{0};
  std::atomic<uint64_t> syncs{0};

  bool refuses(size_t bytes) { return code != 0 && (allowed -= static_cast<int64_t>(bytes)) < 0; }
};

class BadFile final : public DeviceFile {
 public:
  BadFile(std::unique_ptr<DeviceFile> file, std::shared_ptr<Trouble> trouble)
      : file_(std::move(file)), trouble_(std::move(trouble)) {}
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override { return file_->read(offset, out); }
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    if (trouble_->refuses(data.size())) {
      (void)file_->write(offset, data.first(data.size() / 2));
      return Error{trouble_->code, "injected"};
    }
    return file_->write(offset, data);
  }
  Status truncate(uint64_t size) override { return file_->truncate(size); }
  Status punch(uint64_t offset, uint64_t length) override { return file_->punch(offset, length); }
  Status reserve(uint64_t offset, uint64_t length) override { return file_->reserve(offset, length); }
  Status sync() override {
    ++trouble_->syncs;
    return trouble_->failing_syncs ? Status(Error{EIO, "injected"}) : file_->sync();
  }
  Result<uint64_t> size() override { return file_->size(); }
  Result<uint64_t> allocated() override { return file_->allocated(); }
  Result<uint64_t> seek(uint64_t offset, bool data) override { return file_->seek(offset, data); }

 private:
  std::unique_ptr<DeviceFile> file_;
  std::shared_ptr<Trouble> trouble_;
};

class BadDevice final : public Device {
 public:
  explicit BadDevice(std::shared_ptr<Trouble> trouble) : trouble_(std::move(trouble)) {}
  Result<std::unique_ptr<DeviceFile>> open(const std::string& path, Mode mode) override {
    ++trouble_->opened;
    if (mode == Mode::read && trouble_->vanishing > 0) {
      --trouble_->vanishing;
      return Error{ENOENT, "injected"};
    }
    VARVE_ASSIGN(auto file, real_->open(path, mode));
    return std::unique_ptr<DeviceFile>(std::make_unique<BadFile>(std::move(file), trouble_));
  }
  Status remove(const std::string& path) override { return real_->remove(path); }
  Status make_directory(const std::string& path) override { return real_->make_directory(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return real_->list(path); }
  Status sync_directory(const std::string& path) override { return real_->sync_directory(path); }
  Result<DeviceSpace> space(const std::string& path) override {
    VARVE_ASSIGN(auto space, real_->space(path));
    if (trouble_->code == ENOSPC) {
      space.blocks_free = space.blocks_available = 0;
    }
    return space;
  }

 private:
  std::shared_ptr<Device> real_ = posix_device();
  std::shared_ptr<Trouble> trouble_;
};

class BadWritable final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  BadWritable(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::shared_ptr<Trouble> trouble)
      : FSWritableFileOwnerWrapper(std::move(file)), trouble_(std::move(trouble)) {}
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    if (trouble_->refuses(data.size())) {
      (void)target()->Append(rocksdb::Slice(data.data(), data.size() / 2), options, context);
      return failure();
    }
    return target()->Append(data, options, context);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info, rocksdb::IODebugContext* context) override {
    if (trouble_->refuses(data.size())) {
      return failure();
    }
    return target()->Append(data, options, info, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    ++trouble_->syncs;
    return trouble_->failing_syncs ? rocksdb::IOStatus::IOError("injected") : target()->Sync(options, context);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    return trouble_->failing_syncs ? rocksdb::IOStatus::IOError("injected") : target()->Fsync(options, context);
  }

 private:
  rocksdb::IOStatus failure() const {
    return trouble_->code == ENOSPC ? rocksdb::IOStatus::NoSpace("injected") : rocksdb::IOStatus::IOError("injected");
  }
  std::shared_ptr<Trouble> trouble_;
};

class BadFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit BadFileSystem(std::shared_ptr<Trouble> trouble)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), trouble_(std::move(trouble)) {}
  const char* Name() const override { return "BadFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    ++trouble_->opened;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = target()->NewWritableFile(name, options, &file, context);
    if (status.ok()) {
      *result = std::make_unique<BadWritable>(std::move(file), trouble_);
    }
    return status;
  }

 private:
  std::shared_ptr<Trouble> trouble_;
};

}  // namespace varve::index::testing
