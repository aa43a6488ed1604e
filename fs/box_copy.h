// Copies boxes of elements between arrays laid out in C order.
#pragma once

#include <cstddef>

#include "codec/box.h"

namespace varve::fs {

/// A C-order array in memory that holds the elements of `box` (in some common coordinates).
struct BoxView {
  const codec::Box* box;
  std::byte* data;
};

/// Copies the elements of `part`, which lies in both boxes, from `from` to `to`. `element`: bytes of one.
void copy_box(const codec::Box& part, const BoxView& from, const BoxView& to, size_t element);

/// A walk over elements in memory: bytes from one to the next along each axis.
struct StridedView {
  std::byte* data;
  std::vector<int64_t> strides;
};

/// Of elements in C order; `element`: bytes of one.
std::vector<int64_t> strides_of(const codec::Extents& shape, size_t element);

/// Copies `counts` elements from where `from` has them to where `to` does. `element`: bytes of one.
void copy_strided(const codec::Extents& counts, const StridedView& from, const StridedView& to, size_t element);

/// Reverses the bytes of each of the `count` elements at `data`. Elements of 1 byte stay as they are.
void swap_bytes(std::byte* data, uint64_t count, size_t element);

}  // namespace varve::fs
