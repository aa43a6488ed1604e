// A set of byte offsets as disjoint half-open intervals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace varve::fs {

/// Not thread-safe. Adjacent intervals are merged.
class IntervalSet {
 public:
  void add(uint64_t begin, uint64_t end);
  void remove(uint64_t begin, uint64_t end);
  void clear() { intervals_.clear(); }
  bool empty() const { return intervals_.empty(); }
  size_t count() const { return intervals_.size(); }
  uint64_t total() const;
  /// Does the set hold any offset of [begin, end)?
  bool intersects(uint64_t begin, uint64_t end) const;
  bool covers(uint64_t begin, uint64_t end) const;

  /// Splits [begin, end) into maximal runs: visit(run_begin, run_end, inside). Ascending. Stops when `visit` answers
  /// false, and then returns false.
  template <typename Visit>
  bool split(uint64_t begin, uint64_t end, Visit visit) const;

  /// begin -> end, ascending.
  const std::map<uint64_t, uint64_t>& intervals() const { return intervals_; }
  bool operator==(const IntervalSet&) const = default;

 private:
  std::map<uint64_t, uint64_t> intervals_;
};

template <typename Visit>
bool IntervalSet::split(uint64_t begin, uint64_t end, Visit visit) const {
  auto next = intervals_.upper_bound(begin);
  if (next != intervals_.begin() && std::prev(next)->second > begin) {
    --next;
  }
  while (begin < end) {
    if (next == intervals_.end() || next->first >= end) {
      return visit(begin, end, false);
    }
    if (next->first > begin) {
      if (!visit(begin, next->first, false)) {
        return false;
      }
      begin = next->first;
    }
    const uint64_t stop = next->second < end ? next->second : end;
    if (!visit(begin, stop, true)) {
      return false;
    }
    begin = stop;
    ++next;
  }
  return true;
}

}  // namespace varve::fs
