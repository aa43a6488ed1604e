#include "index/reserve.h"

#include <fmt/format.h>

#include <algorithm>

namespace varve::index {
namespace {

constexpr uint64_t kShareOfDisk = 16;
constexpr std::chrono::milliseconds kPause{500};

}  // namespace

bool means_full(const Status& status) {
  return !status.ok() && (status.error().code == ENOSPC || status.error().code == EDQUOT);
}

Reserve::Reserve(std::shared_ptr<Device> device, const std::string& store, uint64_t most)
    : device_(std::move(device)), directory_(store), path_(store + "/reserve"), most_(most) {}

void Reserve::measure() {
  if (const auto space = device_->space(directory_); most_ != 0 && space.ok()) {
    size_ = std::min(most_, space->blocks * space->block_size / kShareOfDisk);
  }
}

/// With the lock held.
Reserve::Made Reserve::try_to_make() {
  if (size_ == 0) {
    return Made::impossible;
  }
  auto file = device_->open(path_, Device::Mode::create);
  const auto allocated = file.ok() ? (*file)->allocated() : Result<uint64_t>(file.error());
  if (allocated.ok() && *allocated >= size_) {
    return Made::yes;
  }
  const auto space = device_->space(directory_);
  Status status = file.ok() ? Status() : Status(file.error());
  if (status.ok() && space.ok() && allocated.ok()) {
    const bool fits = space->blocks_available * space->block_size + *allocated >= wanted();
    status = fits ? (*file)->reserve(0, size_) : Status(Error{ENOSPC, "no room"});
    const auto now = (*file)->allocated();
    if (status.ok() && now.ok() && *now >= size_) {
      return Made::yes;
    }
  }
  if (file.ok()) {
    file->reset();
    (void)device_->remove(path_);
  }
  return means_full(status) ? Made::no_room : Made::impossible;
}

/// With the lock held.
void Reserve::take(Made made) {
  given_up_ = made == Made::no_room;
  next_try_ = std::chrono::steady_clock::now() + kPause;
}

void Reserve::make() {
  const std::lock_guard lock(mutex_);
  if (size_ == 0) {
    return;
  }
  why_ = {ENOSPC, fmt::format("the disk of store {} has no room for the {} MiB that are kept for deletions; remove "
                              "files, here or elsewhere on the disk; writing goes on by itself then",
                              directory_, wanted() >> 20)};
  take(try_to_make());
}

bool Reserve::give_up(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!device_->remove(path_).ok()) {
    return false;
  }
  why_ = why;
  take(Made::no_room);
  return true;
}

Status Reserve::check() {
  if (!given_up_) {
    return {};
  }
  const std::lock_guard lock(mutex_);
  if (given_up_ && std::chrono::steady_clock::now() >= next_try_) {
    take(try_to_make());
  }
  return given_up_ ? Status(why_) : Status();
}

}  // namespace varve::index
