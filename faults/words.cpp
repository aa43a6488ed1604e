#include "faults/words.h"

#include <cerrno>
#include <cstring>

namespace varve::faults {

FileKind file_kind(std::string_view path) {
  if (path.starts_with("packs/")) {
    return FileKind::pack;
  }
  if (path.starts_with("staging/")) {
    return FileKind::staging;
  }
  if (!path.starts_with("db/")) {
    return FileKind::other;
  }
  if (path.ends_with(".log")) {
    return FileKind::wal;
  }
  if (path.ends_with(".sst")) {
    return FileKind::table;
  }
  return path.starts_with("db/MANIFEST") || path == "db/CURRENT" || path.ends_with(".dbtmp") ? FileKind::manifest
                                                                                             : FileKind::other;
}

std::optional<int> errno_of(std::string_view name) {
  for (int code = 1; code < 134; ++code) {
    const char* known = ::strerrorname_np(code);
    if (known != nullptr && name == known) {
      return code;
    }
  }
  return std::nullopt;
}

std::string errno_name(int code) {
  const char* name = ::strerrorname_np(code);
  return name != nullptr ? name : std::to_string(code);
}

}  // namespace varve::faults
