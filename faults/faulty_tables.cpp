#include "faults/faulty_tables.h"

#include <rocksdb/file_system.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace varve::faults {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus to_rocksdb(const Error& error) {
  const std::string why = std::generic_category().message(error.code);
  if (error.code == ENOSPC) {
    return IOStatus::NoSpace(error.text, why);
  }
  return error.code == ENOENT ? IOStatus::PathNotFound(error.text, why) : IOStatus::IOError(error.text, why);
}

Error from_rocksdb(const IOStatus& status) {
  return {status.IsNoSpace()                               ? ENOSPC
          : status.IsPathNotFound() || status.IsNotFound() ? ENOENT
                                                           : EIO,
          status.ToString()};
}

/// `pass`, which tells by an IOStatus, with what a fault makes of it.
template <typename Pass>
IOStatus around(Injector& injector, Op op, const std::string& path, const Pass& pass) {
  if (!injector.armed(Seam::device)) {
    return pass();
  }
  IOStatus below;
  const auto step = [&]() -> Status {
    below = pass();
    return below.ok() ? Status() : Status(from_rocksdb(below));
  };
  const Call call{Seam::device, op, path, 0};
  const Status done = op == Op::fsync ? injector.fsync(call, step) : injector.around(call, step);
  return below.ok() && !done.ok() ? to_rocksdb(done.error()) : below;
}

/// Where a file is, for all that is opened here.
struct Place {
  std::string absolute;
  std::string inside;  ///< from the store's root
  std::shared_ptr<index::Device> device;
  Injector& injector;

  bool armed() const { return injector.armed(Seam::device); }
  Call call(Op op) const { return {Seam::device, op, inside, 0}; }
};

/// The same file through a descriptor of our own, opened when it is needed.
class SecondOpening : public Medium {
 public:
  explicit SecondOpening(const Place& place) : place_(place) {}
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    VARVE_TRY(open());
    return file_->read(offset, out);
  }
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    VARVE_TRY(open());
    return file_->write(offset, data);
  }
  Result<uint64_t> size() override {
    VARVE_TRY(open());
    return file_->size();
  }
  Status truncate(uint64_t size) override {
    VARVE_TRY(open());
    return file_->truncate(size);
  }

 private:
  Status open() {
    if (!file_) {
      VARVE_ASSIGN(file_, place_.device->open(place_.absolute, index::Device::Mode::write));
    }
    return {};
  }

  const Place& place_;
  std::unique_ptr<index::DeviceFile> file_;
};

/// Reads through RocksDB's own file; all else through the second opening.
template <typename ReadBelow>
class ReadMedium final : public SecondOpening {
 public:
  ReadMedium(const Place& place, const ReadBelow& read_below) : SecondOpening(place), read_below_(read_below) {}
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    Slice result;
    auto* scratch = reinterpret_cast<char*>(out.data());
    const auto status = read_below_(offset, out.size(), &result, scratch);
    if (!status) {
      return SecondOpening::read(offset, out);  // elsewhere than where a sequential file stands
    }
    if (!status->ok()) {
      return from_rocksdb(*status);
    }
    if (result.data() != scratch) {
      std::memcpy(scratch, result.data(), result.size());
    }
    return result.size();
  }

 private:
  const ReadBelow& read_below_;
};

/// `read_below`: offset, length, result, scratch -> IOStatus, or nothing if it cannot read there.
template <typename ReadBelow>
IOStatus faulty_read(const Place& place, uint64_t offset, size_t length, Slice* result, char* scratch,
                     const ReadBelow& read_below) {
  ReadMedium<ReadBelow> file(place, read_below);
  const std::span out(reinterpret_cast<std::byte*>(scratch), length);
  const auto got = until_done(length, [&](size_t done) {
    return place.injector.read(place.call(Op::read), file, offset + done, out.subspan(done));
  });
  *result = Slice(scratch, got.ok() ? *got : 0);
  return got.ok() ? IOStatus::OK() : to_rocksdb(got.error());
}

class SequentialFile final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  SequentialFile(std::unique_ptr<rocksdb::FSSequentialFile> below, Place place)
      : FSSequentialFileOwnerWrapper(std::move(below)), place_(std::move(place)) {}

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) override {
    IOStatus status;
    if (!place_.armed()) {
      status = target()->Read(n, options, result, scratch, dbg);
      at_ += status.ok() ? result->size() : 0;
      return status;
    }
    uint64_t below_at = at_;
    const auto read_below = [&](uint64_t offset, size_t length, Slice* out, char* where) -> std::optional<IOStatus> {
      if (offset != below_at) {
        return std::nullopt;
      }
      IOStatus read = target()->Read(length, options, out, where, dbg);
      below_at += read.ok() ? out->size() : 0;
      return read;
    };
    status = faulty_read(place_, at_, n, result, scratch, read_below);
    at_ = below_at;
    return status;
  }
  IOStatus Skip(uint64_t n) override {
    at_ += n;
    return target()->Skip(n);
  }

 private:
  const Place place_;
  uint64_t at_ = 0;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  RandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> below, Place place)
      : FSRandomAccessFileOwnerWrapper(std::move(below)), place_(std::move(place)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) const override {
    if (!place_.armed()) {
      return target()->Read(offset, n, options, result, scratch, dbg);
    }
    return faulty_read(place_, offset, n, result, scratch,
                       [&](uint64_t from, size_t length, Slice* out, char* where) -> std::optional<IOStatus> {
                         return target()->Read(from, length, options, out, where, dbg);
                       });
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* dbg) override {
    if (!place_.armed()) {
      return target()->MultiRead(requests, count, options, dbg);
    }
    for (rocksdb::FSReadRequest& request : std::span(requests, count)) {
      request.status = Read(request.offset, request.len, options, &request.result, request.scratch, dbg);
    }
    return IOStatus::OK();
  }
  IOStatus ReadAsync(rocksdb::FSReadRequest& request, const IOOptions& options,
                     std::function<void(const rocksdb::FSReadRequest&, void*)> done, void* argument, void** handle,
                     rocksdb::IOHandleDeleter* deleter, IODebugContext* dbg) override {
    if (!place_.armed()) {
      return target()->ReadAsync(request, options, std::move(done), argument, handle, deleter, dbg);
    }
    request.status = Read(request.offset, request.len, options, &request.result, request.scratch, dbg);
    done(request, argument);
    return IOStatus::OK();
  }

 private:
  const Place place_;
};

class WritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  /// `base`: the file's size when it was opened.
  WritableFile(std::unique_ptr<rocksdb::FSWritableFile> below, Place place, uint64_t base)
      : FSWritableFileOwnerWrapper(std::move(below)), place_(std::move(place)), end_(base) {}

  using FSWritableFileOwnerWrapper::Append;
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    if (!place_.armed()) {
      IOStatus status = target()->Append(data, options, dbg);
      end_ += status.ok() ? data.size() : 0;
      return status;
    }
    AppendMedium file(*this, options, dbg);
    const std::span bytes(reinterpret_cast<const std::byte*>(data.data()), data.size());
    const auto done = until_done(data.size(), [&](size_t at) {
      return place_.injector.write(place_.call(Op::write), file, end_, bytes.subspan(at));
    });
    if (!done.ok()) {
      return to_rocksdb(done.error());
    }
    return *done == data.size() ? IOStatus::OK() : IOStatus::IOError("the disk took no more bytes", place_.inside);
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* dbg) override {
    return Append(data, options, dbg);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) override {
    IOStatus status =
        around(place_.injector, Op::truncate, place_.inside, [&] { return target()->Truncate(size, options, dbg); });
    end_ = status.ok() ? size : end_;
    return status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    return around(place_.injector, Op::fsync, place_.inside, [&] { return target()->Sync(options, dbg); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return around(place_.injector, Op::fsync, place_.inside, [&] { return target()->Fsync(options, dbg); });
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    return around(place_.injector, Op::close, place_.inside, [&] { return target()->Close(options, dbg); });
  }

 private:
  class AppendMedium final : public SecondOpening {
   public:
    AppendMedium(WritableFile& file, const IOOptions& options, IODebugContext* dbg)
        : SecondOpening(file.place_), file_(file), options_(options), dbg_(dbg) {}
    Status write(uint64_t offset, std::span<const std::byte> data) override {
      if (offset != file_.end_) {
        return SecondOpening::write(offset, data);
      }
      IOStatus status =
          file_.target()->Append(Slice(reinterpret_cast<const char*>(data.data()), data.size()), options_, dbg_);
      file_.end_ += status.ok() ? data.size() : 0;
      return status.ok() ? Status() : Status(from_rocksdb(status));
    }
    bool only_appends() const override { return true; }

   private:
    WritableFile& file_;
    const IOOptions& options_;
    IODebugContext* dbg_;
  };

  const Place place_;
  uint64_t end_;  ///< where the next append goes
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FaultyFileSystem(const std::shared_ptr<rocksdb::FileSystem>& below, std::shared_ptr<index::Device> device,
                   std::string store, Injector& injector)
      : FileSystemWrapper(below), device_(std::move(device)), store_(std::move(store)), injector_(injector) {}

  const char* Name() const override { return "VarveFaults"; }

  IOStatus NewSequentialFile(const std::string& name, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext* dbg) override {
    IOStatus status = opening(Op::open, name, [&] { return target()->NewSequentialFile(name, options, result, dbg); });
    if (status.ok()) {
      *result = std::make_unique<SequentialFile>(std::move(*result), place(name));
    }
    return status;
  }
  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result, IODebugContext* dbg) override {
    IOStatus status =
        opening(Op::open, name, [&] { return target()->NewRandomAccessFile(name, options, result, dbg); });
    if (status.ok()) {
      *result = std::make_unique<RandomAccessFile>(std::move(*result), place(name));
    }
    return status;
  }
  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* dbg) override {
    IOStatus status = opening(Op::create, name, [&] { return target()->NewWritableFile(name, options, result, dbg); });
    if (status.ok()) {
      *result = std::make_unique<WritableFile>(std::move(*result), place(name), 0);
    }
    return status;
  }
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* dbg) override {
    IOStatus status = opening(Op::open, name, [&] { return target()->ReopenWritableFile(name, options, result, dbg); });
    if (status.ok()) {
      uint64_t size = 0;
      const IOStatus known = target()->GetFileSize(name, IOOptions(), &size, dbg);
      *result = std::make_unique<WritableFile>(std::move(*result), place(name), known.ok() ? size : 0);
    }
    return status;
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions& options, IODebugContext* dbg) override {
    IOStatus status = opening(Op::unlink, name, [&] { return target()->DeleteFile(name, options, dbg); });
    if (status.ok()) {
      injector_.removed(Seam::device, path_in_store(store_, name));
    }
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override {
    IOStatus status = opening(Op::rename, from, [&] { return target()->RenameFile(from, to, options, dbg); });
    if (status.ok()) {
      injector_.renamed(Seam::device, path_in_store(store_, from), path_in_store(store_, to));
    }
    return status;
  }
  IOStatus GetChildren(const std::string& name, const IOOptions& options, std::vector<std::string>* result,
                       IODebugContext* dbg) override {
    return opening(Op::readdir, name, [&] { return target()->GetChildren(name, options, result, dbg); });
  }

 private:
  template <typename Pass>
  IOStatus opening(Op op, const std::string& name, const Pass& pass) {
    return around(injector_, op, path_in_store(store_, name), pass);
  }
  Place place(const std::string& name) const { return {name, path_in_store(store_, name), device_, injector_}; }

  std::shared_ptr<index::Device> device_;
  const std::string store_;
  Injector& injector_;
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> faulty_tables(std::shared_ptr<rocksdb::FileSystem> below,
                                                   std::shared_ptr<index::Device> device, std::string store,
                                                   Injector& injector) {
  if (!below) {
    below = rocksdb::FileSystem::Default();
  }
  return std::make_shared<FaultyFileSystem>(below, std::move(device), std::move(store), injector);
}

}  // namespace varve::faults
