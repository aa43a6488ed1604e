// What `varve web` shows: the files of a store or of a mounted directory, and the views of them under .varve/. Paths
// are names from the root on, looked up one by one: a symbolic link, "." and ".." are never followed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fs/formats/recogniser.h"

namespace varve::tools {

using Names = std::vector<std::string>;

struct TreeEntry {
  std::string name;
  bool directory = false;
  uint64_t size = 0, stored = 0;  ///< bytes; of files
};

struct TreeListing {
  std::vector<TreeEntry> entries;  ///< directories and regular files, by name
  bool more = false;               ///< there were more than asked for
};

/// Thread-safe.
class ArrayTree {
 public:
  virtual ~ArrayTree() = default;
  /// Entries of a directory whose names have `part` in them, `most` of them at most.
  virtual Result<TreeListing> list(const Names& directory, const std::string& part, size_t most) = 0;
  virtual Result<std::unique_ptr<fs::FileView>> open(const Names& file) = 0;
  virtual Result<std::string> attribute(const Names& file, const std::string& name) = 0;
  /// Another text once the file's content is another.
  virtual Result<std::string> version(const Names& file) = 0;
  /// Of a file that cannot be read: what else there is to say.
  virtual std::string advice() const = 0;
};

/// "a/b" -> {"a", "b"}; "" -> {}. EINVAL: empty names, "." and "..", bytes of 0. ENOENT: below .varve.
Result<Names> parse_path(std::string_view path);

/// A file as a view shows it: {".varve", "level", "2"} and then its names.
Names in_view(std::initializer_list<std::string> view, const Names& file);

/// Of a directory in a mount. ENODEV: it is in none.
Result<std::unique_ptr<ArrayTree>> open_mounted_tree(const std::string& directory);
/// Of a store that is not mounted, read-only, with so many bytes of memory for decoded data. EBUSY: it is mounted.
Result<std::unique_ptr<ArrayTree>> open_store_tree(const std::string& store, uint64_t cache_bytes);

}  // namespace varve::tools
