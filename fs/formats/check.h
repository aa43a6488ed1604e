// What every recogniser's result must satisfy before anyone acts on it.
#pragma once

#include <optional>

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// The product of the extents, or nothing when it does not fit in 62 bits. 1 for rank 0.
std::optional<uint64_t> checked_product(const codec::Extents& extents);

/// Bytes of one chunk, or nothing when that overflows.
std::optional<uint64_t> chunk_bytes(const ArrayRegion& array);

/// How a chunk of a filtered array lies in the file; `place` is one of array.chunks.
inline const StoredChunk& stored_chunk(const ArrayRegion& array, const ChunkPlace& place) {
  return array.stored[static_cast<size_t>(&place - array.chunks.data())];
}
/// Bytes that a chunk, one of array.chunks, takes in the file. `array` has passed check_array().
uint64_t stored_bytes(const ArrayRegion& array, const ChunkPlace& place);

/// Number of cells in the array's chunk grid, or nothing when that overflows. Extents must not be 0.
std::optional<uint64_t> chunk_grid_size(const ArrayRegion& array);

/// The array by itself: known dtype, rank <= 32, no empty axis, chunk numbers ascending and in the grid, no overflow.
/// EBADMSG with a sentence.
Status check_array(const ArrayRegion& array);

/// check_array for all, and: each chunk inside a file of `file_size` bytes, no byte in two chunks. EBADMSG.
Status check_arrays(const Recognised& recognised, uint64_t file_size);

}  // namespace varve::fs
