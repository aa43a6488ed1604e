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

Status write_control_file(const std::string& path, const std::string& text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (descriptor < 0) {
    return Error{errno, fmt::format("cannot open {}: {}; it is for the mount's owner and root", path,
                                    std::generic_category().message(errno))};
  }
  const bool wrote = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int wrong = wrote ? 0 : errno;
  const int code = ::close(descriptor) == 0 ? wrong : errno;
  return code == 0 ? Status()
                   : Status(Error{code, fmt::format("{}: {}; the mount's log says more", path,
                                                    std::generic_category().message(code))});
}

}  // namespace varve::tools
