// Names: lookup, create, link, unlink, rename, directories.
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>

#include "fs/core.h"
#include "fs/note_keys.h"

namespace varve::fs {

namespace {

constexpr size_t kMaxName = 255;
constexpr size_t kMaxTarget = 4095;
constexpr uint32_t kMaxLinks = 65000;
constexpr std::string_view kControlName = ".varve";
constexpr uint64_t kControlCookie = uint64_t{1} << 62;  // after all others

bool is_directory(const index::Inode& inode) { return S_ISDIR(inode.mode); }

/// An open directory.
struct DirectoryHandle {
  InodeNumber number;
};

/// Why nothing can be made, removed or renamed in a directory under .varve/.
Error refuse_change(InodeNumber directory) {
  return is_mirror(view_of(directory)) ? Error{EROFS, "views are read-only"}
                                       : Error{EPERM, "what is under .varve/ is made by the file system alone"};
}

Error missing(std::string_view name) { return {ENOENT, fmt::format("{} does not exist", name)}; }

}  // namespace

Result<index::Dentry> Core::find(InodeNumber parent, std::string_view name) {
  VARVE_ASSIGN(std::optional<index::Dentry> entry, index_->lookup(parent, name));
  if (!entry) {
    return missing(name);
  }
  return *std::move(entry);
}

Result<Entry> Core::entry_of(const NodePointer& node) {
  Entry entry;
  {
    const std::shared_lock lock(node->mutex);
    entry.attributes = attributes_of(*node);
  }
  nodes_.looked_up(node);
  return entry;
}

Result<Entry> Core::lookup(const Caller& caller, InodeNumber parent, std::string_view name) {
  if (view_of(parent) != View::none || (parent == index::kRootInode && name == kControlName)) {
    return lookup_view(caller, parent, name);
  }
  if (name.size() > kMaxName) {
    return Error{ENAMETOOLONG, "a name has at most 255 bytes"};
  }
  if (name == "." || name == "..") {
    VARVE_ASSIGN(const NodePointer node, nodes_.get(parent));
    if (name == ".." && parent != index::kRootInode) {
      VARVE_ASSIGN(const NodePointer above, nodes_.get(inode_of(*node).parent));
      return entry_of(above);
    }
    return entry_of(node);
  }
  VARVE_ASSIGN(const index::Dentry found, find(parent, name));
  VARVE_ASSIGN(const NodePointer node, nodes_.get(found.inode));
  {
    const NodeLock lock(node->mutex);
    if (node->name != name) {
      node->name = name;
    }
  }
  return entry_of(node);
}

void Core::forget(InodeNumber inode, uint64_t count) {
  if (view_of(inode) != View::none) {
    forget_folder(inode, count);
    nodes_.trim(real_inode(inode));
    return;
  }
  if (const NodePointer node = nodes_.forget(inode, count)) {
    const NodeLock lock(node->mutex);
    if (node->inode_changed && node->inode.links > 0 && node->handles == 0 && !options_.read_only) {
      index::Batch batch;
      put_inode(batch, *node);
      if (commit(std::move(batch)).ok()) {
        node->inode_changed = false;
      }
    }
  }
  nodes_.trim(inode);
}

Status Core::check_new_name(InodeNumber parent, std::string_view name) {
  VARVE_TRY(check_writable());
  if (view_of(parent) != View::none) {
    return refuse_change(parent);
  }
  if (name.size() > kMaxName) {
    return Error{ENAMETOOLONG, "a name has at most 255 bytes"};
  }
  if (name.empty() || name == "." || name == ".." || (parent == index::kRootInode && name == kControlName)) {
    return Error{EEXIST, fmt::format("{} exists", name)};
  }
  return {};
}

void Core::put_entry(index::Batch& batch, Node& parent, std::string_view name, const index::Inode& child) {
  batch.put_dentry(parent.number, {std::string(name), child.number, child.mode & S_IFMT, index_->new_cookie()});
  ++parent.inode.size;
  parent.inode.links += is_directory(child) ? 1 : 0;
  parent.inode.modified = parent.inode.changed = now();
  batch.put_inode(parent.inode);
  parent.inode_changed = false;
}

void Core::drop_entry(index::Batch& batch, Node& parent, const index::Dentry& entry) {
  batch.erase_dentry(parent.number, entry);
  parent.inode.size -= parent.inode.size > 0 ? 1 : 0;
  parent.inode.links -= entry.type == S_IFDIR ? 1 : 0;
  parent.inode.modified = parent.inode.changed = now();
  batch.put_inode(parent.inode);
  parent.inode_changed = false;
}

/// A new inode under `parent`. Owner, group and times are filled in here.
Result<NodePointer> Core::add_entry(const Caller& caller, InodeNumber parent, std::string_view name,
                                    index::Inode inode) {
  VARVE_TRY(check_new_name(parent, name));
  std::optional<std::string> policy;
  if (S_ISREG(inode.mode)) {
    VARVE_ASSIGN(policy, new_file_policy(parent, name, std::nullopt));
  }
  const std::lock_guard names(namespace_mutex_);
  VARVE_ASSIGN(const NodePointer directory, nodes_.get(parent));
  VARVE_ASSIGN(const std::optional<index::Dentry> existing, index_->lookup(parent, name));
  if (existing) {
    return Error{EEXIST, fmt::format("{} exists", name)};
  }
  const NodeLock lock(directory->mutex);
  if (!is_directory(directory->inode)) {
    return Error{ENOTDIR, "the parent is not a directory"};
  }
  if (directory->inode.links == 0) {
    return Error{ENOENT, "the directory was removed"};
  }
  inode.number = index_->new_inode_number();
  inode.uid = caller.uid;
  inode.gid = caller.gid;
  if ((directory->inode.mode & S_ISGID) != 0) {
    inode.gid = directory->inode.gid;
    inode.mode |= is_directory(inode) ? S_ISGID : 0;
  }
  inode.links = is_directory(inode) ? 2 : 1;
  inode.parent = parent;
  inode.accessed = inode.modified = inode.changed = inode.created = now();
  NodeRollback before({directory.get()});
  index::Batch batch;
  batch.put_inode(inode);
  if (policy) {
    batch.put_xattr(inode.number, "varve.policy", *policy);
  }
  put_entry(batch, *directory, name, inode);
  VARVE_TRY(commit(std::move(batch)));
  before.keep_changes();
  const NodePointer node = nodes_.add(std::move(inode));
  node->name = name;
  return node;
}

Result<Entry> Core::make_node(const Caller& caller, InodeNumber parent, std::string_view name, uint32_t mode,
                              uint64_t device) {
  index::Inode inode;
  inode.mode = mode;
  inode.device = S_ISCHR(mode) || S_ISBLK(mode) ? device : 0;
  VARVE_ASSIGN(const NodePointer node, add_entry(caller, parent, name, std::move(inode)));
  return entry_of(node);
}

Result<Entry> Core::make_directory(const Caller& caller, InodeNumber parent, std::string_view name, uint32_t mode) {
  index::Inode inode;
  inode.mode = S_IFDIR | (mode & ~uint32_t{S_IFMT});
  VARVE_ASSIGN(const NodePointer node, add_entry(caller, parent, name, std::move(inode)));
  return entry_of(node);
}

Result<Entry> Core::make_symlink(const Caller& caller, InodeNumber parent, std::string_view name,
                                 std::string_view target) {
  if (target.size() > kMaxTarget) {
    return Error{ENAMETOOLONG, "the target of a symbolic link has at most 4095 bytes"};
  }
  index::Inode inode;
  inode.mode = S_IFLNK | 0777;
  inode.target = target;
  inode.size = target.size();
  VARVE_ASSIGN(const NodePointer node, add_entry(caller, parent, name, std::move(inode)));
  return entry_of(node);
}

Result<std::string> Core::read_link(const Caller&, InodeNumber inode) {
  VARVE_ASSIGN(const NodePointer node, nodes_.get(is_mirror(view_of(inode)) ? real_inode(inode) : inode));
  const std::shared_lock lock(node->mutex);
  if (!S_ISLNK(node->inode.mode)) {
    return Error{EINVAL, "not a symbolic link"};
  }
  return node->inode.target;
}

Result<Entry> Core::link(const Caller&, InodeNumber inode, InodeNumber new_parent, std::string_view new_name) {
  VARVE_TRY(check_new_name(new_parent, new_name));
  if (view_of(inode) != View::none) {
    return Error{EPERM, "the files under .varve/ cannot be linked"};
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
  {
    const std::lock_guard names(namespace_mutex_);
    VARVE_ASSIGN(const NodePointer directory, nodes_.get(new_parent));
    VARVE_ASSIGN(const std::optional<index::Dentry> existing, index_->lookup(new_parent, new_name));
    if (existing) {
      return Error{EEXIST, fmt::format("{} exists", new_name)};
    }
    const NodeLock lock(node->mutex);
    if (is_directory(node->inode)) {
      return Error{EPERM, "a directory cannot have a hard link"};
    }
    if (node->inode.links == 0) {
      return Error{ENOENT, "the file was removed"};
    }
    if (node->inode.links >= kMaxLinks) {
      return Error{EMLINK, "a file has at most 65000 links"};
    }
    const NodeLock directory_lock(directory->mutex);
    if (directory->inode.links == 0) {
      return Error{ENOENT, "the directory was removed"};
    }
    NodeRollback before({node.get(), directory.get()});
    ++node->inode.links;
    node->inode.changed = now();
    index::Batch batch;
    put_inode(batch, *node);
    put_entry(batch, *directory, new_name, node->inode);
    VARVE_TRY(commit(std::move(batch)));
    before.keep_changes();
    node->inode_changed = false;
  }
  return entry_of(node);
}

/// Puts in the batch that the inode and its content go. The node is as it was until content_erased().
void Core::erase_content(index::Batch& batch, const Node& node) {
  batch.erase_inode(node.number);
  if (node.inode.object != 0) {
    batch.release(node.inode.object);
  }
  if (node.staging) {
    node.staging->erase_notes(batch, node.number);
  }
}

/// After the commit: until then a crash must find the staged data, for the file may still have its name.
void Core::content_erased(Node& node) {
  node.inode.object = 0;
  drop_staging(node);
  node.inode_changed = false;
  ++node.version;
}

void Core::drop_link(index::Batch& batch, Node& node) {
  node.inode.changed = now();
  node.inode.links = is_directory(node.inode) ? 0 : node.inode.links - 1;
  if (node.inode.links == 0 && node.handles == 0) {
    erase_content(batch, node);
    return;
  }
  put_inode(batch, node);
  if (node.inode.links == 0) {
    batch.put_note(orphan_note(node.number), "");
  }
}

void Core::link_dropped(Node& node) {
  node.inode_changed = false;
  if (node.inode.links == 0 && node.handles == 0) {
    content_erased(node);
  }
}

/// Takes an entry out of its directory, and a link from what it leads to. Both locks are held.
Status Core::remove_entry(Node& directory, const index::Dentry& entry, Node& node) {
  NodeRollback before({&directory, &node});
  index::Batch batch;
  batch.frees_space();
  drop_entry(batch, directory, entry);
  drop_link(batch, node);
  VARVE_TRY(commit(std::move(batch)));
  before.keep_changes();
  link_dropped(node);
  return {};
}

Status Core::unlink(const Caller&, InodeNumber parent, std::string_view name) {
  VARVE_TRY(check_writable());
  if (view_of(parent) != View::none) {
    return refuse_change(parent);
  }
  const std::lock_guard names(namespace_mutex_);
  VARVE_ASSIGN(const index::Dentry entry, find(parent, name));
  if (entry.type == S_IFDIR) {
    return Error{EISDIR, fmt::format("{} is a directory", name)};
  }
  VARVE_ASSIGN(const NodePointer directory, nodes_.get(parent));
  VARVE_ASSIGN(const NodePointer node, nodes_.get(entry.inode));
  const NodeLock directory_lock(directory->mutex);
  const NodeLock lock(node->mutex);
  return remove_entry(*directory, entry, *node);
}

Status Core::remove_directory(const Caller&, InodeNumber parent, std::string_view name) {
  VARVE_TRY(check_writable());
  if (view_of(parent) != View::none || (parent == index::kRootInode && name == kControlName)) {
    return refuse_change(parent);
  }
  const std::lock_guard names(namespace_mutex_);
  VARVE_ASSIGN(const index::Dentry entry, find(parent, name));
  if (entry.type != S_IFDIR) {
    return Error{ENOTDIR, fmt::format("{} is not a directory", name)};
  }
  VARVE_ASSIGN(const NodePointer directory, nodes_.get(parent));
  VARVE_ASSIGN(const NodePointer node, nodes_.get(entry.inode));
  const NodeLock directory_lock(directory->mutex);
  const NodeLock lock(node->mutex);
  if (node->inode.size > 0) {
    return Error{ENOTEMPTY, fmt::format("{} is not empty", name)};
  }
  return remove_entry(*directory, entry, *node);
}

Status Core::refuse_descendant(InodeNumber moved, InodeNumber directory) {
  while (directory != index::kRootInode) {
    if (directory == moved) {
      return Error{EINVAL, "a directory cannot be moved into itself"};
    }
    VARVE_ASSIGN(const NodePointer node, nodes_.get(directory));
    directory = inode_of(*node).parent;
  }
  return {};
}

Status Core::check_replaceable(const Node& node, const Node& replaced) {
  if (is_directory(replaced.inode)) {
    if (!is_directory(node.inode)) {
      return Error{EISDIR, "the new name is a directory"};
    }
    if (replaced.inode.size > 0) {
      return Error{ENOTEMPTY, "the new name is a directory that is not empty"};
    }
  } else if (is_directory(node.inode)) {
    return Error{ENOTDIR, "the new name is not a directory"};
  }
  return {};
}

/// RENAME_EXCHANGE; the namespace is locked.
Status Core::exchange(Node& from, const index::Dentry& source, Node& to, const index::Dentry& target) {
  VARVE_ASSIGN(const NodePointer first, nodes_.get(source.inode));
  VARVE_ASSIGN(const NodePointer second, nodes_.get(target.inode));
  const auto locks = lock_both(*first, *second);
  NodeRollback before({&from, &to, first.get(), second.get()});
  index::Batch batch;
  const auto relocate = [&](Node& node, Node& directory, const index::Dentry& was) {
    node.inode.changed = now();
    node.inode.parent = directory.number;
    node.name = was.name;
    put_inode(batch, node);
    put_entry(batch, directory, was.name, node.inode);
  };
  drop_entry(batch, from, source);
  drop_entry(batch, to, target);
  relocate(*first, to, target);
  relocate(*second, from, source);
  VARVE_TRY(commit(std::move(batch)));
  before.keep_changes();
  first->inode_changed = second->inode_changed = false;
  return {};
}

Status Core::move_entry(Node& from, const index::Dentry& source, Node& to, std::string_view new_name,
                        const NodePointer& moved, const std::optional<index::Dentry>& replaced) {
  NodePointer victim;
  if (replaced) {
    VARVE_ASSIGN(victim, nodes_.get(replaced->inode));
  }
  const auto locks = lock_both(*moved, victim ? *victim : *moved);
  NodeRollback before({&from, &to, moved.get(), victim ? victim.get() : moved.get()});
  index::Batch batch;
  if (victim) {
    VARVE_TRY(check_replaceable(*moved, *victim));
    batch.frees_space();
    drop_entry(batch, to, *replaced);
  }
  drop_entry(batch, from, source);
  moved->inode.changed = now();
  moved->inode.parent = to.number;
  moved->name = new_name;
  put_inode(batch, *moved);
  put_entry(batch, to, new_name, moved->inode);
  if (victim) {
    drop_link(batch, *victim);
  }
  VARVE_TRY(commit(std::move(batch)));
  before.keep_changes();
  moved->inode_changed = false;
  if (victim) {
    link_dropped(*victim);
  }
  return {};
}

Status Core::rename(const Caller&, InodeNumber parent, std::string_view name, InodeNumber new_parent,
                    std::string_view new_name, uint32_t flags) {
  VARVE_TRY(check_writable());
  if ((flags & ~uint32_t{RENAME_NOREPLACE | RENAME_EXCHANGE}) != 0 || flags == (RENAME_NOREPLACE | RENAME_EXCHANGE)) {
    return Error{EINVAL, "rename: only RENAME_NOREPLACE or RENAME_EXCHANGE"};
  }
  VARVE_TRY(check_new_name(new_parent, new_name));
  VARVE_TRY(check_new_name(parent, name));
  const std::lock_guard names(namespace_mutex_);
  VARVE_ASSIGN(const index::Dentry source, find(parent, name));
  VARVE_ASSIGN(const std::optional<index::Dentry> target, index_->lookup(new_parent, new_name));
  if (target && flags == RENAME_NOREPLACE) {
    return Error{EEXIST, fmt::format("{} exists", new_name)};
  }
  if (!target && flags == RENAME_EXCHANGE) {
    return missing(new_name);
  }
  if (target && target->inode == source.inode) {
    return {};  // two names of one file: nothing changes (POSIX)
  }
  if (source.type == S_IFDIR) {
    VARVE_TRY(refuse_descendant(source.inode, new_parent));
  }
  if (target && flags == RENAME_EXCHANGE && target->type == S_IFDIR) {
    VARVE_TRY(refuse_descendant(target->inode, parent));
  }
  VARVE_ASSIGN(const NodePointer from, nodes_.get(parent));
  VARVE_ASSIGN(const NodePointer to, nodes_.get(new_parent));
  VARVE_ASSIGN(const NodePointer moved, nodes_.get(source.inode));
  const NodeLock from_lock(from->mutex);
  const NodeLock to_lock = from == to ? NodeLock() : NodeLock(to->mutex);
  if (to->inode.links == 0) {
    return Error{ENOENT, "the new directory was removed"};
  }
  if (flags == RENAME_EXCHANGE) {
    return exchange(*from, source, *to, *target);
  }
  return move_entry(*from, source, *to, new_name, moved, target);
}

Result<uint64_t> Core::open_directory(const Caller&, InodeNumber inode) {
  if (view_of(inode) == View::none) {
    VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
  }
  return reinterpret_cast<uint64_t>(new DirectoryHandle{inode});
}

void Core::release_directory(uint64_t handle) {
  delete reinterpret_cast<DirectoryHandle*>(handle);  // NOLINT: the kernel kept it
}

Status Core::read_directory(const Caller&, uint64_t handle, uint64_t cookie,
                            const std::function<bool(const DirectoryEntry&)>& visit) {
  const InodeNumber number = reinterpret_cast<DirectoryHandle*>(handle)->number;  // NOLINT
  if (view_of(number) != View::none) {
    return read_view_directory(number, cookie, visit);
  }
  if (cookie < 2) {
    VARVE_ASSIGN(const NodePointer node, nodes_.get(number));
    const InodeNumber above = number == index::kRootInode ? number : inode_of(*node).parent;
    if (cookie < 1 && !visit({".", 1, S_IFDIR, number})) {
      return {};
    }
    if (!visit({"..", 2, S_IFDIR, above})) {
      return {};
    }
  }
  if (cookie >= kControlCookie) {
    return {};
  }
  bool more = true;
  VARVE_TRY(index_->list(number, std::max<uint64_t>(cookie, 2), [&](const index::Dentry& entry) {
    return more = visit({entry.name, entry.cookie, entry.type, entry.inode});
  }));
  if (more && number == index::kRootInode && options_.show_views) {
    VARVE_ASSIGN(const Entry control, lookup_view({}, number, kControlName));
    visit({std::string(kControlName), kControlCookie, S_IFDIR, control.attributes.inode});
  }
  return {};
}

Status Core::fsync_directory(const Caller&, uint64_t) { return options_.read_only ? Status() : index_->sync(); }

}  // namespace varve::fs
