#include <sys/stat.h>

#include "fs/core.h"
#include "fs/formats/zarr.h"

namespace varve::fs {

/// A short file of a directory, as text; empty: there is none, or it cannot be read.
std::string Core::short_text(InodeNumber directory, std::string_view name) {
  const auto found = find(directory, name);
  const auto node = found.ok() ? nodes_.get(found->inode) : Result<NodePointer>(found.error());
  if (!node.ok()) {
    return "";
  }
  const NodeLock lock((*node)->mutex);
  const index::Inode& inode = (*node)->inode;
  if (!S_ISREG(inode.mode) || inode.size > kLongestZarrMetadata || !open_sealed(**node).ok()) {
    return "";
  }
  std::string text(inode.size, '\0');
  return read_content(**node, 0, std::as_writable_bytes(std::span(text))).ok() ? text : "";
}

std::optional<RawHint> Core::raw_hint(const FilePolicy& policy, InodeNumber directory, std::string_view name,
                                      uint64_t size) {
  if (policy.raw || size == 0) {
    return policy.raw;
  }
  // Chunks lie beside the metadata, or in directories below.
  std::string level(name);
  for (size_t depth = 0; depth <= codec::kMaxRank + 1 && may_be_zarr_chunk(level); ++depth) {
    const auto path = path_of(directory);
    if (!path.ok()) {
      break;
    }
    level = path->substr(path->rfind('/') + 1);
    ZarrMetadata metadata{level, short_text(directory, ".zarray"), "", short_text(directory, "zarr.json")};
    if (!metadata.zarray.empty() || !metadata.zarr_json.empty()) {
      metadata.zattrs = short_text(directory, ".zattrs");
      return zarr_hint(metadata, size);
    }
    const auto node = nodes_.get(directory);
    if (!node.ok() || directory == index::kRootInode) {
      break;
    }
    directory = inode_of(**node).parent;
  }
  return std::nullopt;
}

}  // namespace varve::fs
