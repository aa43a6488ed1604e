#include "fs/view_images.h"

#include <fmt/format.h>

namespace varve::fs {

namespace {

constexpr size_t kMostImages = 1024;
constexpr uint64_t kMostImageMemory = uint64_t{128} << 20;

}  // namespace

ViewImage::ViewImage(FileImage from, const NodePointer& of)
    : image(std::move(from)), node_(of), version_(of->version), object_(of->staging ? 0 : of->inode.object) {}

bool ViewImage::shows(const NodePointer& node) const {
  if (!node->staging && object_ != 0 && node->inode.object == object_) {
    return true;
  }
  return version_ == node->version && node_.lock() == node;
}

std::shared_ptr<const std::vector<std::optional<uint32_t>>> ViewImage::arrays_of(const Sealed& sealed) {
  const std::lock_guard lock(mutex_);
  if (!arrays_ || arrays_in_ != sealed.object) {
    arrays_ = std::make_shared<const std::vector<std::optional<uint32_t>>>(fs::arrays_of(image, sealed));
    arrays_in_ = sealed.object;
  }
  return arrays_;
}

uint64_t ViewImage::memory() const {
  uint64_t bytes = sizeof *this;
  for (const ImagePart& part : image.parts) {
    bytes += sizeof part + part.bytes.size() + part.axes.size() * sizeof(SliceAxis);
  }
  for (const ImageSource& source : image.sources) {
    bytes += sizeof source + source.region.chunks.size() * sizeof(ChunkPlace) +
             source.region.stored.size() * sizeof(StoredChunk);
  }
  return bytes;
}

ViewImagePointer ViewImageCache::find(InodeNumber view) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(view);
  if (place == places_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->image;
}

std::list<ViewImageCache::Entry>::iterator ViewImageCache::remove(std::list<Entry>::iterator entry) {
  memory_ -= entry->image->memory();
  places_.erase(entry->view);
  return entries_.erase(entry);
}

void ViewImageCache::put(InodeNumber view, ViewImagePointer image) {
  const std::lock_guard lock(mutex_);
  if (const auto place = places_.find(view); place != places_.end()) {
    remove(place->second);
  }
  memory_ += image->memory();
  entries_.push_front({view, std::move(image)});
  places_[view] = entries_.begin();
  while (entries_.size() > 1 && (memory_ > kMostImageMemory || entries_.size() > kMostImages)) {
    remove(std::prev(entries_.end()));
  }
}

void ViewImageCache::drop(View view) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    entry = view_of(entry->view) == view ? remove(entry) : std::next(entry);
  }
}

Result<View> ViewFolders::open(std::string_view spec) {
  const std::lock_guard lock(mutex_);
  const std::string text(spec);
  if (const auto known = by_spec_.find(text); known != by_spec_.end()) {
    ++folders_[known->second].references;
    return static_cast<View>(known->second);
  }
  if (folders_.size() >= most_) {
    return Error{ENOSPC, fmt::format("{} different {} are open; close some of them", folders_.size(), what_)};
  }
  uint64_t number = 0;
  do {  // a number is used again as late as can be
    number = static_cast<uint64_t>(first_) + next_++ % most_;
  } while (folders_.contains(number));
  folders_[number] = {text, 1};
  by_spec_[text] = number;
  return static_cast<View>(number);
}

void ViewFolders::refer(View view) {
  const std::lock_guard lock(mutex_);
  if (const auto folder = folders_.find(static_cast<uint64_t>(view)); folder != folders_.end()) {
    ++folder->second.references;
  }
}

bool ViewFolders::forget(View view, uint64_t count) {
  const std::lock_guard lock(mutex_);
  const auto folder = folders_.find(static_cast<uint64_t>(view));
  if (folder == folders_.end() || folder->second.references > count) {
    if (folder != folders_.end()) {
      folder->second.references -= count;
    }
    return false;
  }
  by_spec_.erase(folder->second.spec);
  folders_.erase(folder);
  return true;
}

std::string ViewFolders::spec_of(View view) {
  const std::lock_guard lock(mutex_);
  const auto folder = folders_.find(static_cast<uint64_t>(view));
  return folder == folders_.end() ? "" : folder->second.spec;
}

}  // namespace varve::fs
