#include "tests/crash/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

namespace varve::crash {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

int make(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
  return descriptor;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::span<const std::byte> bytes_of(const rocksdb::Slice& data) {
  return {reinterpret_cast<const std::byte*>(data.data()), data.size()};
}

}  // namespace

Recorder::Recorder(std::string store, const std::string& trace) : store_(std::move(store)), trace_(make(trace)) {
  const int counter = make(trace + ".count");
  if (::ftruncate(counter, sizeof(uint64_t)) != 0) {
    std::perror("count");
    std::exit(1);
  }
  void* const place = ::mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, counter, 0);
  ::close(counter);
  if (place == MAP_FAILED) {
    std::perror("count");
    std::exit(1);
  }
  count_ = static_cast<std::atomic<uint64_t>*>(place);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store_, ignored)) {
    const std::string path = inside(entry.path().string());
    if (entry.is_directory()) {
      add(Step::exists, 0, 0, 0, path, {});
    } else {
      files_[path] = next_;
      add(Step::exists, next_++, 0, 0, path, {});
    }
  }
}

std::string Recorder::inside(const std::string& path) const {
  if (!path.starts_with(store_)) {
    return path;
  }
  std::string rest = path.substr(store_.size());
  rest.erase(0, rest.find_first_not_of('/'));
  while (rest.ends_with('/')) {
    rest.pop_back();
  }
  if (const size_t twice = rest.find("//"); twice != std::string::npos) {
    rest.erase(twice, 1);
  }
  return rest;
}

uint64_t Recorder::file_at(const std::string& path) {
  const std::lock_guard lock(mutex_);
  uint64_t& file = files_[inside(path)];
  file = file == 0 ? next_++ : file;
  return file;
}

uint64_t Recorder::opened(const std::string& path, bool existed, bool emptied) {
  const uint64_t file = file_at(path);
  const std::lock_guard lock(mutex_);
  if (!existed) {
    add(Step::create, file, 0, 0, inside(path), {});
  } else if (emptied) {
    add(Step::truncate, file, 0, 0, {}, {});
  }
  return file;
}

void Recorder::file_step(Step step, uint64_t file, uint64_t a, uint64_t b, std::span<const std::byte> data) {
  const std::lock_guard lock(mutex_);
  add(step, file, a, b, {}, data);
}

void Recorder::path_step(Step step, const std::string& path, uint64_t a, const std::string& other) {
  const std::lock_guard lock(mutex_);
  const std::string here = inside(path);
  const std::string there = inside(other);
  if (step == Step::unlink) {
    files_.erase(here);
  } else if (step == Step::rename) {
    files_[there] = files_[here];
    files_.erase(here);
  }
  add(step, 0, a, 0, here, std::as_bytes(std::span(there)));
}

/// With the lock held.
void Recorder::add(Step step, uint64_t file, uint64_t a, uint64_t b, std::string_view path,
                   std::span<const std::byte> data) {
  const std::array<uint64_t, 4> numbers = {file, a, b, data.size()};
  const auto length = static_cast<uint32_t>(path.size());
  std::string line(1, static_cast<char>(step));
  line.append(reinterpret_cast<const char*>(&length), sizeof length);
  line.append(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  line.append(path);
  line.append(reinterpret_cast<const char*>(data.data()), data.size());
  if (::write(trace_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::perror("the trace");
    std::abort();
  }
  ++*count_;
}

namespace {

class RecordedFile final : public index::DeviceFile {
 public:
  RecordedFile(std::unique_ptr<index::DeviceFile> below, uint64_t file, Recorder& recorder)
      : below_(std::move(below)), file_(file), recorder_(recorder) {}

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override { return below_->read(offset, out); }
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    VARVE_TRY(below_->write(offset, data));
    recorder_.file_step(Step::write, file_, offset, 0, data);
    return {};
  }
  Status truncate(uint64_t size) override {
    VARVE_TRY(below_->truncate(size));
    recorder_.file_step(Step::truncate, file_, size);
    return {};
  }
  Status punch(uint64_t offset, uint64_t length) override {
    VARVE_TRY(below_->punch(offset, length));
    recorder_.file_step(Step::punch, file_, offset, length);
    return {};
  }
  Status reserve(uint64_t offset, uint64_t length) override { return below_->reserve(offset, length); }
  Status sync() override {
    recorder_.file_step(Step::sync, file_, recorder_.count());
    return {};
  }
  Result<uint64_t> size() override { return below_->size(); }
  Result<uint64_t> allocated() override { return below_->allocated(); }
  Result<uint64_t> seek(uint64_t offset, bool data) override { return below_->seek(offset, data); }

 private:
  std::unique_ptr<index::DeviceFile> below_;
  const uint64_t file_;
  Recorder& recorder_;
};

class RecordedDevice final : public index::Device {
 public:
  explicit RecordedDevice(Recorder& recorder) : recorder_(recorder) {}

  Result<std::unique_ptr<index::DeviceFile>> open(const std::string& path, Mode mode) override {
    const bool existed = exists(path);
    VARVE_ASSIGN(auto file, below_->open(path, mode));
    if (mode == Mode::read) {
      return file;
    }
    const uint64_t number = recorder_.opened(path, existed, false);
    return std::unique_ptr<index::DeviceFile>(std::make_unique<RecordedFile>(std::move(file), number, recorder_));
  }
  Status remove(const std::string& path) override {
    VARVE_TRY(below_->remove(path));
    recorder_.path_step(Step::unlink, path);
    return {};
  }
  Status make_directory(const std::string& path) override {
    const bool existed = exists(path);
    VARVE_TRY(below_->make_directory(path));
    if (!existed) {
      recorder_.path_step(Step::make, path);
    }
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& path) override { return below_->list(path); }
  Status sync_directory(const std::string& path) override {
    recorder_.path_step(Step::sync_path, path, recorder_.count());
    return {};
  }
  Result<index::DeviceSpace> space(const std::string& path) override { return below_->space(path); }

 private:
  std::shared_ptr<index::Device> below_ = index::posix_device();
  Recorder& recorder_;
};

class RecordedTable final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  RecordedTable(std::unique_ptr<rocksdb::FSWritableFile> below, uint64_t file, uint64_t end, Recorder& recorder)
      : FSWritableFileOwnerWrapper(std::move(below)), file_(file), end_(end), recorder_(recorder) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* context) override {
    IOStatus status = target()->Append(data, options, context);
    if (status.ok()) {
      recorder_.file_step(Step::write, file_, end_, 0, bytes_of(data));
      end_ += data.size();
    }
    return status;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* context) override {
    return Append(data, options, context);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* context) override {
    IOStatus status = target()->Truncate(size, options, context);
    if (status.ok()) {
      end_ = size;
      recorder_.file_step(Step::truncate, file_, size);
    }
    return status;
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    recorder_.file_step(Step::sync, file_, recorder_.count());
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override { return Sync(options, context); }

 private:
  const uint64_t file_;
  uint64_t end_;  ///< one thread appends at a time
  Recorder& recorder_;
};

class RecordedDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  RecordedDirectory(std::unique_ptr<rocksdb::FSDirectory> below, std::string path, Recorder& recorder)
      : FSDirectoryWrapper(std::move(below)), path_(std::move(path)), recorder_(recorder) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    recorder_.path_step(Step::sync_path, path_, recorder_.count());
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* context,
                               const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, context);
  }

 private:
  const std::string path_;
  Recorder& recorder_;
};

class RecordedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit RecordedFileSystem(Recorder& recorder)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), recorder_(recorder) {}
  const char* Name() const override { return "VarveRecorder"; }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* context) override {
    return open(name, true, result,
                [&](auto* file) { return target()->NewWritableFile(name, options, file, context); });
  }
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* context) override {
    return open(name, false, result,
                [&](auto* file) { return target()->ReopenWritableFile(name, options, file, context); });
  }
  IOStatus ReuseWritableFile(const std::string& name, const std::string& old, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* context) override {
    IOStatus status = RenameFile(old, name, IOOptions(), context);
    return status.ok() ? NewWritableFile(name, options, result, context) : status;
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSDirectory> below;
    IOStatus status = target()->NewDirectory(name, options, &below, context);
    if (status.ok()) {
      *result = std::make_unique<RecordedDirectory>(std::move(below), name, recorder_);
    }
    return status;
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions& options, IODebugContext* context) override {
    IOStatus status = target()->DeleteFile(name, options, context);
    if (status.ok()) {
      recorder_.path_step(Step::unlink, name);
    }
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* context) override {
    IOStatus status = target()->RenameFile(from, to, options, context);
    if (status.ok()) {
      recorder_.path_step(Step::rename, from, 0, to);
    }
    return status;
  }
  IOStatus Truncate(const std::string& name, size_t size, const IOOptions& options, IODebugContext* context) override {
    IOStatus status = target()->Truncate(name, size, options, context);
    if (status.ok()) {
      recorder_.file_step(Step::truncate, recorder_.file_at(name), size);
    }
    return status;
  }
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions& options, IODebugContext* context) override {
    const bool existed = exists(name);
    IOStatus status = target()->CreateDirIfMissing(name, options, context);
    if (status.ok() && !existed) {
      recorder_.path_step(Step::make, name);
    }
    return status;
  }
  // What the record has no step for: RocksDB does not do these in such a database.
  IOStatus LinkFile(const std::string& from, const std::string&, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("link", from);
  }
  IOStatus NewRandomRWFile(const std::string& name, const FileOptions&, std::unique_ptr<rocksdb::FSRandomRWFile>*,
                           IODebugContext*) override {
    return IOStatus::NotSupported("random writes", name);
  }

 private:
  template <typename Open>
  IOStatus open(const std::string& name, bool empties, std::unique_ptr<rocksdb::FSWritableFile>* result,
                const Open& open_below) {
    const bool existed = exists(name);
    std::error_code ignored;
    const uint64_t end = existed && !empties ? std::filesystem::file_size(name, ignored) : 0;
    std::unique_ptr<rocksdb::FSWritableFile> below;
    IOStatus status = open_below(&below);
    if (status.ok()) {
      const uint64_t file = recorder_.opened(name, existed, empties);
      *result = std::make_unique<RecordedTable>(std::move(below), file, end, recorder_);
    }
    return status;
  }

  Recorder& recorder_;
};

}  // namespace

std::shared_ptr<index::Device> recording_device(Recorder& recorder) {
  return std::make_shared<RecordedDevice>(recorder);
}

std::shared_ptr<rocksdb::FileSystem> recording_file_system(Recorder& recorder) {
  return std::make_shared<RecordedFileSystem>(recorder);
}

}  // namespace varve::crash
