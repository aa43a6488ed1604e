#include "fs/formats/contiguous.h"

#include "fs/formats/check.h"

namespace varve::fs {

ArrayRegion contiguous_array(ElementType type, codec::Extents shape, bool big_endian, uint64_t offset) {
  ArrayRegion array;
  array.dtype = type.dtype;
  array.big_endian = big_endian && codec::element_size(type.dtype) > 1;
  array.shape = std::move(shape);
  if (type.parts > 1) {
    array.shape.push_back(type.parts);
  }
  array.chunk_shape = array.shape;
  array.chunks = {{0, offset}};
  return array;
}

bool fits(const ArrayRegion& array, uint64_t file_size) {
  const auto bytes = chunk_bytes(array);
  const uint64_t offset = array.chunks[0].offset;
  return bytes && array.shape.size() <= codec::kMaxRank && offset <= file_size && *bytes <= file_size - offset;
}

}  // namespace varve::fs
