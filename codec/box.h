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
  while (true) {
    uint64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) {
      const uint64_t at = part.origin[i] - outer_origin[i] + (i < axis ? index[i] : 0);
      offset = offset * outer_shape[i] + at;
    }
    visit(offset, run);
    size_t i = axis;
    while (i > 0) {
      --i;
      if (++index[i] < part.shape[i]) {
        break;
      }
      index[i] = 0;
      if (i == 0) {
        return;
      }
    }
    if (axis == 0) {
      return;
    }
  }
}

}  // namespace varve::codec
