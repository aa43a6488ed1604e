// The views that mirror the real tree, read-only: .varve/level/K/PATH, each array as its levels >= K give it;
// .varve/bound/V/PATH, each as the coarsest levels that keep V give it; and .varve/exact/PATH, which opens bit-exact
// files alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "fs/core.h"
#include "fs/log.h"

namespace varve::fs {

namespace {

/// Views whose pages are remembered at most; above, all are forgotten and the kernel reads again.
constexpr size_t kMostViewPages = 65536;
constexpr uint64_t kSector = 512;
/// Directory entries that are looked at before the first of them is told.
constexpr size_t kListedAtOnce = 256;

bool is_mirrored_type(uint32_t type) { return type == S_IFDIR || type == S_IFREG || type == S_IFLNK; }

}  // namespace

Result<Attributes> Core::mirrored_attributes(InodeNumber inode) {
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real_inode(inode)));
  std::optional<ViewImagePointer> image;
  if (has_images(view_of(inode)) && S_ISREG(inode_of(*node).mode)) {
    VARVE_ASSIGN(image, image_of(inode));
  }
  const std::shared_lock lock(node->mutex);
  Attributes attributes = attributes_of(*node);
  attributes.inode = inode;
  if (image) {
    attributes.size = (*image)->image.size;
    attributes.blocks = (attributes.size + kSector - 1) / kSector;
    attributes.links = 1;
  }
  attributes.cacheable = false;  // the kernel hears of changes to the real file alone
  return attributes;
}

Result<Entry> Core::lookup_mirrored(InodeNumber parent, std::string_view name) {
  const View view = view_of(parent);
  VARVE_ASSIGN(const index::Dentry real, is_region(view) ? find_imaged(parent, name) : find(real_inode(parent), name));
  if (!is_mirrored_type(real.type)) {
    return Error{ENOENT, fmt::format("{} is neither a file, a directory nor a symbolic link", name)};
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real.inode));
  {
    const NodeLock lock(node->mutex);
    node->name = real.name;
  }
  Entry entry;
  auto attributes = mirrored_attributes(view_inode(view, real.inode));
  if (!attributes.ok()) {
    if (coarseness_of(view)) {
      log_line(LogLevel::info, fmt::format("no coarse form of {}: {}", name, attributes.error().text));
    }
    return attributes.error();
  }
  entry.attributes = *attributes;
  if (is_region(view)) {
    regions_.refer(view);
  } else if (is_bound(view)) {
    bounds_.refer(view);
  }
  return entry;
}

/// Whether the kernel's pages of a view show the content that the node has now. Notes that it will have such pages.
bool Core::keep_view_pages(const Node& node, InodeNumber view) {
  const index::ObjectId object = node.staging ? 0 : node.inode.object;
  const std::lock_guard lock(view_pages_mutex_);
  if (view_pages_.size() >= kMostViewPages) {
    view_pages_.clear();
  }
  const auto [known, added] = view_pages_.try_emplace({node.number, view}, object);
  const bool same = !added && object != 0 && known->second == object;
  known->second = object;
  return same;
}

/// The real file's content changed: its views must be read again.
void Core::forget_view_pages(InodeNumber real) {
  std::vector<InodeNumber> views;
  {
    const std::lock_guard lock(view_pages_mutex_);
    const auto first = view_pages_.lower_bound({real, 0});
    auto last = first;
    for (; last != view_pages_.end() && last->first.first == real; ++last) {
      views.push_back(last->first.second);
    }
    view_pages_.erase(first, last);
  }
  if (KernelCache* const cache = kernel_cache_.load()) {
    for (const InodeNumber inode : views) {
      cache->invalidate_inode(inode, true);
    }
  }
}

Result<OpenFile> Core::open_mirrored(InodeNumber inode, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) {
    return Error{EROFS, "views are read-only"};
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real_inode(inode)));
  auto handle = std::make_unique<Handle>();
  handle->virtual_inode = inode;
  handle->finest = level_of(view_of(inode)).value_or(0);
  handle->exact_only = view_of(inode) == View::exact;
  if (is_bound(view_of(inode))) {
    VARVE_ASSIGN(handle->bound, parse_view_bound(bounds_.spec_of(view_of(inode))));
  }
  if (has_images(view_of(inode)) && S_ISREG(inode_of(*node).mode)) {
    VARVE_ASSIGN(handle->image, image_of(inode));
  }
  if (is_region(view_of(inode))) {
    VARVE_ASSIGN(handle->finest, region_level(view_of(inode)));
  }
  return open_node(node, std::move(handle), flags);
}

Status Core::list_mirrored(InodeNumber directory, uint64_t cookie,
                           const std::function<bool(const DirectoryEntry&)>& visit) {
  if ((cookie < 1 && !visit({".", 1, S_IFDIR, directory})) || (cookie < 2 && !visit({"..", 2, S_IFDIR, directory}))) {
    return {};
  }
  const View view = view_of(directory);
  cookie = std::max<uint64_t>(cookie, 2);
  std::vector<index::Dentry> entries;
  do {
    entries.clear();
    VARVE_TRY(index_->list(real_inode(directory), cookie, [&](const index::Dentry& entry) {
      entries.push_back(entry);
      return entries.size() < kListedAtOnce;
    }));
    for (const index::Dentry& entry : entries) {
      cookie = entry.cookie;
      const auto name = has_images(view) ? imaged_name(view, entry) : std::optional(entry.name);
      if (name && is_mirrored_type(entry.type) &&
          !visit({*name, entry.cookie, entry.type, view_inode(view, entry.inode)})) {
        return {};
      }
    }
  } while (entries.size() == kListedAtOnce);
  return {};
}

}  // namespace varve::fs
