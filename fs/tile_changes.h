// Which tiles of an array, sealed before, must be encoded anew after some bytes of the file changed.
#pragma once

#include <optional>
#include <vector>

#include "fs/layout.h"
#include "fs/reader.h"

namespace varve::fs {

enum class TileFate : uint8_t {
  fresh,  ///< every element is newly written: encode under the array's bound
  exact,  ///< old and new elements: encode without loss, so that the old ones stay as they read
  share,  ///< keep the old records; changed bytes inside, if any, become patches (of filtered arrays none may be)
};

/// The array of `base` that `region` continues: the same elements at the same places, except that it may have grown or
/// shrunk along its slowest axis and have more chunks.
std::optional<uint32_t> find_predecessor(const Sealed& base, const ArrayRegion& region);

/// How chunk `index` of a filtered array was sealed as part of its predecessor `old`. Null: it was not, or bytes of it
/// differ now.
const StoredChunk* unchanged_chunk(const ArrayRegion& old, const ArrayRegion& region, size_t index,
                                   const IntervalSet& dirty);

/// One fate for each tile of `codec`. `old`: the predecessor in `base`, if any. `dirty`: changed ranges of the file.
std::vector<TileFate> tile_fates(const ArrayRegion& region, const codec::ArrayCodec& codec, const Sealed& base,
                                 std::optional<uint32_t> old, const IntervalSet& dirty);

/// Is record `chunk` of the bytes stream the same in both layouts, and no byte of it in `dirty`?
bool stream_chunk_unchanged(const Layout& before, const Layout& now, const IntervalSet& dirty, uint64_t chunk);

}  // namespace varve::fs
