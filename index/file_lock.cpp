#include "index/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

namespace varve::index {
namespace {

/// The start of a small file of the operating system, without its last newline; empty if it cannot be read.
std::string first_line(const std::string& path) {
  std::array<char, 64> text{};
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return {};
  }
  const ssize_t got = ::read(descriptor, text.data(), text.size());
  ::close(descriptor);
  const std::string_view all(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return std::string(all.substr(0, all.find('\n')));
}

Error failure(const std::string& path, int code) {
  return Error{code, fmt::format("cannot lock {}: {}", path, std::generic_category().message(code))};
}

/// Whether `path` still names the open file: whoever had the lock before may have removed it.
bool is_at(int descriptor, const std::string& path) {
  struct stat open_one {};
  struct stat named {};
  return ::fstat(descriptor, &open_one) == 0 && ::stat(path.c_str(), &named) == 0 && open_one.st_ino == named.st_ino &&
         open_one.st_dev == named.st_dev;
}

}  // namespace

Result<std::unique_ptr<FileLock>> FileLock::take(const std::string& path, Mode mode) {
  const bool shared = mode == Mode::shared;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (shared ? 0 : O_CREAT), 0600);
    if (descriptor < 0 && shared) {
      descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    if (descriptor < 0) {
      return failure(path, errno);
    }
    auto lock = std::unique_ptr<FileLock>(new FileLock(descriptor));
    if (::flock(descriptor, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK ? Error{EBUSY, fmt::format("{} has locked {}", holder(path), path)}
                                  : failure(path, errno);
    }
    if (!is_at(descriptor, path)) {
      continue;
    }
    if (!shared) {
      const std::string pid = fmt::format("{}\n", ::getpid());
      if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, pid.data(), pid.size(), 0) < 0) {
        return lock;  // a full disk: the lock holds all the same, others' messages will lack the number
      }
    }
    return lock;
  }
  return failure(path, ESTALE);
}

std::string FileLock::holder(const std::string& path) {
  const std::string pid = first_line(path);
  if (pid.empty() || !std::ranges::all_of(pid, [](char c) { return c >= '0' && c <= '9'; })) {
    return "another process";
  }
  const std::string name = first_line("/proc/" + pid + "/comm");
  return name.empty() ? fmt::format("process {} (or one on another machine)", pid)
                      : fmt::format("process {} ({})", pid, name);
}

std::optional<int> FileLock::writer(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return std::nullopt;
  }
  const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  if (!held) {
    return std::nullopt;
  }
  const std::string text = first_line(path);
  int pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace varve::index
