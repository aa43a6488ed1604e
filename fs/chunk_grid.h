// The chunks of an array: which elements each holds, and where they lie in the file.
#pragma once

#include <functional>
#include <vector>

#include "codec/box.h"
#include "fs/formats/recogniser.h"

namespace varve::fs {

/// Where one chunk of an array lies, and how its padding is laid out. Cheap to make.
class ChunkGeometry {
 public:
  ChunkGeometry(const ArrayRegion& region, uint64_t chunk);
  uint64_t bytes() const { return bytes_; }            ///< of the whole chunk
  uint64_t padding_bytes() const { return padding_; }  ///< of its elements outside the array
  const codec::Extents& origin() const { return origin_; }
  const codec::Extents& shape() const { return shape_; }  ///< of the chunk, padding included
  const codec::Extents& valid() const { return valid_; }  ///< of its part inside the array
  /// Number of padding elements before element `index` (C order in the chunk).
  uint64_t padding_before(uint64_t index) const;

 private:
  codec::Extents origin_, shape_, valid_;
  uint64_t bytes_ = 0, padding_ = 0;
};

/// Splits the run [begin, end) of C-order elements of `shape` into boxes, at most 2 * rank - 1 of them, ascending.
std::vector<codec::Box> boxes_of_run(const codec::Extents& shape, uint64_t begin, uint64_t end);

/// The place of a chunk, or null when the file does not store it.
const ChunkPlace* find_chunk(const ArrayRegion& region, uint64_t chunk);

/// Calls visit(number) for the cells of the chunk grid that hold elements of `box`, stored or not, ascending; ends with
/// the first error.
Status for_each_cell(const ArrayRegion& region, const codec::Box& box,
                     const std::function<Status(uint64_t chunk)>& visit);

/// Calls visit(place, geometry, part) for the stored chunks that hold elements of `box`; `part`: those elements, in the
/// array's coordinates. In order of chunk numbers.
using VisitChunk = std::function<void(const ChunkPlace& place, const ChunkGeometry& geometry, const codec::Box& part)>;
void for_each_chunk(const ArrayRegion& region, const codec::Box& box, const VisitChunk& visit);

/// Calls visit(file offset, bytes) for the file ranges of the elements of `box`, by chunk.
void for_each_file_range(const ArrayRegion& region, const codec::Box& box,
                         const std::function<void(uint64_t offset, uint64_t length)>& visit);

}  // namespace varve::fs
