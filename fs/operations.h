// The seam that programs see: file system operations on inodes, without FUSE types. `fuse_session` calls it, the
// file system implements it, the fault layer decorates it. All members are called from many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"
#include "index/schema.h"

namespace varve::fs {

using index::InodeNumber;
using index::Time;

/// Who asks. Permissions are checked by the kernel (default_permissions); these fields give new files their owner.
struct Caller {
  uint32_t uid = 0, gid = 0;
  uint32_t umask = 0;  ///< for information: the kernel has taken it off `mode` already
  int32_t pid = 0;
  /// The kernel writes pages of shared mappings back, through any handle that is open for writing.
  bool writes_pages_back = false;
};

struct Attributes {
  InodeNumber inode = 0;
  uint32_t mode = 0, uid = 0, gid = 0, links = 0;
  uint64_t device = 0, size = 0;
  uint64_t blocks = 0;  ///< of 512 bytes, as stored
  uint32_t block_size = 65536;
  Time accessed, modified, changed;
  bool cacheable = true;  ///< false: the kernel keeps neither these nor the name (virtual files)
};

/// What a lookup answers. The kernel keeps a count of them until forget().
struct Entry {
  Attributes attributes;
};

/// setattr: what is present changes.
struct AttributeChange {
  std::optional<uint32_t> mode, uid, gid;  ///< mode: the bits in 07777
  std::optional<uint64_t> size;            ///< moves the times modified and changed as well, unless given
  std::optional<Time> accessed, modified, changed;
  bool accessed_now = false, modified_now = false;
  bool kill_privileges = false;  ///< clear set-user-id and set-group-id, as after a write
};

struct OpenFile {
  uint64_t handle = 0;
  bool keep_cache = false;  ///< the kernel's cached pages of this inode are still right
  bool direct_io = false;   ///< no page cache, sizes not trusted: virtual files
};

struct DirectoryEntry {
  std::string name;
  uint64_t cookie = 0;  ///< pass it to read_directory to go on after this entry
  uint32_t type = 0;    ///< mode & S_IFMT
  InodeNumber inode = 0;
};

struct FileSystemSpace {
  uint64_t block_size = 4096;
  uint64_t blocks = 0, blocks_free = 0, blocks_available = 0;
  uint64_t files = 0, files_free = 0;
};

class Operations {
 public:
  virtual ~Operations() = default;

  virtual Result<Entry> lookup(const Caller& caller, InodeNumber parent, std::string_view name) = 0;
  virtual void forget(InodeNumber inode, uint64_t count) = 0;
  virtual Result<Attributes> get_attributes(const Caller& caller, InodeNumber inode) = 0;
  /// `handle`: the open file through which the change is made (ftruncate), if any.
  virtual Result<Attributes> set_attributes(const Caller& caller, InodeNumber inode, const AttributeChange& change,
                                            std::optional<uint64_t> handle) = 0;

  virtual Result<std::string> read_link(const Caller& caller, InodeNumber inode) = 0;
  virtual Result<Entry> make_node(const Caller& caller, InodeNumber parent, std::string_view name, uint32_t mode,
                                  uint64_t device) = 0;
  virtual Result<Entry> make_directory(const Caller& caller, InodeNumber parent, std::string_view name,
                                       uint32_t mode) = 0;
  virtual Result<Entry> make_symlink(const Caller& caller, InodeNumber parent, std::string_view name,
                                     std::string_view target) = 0;
  virtual Result<Entry> link(const Caller& caller, InodeNumber inode, InodeNumber new_parent,
                             std::string_view new_name) = 0;
  virtual Status unlink(const Caller& caller, InodeNumber parent, std::string_view name) = 0;
  virtual Status remove_directory(const Caller& caller, InodeNumber parent, std::string_view name) = 0;
  /// `flags`: RENAME_NOREPLACE, RENAME_EXCHANGE or 0; others EINVAL.
  virtual Status rename(const Caller& caller, InodeNumber parent, std::string_view name, InodeNumber new_parent,
                        std::string_view new_name, uint32_t flags) = 0;

  /// `flags`: of open(2), but for O_CREAT, O_EXCL and O_TRUNC: the kernel sends a set_attributes of size 0, without a
  /// handle, right after the open (and drops set-user-id by a mode change when a file is written or truncated).
  virtual Result<OpenFile> open(const Caller& caller, InodeNumber inode, int flags) = 0;
  virtual Result<std::pair<Entry, OpenFile>> create(const Caller& caller, InodeNumber parent, std::string_view name,
                                                    uint32_t mode, int flags) = 0;
  /// Bytes read: fewer than asked for only at the end of the file.
  virtual Result<size_t> read(const Caller& caller, uint64_t handle, uint64_t offset, std::span<std::byte> out) = 0;
  virtual Result<size_t> write(const Caller& caller, uint64_t handle, uint64_t offset,
                               std::span<const std::byte> data) = 0;
  /// A descriptor was closed; others may share the handle. Errors reach close(2).
  virtual Status flush(const Caller& caller, uint64_t handle) = 0;
  /// The last descriptor and mapping of the handle are gone.
  virtual void release(uint64_t handle) = 0;
  virtual Status fsync(const Caller& caller, uint64_t handle, bool data_only) = 0;
  /// `mode`: FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE [| KEEP_SIZE], 0;
  /// others EOPNOTSUPP.
  virtual Status allocate(const Caller& caller, uint64_t handle, int mode, uint64_t offset, uint64_t length) = 0;
  /// `whence`: SEEK_DATA or SEEK_HOLE.
  virtual Result<uint64_t> seek(const Caller& caller, uint64_t handle, uint64_t offset, int whence) = 0;
  virtual Result<size_t> copy_range(const Caller& caller, uint64_t from_handle, uint64_t from_offset,
                                    uint64_t to_handle, uint64_t to_offset, size_t length) = 0;

  virtual Result<uint64_t> open_directory(const Caller& caller, InodeNumber inode) = 0;
  /// Visits entries after `cookie` (0: from the start, "." and ".." included) until `visit` answers false.
  virtual Status read_directory(const Caller& caller, uint64_t handle, uint64_t cookie,
                                const std::function<bool(const DirectoryEntry&)>& visit) = 0;
  virtual void release_directory(uint64_t handle) = 0;
  virtual Status fsync_directory(const Caller& caller, uint64_t handle) = 0;

  virtual Result<FileSystemSpace> space(const Caller& caller) = 0;

  virtual Status set_xattr(const Caller& caller, InodeNumber inode, std::string_view name, std::string_view value,
                           int flags) = 0;
  virtual Result<std::string> get_xattr(const Caller& caller, InodeNumber inode, std::string_view name) = 0;
  virtual Result<std::vector<std::string>> list_xattrs(const Caller& caller, InodeNumber inode) = 0;
  virtual Status remove_xattr(const Caller& caller, InodeNumber inode, std::string_view name) = 0;

  /// The mount is going away: seal and commit all, then return.
  virtual Status shut_down() = 0;
};

/// What the file system tells the kernel. Called by whoever holds no lock.
class KernelCache {
 public:
  virtual ~KernelCache() = default;
  /// `pages`: cached content too, not attributes alone.
  virtual void invalidate_inode(InodeNumber inode, bool pages) = 0;
  /// Waits until the kernel has been told what was asked so far; 2 s at most.
  virtual void settle() {}
  /// Waits until the kernel has handed over what programs changed through maps of a file that is open for writing, and
  /// dropped its pages; 2 s at most. Another thread must be free to take the writes.
  virtual void take_mapped_writes(InodeNumber) {}
};

}  // namespace varve::fs
