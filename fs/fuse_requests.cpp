#include "fs/fuse_requests.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <limits>

#include "fs/fuse_reply.h"

namespace varve::fs {
namespace {

// --- names and attributes -------------------------------------------------------------------------------------------

void handle_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  reply_entry(request, "lookup", operations_of(request).lookup(caller_of(request), parent, name));
}

void handle_forget(fuse_req_t request, fuse_ino_t inode, uint64_t count) {
  operations_of(request).forget(inode, count);
  fuse_reply_none(request);
}

void handle_forget_multi(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  Operations& operations = operations_of(request);
  for (size_t i = 0; i < count; ++i) {
    operations.forget(forgets[i].ino, forgets[i].nlookup);
  }
  fuse_reply_none(request);
}

void handle_getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*info*/) {
  reply_attributes(request, "getattr", operations_of(request).get_attributes(caller_of(request), inode));
}

void handle_setattr(fuse_req_t request, fuse_ino_t inode, struct stat* attributes, int to_set, fuse_file_info* info) {
  const auto has = [to_set](int flag) { return (to_set & flag) != 0; };
  AttributeChange change;
  if (has(FUSE_SET_ATTR_MODE)) {
    change.mode = attributes->st_mode & 07777;
  }
  if (has(FUSE_SET_ATTR_UID)) {
    change.uid = attributes->st_uid;
  }
  if (has(FUSE_SET_ATTR_GID)) {
    change.gid = attributes->st_gid;
  }
  if (has(FUSE_SET_ATTR_SIZE)) {
    change.size = static_cast<uint64_t>(attributes->st_size);
  }
  if (has(FUSE_SET_ATTR_ATIME_NOW)) {
    change.accessed_now = true;
  } else if (has(FUSE_SET_ATTR_ATIME)) {
    change.accessed = time_of(attributes->st_atim);
  }
  if (has(FUSE_SET_ATTR_MTIME_NOW)) {
    change.modified_now = true;
  } else if (has(FUSE_SET_ATTR_MTIME)) {
    change.modified = time_of(attributes->st_mtim);
  }
  if (has(FUSE_SET_ATTR_CTIME)) {
    change.changed = time_of(attributes->st_ctim);
  }
  change.kill_privileges = has(FUSE_SET_ATTR_KILL_SUID | FUSE_SET_ATTR_KILL_SGID | FUSE_SET_ATTR_KILL_PRIV);
  const std::optional<uint64_t> handle = info != nullptr ? std::optional(info->fh) : std::nullopt;
  reply_attributes(request, "setattr",
                   operations_of(request).set_attributes(caller_of(request), inode, change, handle));
}

void handle_readlink(fuse_req_t request, fuse_ino_t inode) {
  const auto target = operations_of(request).read_link(caller_of(request), inode);
  if (target.ok()) {
    fuse_reply_readlink(request, target->c_str());
  } else {
    reply_error(request, "readlink", target.error());
  }
}

void handle_mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  reply_entry(request, "mknod", operations_of(request).make_node(caller_of(request), parent, name, mode, device));
}

void handle_mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  reply_entry(request, "mkdir", operations_of(request).make_directory(caller_of(request), parent, name, mode));
}

void handle_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  reply_entry(request, "symlink", operations_of(request).make_symlink(caller_of(request), parent, name, target));
}

void handle_link(fuse_req_t request, fuse_ino_t inode, fuse_ino_t new_parent, const char* new_name) {
  reply_entry(request, "link", operations_of(request).link(caller_of(request), inode, new_parent, new_name));
}

void handle_unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  reply_status(request, "unlink", operations_of(request).unlink(caller_of(request), parent, name));
}

void handle_rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  reply_status(request, "rmdir", operations_of(request).remove_directory(caller_of(request), parent, name));
}

void handle_rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
                   unsigned flags) {
  reply_status(request, "rename",
               operations_of(request).rename(caller_of(request), parent, name, new_parent, new_name, flags));
}

void set_open(fuse_file_info* info, const OpenFile& file) {
  info->fh = file.handle;
  info->keep_cache = file.keep_cache ? 1 : 0;
  info->direct_io = file.direct_io ? 1 : 0;
}

// --- files ----------------------------------------------------------------------------------------------------------

void handle_open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  Operations& operations = operations_of(request);
  const auto file = operations.open(caller_of(request), inode, info->flags);
  if (!file.ok()) {
    reply_error(request, "open", file.error());
    return;
  }
  set_open(info, *file);
  if (fuse_reply_open(request, info) != 0) {
    operations.release(file->handle);  // the kernel will not send a release for an open it never saw
  }
}

void handle_create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Operations& operations = operations_of(request);
  const auto created = operations.create(caller_of(request), parent, name, mode, info->flags);
  if (!created.ok()) {
    reply_error(request, "create", created.error());
    return;
  }
  const auto& [entry, file] = *created;
  set_open(info, file);
  const fuse_entry_param parameters = entry_of(request, entry);
  if (fuse_reply_create(request, &parameters, info) != 0) {
    operations.release(file.handle);
    operations.forget(entry.attributes.inode, 1);
  }
}

void handle_read(fuse_req_t request, fuse_ino_t /*inode*/, size_t size, off_t offset, fuse_file_info* info) {
  char* buffer = reply_buffer(size);
  if (buffer == nullptr) {
    reply_error(request, "read", {ENOMEM, fmt::format("no memory for a reply of {} bytes", size)});
    return;
  }
  const auto count = operations_of(request).read(caller_of(request), info->fh, static_cast<uint64_t>(offset),
                                                 std::span(reinterpret_cast<std::byte*>(buffer), size));
  if (count.ok()) {
    fuse_reply_buf(request, buffer, std::min(*count, size));
  } else {
    reply_error(request, "read", count.error());
  }
}

void handle_write(fuse_req_t request, fuse_ino_t /*inode*/, const char* data, size_t size, off_t offset,
                  fuse_file_info* info) {
  RequestContext& context = context_of(request);
  ++context.writes_begun;
  Caller caller = caller_of(request);
  caller.writes_pages_back = info->writepage != 0;
  const auto count = context.operations->write(caller, info->fh, static_cast<uint64_t>(offset),
                                               std::span(reinterpret_cast<const std::byte*>(data), size));
  if (count.ok()) {
    fuse_reply_write(request, *count);
  } else {
    reply_error(request, "write", count.error());
  }
  ++context.writes_ended;
}

void handle_flush(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* info) {
  reply_status(request, "close", operations_of(request).flush(caller_of(request), info->fh));
}

void handle_release(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* info) {
  operations_of(request).release(info->fh);
  fuse_reply_err(request, 0);
}

void handle_fsync(fuse_req_t request, fuse_ino_t /*inode*/, int data_only, fuse_file_info* info) {
  reply_status(request, "fsync", operations_of(request).fsync(caller_of(request), info->fh, data_only != 0));
}

void handle_fallocate(fuse_req_t request, fuse_ino_t /*inode*/, int mode, off_t offset, off_t length,
                      fuse_file_info* info) {
  reply_status(request, "fallocate",
               operations_of(request).allocate(caller_of(request), info->fh, mode, static_cast<uint64_t>(offset),
                                               static_cast<uint64_t>(length)));
}

void handle_lseek(fuse_req_t request, fuse_ino_t /*inode*/, off_t offset, int whence, fuse_file_info* info) {
  if (offset < 0 || (whence != SEEK_DATA && whence != SEEK_HOLE)) {
    fuse_reply_err(request, offset < 0 ? ENXIO : EINVAL);
    return;
  }
  const auto found = operations_of(request).seek(caller_of(request), info->fh, static_cast<uint64_t>(offset), whence);
  if (found.ok()) {
    fuse_reply_lseek(request, static_cast<off_t>(*found));
  } else {
    reply_error(request, "lseek", found.error());
  }
}

void handle_copy_file_range(fuse_req_t request, fuse_ino_t /*inode_in*/, off_t offset_in, fuse_file_info* info_in,
                            fuse_ino_t /*inode_out*/, off_t offset_out, fuse_file_info* info_out, size_t length,
                            int flags) {
  if (flags != 0) {
    fuse_reply_err(request, EINVAL);
    return;
  }
  // The reply's count has 32 bits.
  length = std::min<size_t>(length, std::numeric_limits<uint32_t>::max() & ~size_t{4095});
  const auto count =
      operations_of(request).copy_range(caller_of(request), info_in->fh, static_cast<uint64_t>(offset_in), info_out->fh,
                                        static_cast<uint64_t>(offset_out), length);
  if (count.ok()) {
    fuse_reply_write(request, *count);
  } else {
    reply_error(request, "copy_file_range", count.error());
  }
}

// --- directories ----------------------------------------------------------------------------------------------------

void handle_opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  Operations& operations = operations_of(request);
  const auto handle = operations.open_directory(caller_of(request), inode);
  if (!handle.ok()) {
    reply_error(request, "opendir", handle.error());
    return;
  }
  info->fh = *handle;
  if (fuse_reply_open(request, info) != 0) {
    operations.release_directory(*handle);
  }
}

void handle_readdir(fuse_req_t request, fuse_ino_t /*inode*/, size_t size, off_t offset, fuse_file_info* info) {
  char* buffer = reply_buffer(size);
  if (buffer == nullptr) {
    reply_error(request, "readdir", {ENOMEM, fmt::format("no memory for a reply of {} bytes", size)});
    return;
  }
  size_t used = 0;
  const auto visit = [&](const DirectoryEntry& entry) {
    const struct stat status = stat_of(entry);
    const size_t needed = fuse_add_direntry(request, buffer + used, size - used, entry.name.c_str(), &status,
                                            static_cast<off_t>(entry.cookie));
    if (needed > size - used) {
      return false;
    }
    used += needed;
    return true;
  };
  const Status status =
      operations_of(request).read_directory(caller_of(request), info->fh, static_cast<uint64_t>(offset), visit);
  if (status.ok() || used > 0) {
    fuse_reply_buf(request, buffer, used);
  } else {
    reply_error(request, "readdir", status.error());
  }
}

bool is_dot(std::string_view name) { return name == "." || name == ".."; }

/// The entries are gathered first and looked up afterwards, so that no lookup runs inside read_directory.
void handle_readdirplus(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info) {
  thread_local std::vector<DirectoryEntry> entries;
  entries.clear();
  char* buffer = reply_buffer(size);
  if (buffer == nullptr) {
    reply_error(request, "readdir", {ENOMEM, fmt::format("no memory for a reply of {} bytes", size)});
    return;
  }
  Operations& operations = operations_of(request);
  const Caller caller = caller_of(request);
  size_t needed = 0;
  const auto gather = [&](const DirectoryEntry& entry) {
    needed += fuse_add_direntry_plus(request, nullptr, 0, entry.name.c_str(), nullptr, 0);
    if (needed > size) {
      return false;
    }
    entries.push_back(entry);
    return true;
  };
  const Status status = operations.read_directory(caller, info->fh, static_cast<uint64_t>(offset), gather);
  if (!status.ok() && entries.empty()) {
    reply_error(request, "readdir", status.error());
    return;
  }
  size_t used = 0;
  std::vector<InodeNumber> counted;
  for (const DirectoryEntry& entry : entries) {
    fuse_entry_param parameters{};
    parameters.attr = stat_of(entry);  // without a node id: a name and a type, not looked up
    if (!is_dot(entry.name)) {
      const auto found = operations.lookup(caller, inode, entry.name);
      if (!found.ok() && found.error().code == ENOENT) {
        continue;  // removed meanwhile
      }
      if (found.ok()) {
        parameters = entry_of(request, *found);
        counted.push_back(found->attributes.inode);
      }
    }
    used += fuse_add_direntry_plus(request, buffer + used, size - used, entry.name.c_str(), &parameters,
                                   static_cast<off_t>(entry.cookie));
  }
  if (used == 0 && !entries.empty()) {
    // All of them were removed meanwhile. An empty reply would mean the end of the directory: go on behind them.
    handle_readdirplus(request, inode, size, static_cast<off_t>(entries.back().cookie), info);
    return;
  }
  if (fuse_reply_buf(request, buffer, used) != 0) {
    for (const InodeNumber number : counted) {
      operations.forget(number, 1);
    }
  }
}

void handle_releasedir(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* info) {
  operations_of(request).release_directory(info->fh);
  fuse_reply_err(request, 0);
}

void handle_fsyncdir(fuse_req_t request, fuse_ino_t /*inode*/, int /*data_only*/, fuse_file_info* info) {
  reply_status(request, "fsync", operations_of(request).fsync_directory(caller_of(request), info->fh));
}

void handle_statfs(fuse_req_t request, fuse_ino_t /*inode*/) {
  const auto space = operations_of(request).space(caller_of(request));
  if (!space.ok()) {
    reply_error(request, "statfs", space.error());
    return;
  }
  struct statvfs result {};
  result.f_bsize = space->block_size;
  result.f_frsize = space->block_size;
  result.f_blocks = space->blocks;
  result.f_bfree = space->blocks_free;
  result.f_bavail = space->blocks_available;
  result.f_files = space->files;
  result.f_ffree = space->files_free;
  result.f_favail = space->files_free;
  result.f_namemax = NAME_MAX;
  fuse_reply_statfs(request, &result);
}

// --- extended attributes --------------------------------------------------------------------------------------------

/// Names that are answered here. The kernel asks for security.capability before every write, so that must cost nothing;
/// ACLs are not kept, and saying so beats keeping them without enforcing them.
enum class XattrKind { served, capability, acl };

XattrKind kind_of(std::string_view name) {
  if (name == "security.capability") {
    return XattrKind::capability;
  }
  return name.starts_with("system.posix_acl_") ? XattrKind::acl : XattrKind::served;
}

/// `size`: 0 asks for the length alone.
void reply_xattr_data(fuse_req_t request, size_t size, std::string_view data) {
  if (size == 0) {
    fuse_reply_xattr(request, data.size());
  } else if (data.size() > size) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, data.data(), data.size());
  }
}

void handle_getxattr(fuse_req_t request, fuse_ino_t inode, const char* name, size_t size) {
  const XattrKind kind = kind_of(name);
  if (kind != XattrKind::served) {
    fuse_reply_err(request, kind == XattrKind::acl ? EOPNOTSUPP : ENODATA);
    return;
  }
  const auto value = operations_of(request).get_xattr(caller_of(request), inode, name);
  if (value.ok()) {
    reply_xattr_data(request, size, *value);
  } else {
    reply_error(request, "getxattr", value.error());
  }
}

void handle_setxattr(fuse_req_t request, fuse_ino_t inode, const char* name, const char* value, size_t size,
                     int flags) {
  if (kind_of(name) != XattrKind::served) {
    fuse_reply_err(request, EOPNOTSUPP);
    return;
  }
  reply_status(request, "setxattr",
               operations_of(request).set_xattr(caller_of(request), inode, name, std::string_view(value, size), flags));
}

void handle_listxattr(fuse_req_t request, fuse_ino_t inode, size_t size) {
  const auto names = operations_of(request).list_xattrs(caller_of(request), inode);
  if (!names.ok()) {
    reply_error(request, "listxattr", names.error());
    return;
  }
  std::string list;
  for (const std::string& name : *names) {
    list.append(name).push_back('\0');
  }
  if (list.size() > XATTR_LIST_MAX) {
    fuse_reply_err(request, E2BIG);
  } else {
    reply_xattr_data(request, size, list);
  }
}

void handle_removexattr(fuse_req_t request, fuse_ino_t inode, const char* name) {
  const XattrKind kind = kind_of(name);
  if (kind != XattrKind::served) {
    fuse_reply_err(request, kind == XattrKind::acl ? EOPNOTSUPP : ENODATA);
    return;
  }
  reply_status(request, "removexattr", operations_of(request).remove_xattr(caller_of(request), inode, name));
}

// --- the connection -------------------------------------------------------------------------------------------------

/// What is asked of the kernel, from nothing: libfuse's own defaults would promise things that Operations do not keep
/// (O_TRUNC inside open, dropping set-user-id on write).
void handle_init(void* /*context*/, fuse_conn_info* connection) {
  constexpr unsigned kWanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
                               FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_DIO | FUSE_CAP_CACHE_SYMLINKS |
                               FUSE_CAP_EXPLICIT_INVAL_DATA;
  connection->want = kWanted & connection->capable;
  connection->max_write = kLargestRequest;
  connection->max_readahead = 4 * kLargestRequest;
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  connection->time_gran = 1;
}

}  // namespace

const fuse_lowlevel_ops& request_handlers() {
  static const fuse_lowlevel_ops kHandlers = [] {
    fuse_lowlevel_ops handlers{};
    handlers.init = handle_init;
    handlers.lookup = handle_lookup;
    handlers.forget = handle_forget;
    handlers.forget_multi = handle_forget_multi;
    handlers.getattr = handle_getattr;
    handlers.setattr = handle_setattr;
    handlers.readlink = handle_readlink;
    handlers.mknod = handle_mknod;
    handlers.mkdir = handle_mkdir;
    handlers.symlink = handle_symlink;
    handlers.link = handle_link;
    handlers.unlink = handle_unlink;
    handlers.rmdir = handle_rmdir;
    handlers.rename = handle_rename;
    handlers.open = handle_open;
    handlers.create = handle_create;
    handlers.read = handle_read;
    handlers.write = handle_write;
    handlers.flush = handle_flush;
    handlers.release = handle_release;
    handlers.fsync = handle_fsync;
    handlers.fallocate = handle_fallocate;
    handlers.lseek = handle_lseek;
    handlers.copy_file_range = handle_copy_file_range;
    handlers.opendir = handle_opendir;
    handlers.readdir = handle_readdir;
    handlers.readdirplus = handle_readdirplus;
    handlers.releasedir = handle_releasedir;
    handlers.fsyncdir = handle_fsyncdir;
    handlers.statfs = handle_statfs;
    handlers.getxattr = handle_getxattr;
    handlers.setxattr = handle_setxattr;
    handlers.listxattr = handle_listxattr;
    handlers.removexattr = handle_removexattr;
    return handlers;
  }();
  return kHandlers;
}

}  // namespace varve::fs
