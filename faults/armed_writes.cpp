// What an armed schedule keeps in mind about writes: what they replaced, which are not synced, which come again.
#include <algorithm>

#include "faults/armed.h"

namespace varve::faults {

Status Armed::remember(FileState& file, Medium& medium, Seam seam, uint64_t offset, uint64_t length,
                       UnsyncedWrite& write) {
  const auto at = static_cast<size_t>(seam);
  if (!tracks_previous_[at] && !tracks_unsynced_[at]) {
    return {};
  }
  VARVE_ASSIGN(const uint64_t size, medium.size());
  write.path = file.path;
  write.offset = offset;
  write.old_size = size;
  write.old.resize(offset < size ? std::min(length, size - offset) : 0);
  VARVE_ASSIGN(const size_t got, medium.read(offset, write.old));
  write.old.resize(got);
  if (tracks_previous_[at]) {
    file.previous.remember(offset, write.old);
  }
  return {};
}

void Armed::written(FileState& file, Seam seam, uint64_t offset, std::span<const std::byte> stored,
                    UnsyncedWrite write) {
  file.bad_sectors.remove(offset, offset + stored.size());
  for (const auto& [begin, end] : file.going_bad.intervals()) {
    file.bad_sectors.add(begin, end);
  }
  file.going_bad.clear();
  file.map_outdated = true;
  if (tracks_unsynced_[static_cast<size_t>(seam)] && (!stored.empty() || !write.old.empty())) {
    write.now.assign(stored.begin(), stored.end());
    write.new_size = std::max(write.old_size, offset + stored.size());
    unsynced(seam).add(std::move(write));
  }
}

std::vector<std::pair<Rest, size_t>> Armed::due(FileState& file, size_t newest, bool all) {
  std::vector<std::pair<Rest, size_t>> late;
  size_t number = 0;
  const size_t ripe = file.held.size() - std::min(newest, file.held.size());
  std::erase_if(file.held, [&](HeldWrite& held) {
    if (!all && (number++ >= ripe || --held.left > 0)) {
      return false;
    }
    Rest rest;
    rest.path = file.path;
    rest.offset = held.offset;
    rest.bytes = std::move(held.data);
    late.emplace_back(std::move(rest), held.rule);
    return true;
  });
  return late;
}

}  // namespace varve::faults
