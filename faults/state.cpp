#include "faults/state.h"

#include <algorithm>

namespace varve::faults {

void Previous::forget(uint64_t begin, uint64_t end) {
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin()) {
    --piece;
  }
  while (piece != pieces_.end() && piece->first < end) {
    const uint64_t first = piece->first;
    std::vector<std::byte> bytes = std::move(piece->second);
    piece = pieces_.erase(piece);
    const uint64_t last = first + bytes.size();
    if (first < begin) {
      pieces_[first] = {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(begin, last) - first)};
    }
    if (last > end) {
      pieces_[end] = {bytes.begin() + static_cast<std::ptrdiff_t>(end - first), bytes.end()};
    }
  }
}

void Previous::remember(uint64_t offset, std::vector<std::byte> old) {
  if (!old.empty()) {
    forget(offset, offset + old.size());
    pieces_[offset] = std::move(old);
  }
}

std::map<uint64_t, std::byte> Previous::differences(uint64_t offset, std::span<const std::byte> data) const {
  std::map<uint64_t, std::byte> changes;
  const uint64_t end = offset + data.size();
  auto piece = pieces_.upper_bound(offset);
  if (piece != pieces_.begin()) {
    --piece;
  }
  for (; piece != pieces_.end() && piece->first < end; ++piece) {
    const uint64_t from = std::max(offset, piece->first);
    const uint64_t to = std::min(end, piece->first + piece->second.size());
    for (uint64_t at = from; at < to; ++at) {
      const std::byte before = piece->second[at - piece->first];
      if (before != data[at - offset]) {
        changes[at] = before;
      }
    }
  }
  return changes;
}

void UnsyncedLog::add(UnsyncedWrite write) {
  const std::lock_guard lock(mutex_);
  bytes_ += write.old.size() + write.now.size();
  writes_.push_back(std::move(write));
  while (bytes_ > kMostBytes) {
    bytes_ -= writes_.front().old.size() + writes_.front().now.size();
    writes_.pop_front();
    overflowed_ = true;
  }
}

bool UnsyncedLog::forget(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::erase_if(writes_, [&](const UnsyncedWrite& write) {
    const bool gone = write.path == path;
    bytes_ -= gone ? write.old.size() + write.now.size() : 0;
    return gone;
  });
  return !closed_;
}

void UnsyncedLog::renamed(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  for (UnsyncedWrite& write : writes_) {
    if (write.path == from || write.path.starts_with(from + "/")) {
      write.path = to + write.path.substr(from.size());
    }
  }
}

std::vector<UnsyncedWrite> UnsyncedLog::take(bool for_good) {
  const std::lock_guard lock(mutex_);
  closed_ = closed_ || for_good;
  std::vector<UnsyncedWrite> all(std::make_move_iterator(writes_.begin()), std::make_move_iterator(writes_.end()));
  writes_.clear();
  bytes_ = 0;
  return all;
}

}  // namespace varve::faults
