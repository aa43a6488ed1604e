// Copies boxes of elements between arrays laid out in C order.
#pragma once

#include <cstddef>

#include "codec/types.h"

namespace varve::fs {

/// A C-order array in memory that holds the elements of `box` (in some common coordinates).
struct BoxView {
  const codec::Box* box;
  std::byte* data;
};

/// Copies the elements of `part`, which lies in both boxes, from `from` to `to`. `element`: bytes of one.
void copy_box(const codec::Box& part, const BoxView& from, const BoxView& to, size_t element);

/// Reverses the bytes of each of the `count` elements at `data`. Elements of 1 byte stay as they are.
void swap_bytes(std::byte* data, uint64_t count, size_t element);

/// Calls visit(offset of the run's first element in `outer`, elements) for the runs of `part` that are contiguous in
/// the C-order array `outer` (coordinates relative to outer's origin), ascending.
template <typename Visit>
void for_each_run(const codec::Box& part, const codec::Extents& outer_origin, const codec::Extents& outer_shape,
                  Visit visit) {
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
  codec::Extents index(axis, 0);
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

}  // namespace varve::fs
