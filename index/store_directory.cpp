#include "index/store_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <system_error>

#include "index/keys.h"

namespace varve::index {
namespace {

constexpr std::string_view kVersionPrefix = "varve store ";

std::string version_text() { return fmt::format("{}{}\n", kVersionPrefix, kStoreVersion); }

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

Error lock_failure(const std::string& path, int code) {
  return Error{code, fmt::format("cannot lock {}: {}; the store must be on a file system with locks, writable by you",
                                 path, std::generic_category().message(code))};
}

Error busy(const std::string& store, const std::string& lock_path) {
  const std::string pid = first_line(lock_path);
  std::string holder = "another process";
  if (!pid.empty() && std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    const std::string name = first_line("/proc/" + pid + "/comm");
    holder = name.empty() ? fmt::format("process {} (or one on another machine)", pid)
                          : fmt::format("process {} ({})", pid, name);
  }
  return Error{EBUSY, fmt::format("store {} is in use by {}; unmount it there first", store, holder)};
}

Result<std::string> read_text(Device& device, const std::string& path) {
  VARVE_ASSIGN(const auto file, device.open(path, Device::Mode::read));
  std::string text(64, '\0');
  VARVE_ASSIGN(const size_t got, file->read(0, std::as_writable_bytes(std::span(text))));
  text.resize(got);
  return text;
}

}  // namespace

Result<std::unique_ptr<StoreLock>> StoreLock::take(const std::string& store, bool shared) {
  const std::string path = store + "/LOCK";
  int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (shared ? 0 : O_CREAT), 0600);
  if (descriptor < 0 && shared) {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 && errno == ENOENT) {
      return std::unique_ptr<StoreLock>();  // a copy on a read-only disk: nobody can write it either
    }
  }
  if (descriptor < 0) {
    return lock_failure(path, errno);
  }
  auto lock = std::unique_ptr<StoreLock>(new StoreLock(descriptor));
  if (::flock(descriptor, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? busy(store, path) : lock_failure(path, errno);
  }
  if (!shared) {
    const std::string pid = fmt::format("{}\n", ::getpid());
    if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, pid.data(), pid.size(), 0) < 0) {
      // A full disk: the lock holds all the same, its message will lack the number.
      return lock;
    }
  }
  return lock;
}

std::optional<int> StoreLock::writer(const std::string& store) {
  const std::string path = store + "/LOCK";
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

StoreLock::~StoreLock() { ::close(descriptor_); }

Status check_version(uint64_t version, const std::string& where) {
  if (version == kStoreVersion) {
    return {};
  }
  return Error{EPROTO, fmt::format("{} says format version {}, this program knows version {}; use {} varve", where,
                                   version, kStoreVersion, version > kStoreVersion ? "a newer" : "an older")};
}

Status check_version_row(const std::optional<std::string>& row, const std::string& where) {
  const auto version = row ? parse_count(*row) : std::nullopt;
  return version ? check_version(*version, where)
                 : Status(Error{EUCLEAN, fmt::format("the index database {} has lost its format version, which every "
                                                     "store has: restore the store from a copy",
                                                     where)});
}

Result<StoreState> inspect_store(Device& device, const std::string& store) {
  auto names = device.list(store);
  if (!names.ok()) {
    return names.error().code == ENOENT ? Result<StoreState>(StoreState::empty) : names.error();
  }
  const std::string path = store + "/VERSION";
  if (std::find(names->begin(), names->end(), "VERSION") != names->end()) {
    VARVE_ASSIGN(const std::string text, read_text(device, path));
    const std::string ours = version_text();
    if (text == ours) {
      return StoreState::present;
    }
    uint64_t version = 0;
    const char* digits = text.data() + std::min(text.size(), kVersionPrefix.size());
    const auto parsed = std::from_chars(digits, text.data() + text.size(), version);
    if (text.starts_with(kVersionPrefix) && parsed.ec == std::errc() && text.ends_with('\n')) {
      VARVE_TRY(check_version(version, path));
    }
    if (!std::string_view(ours).starts_with(text)) {  // a beginning of it: whoever made the store was interrupted
      return Error{EPROTO, fmt::format("{} holds no version of a varve store; restore it (\"{}{}\") if this is one",
                                       path, kVersionPrefix, kStoreVersion)};
    }
  }
  for (const auto& name : *names) {
    constexpr std::array<std::string_view, 10> kOurs = {"VERSION",    "LOCK",        "db",         "packs",
                                                        "staging",    "policy.toml", "lost+found", "db-synced",
                                                        "db-written", "db-tables"};
    if (std::find(kOurs.begin(), kOurs.end(), name) == kOurs.end()) {
      return Error{ENOTEMPTY, fmt::format("{} is no varve store and holds other things (such as {}); name an empty "
                                          "directory or a new one",
                                          store, name)};
    }
  }
  return StoreState::empty;
}

Status write_version(Device& device, const std::string& store) {
  VARVE_ASSIGN(const auto file, device.open(store + "/VERSION", Device::Mode::create));
  const std::string text = version_text();
  VARVE_TRY(file->truncate(0));
  VARVE_TRY(file->write(0, std::as_bytes(std::span(text))));
  VARVE_TRY(file->sync());
  return device.sync_directory(store);
}

}  // namespace varve::index
