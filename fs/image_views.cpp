// The views whose files are made of the real ones: .varve/region/SPEC/PATH.npy, a part of one array, and
// .varve/coarse/K/PATH, the file with thinned arrays.
#include <fmt/format.h>
#include <sys/stat.h>

#include "fs/core.h"
#include "fs/formats/region_spec.h"
#include "fs/log.h"

namespace varve::fs {

namespace {

constexpr std::string_view kNpySuffix = ".npy";

/// A file as it is now. EAGAIN once it has changed.
class NodeView : public FileView {
 public:
  NodeView(uint64_t size, ReadOriginal read) : size_(size), read_(std::move(read)) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    const size_t length = offset < size_ ? std::min<uint64_t>(out.size(), size_ - offset) : 0;
    VARVE_TRY(read_(offset, out.first(length)));
    return length;
  }

 private:
  const uint64_t size_;
  const ReadOriginal read_;
};

}  // namespace

/// Asks a recogniser for the image. The lock is held on entry and exit and given up in between.
Result<FileImage> Core::make_view_image(const NodePointer& node, NodeLock& lock, View view) {
  ImageRequest request;
  if (const auto coarseness = coarseness_of(view)) {
    request.kind = ImageRequest::Kind::coarse;
    request.shift = *coarseness;
  } else {
    request.region = regions_.spec_of(view);
  }
  VARVE_TRY(open_sealed(*node));
  const std::string name = node->name;
  const uint64_t version = node->version;
  const InodeNumber directory = node->inode.parent;
  NodeView file(node->inode.size, [&](uint64_t offset, std::span<std::byte> out) -> Status {
    const std::shared_lock reading(node->mutex);
    if (node->version != version) {
      return Error{EAGAIN, "the file changed while it was looked at"};
    }
    // Metadata lies outside of arrays, and an image takes elements of these as slices alone.
    return read_content(*node, offset, out, kNoElements);
  });
  lock.unlock();
  Result<FileImage> image = [&]() -> Result<FileImage> {
    VARVE_ASSIGN(const FilePolicy policy, policy_of(node->number));
    return recognisers_.image(request, name, file, raw_hint(policy, directory, name, file.size()));
  }();
  lock.lock();
  return image;
}

/// The image that the file shows through a view. ENOENT: it has none there. `name`: the file's, if the caller has it.
Result<ViewImagePointer> Core::image_of(InodeNumber view, std::string_view name) {
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real_inode(view)));
  NodeLock lock(node->mutex);
  if (!name.empty()) {
    node->name = name;
  }
  wait_for_seal(node, lock);
  if (ViewImagePointer known = images_.find(view); known && known->shows(node)) {
    return known;
  }
  const uint64_t version = node->version;
  Result<FileImage> image = make_view_image(node, lock, view_of(view));
  if (!image.ok()) {
    // What cannot be parsed has no such image; an error of reading is one.
    const int code = image.error().code == EIO || image.error().code == EAGAIN ? image.error().code : ENOENT;
    return Error{code, image.error().text};
  }
  if (node->version != version) {
    return Error{EAGAIN, "the file changed while it was looked at"};
  }
  auto made = std::make_shared<ViewImage>(std::move(*image), node);
  images_.put(view, made);
  return made;
}

/// The lock is held, shared at least.
Result<size_t> Core::read_image(Handle& open, uint64_t offset, std::span<std::byte> out, DamageHandler* damage) {
  Node& node = *open.node;
  const FileImage& image = open.image->image;
  if (!open.image->shows(open.node)) {
    return Error{ESTALE, fmt::format("{} was changed since this view of it was opened; open it again", node.name)};
  }
  if (offset >= image.size) {
    return size_t{0};
  }
  out = out.first(std::min<uint64_t>(out.size(), image.size - offset));
  const Sealed* const sealed = node.staging || node.inode.object == 0 ? nullptr : node.sealed.get();
  const auto arrays = sealed != nullptr ? open.image->arrays_of(*sealed) : nullptr;
  const std::vector<std::optional<uint32_t>> none;
  const ReadOriginal original = [&](uint64_t from, std::span<std::byte> part) {
    return read_content(node, from, part, open.finest, damage);
  };
  VARVE_TRY(ImageReader(reader_, pool_, image, sealed, arrays ? *arrays : none, original, open.finest, damage)
                .read(offset, out));
  return out.size();
}

/// The real entry behind a name in a region's folder: of a file, the name without ".npy".
Result<index::Dentry> Core::find_imaged(InodeNumber parent, std::string_view name) {
  if (name.ends_with(kNpySuffix)) {
    const auto real = find(real_inode(parent), name.substr(0, name.size() - kNpySuffix.size()));
    if (real.ok() && real->type == S_IFREG) {
      const auto image = image_of(view_inode(view_of(parent), real->inode), real->name);
      if (!image.ok()) {
        log_line(LogLevel::warning, fmt::format("no region {} of {}: {}", regions_.spec_of(view_of(parent)), real->name,
                                                image.error().text));
        return image.error();
      }
      return *real;
    }
  }
  VARVE_ASSIGN(const index::Dentry real, find(real_inode(parent), name));
  if (real.type == S_IFREG) {
    return Error{ENOENT, fmt::format("regions of {} are in {}{}", name, name, kNpySuffix)};
  }
  return real;
}

/// The name of an entry in a view's folder; nothing: a file that has no image.
std::optional<std::string> Core::imaged_name(View view, const index::Dentry& real) {
  if (real.type != S_IFREG) {
    return real.name;
  }
  if (!image_of(view_inode(view, real.inode), real.name).ok()) {
    return std::nullopt;
  }
  return is_region(view) ? real.name + std::string(kNpySuffix) : real.name;
}

/// The level that a region's SPEC asks for.
Result<uint8_t> Core::region_level(View view) {
  VARVE_ASSIGN(const RegionSpec spec, RegionSpec::parse(regions_.spec_of(view)));
  return spec.level;
}

void Core::forget_folder(InodeNumber inode, uint64_t count) {
  const View view = view_of(inode);
  if (is_bound(view)) {
    bounds_.forget(view, count);
  }
  if (is_region(view) && regions_.forget(view, count)) {
    images_.drop(view);
  }
}

}  // namespace varve::fs
