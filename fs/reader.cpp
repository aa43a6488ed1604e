#include "fs/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/labels.h"
#include "fs/box_copy.h"
#include "fs/first_error.h"
#include "fs/formats/check.h"
#include "fs/formats/chunk_filters.h"
#include "fs/log.h"

namespace varve::fs {

using codec::Box;
using codec::Bytes;
using codec::element_count;
using codec::element_size;

namespace {

constexpr uint8_t kGridKind = 5;
constexpr uint8_t kStreamKind = 4;
constexpr uint8_t kPointsKind = 5;    ///< and a level from 1 on
constexpr uint8_t kFilteredKind = 9;  ///< and a level from 0 on

bool is_integer(codec::DType type) {
  using codec::DType;
  return type != DType::f16 && type != DType::bf16 && type != DType::f32 && type != DType::f64;
}

}  // namespace

Result<std::shared_ptr<const Sealed>> Sealed::load(index::Index& index, index::ObjectId object) {
  VARVE_ASSIGN(const std::string text, index.layout(object));
  VARVE_ASSIGN(Layout layout, Layout::parse(text));
  return make(object, std::move(layout));
}

Result<std::shared_ptr<const Sealed>> Sealed::make(index::ObjectId object, Layout layout) {
  auto sealed = std::make_shared<Sealed>();
  sealed->object = object;
  sealed->layout = std::move(layout);
  for (const ArrayEntry& entry : sealed->layout.arrays) {
    auto codec = codec::ArrayCodec::parse(std::as_bytes(std::span(entry.codec)));
    if (!codec.ok()) {
      return Error{EIO, fmt::format("array {}: {}", entry.region.name, codec.error().text)};
    }
    if (codec->shape() != entry.region.shape || codec->dtype() != entry.region.dtype) {
      return Error{EIO, fmt::format("array {}: its codec header is of another array", entry.region.name)};
    }
    sealed->codecs.push_back(*std::move(codec));
  }
  return std::shared_ptr<const Sealed>(std::move(sealed));
}

bool Sealed::lossy() const {
  return std::any_of(codecs.begin(), codecs.end(),
                     [](const codec::ArrayCodec& codec) { return codec.info().absolute_bound > 0; });
}

Status Reader::read(const Sealed& sealed, uint64_t offset, std::span<std::byte> out, const ViewLevels& levels,
                    DamageHandler* damage) {
  const uint64_t end = offset + out.size();
  if (end > sealed.layout.size) {
    return Error{EIO, "read past the end of the sealed content"};
  }
  uint64_t at = offset;
  while (at < end) {
    const Extent& extent = sealed.layout.extent_at(at);
    const uint64_t skip = at - extent.offset;
    const uint64_t length = std::min(extent.length - skip, end - at);
    const Showing showing{extent.kind == Extent::Kind::array ? levels.of(extent.array) : uint8_t{0}, damage};
    VARVE_TRY(read_extent(sealed, extent, skip, out.subspan(at - offset, length), showing));
    at += length;
  }
  return apply_patches(sealed, offset, out);
}

Status Reader::apply_patches(const Sealed& sealed, uint64_t offset, std::span<std::byte> out) {
  const std::vector<Patch>& patches = sealed.layout.patches;
  const uint64_t end = offset + out.size();
  auto patch = std::partition_point(patches.begin(), patches.end(),
                                    [&](const Patch& p) { return p.offset + p.length <= offset; });
  for (; patch != patches.end() && patch->offset < end; ++patch) {
    const uint64_t begin = std::max(offset, patch->offset);
    const uint64_t stop = std::min(end, patch->offset + patch->length);
    VARVE_TRY(read_stream(sealed, index::kPatchRegion, patch->stream + (begin - patch->offset),
                          out.subspan(begin - offset, stop - begin)));
  }
  return {};
}

Status Reader::read_extent(const Sealed& sealed, const Extent& extent, uint64_t skip, std::span<std::byte> out,
                           const Showing& showing) {
  if (extent.kind == Extent::Kind::hole || (extent.kind == Extent::Kind::array && showing.finest == kNoElements)) {
    std::memset(out.data(), 0, out.size());
    return {};
  }
  if (extent.kind == Extent::Kind::stream) {
    return read_stream(sealed, index::kBytesRegion, extent.stream + skip, out);
  }
  if (!sealed.layout.arrays[extent.array].region.filters.empty()) {
    VARVE_ASSIGN(const BrickData chunk, filtered_chunk(sealed, extent, showing));
    std::memcpy(out.data(), chunk->data() + skip, out.size());
    return {};
  }
  const size_t element = element_size(sealed.layout.arrays[extent.array].region.dtype);
  if (skip % element == 0 && out.size() % element == 0) {
    return read_elements(sealed, extent, skip / element, out, showing);
  }
  const uint64_t first = skip / element;
  const uint64_t last = (skip + out.size() + element - 1) / element;
  Bytes whole((last - first) * element);
  VARVE_TRY(read_elements(sealed, extent, first, whole, showing));
  std::memcpy(out.data(), whole.data() + (skip - first * element), out.size());
  return {};
}

Result<Bytes> Reader::make_filtered(const Sealed& sealed, const Extent& extent, const Showing& showing) {
  const ArrayRegion& region = sealed.layout.arrays[extent.array].region;
  const ChunkPlace* const place = find_chunk(region, extent.chunk);
  const StoredChunk& stored = stored_chunk(region, *place);
  Bytes elements(ChunkGeometry(region, extent.chunk).bytes());
  VARVE_TRY(read_elements(sealed, extent, 0, elements, showing));
  auto made = redo_filters(region, stored.skipped, std::move(elements));
  if (!made.ok() || made->size() != stored.length || (is_deflated(region) && sum_of_chunk(*made) != stored.sum)) {
    return Error{EIO, fmt::format("array {}, chunk {} at offset {}: filtered again by {} its elements do not give the "
                                  "bytes that {} gave when the file was sealed; mount the store with that library. The "
                                  "elements can be read under .varve/region",
                                  region.name, extent.chunk, place->offset, deflating_library(),
                                  sealed.layout.deflater.empty() ? "the filters" : sealed.layout.deflater)};
  }
  return made;
}

/// A chunk as the file has it. Deflated ones show all levels, and no damaged ones: others would take other numbers of
/// bytes. What was interpolated for damage is not kept.
Result<BrickData> Reader::filtered_chunk(const Sealed& sealed, const Extent& extent, Showing showing) {
  const bool deflated = is_deflated(sealed.layout.arrays[extent.array].region);
  showing.finest = deflated ? 0 : showing.finest;
  const auto kind = static_cast<uint8_t>(kFilteredKind + showing.finest);
  auto whole = cache_.get({sealed.object, extent.array + 1, kind, extent.chunk}, [&] {
    return make_filtered(sealed, extent, {showing.finest, nullptr});
  });
  if (whole.ok() || showing.damage == nullptr || deflated) {
    return whole;
  }
  VARVE_ASSIGN(Bytes degraded, make_filtered(sealed, extent, showing));
  return std::make_shared<const Bytes>(std::move(degraded));
}

Status Reader::read_elements(const Sealed& sealed, const Extent& extent, uint64_t first, std::span<std::byte> out,
                             const Showing& showing) {
  const ArrayRegion& region = sealed.layout.arrays[extent.array].region;
  const size_t element = element_size(region.dtype);
  const ChunkGeometry geometry(region, extent.chunk);
  const Box inside{geometry.origin(), geometry.valid()};
  std::byte* to = out.data();
  for (Box& box : boxes_of_run(geometry.shape(), first, first + out.size() / element)) {
    const uint64_t count = element_count(box.shape);
    Box target = box;
    for (size_t i = 0; i < target.origin.size(); ++i) {
      target.origin[i] += geometry.origin()[i];
    }
    const Box part = intersection(target, inside);
    const uint64_t valid = element_count(part.shape);
    if (valid > 0) {
      VARVE_TRY(read_box(sealed, extent.array, part, target, to, showing));
    }
    if (valid < count) {
      VARVE_TRY(read_padding(sealed, extent, geometry, box, first, to));
    }
    first += count;
    to += count * element;
  }
  return {};
}

/// Fills the padding elements of `box` (in the chunk's coordinates; its first element is number `first` of the chunk).
Status Reader::read_padding(const Sealed& sealed, const Extent& extent, const ChunkGeometry& geometry, const Box& box,
                            uint64_t first, std::byte* out) {
  const size_t element = element_size(sealed.layout.arrays[extent.array].region.dtype);
  const size_t rank = box.shape.size();
  const uint64_t count = element_count(box.shape);
  const uint64_t before = geometry.padding_before(first);
  Bytes padding((geometry.padding_before(first + count) - before) * element);
  VARVE_TRY(read_stream(sealed, index::kBytesRegion, extent.stream + before * element, padding));

  const std::byte* from = padding.data();
  const uint64_t row = box.shape[rank - 1];
  codec::Extents index = box.origin;
  for (uint64_t done = 0; done < count; done += row) {
    bool row_valid = true;
    for (size_t i = 0; i + 1 < rank; ++i) {
      row_valid = row_valid && index[i] < geometry.valid()[i];
    }
    const uint64_t start = box.origin[rank - 1];
    const uint64_t limit = row_valid ? geometry.valid()[rank - 1] : 0;
    const uint64_t valid = limit > start ? std::min(limit - start, row) : 0;
    std::memcpy(out + (done + valid) * element, from, (row - valid) * element);
    from += (row - valid) * element;
    for (size_t i = rank - 1; i-- > 0;) {
      if (++index[i] < box.origin[i] + box.shape[i]) {
        break;
      }
      index[i] = box.origin[i];
    }
  }
  return {};
}

Status Reader::read_box(const Sealed& sealed, uint32_t array, const Box& part, const Box& target, std::byte* out,
                        const Showing& showing) {
  const codec::ArrayCodec& codec = sealed.codecs[array];
  const size_t element = element_size(codec.dtype());
  const std::vector<uint64_t> bricks = codec.bricks_in(part);
  FirstError error;
  pool_.parallel_for(bricks.size(), [&](size_t i) {
    const auto data = brick(sealed, array, bricks[i], showing.finest, showing.damage);
    if (!data.ok()) {
      error.note(data.error());
      return;
    }
    const Box box = codec.brick_box(bricks[i]);
    // The view is read-only in fact: copy_box writes to its second view alone.
    copy_box(intersection(part, box), {&box, const_cast<std::byte*>((*data)->data())}, {&target, out}, element);
  });
  return error.take();
}

Result<Bytes> Reader::record(const Sealed& sealed, const index::RecordKey& key) {
  auto found = index_.record(sealed.object, key);
  if (found.ok()) {
    ReadCount& count = reads_.at(index::is_bytes(key) ? kReadKinds - 1 : std::min(key.level, codec::kCoarseLevel));
    count.records.fetch_add(1, std::memory_order_relaxed);
    count.bytes.fetch_add(found->size(), std::memory_order_relaxed);
  }
  return found;
}

Result<Bytes> Reader::coarse_record(const Sealed& sealed, uint32_t array, uint64_t tile) {
  auto first = record(sealed, {array + 1, codec::kCoarseLevel, tile});
  if (first.ok() || first.error().code != EIO) {
    return first;
  }
  auto copy = record(sealed, {array + 1, kCoarseCopyLevel, tile});
  if (!copy.ok()) {
    return first;
  }
  log_line(LogLevel::warning, fmt::format("array \"{}\", coarse levels of tile {}: read from their copy: {}; varve "
                                          "scrub of the mount writes them anew",
                                          sealed.layout.arrays[array].region.name, tile, first.error().text));
  return copy;
}

Result<BrickData> Reader::coarse_grid(const Sealed& sealed, uint32_t array, uint64_t tile) {
  return cache_.get({sealed.object, array + 1, kGridKind, tile}, [&]() -> Result<Bytes> {
    const auto stored = coarse_record(sealed, array, tile);
    if (!stored.ok() && stored.error().code != ENOENT) {
      return stored.error();
    }
    VARVE_ASSIGN(codec::CoarseGrid grid,
                 sealed.codecs[array].decode_coarse(
                     tile, stored.ok() ? std::span<const std::byte>(*stored) : std::span<const std::byte>()));
    return std::move(grid.data);
  });
}

Result<Reader::LevelRecords> Reader::level_records(const Sealed& sealed, uint32_t array, uint64_t brick,
                                                   uint8_t finest) {
  LevelRecords records;
  for (uint8_t level = sealed.codecs[array].finest_read(finest); level < codec::kCoarseLevel; ++level) {
    auto found = record(sealed, {array + 1, level, brick});
    if (found.ok()) {
      records.stored.at(level) = *std::move(found);
      records.levels.at(level) = records.stored.at(level);
    } else if (found.error().code != ENOENT) {
      return found.error();
    }
  }
  return records;
}

/// The finest level from which on all records of a brick are whole. Nothing: not even the coarsest of its own is
/// damaged.
std::optional<uint8_t> Reader::finest_whole(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t finest) {
  for (uint8_t level = codec::kCoarseLevel; level-- > finest;) {
    const auto found = record(sealed, {array + 1, level, brick});
    if (!found.ok() && found.error().code == EIO) {
      return static_cast<uint8_t>(level + 1);
    }
  }
  return std::nullopt;
}

/// A brick that could not be decoded because of `reason`, from the levels that are whole.
Result<BrickData> Reader::degraded_brick(const Sealed& sealed, uint32_t array, uint64_t number, const Showing& showing,
                                         const Error& reason) {
  if (showing.damage == nullptr || reason.code != EIO || !showing.damage->may_interpolate(sealed, array)) {
    return reason;
  }
  const auto finest = finest_whole(sealed, array, number, showing.finest);
  if (!finest) {
    return reason;
  }
  auto data = whole_brick(sealed, array, number, *finest);
  if (data.ok()) {
    showing.damage->interpolated(sealed, array, number, *finest, reason);
  }
  return data;
}

Result<BrickData> Reader::points(const Sealed& sealed, uint32_t array, uint64_t number, uint8_t level,
                                 DamageHandler* damage) {
  if (level == 0) {
    return brick(sealed, array, number, 0, damage);
  }
  auto data = whole_points(sealed, array, number, level);
  if (data.ok()) {
    return data;
  }
  VARVE_ASSIGN(const BrickData whole, degraded_brick(sealed, array, number, {level, damage}, data.error()));
  const codec::ArrayCodec& codec = sealed.codecs[array];
  const codec::Extents counts = codec.level_shape(number, level);
  const size_t element = element_size(codec.dtype());
  Bytes out(element_count(counts) * element);
  StridedView from{const_cast<std::byte*>(whole->data()), strides_of(codec.brick_box(number).shape, element)};
  const codec::Extents steps = codec.level_steps(level);
  for (size_t axis = 0; axis < steps.size(); ++axis) {
    from.strides[axis] *= static_cast<int64_t>(steps[axis]);
  }
  copy_strided(counts, from, {out.data(), strides_of(counts, element)}, element);
  return std::make_shared<const Bytes>(std::move(out));
}

Result<BrickData> Reader::brick(const Sealed& sealed, uint32_t array, uint64_t number, uint8_t finest,
                                DamageHandler* damage) {
  auto data = whole_brick(sealed, array, number, finest);
  return data.ok() ? data : degraded_brick(sealed, array, number, {finest, damage}, data.error());
}

Result<BrickData> Reader::whole_points(const Sealed& sealed, uint32_t array, uint64_t number, uint8_t level) {
  const auto kind = static_cast<uint8_t>(kPointsKind + level);
  return cache_.get({sealed.object, array + 1, kind, number}, [&]() -> Result<Bytes> {
    const codec::ArrayCodec& codec = sealed.codecs[array];
    VARVE_ASSIGN(const BrickData grid, coarse_grid(sealed, array, codec.tile_of(number)));
    VARVE_ASSIGN(const LevelRecords records, level_records(sealed, array, number, level));
    const uint64_t count = element_count(codec.level_shape(number, level));
    const size_t element = element_size(codec.dtype());
    Bytes out(count * element);
    const Status decoded = codec.decode_points(number, {*grid}, records.levels, level, out.data());
    if (!decoded.ok()) {
      return Error{EIO, fmt::format("array {}, brick {}: {}", sealed.layout.arrays[array].region.name, number,
                                    decoded.error().text)};
    }
    if (sealed.layout.arrays[array].region.big_endian) {
      swap_bytes(out.data(), count, element);
    }
    return out;
  });
}

Result<BrickData> Reader::whole_brick(const Sealed& sealed, uint32_t array, uint64_t number, uint8_t finest) {
  return cache_.get({sealed.object, array + 1, finest, number}, [&]() -> Result<Bytes> {
    const codec::ArrayCodec& codec = sealed.codecs[array];
    VARVE_ASSIGN(const BrickData grid, coarse_grid(sealed, array, codec.tile_of(number)));
    VARVE_ASSIGN(const LevelRecords records, level_records(sealed, array, number, finest));
    const uint64_t count = element_count(codec.brick_box(number).shape);
    Bytes out(count * element_size(codec.dtype()));
    const Status decoded = codec.decode_brick(number, {*grid}, records.levels, finest, out.data());
    if (!decoded.ok()) {
      return Error{EIO, fmt::format("array {}, brick {}: {}", sealed.layout.arrays[array].region.name, number,
                                    decoded.error().text)};
    }
    if (finest > 0 && is_integer(codec.dtype())) {
      codec::repeat_samples(codec.brick_box(number).shape, codec.level_steps(finest), element_size(codec.dtype()),
                            out.data());
    }
    if (sealed.layout.arrays[array].region.big_endian) {
      swap_bytes(out.data(), count, element_size(codec.dtype()));
    }
    return out;
  });
}

Status Reader::read_stream(const Sealed& sealed, uint32_t region, uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) {
    return {};
  }
  const uint64_t total = region == index::kPatchRegion ? sealed.layout.patch_size : sealed.layout.stream_size;
  const uint64_t end = offset + out.size();
  const uint64_t first = offset / kStreamChunk;
  const uint64_t count = (end - 1) / kStreamChunk - first + 1;
  FirstError error;
  pool_.parallel_for(count, [&](size_t i) {
    const uint64_t number = first + i;
    const uint64_t begin = number * kStreamChunk;
    const uint64_t length = std::min(kStreamChunk, total - begin);
    const auto data = cache_.get({sealed.object, region, kStreamKind, number}, [&]() -> Result<Bytes> {
      const auto found = record(sealed, {region, 0, number});
      if (!found.ok()) {
        return found.error().code == ENOENT
                   ? Error{EIO, fmt::format("record {} of region {} of object {} is missing from the index", number,
                                            region, sealed.object)}
                   : found.error();
      }
      Bytes bytes(length);
      const Status decoded = codec::decode_bytes(*found, bytes);
      if (!decoded.ok()) {
        return Error{EIO, decoded.error().text};
      }
      return bytes;
    });
    if (!data.ok()) {
      error.note(data.error());
      return;
    }
    const uint64_t from = std::max(begin, offset);
    const uint64_t to = std::min(begin + length, end);
    std::memcpy(out.data() + (from - offset), (*data)->data() + (from - begin), to - from);
  });
  return error.take();
}

}  // namespace varve::fs
