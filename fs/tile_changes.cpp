#include "fs/tile_changes.h"

#include <algorithm>

#include "fs/box_copy.h"
#include "fs/formats/check.h"

namespace varve::fs {

using codec::Box;
using codec::element_count;
using codec::element_size;
using codec::Extents;

namespace {

/// Above this share of changed bytes a tile is encoded again rather than patched.
constexpr uint64_t kPatchShare = 8;

/// Adds to counts[tile] the bytes of [begin, end) of the file that whole elements of each tile take.
void count_changed(const ArrayRegion& region, const codec::ArrayCodec& codec, const ChunkPlace& place, uint64_t begin,
                   uint64_t end, std::vector<uint64_t>& counts) {
  const size_t element = element_size(region.dtype);
  const ChunkGeometry geometry(region, place.chunk);
  const uint64_t first = (begin - place.offset + element - 1) / element;
  const uint64_t last = (end - place.offset) / element;
  const Box inside{geometry.origin(), geometry.valid()};
  for (Box& box : boxes_of_run(geometry.shape(), std::min(first, last), last)) {
    for (size_t i = 0; i < box.origin.size(); ++i) {
      box.origin[i] += geometry.origin()[i];
    }
    const Box part = intersection(box, inside);
    if (element_count(part.shape) == 0) {
      continue;
    }
    uint64_t last_tile = UINT64_MAX;
    std::vector<uint64_t> tiles;
    for (const uint64_t brick : codec.bricks_in(part)) {
      if (const uint64_t tile = codec.tile_of(brick); tile != last_tile) {
        tiles.push_back(tile);
        last_tile = tile;
      }
    }
    std::sort(tiles.begin(), tiles.end());
    tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
    for (const uint64_t tile : tiles) {
      counts[tile] += element_count(intersection(part, codec.tile_box(tile)).shape) * element;
    }
  }
}

}  // namespace

std::optional<uint32_t> find_predecessor(const Sealed& base, const ArrayRegion& region) {
  for (uint32_t i = 0; i < base.layout.arrays.size(); ++i) {
    const ArrayRegion& old = base.layout.arrays[i].region;
    if (old.name != region.name || old.dtype != region.dtype || old.big_endian != region.big_endian ||
        old.fill_values != region.fill_values || old.filters != region.filters ||
        old.shape.size() != region.shape.size()) {
      continue;
    }
    const bool same_but_slowest =
        region.shape.empty() || std::equal(old.shape.begin() + 1, old.shape.end(), region.shape.begin() + 1);
    // A contiguous array is one chunk of its own shape: it may grow with it.
    const bool contiguous = old.chunk_shape == old.shape && region.chunk_shape == region.shape;
    if (!same_but_slowest || (!contiguous && old.chunk_shape != region.chunk_shape)) {
      continue;
    }
    const bool same_places = !region.filters.empty() ||
                             std::all_of(region.chunks.begin(), region.chunks.end(), [&](const ChunkPlace& place) {
                               const ChunkPlace* before = find_chunk(old, place.chunk);
                               return before == nullptr || before->offset == place.offset;
                             });
    if (same_places) {
      return i;
    }
  }
  return std::nullopt;
}

const StoredChunk* unchanged_chunk(const ArrayRegion& old, const ArrayRegion& region, size_t index,
                                   const IntervalSet& dirty) {
  const ChunkPlace& place = region.chunks[index];
  const StoredChunk& stored = region.stored[index];
  const ChunkPlace* const before = find_chunk(old, place.chunk);
  if (before == nullptr || before->offset != place.offset ||
      dirty.intersects(place.offset, place.offset + stored.length)) {
    return nullptr;
  }
  const StoredChunk& was = stored_chunk(old, *before);
  return was.length == stored.length && was.skipped == stored.skipped ? &was : nullptr;
}

std::vector<TileFate> tile_fates(const ArrayRegion& region, const codec::ArrayCodec& codec, const Sealed& base,
                                 std::optional<uint32_t> old, const IntervalSet& dirty) {
  const uint64_t tiles = codec.tile_count();
  IntervalSet replaced = base.layout.patched;  // what patches hold, or would hold
  for (const auto& [begin, end] : dirty.intervals()) {
    replaced.add(begin, end);
  }
  std::vector<uint64_t> changed(tiles, 0);
  std::vector<uint64_t> patched(tiles, 0);
  // Bytes that some chunk of the file holds: the rest of a tile has no place in the file and counts as unchanged.
  std::vector<uint64_t> present(tiles, 0);
  for (const ChunkPlace& place : region.chunks) {
    const uint64_t end = place.offset + ChunkGeometry(region, place.chunk).bytes();
    count_changed(region, codec, place, place.offset, end, present);
    if (!region.filters.empty()) {  // any byte of a chunk may be part of any element
      const auto index = static_cast<size_t>(&place - region.chunks.data());
      if (!old || unchanged_chunk(base.layout.arrays[*old].region, region, index, dirty) == nullptr) {
        count_changed(region, codec, place, place.offset, end, patched);
      }
      if (dirty.covers(place.offset, place.offset + region.stored[index].length)) {
        count_changed(region, codec, place, place.offset, end, changed);
      }
      continue;
    }
    const bool new_chunk = old && find_chunk(base.layout.arrays[*old].region, place.chunk) == nullptr;
    if (new_chunk) {
      count_changed(region, codec, place, place.offset, end, changed);
      count_changed(region, codec, place, place.offset, end, patched);
      continue;
    }
    const auto count = [&](const IntervalSet& set, std::vector<uint64_t>& counts) {
      set.split(place.offset, end, [&](uint64_t begin, uint64_t stop, bool inside) {
        if (inside) {
          count_changed(region, codec, place, begin, stop, counts);
        }
        return true;
      });
    };
    count(dirty, changed);
    count(replaced, patched);
  }
  std::vector<TileFate> fates(tiles, TileFate::exact);
  for (uint64_t tile = 0; tile < tiles; ++tile) {
    const bool same_box =
        old && tile < base.codecs[*old].tile_count() && base.codecs[*old].tile_box(tile) == codec.tile_box(tile);
    if (same_box && patched[tile] <= (region.filters.empty() ? present[tile] / kPatchShare : 0)) {
      fates[tile] = TileFate::share;
    } else if (changed[tile] >= present[tile]) {
      fates[tile] = TileFate::fresh;
    }
  }
  return fates;
}

bool stream_chunk_unchanged(const Layout& before, const Layout& now, const IntervalSet& dirty, uint64_t chunk) {
  const uint64_t begin = chunk * kStreamChunk;
  const uint64_t end = std::min(begin + kStreamChunk, now.stream_size);
  if (end != std::min(begin + kStreamChunk, before.stream_size)) {
    return false;
  }
  // The last extent that starts at or before `begin` in the stream; extents are in stream order too.
  auto extent = std::upper_bound(now.extents.begin(), now.extents.end(), begin,
                                 [](uint64_t value, const Extent& e) { return value < e.stream; });
  // Several extents may share a start (holes, arrays without padding); go back over them all.
  while (extent != now.extents.begin()) {
    --extent;
    if (extent->stream < begin) {
      break;
    }
  }
  for (; extent != now.extents.end() && extent->stream < end; ++extent) {
    if (extent->kind == Extent::Kind::hole) {
      continue;
    }
    const bool known = extent->offset < before.size;
    const Extent* old = known ? &before.extent_at(extent->offset) : nullptr;
    if (extent->kind == Extent::Kind::array) {
      const ArrayRegion& region = now.arrays[extent->array].region;
      if (ChunkGeometry(region, extent->chunk).padding_bytes() == 0) {
        continue;
      }
      if (old == nullptr || old->kind != Extent::Kind::array || old->offset != extent->offset ||
          old->stream != extent->stream || before.arrays[old->array].region.shape != region.shape ||
          before.arrays[old->array].region.chunk_shape != region.chunk_shape || old->chunk != extent->chunk ||
          old->length != extent->length || before.arrays[old->array].region.filters != region.filters ||
          dirty.intersects(extent->offset, extent->offset + extent->length)) {
        return false;
      }
      continue;
    }
    const uint64_t from = std::max(begin, extent->stream);
    const uint64_t to = std::min(end, extent->stream + extent->length);
    if (from >= to) {
      continue;
    }
    const uint64_t offset = extent->offset + (from - extent->stream);
    if (old == nullptr || old->kind != Extent::Kind::stream || old->offset != extent->offset ||
        old->stream != extent->stream || old->length < to - extent->stream ||
        dirty.intersects(offset, offset + (to - from))) {
      return false;
    }
  }
  return true;
}

}  // namespace varve::fs
