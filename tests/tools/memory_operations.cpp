#include "memory_operations.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#ifndef RENAME_NOREPLACE
#include <linux/fs.h>
#endif

namespace varve::fs {
namespace {

Error fail(int code) { return {code, std::string("memory: ") + std::strerror(code)}; }

Time now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return {time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
}

Attributes new_attributes(InodeNumber inode, uint32_t mode, uint32_t uid, uint32_t gid) {
  Attributes result;
  result.inode = inode;
  result.mode = mode;
  result.uid = uid;
  result.gid = gid;
  result.links = S_ISDIR(mode) ? 2 : 1;
  result.accessed = result.modified = result.changed = now();
  return result;
}

}  // namespace

MemoryOperations::MemoryOperations() {
  Node& root = nodes_[index::kRootInode];
  root.attributes = new_attributes(index::kRootInode, S_IFDIR | 0755, getuid(), getgid());
  root.parent = index::kRootInode;
  root.lookups = 1;
}

MemoryOperations::Node* MemoryOperations::find(InodeNumber inode) {
  const auto it = nodes_.find(inode);
  return it == nodes_.end() ? nullptr : &it->second;
}

MemoryOperations::Node* MemoryOperations::by_handle(uint64_t handle) {
  const auto it = handles_.find(handle);
  return it == handles_.end() ? nullptr : find(it->second);
}

std::pair<const uint64_t, std::pair<std::string, InodeNumber>>* MemoryOperations::child(Node& directory,
                                                                                        std::string_view name) {
  const auto it = std::ranges::find_if(directory.children, [&](const auto& item) { return item.second.first == name; });
  return it == directory.children.end() ? nullptr : &*it;
}

void MemoryOperations::drop_if_unused(InodeNumber inode) {
  const Node* node = find(inode);
  if (node != nullptr && node->attributes.links == 0 && node->lookups == 0 && node->opens == 0) {
    nodes_.erase(inode);
  }
}

void MemoryOperations::drop_name(Node& directory, std::string_view name) {
  auto* item = child(directory, name);
  const InodeNumber inode = item->second.second;
  directory.children.erase(item->first);
  Node& node = *find(inode);
  node.attributes.links = S_ISDIR(node.attributes.mode) ? 0 : node.attributes.links - 1;
  node.attributes.changed = now();
  drop_if_unused(inode);
}

Result<Entry> MemoryOperations::lookup(const Caller& /*caller*/, InodeNumber parent, std::string_view name) {
  const std::lock_guard lock(mutex_);
  Node* directory = find(parent);
  const auto* item = directory != nullptr ? child(*directory, name) : nullptr;
  if (item == nullptr) {
    return fail(ENOENT);
  }
  Node& node = *find(item->second.second);
  ++node.lookups;
  return Entry{node.attributes};
}

void MemoryOperations::forget(InodeNumber inode, uint64_t count) {
  const std::lock_guard lock(mutex_);
  Node* node = find(inode);
  if (node == nullptr || node->lookups < count) {
    std::fprintf(stderr, "forget of more than was looked up\n");
    std::abort();
  }
  node->lookups -= count;
  drop_if_unused(inode);
}

Result<Attributes> MemoryOperations::get_attributes(const Caller& /*caller*/, InodeNumber inode) {
  const std::lock_guard lock(mutex_);
  const Node* node = find(inode);
  return node != nullptr ? Result<Attributes>(node->attributes) : fail(ENOENT);
}

Result<Attributes> MemoryOperations::set_attributes(const Caller& /*caller*/, InodeNumber inode,
                                                    const AttributeChange& change, std::optional<uint64_t>) {
  const std::lock_guard lock(mutex_);
  Node* node = find(inode);
  if (node == nullptr) {
    return fail(ENOENT);
  }
  Attributes& attributes = node->attributes;
  attributes.mode = change.mode ? (attributes.mode & S_IFMT) | *change.mode : attributes.mode;
  attributes.uid = change.uid.value_or(attributes.uid);
  attributes.gid = change.gid.value_or(attributes.gid);
  if (change.size) {
    node->data.resize(*change.size);
    attributes.size = *change.size;
    attributes.modified = now();
  }
  attributes.accessed = change.accessed_now ? now() : change.accessed.value_or(attributes.accessed);
  attributes.modified = change.modified_now ? now() : change.modified.value_or(attributes.modified);
  attributes.changed = now();
  return attributes;
}

Result<std::string> MemoryOperations::read_link(const Caller& /*caller*/, InodeNumber inode) {
  const std::lock_guard lock(mutex_);
  const Node* node = find(inode);
  return node != nullptr ? Result<std::string>(node->data) : fail(ENOENT);
}

Result<Entry> MemoryOperations::add(const Caller& caller, InodeNumber parent, std::string_view name, uint32_t mode,
                                    std::string_view data) {
  Node* directory = find(parent);
  if (directory == nullptr) {
    return fail(ENOENT);
  }
  if (child(*directory, name) != nullptr) {
    return fail(EEXIST);
  }
  const InodeNumber inode = next_inode_++;
  Node& node = nodes_[inode];
  node.attributes = new_attributes(inode, mode, caller.uid, caller.gid);
  node.attributes.size = data.size();
  node.data = data;
  node.lookups = 1;
  node.parent = parent;
  directory->children[next_cookie_++] = {std::string(name), inode};
  return Entry{node.attributes};
}

Result<Entry> MemoryOperations::make_node(const Caller& caller, InodeNumber parent, std::string_view name,
                                          uint32_t mode, uint64_t device) {
  const std::lock_guard lock(mutex_);
  auto entry = add(caller, parent, name, mode, "");
  if (entry.ok()) {
    find(entry->attributes.inode)->attributes.device = entry->attributes.device = device;
  }
  return entry;
}

Result<Entry> MemoryOperations::make_directory(const Caller& caller, InodeNumber parent, std::string_view name,
                                               uint32_t mode) {
  const std::lock_guard lock(mutex_);
  return add(caller, parent, name, S_IFDIR | mode, "");
}

Result<Entry> MemoryOperations::make_symlink(const Caller& caller, InodeNumber parent, std::string_view name,
                                             std::string_view target) {
  const std::lock_guard lock(mutex_);
  return add(caller, parent, name, S_IFLNK | 0777, target);
}

Result<Entry> MemoryOperations::link(const Caller& /*caller*/, InodeNumber inode, InodeNumber new_parent,
                                     std::string_view new_name) {
  const std::lock_guard lock(mutex_);
  Node* node = find(inode);
  Node* directory = find(new_parent);
  if (node == nullptr || directory == nullptr) {
    return fail(ENOENT);
  }
  if (child(*directory, new_name) != nullptr) {
    return fail(EEXIST);
  }
  directory->children[next_cookie_++] = {std::string(new_name), inode};
  ++node->attributes.links;
  ++node->lookups;
  return Entry{node->attributes};
}

Status MemoryOperations::unlink(const Caller& /*caller*/, InodeNumber parent, std::string_view name) {
  const std::lock_guard lock(mutex_);
  Node* directory = find(parent);
  if (directory == nullptr || child(*directory, name) == nullptr) {
    return fail(ENOENT);
  }
  drop_name(*directory, name);
  return {};
}

Status MemoryOperations::remove_directory(const Caller& /*caller*/, InodeNumber parent, std::string_view name) {
  const std::lock_guard lock(mutex_);
  Node* directory = find(parent);
  const auto* item = directory != nullptr ? child(*directory, name) : nullptr;
  if (item == nullptr) {
    return fail(ENOENT);
  }
  if (!find(item->second.second)->children.empty()) {
    return fail(ENOTEMPTY);
  }
  drop_name(*directory, name);
  return {};
}

Status MemoryOperations::rename(const Caller& /*caller*/, InodeNumber parent, std::string_view name,
                                InodeNumber new_parent, std::string_view new_name, uint32_t flags) {
  const std::lock_guard lock(mutex_);
  Node* from = find(parent);
  Node* to = find(new_parent);
  auto* source = from != nullptr ? child(*from, name) : nullptr;
  auto* target = to != nullptr ? child(*to, new_name) : nullptr;
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0) {
    return fail(EINVAL);
  }
  if (source == nullptr || ((flags & RENAME_EXCHANGE) != 0 && target == nullptr)) {
    return fail(ENOENT);
  }
  if ((flags & RENAME_NOREPLACE) != 0 && target != nullptr) {
    return fail(EEXIST);
  }
  if ((flags & RENAME_EXCHANGE) != 0) {
    std::swap(source->second.second, target->second.second);
    return {};
  }
  if (target != nullptr) {
    drop_name(*to, new_name);
  }
  const InodeNumber inode = source->second.second;
  from->children.erase(source->first);
  to->children[next_cookie_++] = {std::string(new_name), inode};
  return {};
}

uint64_t MemoryOperations::add_handle(InodeNumber inode) {
  ++find(inode)->opens;
  handles_[next_handle_] = inode;
  return next_handle_++;
}

void MemoryOperations::drop_handle(uint64_t handle) {
  const InodeNumber inode = handles_.at(handle);
  handles_.erase(handle);
  --find(inode)->opens;
  drop_if_unused(inode);
}

Result<OpenFile> MemoryOperations::open(const Caller& /*caller*/, InodeNumber inode, int flags) {
  const std::lock_guard lock(mutex_);
  if ((flags & (O_TRUNC | O_CREAT)) != 0) {
    return fail(EINVAL);  // the session promises to keep these away
  }
  if (find(inode) == nullptr) {
    return fail(ENOENT);
  }
  return OpenFile{.handle = add_handle(inode), .keep_cache = keep_cache.load()};
}

Result<std::pair<Entry, OpenFile>> MemoryOperations::create(const Caller& caller, InodeNumber parent,
                                                            std::string_view name, uint32_t mode, int /*flags*/) {
  const std::lock_guard lock(mutex_);
  auto entry = add(caller, parent, name, mode | S_IFREG, "");
  if (!entry.ok()) {
    return entry.error();
  }
  return std::pair(*entry, OpenFile{.handle = add_handle(entry->attributes.inode)});
}

Result<size_t> MemoryOperations::read(const Caller& /*caller*/, uint64_t handle, uint64_t offset,
                                      std::span<std::byte> out) {
  const std::lock_guard lock(mutex_);
  const std::string& data = by_handle(handle)->data;
  const size_t count = offset < data.size() ? std::min<size_t>(out.size(), data.size() - offset) : 0;
  if (count > 0) {
    std::memcpy(out.data(), data.data() + offset, count);
  }
  return count;
}

Result<size_t> MemoryOperations::write(const Caller& /*caller*/, uint64_t handle, uint64_t offset,
                                       std::span<const std::byte> data) {
  const std::lock_guard lock(mutex_);
  Node& node = *by_handle(handle);
  if (node.data.size() < offset + data.size()) {
    node.data.resize(offset + data.size());
  }
  std::memcpy(node.data.data() + offset, data.data(), data.size());
  node.attributes.size = node.data.size();
  node.attributes.modified = node.attributes.changed = now();
  return data.size();
}

Status MemoryOperations::flush(const Caller& /*caller*/, uint64_t /*handle*/) {
  const int code = flush_error.exchange(0);
  return code == 0 ? Status() : Status(fail(code));
}

void MemoryOperations::release(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  drop_handle(handle);
}

Status MemoryOperations::fsync(const Caller& /*caller*/, uint64_t /*handle*/, bool /*data_only*/) { return {}; }

Status MemoryOperations::allocate(const Caller& /*caller*/, uint64_t handle, int mode, uint64_t offset,
                                  uint64_t length) {
  const std::lock_guard lock(mutex_);
  Node& node = *by_handle(handle);
  if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) {
    const uint64_t end = std::min<uint64_t>(offset + length, node.data.size());
    if (offset < end) {
      std::fill(node.data.begin() + static_cast<ptrdiff_t>(offset), node.data.begin() + static_cast<ptrdiff_t>(end),
                '\0');
    }
    return {};
  }
  if (mode != 0) {
    return fail(EOPNOTSUPP);
  }
  node.data.resize(std::max<uint64_t>(node.data.size(), offset + length));
  node.attributes.size = node.data.size();
  return {};
}

Result<uint64_t> MemoryOperations::seek(const Caller& /*caller*/, uint64_t handle, uint64_t offset, int whence) {
  const std::lock_guard lock(mutex_);
  const std::string& data = by_handle(handle)->data;
  if (offset >= data.size()) {
    return fail(ENXIO);
  }
  // Runs of zero bytes count as holes here.
  const size_t found = whence == SEEK_HOLE ? data.find('\0', offset) : data.find_first_not_of('\0', offset);
  if (found == std::string::npos) {
    return whence == SEEK_HOLE ? Result<uint64_t>(data.size()) : fail(ENXIO);
  }
  return found;
}

Result<size_t> MemoryOperations::copy_range(const Caller& caller, uint64_t from_handle, uint64_t from_offset,
                                            uint64_t to_handle, uint64_t to_offset, size_t length) {
  std::vector<std::byte> buffer(std::min<size_t>(length, 1 << 20));
  VARVE_ASSIGN(const size_t count, read(caller, from_handle, from_offset, buffer));
  return write(caller, to_handle, to_offset, std::span(buffer).first(count));
}

Result<uint64_t> MemoryOperations::open_directory(const Caller& /*caller*/, InodeNumber inode) {
  const std::lock_guard lock(mutex_);
  if (find(inode) == nullptr) {
    return fail(ENOENT);
  }
  return add_handle(inode);
}

Status MemoryOperations::read_directory(const Caller& /*caller*/, uint64_t handle, uint64_t cookie,
                                        const std::function<bool(const DirectoryEntry&)>& visit) {
  const std::lock_guard lock(mutex_);
  const Node& node = *by_handle(handle);
  if (cookie < 1 && !visit({".", 1, S_IFDIR, node.attributes.inode})) {
    return {};
  }
  if (cookie < 2 && !visit({"..", 2, S_IFDIR, node.parent})) {
    return {};
  }
  for (auto it = node.children.upper_bound(cookie); it != node.children.end(); ++it) {
    const auto& [name, inode] = it->second;
    if (!visit({name, it->first, find(inode)->attributes.mode & S_IFMT, inode})) {
      return {};
    }
  }
  return {};
}

void MemoryOperations::release_directory(uint64_t handle) { release(handle); }

Status MemoryOperations::fsync_directory(const Caller& /*caller*/, uint64_t /*handle*/) { return {}; }

Result<FileSystemSpace> MemoryOperations::space(const Caller& /*caller*/) {
  return FileSystemSpace{.blocks = 1000, .blocks_free = 500, .blocks_available = 400, .files = 77, .files_free = 66};
}

Status MemoryOperations::set_xattr(const Caller& /*caller*/, InodeNumber inode, std::string_view name,
                                   std::string_view value, int flags) {
  const std::lock_guard lock(mutex_);
  ++xattr_calls;
  Node* node = find(inode);
  const bool exists = node->xattrs.find(name) != node->xattrs.end();
  if (exists ? (flags & XATTR_CREATE) != 0 : (flags & XATTR_REPLACE) != 0) {
    return fail(exists ? EEXIST : ENODATA);
  }
  node->xattrs[std::string(name)] = value;
  return {};
}

Result<std::string> MemoryOperations::get_xattr(const Caller& /*caller*/, InodeNumber inode, std::string_view name) {
  const std::lock_guard lock(mutex_);
  ++xattr_calls;
  const Node* node = find(inode);
  const auto it = node->xattrs.find(name);
  return it != node->xattrs.end() ? Result<std::string>(it->second) : fail(ENODATA);
}

Result<std::vector<std::string>> MemoryOperations::list_xattrs(const Caller& /*caller*/, InodeNumber inode) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, value] : find(inode)->xattrs) {
    names.push_back(name);
  }
  return names;
}

Status MemoryOperations::remove_xattr(const Caller& /*caller*/, InodeNumber inode, std::string_view name) {
  const std::lock_guard lock(mutex_);
  return find(inode)->xattrs.erase(std::string(name)) > 0 ? Status() : Status(fail(ENODATA));
}

Status MemoryOperations::shut_down() { return {}; }

size_t MemoryOperations::node_count() {
  const std::lock_guard lock(mutex_);
  return nodes_.size();
}

size_t MemoryOperations::handle_count() {
  const std::lock_guard lock(mutex_);
  return handles_.size();
}

std::string MemoryOperations::content(InodeNumber inode) {
  const std::lock_guard lock(mutex_);
  const Node* node = find(inode);
  return node != nullptr ? node->data : "";
}

void MemoryOperations::set_content(InodeNumber inode, std::string data) {
  const std::lock_guard lock(mutex_);
  Node& node = *find(inode);
  node.data = std::move(data);
  node.attributes.size = node.data.size();
}

}  // namespace varve::fs
