// Attributes, extended attributes, and the bound that a file is sealed with.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>

#include "fs/core.h"
#include "fs/formats/chunk_filters.h"
#include "fs/log.h"

namespace varve::fs {

namespace {

constexpr std::string_view kBound = "user.varve.bound";
constexpr std::string_view kMaxError = "user.varve.max_error";
/// Marks are the fault layer's: programs that set them work without it, too.
constexpr std::string_view kMark = "user.varve.mark";
constexpr std::string_view kVarve = "user.varve.";
constexpr std::string_view kInternal = "varve.";
constexpr std::string_view kPolicy = "varve.policy";
constexpr size_t kMaxXattrName = 255;
constexpr size_t kMaxXattrValue = 65536;
constexpr uint64_t kSector = 512;

/// Told about every regular file that is asked by name; computed, never stored. They are not listed, and setting or
/// removing them does nothing: tools that copy attributes (rsync -X, cp -a) must not see a difference.
constexpr std::string_view kComputed[] = {"user.varve.ratio", "user.varve.state", "user.varve.stored", kMaxError};

bool is_computed(std::string_view name) {
  return std::find(std::begin(kComputed), std::end(kComputed), name) != std::end(kComputed);
}

Error no_attribute(std::string_view name) { return {ENODATA, fmt::format("no attribute {}", name)}; }

}  // namespace

/// The node's lock is held.
Attributes Core::attributes_of(Node& node) {
  const index::Inode& inode = node.inode;
  Attributes attributes;
  attributes.inode = inode.number;
  attributes.mode = inode.mode;
  attributes.uid = inode.uid;
  attributes.gid = inode.gid;
  attributes.links = inode.links;
  attributes.device = inode.device;
  attributes.size = inode.size;
  attributes.accessed = inode.accessed;
  attributes.modified = inode.modified;
  attributes.changed = inode.changed;
  if (S_ISREG(inode.mode)) {
    uint64_t stored = inode.object != 0 ? inode.stored : 0;
    if (node.staging) {
      stored += node.staging->allocated().ok() ? *node.staging->allocated() : 0;
    }
    attributes.blocks = (stored + kSector - 1) / kSector;
  }
  return attributes;
}

Result<Attributes> Core::get_attributes(const Caller&, InodeNumber inode) {
  if (view_of(inode) != View::none) {
    return view_attributes(inode);
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
  const std::shared_lock lock(node->mutex);
  return attributes_of(*node);
}

/// ESTALE once the inode is erased: nothing may write its row again. The lock is held.
Status Core::check_exists(const Node& node) {
  return node.inode.links == 0 && node.handles == 0 ? Status(Error{ESTALE, "the file was removed"}) : Status();
}

/// Commits what the batch says of the node's attributes, with its new ctime. The lock is held exclusively.
Status Core::commit_change(Node& node, index::Batch batch) {
  NodeRollback before({&node});
  node.inode.changed = now();
  put_inode(batch, node);
  VARVE_TRY(commit(std::move(batch)));
  before.keep_changes();
  return {};
}

/// The lock is held exclusively.
Status Core::apply_change(const NodePointer& node, const AttributeChange& change) {
  const bool shrinks = change.size && *change.size <= node->inode.size;
  if (change.size) {
    if (!S_ISREG(node->inode.mode)) {
      return Error{EINVAL, "only a regular file can be truncated"};
    }
    VARVE_TRY(truncate(*node, *change.size));
    if (node->writers == 0 && node->staging) {
      queue_seal(node);
    }
  }
  NodeRollback before({node.get()});
  index::Inode& inode = node->inode;
  const Time time = now();
  if (change.mode) {
    inode.mode = (inode.mode & S_IFMT) | (*change.mode & ~uint32_t{S_IFMT});
  }
  if (change.kill_privileges) {
    inode.mode &= ~uint32_t{S_ISUID};
    inode.mode &= (inode.mode & S_IXGRP) != 0 ? ~uint32_t{S_ISGID} : ~uint32_t{0};
  }
  inode.uid = change.uid.value_or(inode.uid);
  inode.gid = change.gid.value_or(inode.gid);
  if (change.accessed || change.accessed_now) {
    inode.accessed = change.accessed_now ? time : *change.accessed;
  }
  if (change.modified || change.modified_now) {
    inode.modified = change.modified_now ? time : *change.modified;
  }
  inode.changed = change.changed.value_or(time);
  index::Batch batch;
  if (shrinks) {
    batch.frees_space();
  }
  put_inode(batch, *node);
  VARVE_TRY(commit(std::move(batch)));
  before.keep_changes();
  // What is staged has a size of its own; the next start takes that one.
  node->inode_changed = node->staging != nullptr;
  return {};
}

Result<Attributes> Core::set_attributes(const Caller&, InodeNumber inode, const AttributeChange& change,
                                        std::optional<uint64_t>) {
  if (is_mirror(view_of(inode))) {
    return Error{EROFS, "views are read-only"};
  }
  if (view_of(inode) != View::none) {
    return view_attributes(inode);  // truncation of a control file before it is written
  }
  VARVE_TRY(check_writable());
  VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
  NodeLock lock(node->mutex);
  if (change.size && node->writers == 0) {
    wait_for_seal(node, lock);
  }
  VARVE_TRY(check_exists(*node));
  VARVE_TRY(apply_change(node, change));
  return attributes_of(*node);
}

/// The path from the root, without a leading slash; "" for the root.
Result<std::string> Core::path_of(InodeNumber number) {
  std::string path;
  while (number != index::kRootInode) {
    VARVE_ASSIGN(const NodePointer node, nodes_.get(number));
    InodeNumber above = 0;
    std::string name;
    {
      const std::shared_lock lock(node->mutex);
      above = node->inode.parent;
      name = node->name;
    }
    if (name.empty()) {
      VARVE_TRY(index_->list(above, 0, [&](const index::Dentry& entry) {
        name = entry.inode == number ? entry.name : name;
        return name.empty();
      }));
      const NodeLock lock(node->mutex);
      node->name = name;
    }
    if (!path.empty()) {
      name.append("/").append(path);
    }
    path = std::move(name);
    number = above;
  }
  return path;
}

/// The bound of the nearest directory, `directory` included, that has one.
Result<std::optional<codec::Bound>> Core::inherited_bound(InodeNumber directory) {
  while (true) {
    VARVE_ASSIGN(const NodePointer node, nodes_.get(directory));
    std::optional<std::string> text;
    bool known = false;
    {
      const std::shared_lock lock(node->mutex);
      known = node->bound_text.has_value();
      text = node->bound_text.value_or(std::nullopt);
    }
    if (!known) {
      VARVE_ASSIGN(text, index_->xattr(directory, kBound));
      const NodeLock lock(node->mutex);
      node->bound_text = text;
    }
    if (text) {
      VARVE_ASSIGN(const codec::Bound bound, codec::parse_bound(*text));
      return std::optional(bound);
    }
    if (directory == index::kRootInode) {
      return std::optional<codec::Bound>();
    }
    directory = inode_of(*node).parent;
  }
}

/// The policy text of a file to be made (nothing: lossless). `own`: the bound set on the file itself.
Result<std::optional<std::string>> Core::new_file_policy(InodeNumber parent, std::string_view name,
                                                         const std::optional<codec::Bound>& own) {
  const std::shared_ptr<const Policy> policy = policy_.current();
  std::optional<codec::Bound> inherited = own;
  if (!own) {
    VARVE_ASSIGN(inherited, inherited_bound(parent));
  }
  if (!inherited && policy->rules().empty()) {
    return std::optional<std::string>();
  }
  VARVE_ASSIGN(std::string path, path_of(parent));
  path = path.empty() ? std::string(name) : path + "/" + std::string(name);
  const FilePolicy chosen = policy->for_file(path, inherited);
  if (chosen.choices.empty() && !chosen.raw) {
    return std::optional<std::string>();
  }
  return std::optional(chosen.serialise());
}

Result<FilePolicy> Core::policy_of(InodeNumber number) {
  VARVE_ASSIGN(const std::optional<std::string> text, index_->xattr(number, kPolicy));
  return text ? FilePolicy::parse(*text) : FilePolicy();
}

/// user.varve.bound of a file or directory. The lock is not held.
Status Core::set_bound(Node& node, std::string_view text) {
  std::string name;
  index::Inode inode;
  {
    const std::shared_lock lock(node.mutex);
    name = node.name;
    inode = node.inode;
  }
  auto bound = codec::parse_bound(text);
  if (!bound.ok()) {
    log_line(LogLevel::warning, fmt::format("{}: user.varve.bound refused: {}", name, bound.error().text));
    return bound.error();
  }
  index::Batch batch;
  batch.put_xattr(node.number, kBound, codec::to_string(*bound));
  if (S_ISREG(inode.mode)) {
    VARVE_ASSIGN(const std::optional<std::string> policy, new_file_policy(inode.parent, name, *bound));
    batch.put_xattr(node.number, kPolicy, policy.value_or(FilePolicy().serialise()));
  }
  const NodeLock lock(node.mutex);
  VARVE_TRY(check_exists(node));
  VARVE_TRY(commit(std::move(batch)));
  node.bound_text = codec::to_string(*bound);
  return {};
}

Status Core::set_xattr(const Caller&, InodeNumber inode, std::string_view name, std::string_view value, int flags) {
  VARVE_TRY(check_writable());
  if (is_mirror(view_of(inode))) {
    return Error{EROFS, "views are read-only"};
  }
  if (view_of(inode) != View::none || name.starts_with(kInternal)) {
    return Error{EPERM, "this attribute cannot be set"};
  }
  if (name.size() > kMaxXattrName || name.empty()) {
    return Error{ERANGE, "an attribute's name has 1 to 255 bytes"};
  }
  if (value.size() > kMaxXattrValue) {
    return Error{E2BIG, "an attribute's value has at most 65536 bytes"};
  }
  if (name.starts_with("system.")) {
    return Error{EOPNOTSUPP, "attributes of the system namespace are not supported"};
  }
  if (is_computed(name) || name == kMark || name == kDamageAttribute) {
    return {};
  }
  if (name.starts_with(kVarve) && name != kBound) {
    return Error{EINVAL, fmt::format("{} is not an attribute of Varve; the one to set is {}", name, kBound)};
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
  VARVE_ASSIGN(const std::optional<std::string> old, index_->xattr(inode, name));
  if ((flags & XATTR_CREATE) != 0 && old) {
    return Error{EEXIST, fmt::format("attribute {} exists", name)};
  }
  if ((flags & XATTR_REPLACE) != 0 && !old) {
    return no_attribute(name);
  }
  if (name == kBound) {
    return set_bound(*node, value);
  }
  const NodeLock lock(node->mutex);
  VARVE_TRY(check_exists(*node));
  index::Batch batch;
  batch.put_xattr(inode, name, value);
  return commit_change(*node, std::move(batch));
}

/// user.varve.*: `bound` as set or inherited, `damage`, `ratio`, `state`, `stored`. Waits for a seal under way.
Result<std::string> Core::varve_attribute(const NodePointer& node, std::string_view name) {
  const bool regular = S_ISREG(inode_of(*node).mode);
  if (name == kBound) {
    VARVE_ASSIGN(const std::optional<std::string> own, index_->xattr(node->number, kBound));
    if (own) {
      return *own;
    }
    if (regular) {
      VARVE_ASSIGN(const FilePolicy policy, policy_of(node->number));
      for (const FilePolicy::Choice& choice : policy.choices) {
        if (choice.dataset.empty()) {
          return codec::to_string(choice.bound);
        }
      }
      return std::string("lossless");
    }
    VARVE_ASSIGN(const std::optional<codec::Bound> bound, inherited_bound(node->number));
    return bound ? Result<std::string>(codec::to_string(*bound)) : no_attribute(name);
  }
  if (name == kDamageAttribute) {
    std::string text = damage_of(*node).text();
    return text.empty() ? Result<std::string>(no_attribute(name)) : text;
  }
  if (!is_computed(name) || !regular) {
    return no_attribute(name);
  }
  NodeLock lock(node->mutex);
  wait_for_seal(node, lock);
  if (name == "user.varve.state") {
    return std::string(node->staging ? "staged" : node->inode.object != 0 ? "sealed" : "empty");
  }
  const uint64_t stored = attributes_of(*node).blocks > 0 && node->staging == nullptr
                              ? node->inode.stored
                              : attributes_of(*node).blocks * kSector;
  if (name == "user.varve.stored") {
    return std::to_string(stored);
  }
  return stored == 0 ? std::string("1.00")
                     : fmt::format("{:.2f}", static_cast<double>(node->inode.size) / static_cast<double>(stored));
}

/// user.varve.max_error of a file or of a view of it: the greatest of its arrays', then a line for each array.
Result<std::string> Core::max_error_of(InodeNumber inode) {
  const View view = view_of(inode);
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real_inode(inode)));
  NodeLock lock(node->mutex);
  if (!S_ISREG(node->inode.mode)) {
    return no_attribute(kMaxError);
  }
  wait_for_seal(node, lock);
  VARVE_TRY(open_sealed(*node));
  if (node->inode.object == 0) {
    return std::string("0\n");  // what is not sealed is as it was written
  }
  const Layout& layout = node->sealed->layout;
  uint8_t level = level_of(view).value_or(0);
  if (is_region(view)) {
    VARVE_ASSIGN(level, region_level(view));
  }
  std::vector<uint8_t> levels(layout.arrays.size(), level);
  for (size_t i = 0; i < levels.size() && !is_region(view); ++i) {
    levels[i] = is_deflated(layout.arrays[i].region) ? 0 : level;  // see Reader::filtered_chunk
  }
  if (is_bound(view)) {
    VARVE_ASSIGN(const codec::Bound bound, parse_view_bound(bounds_.spec_of(view)));
    VARVE_ASSIGN(levels, levels_within(*node->sealed, bound));
  }
  const DegradedBricks degraded = damage_of(*node);
  double most = 0;
  std::string lines;
  for (size_t i = 0; i < levels.size(); ++i) {
    const ArrayEntry& entry = layout.arrays[i];
    levels[i] = std::max(levels[i], degraded.finest_of(entry.region.name));
    if (!entry.errors) {
      return Error{ENODATA, fmt::format("{} was sealed by a version that did not measure errors", node->name)};
    }
    const double error = entry.errors->most.at(levels[i]);
    most = std::max(most, error);
    lines += fmt::format("{} {}\n", error, entry.region.name);
  }
  std::string text = fmt::format("{}\n", most);
  return text.size() + lines.size() <= kMaxXattrValue ? text + lines : text;
}

Result<std::string> Core::get_xattr(const Caller&, InodeNumber inode, std::string_view name) {
  if (name == kMaxError && (view_of(inode) == View::none || is_mirror(view_of(inode)))) {
    return max_error_of(inode);
  }
  inode = is_mirror(view_of(inode)) ? real_inode(inode) : inode;
  if (view_of(inode) != View::none || name.starts_with(kInternal)) {
    return no_attribute(name);
  }
  if (name.starts_with(kVarve)) {
    VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
    return varve_attribute(node, name);
  }
  VARVE_ASSIGN(std::optional<std::string> value, index_->xattr(inode, name));
  if (!value) {
    return no_attribute(name);
  }
  return *std::move(value);
}

Result<std::vector<std::string>> Core::list_xattrs(const Caller&, InodeNumber inode) {
  inode = is_mirror(view_of(inode)) ? real_inode(inode) : inode;
  if (view_of(inode) != View::none) {
    return std::vector<std::string>();
  }
  VARVE_ASSIGN(std::vector<std::string> names, index_->xattr_names(inode));
  std::erase_if(names, [](const std::string& name) { return name.starts_with(kInternal); });
  return names;
}

Status Core::remove_xattr(const Caller&, InodeNumber inode, std::string_view name) {
  VARVE_TRY(check_writable());
  if (is_mirror(view_of(inode))) {
    return Error{EROFS, "views are read-only"};
  }
  if (view_of(inode) != View::none || name.starts_with(kInternal)) {
    return no_attribute(name);
  }
  if (is_computed(name)) {
    return {};
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(inode));
  if (name == kDamageAttribute) {
    const NodeLock lock(node->mutex);
    return damage_of(*node).empty() ? Status(no_attribute(name)) : replace_damage(*node, {});
  }
  VARVE_ASSIGN(const std::optional<std::string> old, index_->xattr(inode, name));
  const index::Inode node_inode = inode_of(*node);
  const bool regular = S_ISREG(node_inode.mode);
  if (!old) {
    return name == kBound && regular ? Status() : no_attribute(name);
  }
  index::Batch batch;
  batch.erase_xattr(inode, name);
  if (name == kBound && regular) {
    // Back to what a new file would get here.
    std::string path_name;
    {
      const std::shared_lock lock(node->mutex);
      path_name = node->name;
    }
    VARVE_ASSIGN(const std::optional<std::string> policy, new_file_policy(node_inode.parent, path_name, std::nullopt));
    batch.put_xattr(inode, kPolicy, policy.value_or(FilePolicy().serialise()));
  }
  const NodeLock lock(node->mutex);
  VARVE_TRY(check_exists(*node));
  node->bound_text.reset();
  return commit_change(*node, std::move(batch));
}

}  // namespace varve::fs
