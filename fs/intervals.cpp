#include "fs/intervals.h"

#include <algorithm>
#include <iterator>

namespace varve::fs {

void IntervalSet::add(uint64_t begin, uint64_t end) {
  if (begin >= end) {
    return;
  }
  auto next = intervals_.upper_bound(begin);
  if (next != intervals_.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != intervals_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = intervals_.erase(next);
  }
  intervals_.emplace_hint(next, begin, end);
}

void IntervalSet::remove(uint64_t begin, uint64_t end) {
  if (begin >= end) {
    return;
  }
  auto next = intervals_.upper_bound(begin);
  if (next != intervals_.begin() && std::prev(next)->second > begin) {
    --next;
  }
  while (next != intervals_.end() && next->first < end) {
    const auto [first, last] = *next;
    next = intervals_.erase(next);
    if (first < begin) {
      intervals_.emplace_hint(next, first, begin);
    }
    if (last > end) {
      intervals_.emplace_hint(next, end, last);
    }
  }
}

uint64_t IntervalSet::total() const {
  uint64_t sum = 0;
  for (const auto& [begin, end] : intervals_) {
    sum += end - begin;
  }
  return sum;
}

bool IntervalSet::intersects(uint64_t begin, uint64_t end) const {
  const bool none = split(begin, end, [](uint64_t, uint64_t, bool inside) { return !inside; });
  return !none;
}

bool IntervalSet::covers(uint64_t begin, uint64_t end) const {
  return split(begin, end, [](uint64_t, uint64_t, bool inside) { return inside; });
}

}  // namespace varve::fs
