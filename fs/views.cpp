// The virtual files: .varve/pid, .varve/sync, .varve/policy.toml, and .varve/stat/PATH, which describes PATH in JSON.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "fs/core.h"

namespace varve::fs {

namespace {

enum class Fixed : uint64_t { directory = 0, pid = 1, sync = 2, policy = 3, stat = 4 };

struct FixedFile {
  std::string_view name;
  Fixed file;
  uint32_t mode;
};
constexpr std::array<FixedFile, 4> kFixedFiles{{{"pid", Fixed::pid, S_IFREG | 0444},
                                                {"sync", Fixed::sync, S_IFREG | 0444},
                                                {"policy.toml", Fixed::policy, S_IFREG | 0644},
                                                {"stat", Fixed::stat, S_IFDIR | 0555}}};

constexpr InodeNumber view_inode(View view, InodeNumber below) {
  return (static_cast<uint64_t>(view) << kViewShift) | below;
}
constexpr InodeNumber fixed_inode(Fixed file) { return view_inode(View::fixed, static_cast<uint64_t>(file)); }
constexpr InodeNumber kStatRoot = view_inode(View::stat, index::kRootInode);
constexpr InodeNumber kControlFolder = view_inode(View::control, 0);
constexpr InodeNumber control_inode(size_t file) { return view_inode(View::control, file + 1); }

const FixedFile* fixed_file(InodeNumber inode) {
  for (const FixedFile& file : kFixedFiles) {
    if (fixed_inode(file.file) == inode) {
      return &file;
    }
  }
  return nullptr;
}

nlohmann::json levels_of(const std::map<uint8_t, uint64_t>& stored) {
  nlohmann::json levels = nlohmann::json::object();
  for (const auto& [level, bytes] : stored) {
    levels[std::to_string(level)] = bytes;
  }
  return levels;
}

double ratio_of(uint64_t size, uint64_t stored) {
  return stored == 0 ? 1.0 : static_cast<double>(size) / static_cast<double>(stored);
}

nlohmann::json describe_array(const ArrayEntry& entry, const codec::ArrayCodec& codec,
                              const std::map<uint8_t, uint64_t>& levels) {
  const ArrayRegion& region = entry.region;
  const codec::CodecInfo info = codec.info();
  uint64_t stored = 0;
  for (const auto& [level, bytes] : levels) {
    stored += bytes;
  }
  uint64_t size = 0;
  for (const ChunkPlace& place : region.chunks) {
    const ChunkGeometry geometry(region, place.chunk);
    size += geometry.bytes() - geometry.padding_bytes();
  }
  const auto finite = [](double value) -> nlohmann::json {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
  };
  return {{"name", region.name},
          {"dtype", codec::name_of(region.dtype)},
          {"byte_order", region.big_endian ? "big" : "little"},
          {"fortran_order", region.fortran_order},
          {"shape", region.shape},
          {"chunk_shape", region.chunk_shape},
          {"bound", codec::to_string(entry.bound)},
          {"absolute_bound", info.absolute_bound},
          {"why", entry.why},
          {"mapping", info.mapping},
          {"method", info.method},
          {"min", finite(info.min)},
          {"max", finite(info.max)},
          {"warning", info.bound_exceeds_range ? "the bound is larger than the range of the data" : ""},
          {"size", size},
          {"stored", stored},
          {"ratio", ratio_of(size, stored)},
          {"levels", levels_of(levels)}};
}

}  // namespace

Result<Attributes> Core::view_attributes(InodeNumber inode) {
  Attributes attributes;
  attributes.inode = inode;
  attributes.links = 1;
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
  VARVE_ASSIGN(const NodePointer node, nodes_.get(inode & kRealInodeMask));
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
  Entry entry;
  InodeNumber found = 0;
  if (parent == index::kRootInode) {
    found = fixed_inode(Fixed::directory);
  } else if (parent == fixed_inode(Fixed::directory)) {
    for (const FixedFile& file : kFixedFiles) {
      if (file.name == name) {
        found = file.file == Fixed::stat ? kStatRoot : fixed_inode(file.file);
      }
    }
    if (options_.control != nullptr && options_.control->name() == name) {
      found = kControlFolder;
    }
  } else if (parent == kControlFolder && options_.control != nullptr) {
    const auto& files = options_.control->files();
    const auto file = std::ranges::find(files, name);
    found = file == files.end() ? 0 : control_inode(static_cast<size_t>(file - files.begin()));
  } else if (view_of(parent) == View::stat) {
    VARVE_ASSIGN(const index::Dentry real, find(parent & kRealInodeMask, name));
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
  auto handle = std::make_unique<Handle>();
  handle->virtual_inode = inode;
  handle->writable = (flags & O_ACCMODE) != O_RDONLY;
  const bool control = view_of(inode) == View::control && inode != kControlFolder;
  if (handle->writable && !control && inode != fixed_inode(Fixed::policy)) {
    return Error{EACCES, "this virtual file cannot be written"};
  }
  if (inode == fixed_inode(Fixed::pid)) {
    handle->content = fmt::format("{}\n", ::getpid());
  } else if (inode == fixed_inode(Fixed::sync)) {
    finish_seals();
    handle->content = "ok\n";
  } else if (control) {
    if (!handle->writable) {
      VARVE_ASSIGN(handle->content, options_.control->read(inode - control_inode(0)));
    }
  } else if (inode == fixed_inode(Fixed::policy)) {
    handle->content = handle->writable ? "" : policy_.text();
  } else {
    VARVE_ASSIGN(handle->content, describe(inode & kRealInodeMask));
  }
  OpenFile opened;
  opened.direct_io = true;
  opened.handle = reinterpret_cast<uint64_t>(handle.release());
  return opened;
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
  return policy_.replace(handle.content);
}

Status Core::read_view_directory(InodeNumber directory, uint64_t cookie,
                                 const std::function<bool(const DirectoryEntry&)>& visit) {
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
      const InodeNumber inode = file.file == Fixed::stat ? kStatRoot : fixed_inode(file.file);
      if (!visit({std::string(file.name), i + 3, file.mode & S_IFMT, inode})) {
        return {};
      }
    }
    if (options_.control != nullptr && cookie < kFixedFiles.size() + 3) {
      visit({std::string(options_.control->name()), kFixedFiles.size() + 3, S_IFDIR, kControlFolder});
    }
    return {};
  }
  return index_->list(directory & kRealInodeMask, std::max<uint64_t>(cookie, 2), [&](const index::Dentry& entry) {
    if (entry.type != S_IFDIR && entry.type != S_IFREG) {
      return true;
    }
    return visit({entry.name, entry.cookie, entry.type, view_inode(View::stat, entry.inode)});
  });
}

/// See `varve stat --help` for what the fields mean.
Result<std::string> Core::describe(InodeNumber real) {
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real));
  VARVE_ASSIGN(const std::string path, path_of(real));
  VARVE_ASSIGN(const std::string state, varve_attribute(node, "user.varve.state"));
  VARVE_ASSIGN(const std::string bound, varve_attribute(node, "user.varve.bound"));
  VARVE_ASSIGN(const FilePolicy policy, policy_of(real));
  std::shared_ptr<const Sealed> sealed;
  nlohmann::json out;
  {
    const NodeLock lock(node->mutex);
    VARVE_TRY(open_sealed(*node));
    sealed = node->inode.object != 0 ? node->sealed : nullptr;
    const uint64_t stored = node->staging ? attributes_of(*node).blocks * 512 : node->inode.stored;
    out = {{"path", path},
           {"inode", real},
           {"size", node->inode.size},
           {"stored", stored},
           {"state", state},
           {"bound", bound},
           {"policy", policy.serialise()},
           {"ratio", ratio_of(node->inode.size, stored)}};
  }
  std::map<uint32_t, std::map<uint8_t, uint64_t>> stored;
  if (sealed) {
    VARVE_TRY(index_->records(sealed->object, [&](const index::RecordInfo& info) {
      stored[info.key.region][info.key.level] += info.length;
      return true;
    }));
  }
  const auto total = [&](uint32_t region) {
    uint64_t sum = 0;
    for (const auto& [level, bytes] : stored[region]) {
      sum += bytes;
    }
    return sum;
  };
  const Layout empty;
  const Layout& layout = sealed ? sealed->layout : empty;
  out["format"] = layout.format;
  out["note"] = layout.note;
  out["bytes"] = {{"size", layout.stream_size}, {"stored", total(index::kBytesRegion)}};
  out["patches"] = {{"size", layout.patch_size}, {"stored", total(index::kPatchRegion)}};
  out["arrays"] = nlohmann::json::array();
  for (size_t i = 0; i < layout.arrays.size(); ++i) {
    out["arrays"].push_back(describe_array(layout.arrays[i], sealed->codecs[i], stored[static_cast<uint32_t>(i + 1)]));
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace varve::fs
