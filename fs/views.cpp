// The virtual files: .varve/pid, .varve/sync, .varve/policy.toml, .varve/counters, .varve/scrub, .varve/snapshots,
// .varve/gc (reading it collects), and .varve/stat/PATH, which describes PATH in JSON. The views of files themselves
// are in view_trees.cpp.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "fs/core.h"
#include "fs/formats/region_spec.h"
#include "fs/log.h"
#include "index/snapshot.h"

namespace varve::fs {

namespace {

enum class Fixed : uint64_t {
  directory = 0,
  pid = 1,
  sync = 2,
  policy = 3,
  stat = 4,
  counters = 5,
  level = 6,
  exact = 7,
  coarse = 8,
  region = 9,
  scrub = 10,
  bound = 11,
  snapshots = 12,
  gc = 13
};

struct FixedFile {
  std::string_view name;
  Fixed file;
  uint32_t mode;
};
constexpr std::array<FixedFile, 13> kFixedFiles{{{"pid", Fixed::pid, S_IFREG | 0444},
                                                 {"sync", Fixed::sync, S_IFREG | 0444},
                                                 {"policy.toml", Fixed::policy, S_IFREG | 0644},
                                                 {"stat", Fixed::stat, S_IFDIR | 0555},
                                                 {"counters", Fixed::counters, S_IFREG | 0444},
                                                 {"level", Fixed::level, S_IFDIR | 0555},
                                                 {"exact", Fixed::exact, S_IFDIR | 0555},
                                                 {"coarse", Fixed::coarse, S_IFDIR | 0555},
                                                 {"region", Fixed::region, S_IFDIR | 0555},
                                                 {"bound", Fixed::bound, S_IFDIR | 0555},
                                                 {"scrub", Fixed::scrub, S_IFREG | 0644},
                                                 {"snapshots", Fixed::snapshots, S_IFREG | 0644},
                                                 {"gc", Fixed::gc, S_IFREG | 0400}}};

constexpr InodeNumber fixed_inode(Fixed file) { return view_inode(View::fixed, static_cast<uint64_t>(file)); }
constexpr InodeNumber kControlFolder = view_inode(View::control, 0);
constexpr InodeNumber control_inode(size_t file) { return view_inode(View::control, file + 1); }

/// What an entry of .varve leads to: a tree's root where it mirrors the real one.
InodeNumber inode_of(const FixedFile& file) {
  switch (file.file) {
    case Fixed::stat:
      return view_inode(View::stat, index::kRootInode);
    case Fixed::exact:
      return view_inode(View::exact, index::kRootInode);
    default:
      return fixed_inode(file.file);
  }
}

const FixedFile* fixed_file(InodeNumber inode) {
  for (const FixedFile& file : kFixedFiles) {
    if (fixed_inode(file.file) == inode) {
      return &file;
    }
  }
  return nullptr;
}

}  // namespace

Result<Attributes> Core::view_attributes(InodeNumber inode) {
  if (is_mirror(view_of(inode))) {
    return mirrored_attributes(inode);
  }
  Attributes attributes;
  attributes.inode = inode;
  attributes.links = 1;
  attributes.cacheable = false;
  attributes.accessed = attributes.modified = attributes.changed = now();
  VARVE_ASSIGN(const NodePointer root, nodes_.get(index::kRootInode));
  const index::Inode root_inode = inode_of(*root);
  attributes.uid = root_inode.uid;
  attributes.gid = root_inode.gid;
  if (view_of(inode) == View::fixed) {
    const FixedFile* file = fixed_file(inode);
    if (file == nullptr && inode != fixed_inode(Fixed::directory)) {
      return Error{ENOENT, "no such virtual file"};
    }
    attributes.mode = file == nullptr ? S_IFDIR | 0555U : file->mode;
    return attributes;
  }
  if (view_of(inode) == View::control) {
    attributes.mode = inode == kControlFolder ? S_IFDIR | 0700U : S_IFREG | 0600U;
    return attributes;
  }
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real_inode(inode)));
  const std::shared_lock lock(node->mutex);
  const bool directory = S_ISDIR(node->inode.mode);
  // Who may read the file may read its description.
  attributes.mode = (directory ? S_IFDIR : S_IFREG) | (node->inode.mode & (directory ? 0555U : 0444U));
  attributes.uid = node->inode.uid;
  attributes.gid = node->inode.gid;
  attributes.modified = node->inode.modified;
  return attributes;
}

Result<Entry> Core::lookup_view(const Caller&, InodeNumber parent, std::string_view name) {
  if (is_mirror(view_of(parent))) {
    return lookup_mirrored(parent, name);
  }
  Entry entry;
  InodeNumber found = 0;
  if (parent == index::kRootInode) {
    found = fixed_inode(Fixed::directory);
  } else if (parent == fixed_inode(Fixed::directory)) {
    for (const FixedFile& file : kFixedFiles) {
      found = file.name == name ? inode_of(file) : found;
    }
    if (options_.control != nullptr && options_.control->name() == name) {
      found = kControlFolder;
    }
  } else if (parent == kControlFolder && options_.control != nullptr) {
    const auto& files = options_.control->files();
    const auto file = std::ranges::find(files, name);
    found = file == files.end() ? 0 : control_inode(static_cast<size_t>(file - files.begin()));
  } else if (parent == fixed_inode(Fixed::level)) {
    if (name.size() == 1 && name[0] >= '0' && name[0] < '0' + kLevels) {
      found = view_inode(level_view(static_cast<uint8_t>(name[0] - '0')), index::kRootInode);
    }
  } else if (parent == fixed_inode(Fixed::coarse)) {
    if (name.size() == 1 && name[0] >= '0' && name[0] < '0' + kCoarseViews) {
      found = view_inode(coarse_view(static_cast<uint8_t>(name[0] - '0')), index::kRootInode);
    }
  } else if (parent == fixed_inode(Fixed::region)) {
    const auto spec = RegionSpec::parse(name);
    if (!spec.ok()) {
      log_line(LogLevel::warning, spec.error().text);
      return spec.error();
    }
    VARVE_ASSIGN(const View view, regions_.open(name));
    found = view_inode(view, index::kRootInode);
  } else if (parent == fixed_inode(Fixed::bound)) {
    if (const auto bound = parse_view_bound(name); !bound.ok()) {
      log_line(LogLevel::warning, bound.error().text);
      return Error{ENOENT, bound.error().text};
    }
    VARVE_ASSIGN(const View view, bounds_.open(name));
    found = view_inode(view, index::kRootInode);
  } else if (view_of(parent) == View::stat) {
    VARVE_ASSIGN(const index::Dentry real, find(real_inode(parent), name));
    if (real.type != S_IFDIR && real.type != S_IFREG) {
      return Error{ENOENT, fmt::format("{} is neither a file nor a directory", name)};
    }
    found = view_inode(View::stat, real.inode);
  }
  if (found == 0) {
    return Error{ENOENT, fmt::format("{} does not exist", name)};
  }
  VARVE_ASSIGN(entry.attributes, view_attributes(found));
  return entry;
}

Result<OpenFile> Core::open_view(const Caller&, InodeNumber inode, int flags) {
  if (is_mirror(view_of(inode))) {
    return open_mirrored(inode, flags);
  }
  auto handle = std::make_unique<Handle>();
  handle->virtual_inode = inode;
  handle->writable = (flags & O_ACCMODE) != O_RDONLY;
  const bool control = view_of(inode) == View::control && inode != kControlFolder;
  const FixedFile* const file = fixed_file(inode);
  if (handle->writable && !control && (file == nullptr || (file->mode & S_IWUSR) == 0)) {
    return Error{EACCES, "this virtual file cannot be written"};
  }
  if (inode == fixed_inode(Fixed::pid)) {
    handle->content = fmt::format("{}\n", ::getpid());
  } else if (inode == fixed_inode(Fixed::sync)) {
    finish_seals();
    const auto unsealed = unsealed_files();
    handle->content = unsealed.empty() ? "ok\n"
                                       : fmt::format(
                                             "{} could not be sealed and stay as they were written; the "
                                             "mount's log says why: {}\n",
                                             unsealed.size() == 1 ? "1 file" : fmt::format("{} files", unsealed.size()),
                                             fmt::join(unsealed, ", "));
  } else if (inode == fixed_inode(Fixed::counters)) {
    handle->content = describe_reads();
  } else if (inode == fixed_inode(Fixed::scrub)) {
    handle->content = handle->writable ? "" : scrub_.state().json();
  } else if (inode == fixed_inode(Fixed::gc)) {
    VARVE_ASSIGN(const uint64_t freed, index_->collect());
    handle->content = fmt::format("{}\n", freed);
  } else if (inode == fixed_inode(Fixed::snapshots)) {
    if (!handle->writable) {
      VARVE_ASSIGN(handle->content, list_snapshots());
    }
  } else if (control) {
    if (!handle->writable) {
      VARVE_ASSIGN(handle->content, options_.control->read(inode - control_inode(0)));
    }
  } else if (inode == fixed_inode(Fixed::policy)) {
    handle->content = handle->writable ? "" : policy_.text();
  } else {
    VARVE_ASSIGN(handle->content, describe(real_inode(inode)));
  }
  OpenFile opened;
  opened.direct_io = true;
  opened.handle = reinterpret_cast<uint64_t>(handle.release());
  return opened;
}

/// What can be refused before close(2), whose errors shells do not look at.
Status Core::check_view(const Handle& handle) {
  return view_of(handle.virtual_inode) == View::control
             ? options_.control->check(handle.virtual_inode - control_inode(0), handle.content)
             : Status();
}

/// close(2) of a control file puts into force what was written.
Status Core::close_view(Handle& handle) {
  const std::lock_guard lock(handle.mutex);
  if (!handle.changed) {
    return {};
  }
  handle.changed = false;
  if (view_of(handle.virtual_inode) == View::control) {
    return options_.control->write(handle.virtual_inode - control_inode(0), handle.content);
  }
  if (handle.virtual_inode == fixed_inode(Fixed::scrub)) {
    return scrub_.command(handle.content);
  }
  return handle.virtual_inode == fixed_inode(Fixed::snapshots) ? make_snapshot(handle.content)
                                                               : policy_.replace(handle.content);
}

/// The command "create NAME". What is written and can be sealed is sealed first; of files that cannot, or that programs
/// go on writing, the snapshot has what was sealed last.
Status Core::make_snapshot(std::string_view command) {
  constexpr std::string_view kCreate = "create ";
  command = command.substr(0, command.find('\n'));
  if (!command.starts_with(kCreate)) {
    return Error{EINVAL, "write \"create NAME\" to make a snapshot"};
  }
  VARVE_TRY(check_writable());
  finish_seals();
  index::Batch batch;
  for (const NodePointer& node : nodes_.all()) {
    const NodeLock lock(node->mutex);
    if (node->inode_changed && node->inode.links > 0) {
      put_inode(batch, *node);  // still marked as changed: what is staged is not in it
    }
  }
  VARVE_TRY(commit(std::move(batch)));
  const Status made = index_->snapshot(std::string(command.substr(kCreate.size())));
  if (!made.ok()) {
    log_line(LogLevel::warning, "no snapshot: " + made.error().text);
  }
  return made;
}

/// A line each: its name, when it was made, and bytes that it alone holds, apart by tabs.
Result<std::string> Core::list_snapshots() const {
  VARVE_ASSIGN(const auto snapshots, index::list_snapshots(index_->path()));
  std::string text;
  for (const index::SnapshotFacts& one : snapshots) {
    text += fmt::format("{}\t{}.{:09}\t{}\n", one.name, one.created.seconds, one.created.nanoseconds, one.own_bytes);
  }
  return text;
}

Status Core::read_view_directory(InodeNumber directory, uint64_t cookie,
                                 const std::function<bool(const DirectoryEntry&)>& visit) {
  if (is_mirror(view_of(directory))) {
    return list_mirrored(directory, cookie, visit);
  }
  if ((cookie < 1 && !visit({".", 1, S_IFDIR, directory})) || (cookie < 2 && !visit({"..", 2, S_IFDIR, directory}))) {
    return {};
  }
  if (directory == kControlFolder && options_.control != nullptr) {
    const auto& files = options_.control->files();
    for (size_t i = cookie < 2 ? 0 : cookie - 2; i < files.size(); ++i) {
      if (!visit({files[i], i + 3, S_IFREG, control_inode(i)})) {
        return {};
      }
    }
    return {};
  }
  if (directory == fixed_inode(Fixed::directory)) {
    for (size_t i = cookie < 2 ? 0 : cookie - 2; i < kFixedFiles.size(); ++i) {
      const FixedFile& file = kFixedFiles[i];
      if (!visit({std::string(file.name), i + 3, file.mode & S_IFMT, inode_of(file)})) {
        return {};
      }
    }
    if (options_.control != nullptr && cookie < kFixedFiles.size() + 3) {
      visit({std::string(options_.control->name()), kFixedFiles.size() + 3, S_IFDIR, kControlFolder});
    }
    return {};
  }
  if (directory == fixed_inode(Fixed::level) || directory == fixed_inode(Fixed::coarse)) {
    const bool coarse = directory == fixed_inode(Fixed::coarse);
    for (auto level = static_cast<uint8_t>(cookie < 2 ? 0 : cookie - 2); level < (coarse ? kCoarseViews : kLevels);
         ++level) {
      const View view = coarse ? coarse_view(level) : level_view(level);
      if (!visit({std::to_string(level), level + uint64_t{3}, S_IFDIR, view_inode(view, index::kRootInode)})) {
        return {};
      }
    }
    return {};
  }
  if (directory == fixed_inode(Fixed::region) || directory == fixed_inode(Fixed::bound)) {
    return {};  // any SPEC or V can be looked up, none is listed
  }
  return index_->list(real_inode(directory), std::max<uint64_t>(cookie, 2), [&](const index::Dentry& entry) {
    if (entry.type != S_IFDIR && entry.type != S_IFREG) {
      return true;
    }
    return visit({entry.name, entry.cookie, entry.type, view_inode(View::stat, entry.inode)});
  });
}

}  // namespace varve::fs
