#include "tools/store_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "fs/fuse_mount_table.h"
#include "index/file_lock.h"
#include "index/store_directory.h"
#include "tools/mount_point.h"

namespace varve::tools {

Result<StorePlace> find_store(const std::string& path) {
  VARVE_ASSIGN(const std::string absolute, absolute_path(path));
  if (const auto mounted = find_mount(path); mounted.ok()) {
    const auto entry = fs::mount_at(mounted->mountpoint);
    if (!entry) {
      return Error{ENOENT, fmt::format("{} was unmounted meanwhile", mounted->mountpoint)};
    }
    return StorePlace{entry->source, mounted->mountpoint};
  }
  if (!is_store(absolute)) {
    return Error{ENOENT, fmt::format("{} is no store and in no mount of one: give the store's directory, or a path in "
                                     "its mount",
                                     path)};
  }
  StorePlace place{absolute, {}};
  if (!index::StoreLock::writer(absolute).has_value()) {
    return place;
  }
  for (const fs::MountEntry& entry : fs::mount_table()) {
    if (entry.type == "fuse.varve" && entry.source == absolute) {
      place.mountpoint = entry.mountpoint;
    }
  }
  return place.mountpoint ? Result<StorePlace>(std::move(place))
                          : Error{EBUSY, fmt::format("{} has {} open, and no mount of it is seen from here: do this "
                                                     "where it is mounted",
                                                     index::FileLock::holder(absolute + "/LOCK"), absolute)};
}

Status write_control_file(const std::string& path, std::string_view text, std::string_view who,
                          const std::function<Error(int code)>& refused) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (descriptor < 0) {
    return Error{errno, fmt::format("cannot open {}: {}; {}", path, std::generic_category().message(errno), who)};
  }
  int code = 0;
  while (!text.empty() && code == 0) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    code = put < 0 && errno != EINTR ? errno : 0;
    text.remove_prefix(put > 0 ? static_cast<size_t>(put) : 0);
  }
  if (::close(descriptor) != 0 && code == 0) {
    code = errno;
  }
  return code == 0 ? Status() : Status(refused(code));
}

}  // namespace varve::tools
