// From a path inside a mount to the mount and its virtual files.
#pragma once

#include <string>
#include <vector>

#include "codec/result.h"

namespace varve::tools {

/// A path inside a Varve mount.
struct MountedPath {
  std::string mountpoint;  ///< absolute
  std::string relative;    ///< from the mount's root, without a leading slash; "" for the root
  /// A file under the mount's .varve/ folder, e.g. control("stat/a.npy").
  std::string control(const std::string& name) const { return mountpoint + "/.varve/" + name; }
};

/// `path` need not exist as long as a directory above it does. ENODEV with a sentence if it is in no Varve mount.
Result<MountedPath> find_mount(const std::string& path);

/// Absolute, without symbolic links or dots, whether it exists or not, and even if a dead mount is there.
Result<std::string> absolute_path(const std::string& path);

/// Equal, or below it. Both absolute.
bool is_inside(const std::string& path, const std::string& directory);

/// Whether it is the directory of a store.
bool is_store(const std::string& path);

/// All of a file, of 64 MiB at most. "-": standard input.
Result<std::string> read_text(const std::string& path);

}  // namespace varve::tools
