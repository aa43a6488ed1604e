#include "fs/gather.h"

#include <algorithm>
#include <cstring>

#include "fs/box_copy.h"
#include "fs/chunk_grid.h"

namespace varve::fs {

using codec::Box;
using codec::Bytes;
using codec::element_count;
using codec::element_size;

namespace {

/// Parts of chunks that lie so close to each other in the file are read as one: less is read in vain than a read costs.
constexpr uint64_t kNear = 8192;
constexpr uint64_t kReadTogether = uint64_t{256} << 10;

/// The elements of a chunk that belong to the box.
struct Piece {
  ChunkGeometry geometry;
  Box part;
  uint64_t chunk = 0;           ///< file offset of the chunk
  uint64_t begin = 0, end = 0;  ///< in the file, from the first of the elements to behind the last
};

/// Number of an element of a chunk, C order.
uint64_t number_in(const ChunkGeometry& geometry, const Box& part, bool last) {
  uint64_t number = 0;
  for (size_t axis = 0; axis < part.origin.size(); ++axis) {
    const uint64_t index = part.origin[axis] - geometry.origin()[axis] + (last ? part.shape[axis] - 1 : 0);
    number = number * geometry.shape()[axis] + index;
  }
  return number;
}

/// Collects pieces that follow closely on each other, and reads them with one read.
class Gatherer {
 public:
  Gatherer(const ArrayRegion& region, const Box& box, const ReadContent& read, std::byte* out)
      : region_(region), box_(box), read_(read), out_(out), element_(element_size(region.dtype)) {}

  Status add(const ChunkPlace& place, const ChunkGeometry& geometry, const Box& part) {
    if (element_count(part.shape) == 0) {
      return {};
    }
    const uint64_t begin = place.offset + number_in(geometry, part, false) * element_;
    const uint64_t end = place.offset + (number_in(geometry, part, true) + 1) * element_;
    if (!pieces_.empty()) {
      const Piece& last = pieces_.back();
      const bool near = begin >= last.end && begin - last.end <= kNear;
      if (!near || end - pieces_.front().begin > kReadTogether) {
        VARVE_TRY(finish());
      }
    }
    pieces_.push_back({geometry, part, place.offset, begin, end});
    return {};
  }

  Status finish() {
    const bool together = pieces_.size() > 1;
    if (together) {
      window_.resize(pieces_.back().end - pieces_.front().begin);
      VARVE_TRY(read_(pieces_.front().begin, window_));
    }
    for (const Piece& piece : pieces_) {
      VARVE_TRY(take(piece, together));
    }
    pieces_.clear();
    return {};
  }

 private:
  Status take(const Piece& piece, bool from_window) {
    const uint64_t elements = element_count(piece.part.shape);
    const bool whole = region_.chunk_shape == region_.shape;  // runs are in the order of the box
    elements_.resize(whole ? 0 : elements * element_);
    std::byte* const start = whole ? out_ : elements_.data();
    std::byte* to = start;
    Status status;
    for_each_run(piece.part, piece.geometry.origin(), piece.geometry.shape(), [&](uint64_t first, uint64_t run) {
      const uint64_t offset = piece.chunk + first * element_;
      if (from_window) {
        std::memcpy(to, window_.data() + (offset - pieces_.front().begin), run * element_);
      } else if (status.ok()) {
        status = read_(offset, {to, run * element_});
      }
      to += run * element_;
    });
    if (region_.big_endian) {
      swap_bytes(start, elements, element_);
    }
    if (!whole) {
      copy_box(piece.part, {&piece.part, start}, {&box_, out_}, element_);
    }
    return status;
  }

  const ArrayRegion& region_;
  const Box& box_;
  const ReadContent& read_;
  std::byte* const out_;
  const size_t element_;
  std::vector<Piece> pieces_;
  Bytes window_, elements_;
};

}  // namespace

Status gather_box(const ArrayRegion& region, const Box& box, const ReadContent& read, std::byte* out) {
  if (region.chunks.size() != 1 || region.chunk_shape != region.shape) {
    const size_t element = element_size(region.dtype);
    const uint64_t fill = region.fill_values.empty() ? 0 : region.fill_values.front();
    for (uint64_t i = 0; i < element_count(box.shape); ++i) {
      std::memcpy(out + i * element, &fill, element);  // little-endian host: the low bytes are the element
    }
  }
  Gatherer gatherer(region, box, read, out);
  Status status;
  for_each_chunk(region, box, [&](const ChunkPlace& place, const ChunkGeometry& geometry, const Box& part) {
    if (status.ok()) {
      status = gatherer.add(place, geometry, part);
    }
  });
  return status.ok() ? gatherer.finish() : status;
}

}  // namespace varve::fs
