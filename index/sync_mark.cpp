#include "index/sync_mark.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace varve::index {

namespace {

constexpr uint64_t kForEver = 0;

/// As on the disk, little-endian: the number, the run of the machine that it holds for (or kForEver), XXH3 of both.
using Words = std::array<uint64_t, 3>;

Words words_of(uint64_t sequence, uint64_t life) {
  Words words = {sequence, life, 0};
  words[2] = XXH3_64bits(words.data(), 2 * sizeof(uint64_t));
  return words;
}

uint64_t boot_number() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? 0 : XXH3_64bits(id.data(), id.size());
}

}  // namespace

SyncMark::SyncMark(std::shared_ptr<Device> device, const std::string& path)
    : device_(std::move(device)), boot_(boot_number()) {
  synced_.path = path + "-synced";
  written_.path = path + "-written";
}

std::optional<uint64_t> SyncMark::read(const Mark& mark, uint64_t life) const {
  const auto file = device_->open(mark.path, Device::Mode::read);
  Words words{};
  if (!file.ok()) {
    return std::nullopt;
  }
  const auto got = (*file)->read(0, std::as_writable_bytes(std::span(words)));
  if (!got.ok() || *got != sizeof words || words != words_of(words[0], life)) {
    return std::nullopt;
  }
  return words[0];
}

std::optional<uint64_t> SyncMark::promised() const {
  const auto synced = read(synced_, kForEver);
  const auto written = boot_ != 0 ? read(written_, boot_) : std::nullopt;
  return synced && written ? std::max(*synced, *written) : synced ? synced : written;
}

void SyncMark::synced(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence > synced_.raised) {
    write(synced_, sequence, kForEver);
  }
}

void SyncMark::written(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (boot_ != 0 && sequence > written_.raised) {
    write(written_, sequence, boot_);
  }
}

void SyncMark::reset(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  write(synced_, sequence, kForEver);
  write(written_, sequence, boot_);
}

void SyncMark::write(Mark& mark, uint64_t sequence, uint64_t life) {
  if (!mark.file) {
    auto opened = device_->open(mark.path, Device::Mode::create);
    if (!opened.ok()) {
      return;
    }
    mark.file = std::move(*opened);
  }
  const Words words = words_of(sequence, life);
  if (mark.file->write(0, std::as_bytes(std::span(words))).ok()) {
    mark.raised = sequence;
  }
}

}  // namespace varve::index
