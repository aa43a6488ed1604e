#include "tools/held_mount.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "fs/fuse_mount_table.h"
#include "fs/log.h"
#include "index/store_directory.h"
#include "tools/daemon.h"
#include "tools/mount_point.h"

namespace varve::tools {
Result<std::string> mountpoint_of(const std::string& directory) {
  std::filesystem::path plain(directory);
  if (!plain.has_filename() && plain.has_relative_path()) {
    plain = plain.parent_path();  // a trailing slash
  }
  const std::string name = plain.filename().string();
  if (!name.empty() && name != "." && name != "..") {
    const auto above = absolute_path(plain.has_parent_path() ? plain.parent_path().string() : ".");
    if (!above.ok()) {
      return above.error();
    }
    const std::string path = above->ends_with('/') ? *above + name : *above + "/" + name;
    if (fs::mount_at(path).has_value()) {
      return path;
    }
  }
  return absolute_path(directory);
}

void release_held_mount(const std::string& mountpoint, int daemon) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kUsual{300};  // in which a killed process ends by itself
  constexpr std::chrono::seconds kPatience{10};
  constexpr std::chrono::milliseconds kStep{20};
  const auto held_after = [&](std::chrono::milliseconds patience) {
    const auto limit = Clock::now() + patience;
    while (is_held(daemon) && Clock::now() < limit) {
      std::this_thread::sleep_for(kStep);
    }
    return is_held(daemon);
  };
  const auto entry = fs::mount_at(mountpoint);
  if (!entry.has_value() || entry->type != fs::kMountType || !held_after(kUsual)) {
    return;
  }
  fs::log_line(fs::LogLevel::warning, fmt::format("the daemon of {} (process {}) was killed and has not ended: the "
                                                  "connection of programs that wait for it is ended",
                                                  mountpoint, daemon));
  const Status aborted = fs::abort_connection(*entry);
  if (!aborted.ok()) {
    fs::log_line(fs::LogLevel::error, aborted.error().text);
  } else if (held_after(kPatience)) {
    fs::log_line(fs::LogLevel::error, fmt::format("process {} has not ended after {} s", daemon, kPatience.count()));
  }
}

void release_held_mount(const std::string& mountpoint) {
  const auto entry = fs::mount_at(mountpoint);
  const int daemon =
      entry.has_value() && entry->type == fs::kMountType ? index::StoreLock::writer(entry->source).value_or(0) : 0;
  if (daemon > 0) {
    release_held_mount(mountpoint, daemon);
  }
}

}  // namespace varve::tools
