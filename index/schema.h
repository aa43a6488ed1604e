// What the index stores, as values in memory. Their bytes are specified in FORMAT.md.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "codec/types.h"

namespace varve::index {

using InodeNumber = uint64_t;  ///< 1 is the root; below 2^48; never used again
using ObjectId = uint64_t;     ///< names one sealed content; never used again; 0: none

inline constexpr InodeNumber kRootInode = 1;

struct Time {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;
  auto operator<=>(const Time&) const = default;
};

struct Inode {
  InodeNumber number = 0;
  uint32_t mode = 0;  ///< type and permissions, as st_mode
  uint32_t uid = 0, gid = 0;
  uint32_t links = 0;
  uint64_t device = 0;  ///< st_rdev of a device node
  uint64_t size = 0;    ///< logical bytes; of a directory: its entries
  Time accessed, modified, changed, created;
  InodeNumber parent = 0;  ///< of a directory: the one above it
  ObjectId object = 0;     ///< sealed content; 0: empty, all staged, or no regular file
  uint64_t stored = 0;     ///< bytes that the sealed content takes in the store
  std::string target;      ///< of a symbolic link
  bool operator==(const Inode&) const = default;
};

/// An entry of a directory. `cookie` orders the entries of one directory by creation, is > 2 and never used again
/// there: it is readdir's offset.
struct Dentry {
  std::string name;
  InodeNumber inode = 0;
  uint32_t type = 0;  ///< mode & S_IFMT
  uint64_t cookie = 0;
};

/// A record within an object. Region 0: the bytes outside arrays; 1...: arrays, in layout order; kPatchRegion: exact
/// bytes that replace parts of the others.
struct RecordKey {
  uint32_t region = 0;
  uint8_t level = 0;  ///< ordered coarse first in the store
  uint64_t brick = 0;
  bool operator==(const RecordKey&) const = default;
};
inline constexpr uint32_t kBytesRegion = 0;
inline constexpr uint32_t kPatchRegion = 0xffffffff;
/// A record of bytes, not of an array.
constexpr bool is_bytes(const RecordKey& key) { return key.region == kBytesRegion || key.region == kPatchRegion; }

/// The run of the machine, from one start to the next.
struct MachineRun {
  uint64_t number = 0;            ///< 0: not known
  bool since_last_write = false;  ///< the store's last change before it was opened was made in this run too
};

}  // namespace varve::index
