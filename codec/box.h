// Boxes of elements within each other, and the runs that they are in memory.
#pragma once

#include <algorithm>

#include "codec/types.h"

namespace varve::codec {

/// The common part; an empty shape component (0) when there is none.
inline Box intersection(const Box& a, const Box& b) {
  Box result{a.origin, a.shape};
  for (size_t i = 0; i < a.origin.size(); ++i) {
    const uint64_t begin = std::max(a.origin[i], b.origin[i]);
    const uint64_t end = std::min(a.origin[i] + a.shape[i], b.origin[i] + b.shape[i]);
    result.origin[i] = begin;
    result.shape[i] = end > begin ? end - begin : 0;
  }
  return result;
}

/// Whether `part` lies in `box`; no two boxes of different ranks do. No sum overflows if those of `box` do not.
inline bool contains(const Box& box, const Box& part) {
  const size_t rank = box.shape.size();
  bool inside = box.origin.size() == rank && part.origin.size() == rank && part.shape.size() == rank;
  for (size_t i = 0; i < rank && inside; ++i) {
    const uint64_t end = box.origin[i] + box.shape[i];
    inside = box.origin[i] <= part.origin[i] && part.origin[i] <= end && part.shape[i] <= end - part.origin[i];
  }
  return inside;
}

/// The next index in C order, with index[i] < counts[i]; false: that was the last, and `index` is all zeros. `counts`
/// may have more axes than `index`.
inline bool next_index(Extents& index, const Extents& counts) {
  for (size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < counts[axis]) {
      return true;
    }
    index[axis] = 0;
  }
  return false;
}

/// Calls visit(offset of the run's first element in `outer`, elements) for the runs of `part` that are contiguous in
/// the C-order array `outer` (coordinates relative to outer's origin), ascending.
template <typename Visit>
void for_each_run(const Box& part, const Extents& outer_origin, const Extents& outer_shape, Visit visit) {
  const size_t rank = part.shape.size();
  for (const uint64_t extent : part.shape) {
    if (extent == 0) {
      return;
    }
  }
  // Trailing axes that `part` spans wholly melt into one run.
  size_t axis = rank;
  uint64_t run = 1;
  while (axis > 0) {
    --axis;
    run *= part.shape[axis];
    if (part.shape[axis] != outer_shape[axis]) {
      break;
    }
  }
  Extents index(axis, 0);
  do {
    uint64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) {
      const uint64_t at = part.origin[i] - outer_origin[i] + (i < axis ? index[i] : 0);
      offset = offset * outer_shape[i] + at;
    }
    visit(offset, run);
  } while (next_index(index, part.shape));
}

}  // namespace varve::codec
