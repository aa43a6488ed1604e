// Arrays that lie in a file in one piece.
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// What an element consists of: `parts` numbers, such as 2 of a complex one.
struct ElementType {
  codec::DType dtype = codec::DType::u8;
  uint64_t parts = 1;
};

/// An array from `offset` on, without a name. Elements of several parts get one more axis; `big_endian` means nothing
/// for bytes.
ArrayRegion contiguous_array(ElementType type, codec::Extents shape, bool big_endian, uint64_t offset);

/// Whether it lies in a file of `file_size` bytes and has no more axes than an array may have.
bool fits(const ArrayRegion& array, uint64_t file_size);

}  // namespace varve::fs
