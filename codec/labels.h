// Level views of integers, which may be labels: no value appears that is not in the array.
#pragma once

#include "codec/types.h"

namespace varve::codec {

/// Sets every element of a box in C order to the nearest one whose indices are multiples of `steps`; of two as near, to
/// the lower. `size`: bytes of an element.
void repeat_samples(const Extents& shape, const Extents& steps, size_t size, std::byte* data);

}  // namespace varve::codec
