#include "fs/image_reader.h"

#include <algorithm>
#include <cstring>

#include "codec/box.h"
#include "fs/box_copy.h"
#include "fs/first_error.h"
#include "fs/formats/check.h"
#include "fs/formats/chunk_filters.h"

namespace varve::fs {

using codec::Box;
using codec::element_size;
using codec::Extents;

namespace {

/// Elements that are read at once though few of them are wanted: bytes, and how many for each wanted one.
constexpr uint64_t kLongestSpan = uint64_t{1} << 20;
constexpr uint64_t kSparsestSpan = 16;

/// The indices of a slice's axis whose elements lie in a range.
struct Hit {
  uint64_t first = 0;  ///< counted within the slice
  uint64_t count = 0;
  uint64_t element = 0;  ///< of the first
};

uint64_t element_at(const SliceAxis& axis, uint64_t index) {
  return axis.start + static_cast<uint64_t>(axis.step) * index;  // of negative steps, modulo 2^64
}

/// Of indices [begin, begin + count) of the slice, those with elements in [low, low + extent).
Hit hits(const SliceAxis& axis, uint64_t begin, uint64_t count, uint64_t low, uint64_t extent) {
  const uint64_t high = low + extent;
  uint64_t first = 0;   // the first index whose element is past the range's start
  uint64_t behind = 0;  // the first index whose element is past its end
  if (axis.step > 0) {
    const auto step = static_cast<uint64_t>(axis.step);
    first = low > axis.start ? (low - axis.start + step - 1) / step : 0;
    behind = high > axis.start ? (high - axis.start + step - 1) / step : 0;
  } else {
    const uint64_t step = -static_cast<uint64_t>(axis.step);
    first = axis.start >= high ? (axis.start - high) / step + 1 : 0;
    behind = axis.start >= low ? (axis.start - low) / step + 1 : 0;
  }
  first = std::max(first, begin);
  behind = std::min(behind, begin + count);
  return behind > first ? Hit{first, behind - first, element_at(axis, first)} : Hit{};
}

/// All axes of a slice. False: some axis has none.
bool hits(const std::vector<SliceAxis>& axes, const Box& box, const Box& range, std::vector<Hit>& out) {
  out.resize(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    out[i] = hits(axes[i], box.origin[i], box.shape[i], range.origin[i], range.shape[i]);
    if (out[i].count == 0) {
      return false;
    }
  }
  return true;
}

/// The least box around the elements that `box` of a slice names.
Box bounding(const std::vector<SliceAxis>& axes, const Box& box) {
  Box out = box;
  for (size_t i = 0; i < axes.size(); ++i) {
    const uint64_t a = element_at(axes[i], box.origin[i]);
    const uint64_t b = element_at(axes[i], box.origin[i] + box.shape[i] - 1);
    out.origin[i] = std::min(a, b);
    out.shape[i] = std::max(a, b) - out.origin[i] + 1;
  }
  return out;
}

int64_t dot(const std::vector<int64_t>& strides, const Extents& index) {
  int64_t at = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    at += strides[i] * static_cast<int64_t>(index[i]);
  }
  return at;
}

/// Where hits go in the elements of `box`.
StridedView target_of(const std::vector<Hit>& found, const Box& box, std::byte* out, size_t element) {
  StridedView target{out, strides_of(box.shape, element)};
  Extents at(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    at[i] = found[i].first - box.origin[i];
  }
  target.data += dot(target.strides, at);
  return target;
}

Extents counts_of(const std::vector<Hit>& found) {
  Extents counts;
  for (const Hit& hit : found) {
    counts.push_back(hit.count);
  }
  return counts;
}

/// The coarsest level whose points all wanted elements are.
uint8_t level_of(const codec::ArrayCodec& codec, const std::vector<SliceAxis>& axes, const Box& box) {
  uint8_t level = codec::kCoarseLevel;
  for (; level > 0; --level) {
    const Extents steps = codec.level_steps(level);
    bool all = true;
    for (size_t i = 0; i < axes.size() && all; ++i) {
      all = element_at(axes[i], box.origin[i]) % steps[i] == 0 &&
            (box.shape[i] == 1 || static_cast<uint64_t>(std::abs(axes[i].step)) % steps[i] == 0);
    }
    if (all) {
      break;
    }
  }
  return level;
}

bool same_place(const ArrayRegion& a, const ArrayRegion& b) {
  return a.dtype == b.dtype && a.big_endian == b.big_endian && a.shape == b.shape && a.chunk_shape == b.chunk_shape &&
         a.chunks == b.chunks && a.filters == b.filters &&
         std::equal(
             a.stored.begin(), a.stored.end(), b.stored.begin(), b.stored.end(),
             [](const StoredChunk& c, const StoredChunk& d) { return c.length == d.length && c.skipped == d.skipped; });
}

bool is_patched(const Layout& layout, const ArrayRegion& region) {
  if (layout.patches.empty()) {
    return false;
  }
  return std::any_of(region.chunks.begin(), region.chunks.end(), [&](const ChunkPlace& place) {
    const auto patch = std::partition_point(layout.patches.begin(), layout.patches.end(),
                                            [&](const Patch& p) { return p.offset + p.length <= place.offset; });
    return patch != layout.patches.end() && patch->offset < place.offset + stored_bytes(region, place);
  });
}

/// Elements of one chunk, wanted ones in spans that are read at once: the last axes, from `first` on, are such a span.
struct Span {
  size_t first = 0;
  uint64_t elements = 1;
};

Span span_of(const std::vector<Hit>& found, const std::vector<SliceAxis>& axes, const std::vector<int64_t>& strides,
             size_t element) {
  Span span{found.size(), 1};
  uint64_t wanted = 1;
  uint64_t length = 1;
  for (size_t i = found.size(); i-- > 0;) {
    const auto stride = static_cast<uint64_t>(strides[i]) / element;
    wanted *= found[i].count;
    length += (found[i].count - 1) * static_cast<uint64_t>(std::abs(axes[i].step)) * stride;
    if (length > kLongestSpan / element || length / kSparsestSpan > wanted) {
      break;
    }
    span = {i, length};
  }
  return span;
}

/// Visits the index of each span, over the axes before it.
template <typename Visit>
Status for_each_span(const Extents& counts, size_t axes, const Visit& visit) {
  Extents index(axes, 0);
  do {
    VARVE_TRY(visit(index));
  } while (codec::next_index(index, counts));
  return {};
}

}  // namespace

std::vector<std::optional<uint32_t>> arrays_of(const FileImage& image, const Sealed& sealed) {
  std::vector<std::optional<uint32_t>> out;
  const Layout& layout = sealed.layout;
  for (const ImageSource& source : image.sources) {
    const auto& chunks = source.region.chunks;
    std::optional<uint32_t>& array = out.emplace_back();
    if (chunks.empty() || chunks.front().offset >= layout.size) {
      continue;
    }
    const Extent& extent = layout.extent_at(chunks.front().offset);
    if (extent.kind == Extent::Kind::array && same_place(layout.arrays[extent.array].region, source.region) &&
        !is_patched(layout, source.region)) {
      array = extent.array;
    }
  }
  return out;
}

Status ImageReader::read(uint64_t offset, std::span<std::byte> out) const {
  std::fill(out.begin(), out.end(), std::byte{0});
  const uint64_t end = offset + out.size();
  auto part = std::partition_point(image_.parts.begin(), image_.parts.end(),
                                   [&](const ImagePart& p) { return p.offset + p.length <= offset; });
  for (; part != image_.parts.end() && part->offset < end; ++part) {
    const uint64_t begin = std::max(offset, part->offset);
    const uint64_t stop = std::min(end, part->offset + part->length);
    VARVE_TRY(read_part(*part, begin - part->offset, out.subspan(begin - offset, stop - begin)));
  }
  return {};
}

Status ImageReader::read_part(const ImagePart& part, uint64_t skip, std::span<std::byte> out) const {
  if (!part.bytes.empty()) {
    std::memcpy(out.data(), part.bytes.data() + skip, out.size());
    return {};
  }
  const size_t element = element_size(image_.sources[part.source].region.dtype);
  if (skip % element == 0 && out.size() % element == 0) {
    return read_elements(part, skip / element, out);
  }
  const uint64_t first = skip / element;
  const uint64_t last = (skip + out.size() + element - 1) / element;
  codec::Bytes whole((last - first) * element);
  VARVE_TRY(read_elements(part, first, whole));
  std::memcpy(out.data(), whole.data() + (skip - first * element), out.size());
  return {};
}

Status ImageReader::read_elements(const ImagePart& part, uint64_t first, std::span<std::byte> out) const {
  const ArrayRegion& region = image_.sources[part.source].region;
  const size_t element = element_size(region.dtype);
  const uint32_t* const array = sealed_ != nullptr && arrays_[part.source] ? &*arrays_[part.source] : nullptr;
  const bool has_absent = region.chunks.size() < chunk_grid_size(region).value_or(0);
  Extents counts;
  for (const SliceAxis& axis : part.axes) {
    counts.push_back(axis.count);
  }
  std::byte* to = out.data();
  for (const Box& box : boxes_of_run(counts, first, first + out.size() / element)) {
    if (array != nullptr) {
      VARVE_TRY(from_bricks(part, *array, box, to));
    }
    if (array == nullptr || has_absent) {
      VARVE_TRY(from_chunks(part, box, array != nullptr, to));
    }
    to += codec::element_count(box.shape) * element;
  }
  return {};
}

Status ImageReader::from_bricks(const ImagePart& part, uint32_t array, const Box& box, std::byte* out) const {
  const codec::ArrayCodec& codec = sealed_->codecs[array];
  const size_t element = element_size(codec.dtype());
  // Of levels that are shown the wanted points alone; others are interpolated from all points of their brick.
  const uint8_t found_level = level_of(codec, part.axes, box);
  const bool whole = found_level < finest_;
  const uint8_t level = whole ? uint8_t{0} : found_level;
  const Extents steps = codec.level_steps(level);
  const std::vector<uint64_t> bricks = codec.bricks_in(bounding(part.axes, box));
  FirstError error;
  pool_.parallel_for(bricks.size(), [&](size_t i) {
    const Box brick = codec.brick_box(bricks[i]);
    std::vector<Hit> found;
    if (!hits(part.axes, box, brick, found)) {
      return;
    }
    const auto points = whole ? reader_.brick(*sealed_, array, bricks[i], finest_, damage_)
                              : reader_.points(*sealed_, array, bricks[i], level, damage_);
    if (!points.ok()) {
      error.note(points.error());
      return;
    }
    Extents at(steps.size());
    for (size_t axis = 0; axis < steps.size(); ++axis) {
      at[axis] = (found[axis].element - brick.origin[axis]) / steps[axis];
    }
    // The view is read-only in fact: copy_strided writes to its second view alone.
    StridedView source{const_cast<std::byte*>((*points)->data()),
                       strides_of(codec.level_shape(bricks[i], level), element)};
    source.data += dot(source.strides, at);
    for (size_t axis = 0; axis < steps.size(); ++axis) {
      source.strides[axis] *= part.axes[axis].step / static_cast<int64_t>(steps[axis]);
    }
    copy_strided(counts_of(found), source, target_of(found, box, out, element), element);
  });
  return error.take();
}

/// Elements as the file has them; `absent_only`: of chunks that it does not store alone.
Status ImageReader::from_chunks(const ImagePart& part, const Box& box, bool absent_only, std::byte* out) const {
  const ImageSource& from = image_.sources[part.source];
  const size_t element = element_size(from.region.dtype);
  const std::vector<std::byte> fill = from.fill.empty() ? std::vector<std::byte>(element) : from.fill;
  codec::Bytes buffer;
  return for_each_cell(from.region, bounding(part.axes, box), [&](uint64_t chunk) -> Status {
    const ChunkPlace* const place = find_chunk(from.region, chunk);
    const ChunkGeometry geometry(from.region, chunk);
    std::vector<Hit> found;
    if ((place != nullptr && absent_only) || !hits(part.axes, box, {geometry.origin(), geometry.valid()}, found)) {
      return {};
    }
    const Extents counts = counts_of(found);
    const StridedView target = target_of(found, box, out, element);
    if (place == nullptr) {
      copy_strided(counts, {const_cast<std::byte*>(fill.data()), std::vector<int64_t>(counts.size(), 0)}, target,
                   element);
      return {};
    }
    const std::vector<int64_t> strides = strides_of(geometry.shape(), element);
    if (!from.region.filters.empty()) {
      VARVE_ASSIGN(codec::Bytes elements, unfiltered_chunk(from.region, *place, original_));
      StridedView source{elements.data(), strides};
      for (size_t i = 0; i < counts.size(); ++i) {
        source.data += static_cast<int64_t>(found[i].element - geometry.origin()[i]) * strides[i];
        source.strides[i] *= part.axes[i].step;
      }
      copy_strided(counts, source, target, element);
      return {};
    }
    const Span span = span_of(found, part.axes, strides, element);
    const auto tail = [&](const auto& all) {
      return std::decay_t<decltype(all)>(all.begin() + static_cast<ptrdiff_t>(span.first), all.end());
    };
    StridedView inner{nullptr, tail(strides)};
    uint64_t lowest = 0;  // of the span's first element in memory among its hits
    for (size_t i = span.first; i < counts.size(); ++i) {
      inner.strides[i - span.first] *= part.axes[i].step;
      if (part.axes[i].step < 0) {
        lowest += (counts[i] - 1) * static_cast<uint64_t>(-inner.strides[i - span.first]);
      }
    }
    buffer.resize(span.elements * element);
    inner.data = buffer.data() + lowest;
    return for_each_span(counts, span.first, [&](const Extents& index) -> Status {
      int64_t at = 0;
      StridedView to{target.data, tail(target.strides)};
      for (size_t i = 0; i < counts.size(); ++i) {
        const int64_t along = i < span.first ? static_cast<int64_t>(index[i]) : 0;
        at += (static_cast<int64_t>(found[i].element - geometry.origin()[i]) + along * part.axes[i].step) * strides[i];
        to.data += along * target.strides[i];
      }
      VARVE_TRY(original_(place->offset + static_cast<uint64_t>(at) - lowest, buffer));
      copy_strided(tail(counts), inner, to, element);
      return {};
    });
  });
}

}  // namespace varve::fs
