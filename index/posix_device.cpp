// The operating system's files behind the Device interface.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "index/device.h"

namespace varve::index {
namespace {

std::string_view remedy(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "; free space on the store's disk and try again";
    case EACCES:
    case EPERM:
      return "; check the owner and the permissions of the store";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    case EROFS:
      return "; the store's disk is mounted read-only";
    default:
      return "";
  }
}

Error failed(std::string_view what, const std::string& path, int code) {
  return Error{code,
               fmt::format("cannot {} {}: {}{}", what, path, std::generic_category().message(code), remedy(code))};
}

class PosixFile final : public DeviceFile {
 public:
  PosixFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~PosixFile() override { ::close(descriptor_); }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return failed("read", path_, errno);
      }
      if (got == 0) {
        break;
      }
      done += static_cast<size_t>(got);
    }
    return done;
  }

  Status write(uint64_t offset, std::span<const std::byte> data) override {
    size_t done = 0;
    while (done < data.size()) {
      const ssize_t put =
          ::pwrite(descriptor_, data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
      if (put < 0 && errno == EINTR) {
        continue;
      }
      if (put < 0) {
        return failed("write", path_, errno);
      }
      if (put == 0) {
        return failed("write", path_, EIO);
      }
      done += static_cast<size_t>(put);
    }
    return {};
  }

  Status truncate(uint64_t size) override {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
      return failed("truncate", path_, errno);
    }
    return {};
  }

  Status punch(uint64_t offset, uint64_t length) override {
    VARVE_ASSIGN(const uint64_t end_of_file, size());
    if (length == 0 || offset >= end_of_file) {
      return {};
    }
    length = std::min(length, end_of_file - offset);
    if (::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(length)) == 0) {
      return {};
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
      return failed("punch a hole in", path_, errno);
    }
    const std::vector<std::byte> zeros(std::min<uint64_t>(length, uint64_t{1} << 20));
    for (uint64_t done = 0; done < length; done += zeros.size()) {
      VARVE_TRY(write(offset + done, std::span(zeros).first(std::min<uint64_t>(zeros.size(), length - done))));
    }
    return {};
  }

  Status reserve(uint64_t offset, uint64_t length) override {
    if (length == 0 ||
        ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0) {
      return {};
    }
    if (errno == EOPNOTSUPP || errno == ENOSYS) {
      return {};  // such a disk cannot promise; writes there report ENOSPC themselves
    }
    return failed("reserve space in", path_, errno);
  }

  Status sync() override {
    if (::fdatasync(descriptor_) != 0) {
      return failed("sync", path_, errno);
    }
    return {};
  }

  Result<uint64_t> size() override {
    struct stat facts {};
    if (::fstat(descriptor_, &facts) != 0) {
      return failed("stat", path_, errno);
    }
    return static_cast<uint64_t>(facts.st_size);
  }

  Result<uint64_t> allocated() override {
    struct stat facts {};
    if (::fstat(descriptor_, &facts) != 0) {
      return failed("stat", path_, errno);
    }
    return static_cast<uint64_t>(facts.st_blocks) * 512;
  }

  Result<uint64_t> seek(uint64_t offset, bool data) override {
    const off_t found = ::lseek(descriptor_, static_cast<off_t>(offset), data ? SEEK_DATA : SEEK_HOLE);
    if (found >= 0) {
      return static_cast<uint64_t>(found);
    }
    if (errno != EINVAL) {
      return failed(data ? "seek data in" : "seek a hole in", path_, errno);
    }
    VARVE_ASSIGN(const uint64_t end_of_file, size());  // a disk that knows no holes: all is data
    if (offset >= end_of_file) {
      return failed("seek in", path_, ENXIO);
    }
    return data ? offset : end_of_file;
  }

 private:
  int descriptor_;
  std::string path_;
};

class PosixDevice final : public Device {
 public:
  Result<std::unique_ptr<DeviceFile>> open(const std::string& path, Mode mode) override {
    const int flags = mode == Mode::read ? O_RDONLY : mode == Mode::write ? O_RDWR : O_RDWR | O_CREAT;
    int descriptor = -1;
    do {
      descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
      return failed("open", path, errno);
    }
    return std::unique_ptr<DeviceFile>(std::make_unique<PosixFile>(descriptor, path));
  }

  Status remove(const std::string& path) override {
    if (std::remove(path.c_str()) != 0) {
      return failed("remove", path, errno);
    }
    return {};
  }

  Status make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0700) == 0) {
      return {};
    }
    const int code = errno;
    struct stat facts {};
    if (code == EEXIST && ::stat(path.c_str(), &facts) == 0) {
      return S_ISDIR(facts.st_mode) ? Status() : failed("make directory", path, ENOTDIR);
    }
    return failed("make directory", path, code);
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) {
      return failed("list", path, errno);
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        names.emplace_back(name);
      }
      errno = 0;
    }
    const int code = errno;
    ::closedir(directory);
    if (code != 0) {
      return failed("list", path, code);
    }
    return names;
  }

  Status sync_directory(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
      return failed("open", path, errno);
    }
    const int code = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    if (code != 0 && code != EINVAL) {  // EINVAL: this kind of disk does not sync directories
      return failed("sync", path, code);
    }
    return {};
  }

  Result<DeviceSpace> space(const std::string& path) override {
    struct statvfs facts {};
    if (::statvfs(path.c_str(), &facts) != 0) {
      return failed("ask for the free space of", path, errno);
    }
    return DeviceSpace{facts.f_frsize, facts.f_blocks, facts.f_bfree, facts.f_bavail};
  }
};

}  // namespace

std::shared_ptr<Device> posix_device() { return std::make_shared<PosixDevice>(); }

}  // namespace varve::index
