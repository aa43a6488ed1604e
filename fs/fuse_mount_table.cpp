#include "fs/fuse_mount_table.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

namespace varve::fs {
namespace {

/// mountinfo writes space, tab, newline and backslash as \ and three octal digits.
std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr == text.data() + i + 4) {
      result.push_back(static_cast<char>(code));
      i += 3;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) {
      parts.push_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<MountEntry> parse_line(std::string_view line) {
  // 36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/source rw
  const auto fields = split(line, ' ');
  size_t dash = 6;
  while (dash < fields.size() && fields[dash] != "-") {
    ++dash;
  }
  if (dash + 2 >= fields.size()) {
    return std::nullopt;
  }
  MountEntry entry;
  const std::string_view device = fields[2];
  const char* end = device.data() + device.size();
  const auto major = std::from_chars(device.data(), end, entry.major);
  if (major.ptr == end || *major.ptr != ':' || std::from_chars(major.ptr + 1, end, entry.minor).ptr != end) {
    return std::nullopt;
  }
  entry.mountpoint = unescape(fields[4]);
  entry.type = unescape(fields[dash + 1]);
  entry.source = unescape(fields[dash + 2]);
  return entry;
}

Error unmount_error(const std::string& path, int code) {
  switch (code) {
    case EBUSY:
      return {EBUSY, fmt::format("{} is busy: programs have files open or their working directory there", path)};
    case EINVAL:
      return {EINVAL, fmt::format("{} is not a mount point", path)};
    case EPERM:
      return {EPERM, fmt::format("not allowed to unmount {}: only root and the user who mounted it may", path)};
    default:
      return {code, fmt::format("cannot unmount {}: {}", path, std::strerror(code))};
  }
}

Status unmount_as_user(const std::string& path, bool lazily) {
  std::vector<std::string> words = {"fusermount3", "-u", "-q"};
  if (lazily) {
    words.emplace_back("-z");
  }
  words.emplace_back("--");
  words.push_back(path);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int code = posix_spawnp(&child, "fusermount3", nullptr, nullptr, arguments.data(), environ); code != 0) {
    return Error{code, fmt::format("cannot run fusermount3 to unmount {}: {}; install the package fuse3", path,
                                   std::strerror(code))};
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return Error{errno, fmt::format("lost track of fusermount3 while unmounting {}: {}", path, std::strerror(errno))};
    }
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  return unmount_error(path, mount_at(path).has_value() ? EBUSY : EINVAL);  // fusermount3 tells no reason with -q
}

}  // namespace

std::vector<MountEntry> parse_mount_table(std::string_view text) {
  std::vector<MountEntry> entries;
  for (const std::string_view line : split(text, '\n')) {
    if (auto entry = parse_line(line)) {
      entries.push_back(*std::move(entry));
    }
  }
  return entries;
}

std::vector<MountEntry> mount_table() {
  std::ifstream file("/proc/self/mountinfo");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse_mount_table(text);
}

std::optional<MountEntry> mount_at(const std::string& path) {
  std::optional<MountEntry> found;
  for (MountEntry& entry : mount_table()) {
    if (entry.mountpoint == path) {
      found = std::move(entry);
    }
  }
  return found;
}

bool is_topmost(const MountEntry& entry) {
  const auto now = mount_at(entry.mountpoint);
  return now.has_value() && now->major == entry.major && now->minor == entry.minor;
}

Status abort_connection(const MountEntry& entry) {
  std::ofstream file(fmt::format("/sys/fs/fuse/connections/{}/abort", entry.minor));
  if (file << "1\n" << std::flush) {
    return {};
  }
  if (geteuid() == 0 && is_topmost(entry) &&
      (umount2(entry.mountpoint.c_str(), UMOUNT_NOFOLLOW | MNT_FORCE) == 0 || errno == EBUSY)) {
    return {};
  }
  return Error{EPERM, fmt::format("cannot end the connection of {}: mount -t fusectl none /sys/fs/fuse/connections, as "
                                  "root, lets whoever mounted it do so; umount -f {}, as root, does it",
                                  entry.mountpoint, entry.mountpoint)};
}

Status unmount(const std::string& path, bool lazily) {
  if (geteuid() != 0) {
    return unmount_as_user(path, lazily);
  }
  if (umount2(path.c_str(), UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH : 0)) == 0) {
    return {};
  }
  return unmount_error(path, errno);
}

}  // namespace varve::fs
