#include "fs/chunk_grid.h"

#include <algorithm>

#include "fs/box_copy.h"

namespace varve::fs {

using codec::Box;
using codec::element_count;
using codec::element_size;
using codec::Extents;

ChunkGeometry::ChunkGeometry(const ArrayRegion& region, uint64_t chunk) : shape_(region.chunk_shape) {
  const size_t rank = region.shape.size();
  origin_.resize(rank);
  valid_.resize(rank);
  for (size_t i = rank; i-- > 0;) {
    const uint64_t step = std::max<uint64_t>(shape_[i], 1);
    const uint64_t along = std::max<uint64_t>((region.shape[i] + step - 1) / step, 1);
    origin_[i] = chunk % along * step;
    chunk /= along;
    valid_[i] = std::min(shape_[i], region.shape[i] - std::min(origin_[i], region.shape[i]));
  }
  bytes_ = element_count(shape_) * element_size(region.dtype);
  padding_ = bytes_ - element_count(valid_) * element_size(region.dtype);
}

uint64_t ChunkGeometry::padding_before(uint64_t index) const {
  if (padding_ == 0) {
    return 0;
  }
  // Count the valid elements before `index`: at each axis, whole valid hyperplanes before the index's digit.
  uint64_t valid_before = 0;
  uint64_t valid_below = element_count(valid_);
  uint64_t below = element_count(shape_);
  uint64_t rest = index;
  for (size_t i = 0; i < shape_.size(); ++i) {
    below /= shape_[i];
    valid_below = valid_[i] == 0 ? 0 : valid_below / valid_[i];
    const uint64_t digit = rest / below;
    rest %= below;
    valid_before += std::min(digit, valid_[i]) * valid_below;
    if (digit >= valid_[i]) {
      break;
    }
  }
  return index - valid_before;
}

std::vector<Box> boxes_of_run(const Extents& shape, uint64_t begin, uint64_t end) {
  std::vector<Box> boxes;
  const size_t rank = shape.size();
  if (rank == 0) {
    if (begin < end) {
      boxes.push_back({});
    }
    return boxes;
  }
  std::vector<uint64_t> strides(rank, 1);
  for (size_t i = rank - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * shape[i + 1];
  }
  while (begin < end) {
    // The slowest axis along which a box of whole hyperplanes can start at `begin` and stay before `end`.
    size_t axis = rank - 1;
    while (axis > 0 && begin % strides[axis - 1] == 0 && end - begin >= strides[axis - 1]) {
      --axis;
    }
    const uint64_t digit = begin / strides[axis] % shape[axis];
    const uint64_t count = std::min((end - begin) / strides[axis], shape[axis] - digit);
    Box box{Extents(rank, 0), Extents(rank, 1)};
    for (size_t i = 0; i < rank; ++i) {
      if (i <= axis) {
        box.origin[i] = begin / strides[i] % shape[i];
      }
      if (i > axis) {
        box.shape[i] = shape[i];
      }
    }
    box.shape[axis] = count;
    boxes.push_back(std::move(box));
    begin += count * strides[axis];
  }
  return boxes;
}

const ChunkPlace* find_chunk(const ArrayRegion& region, uint64_t chunk) {
  const auto place = std::lower_bound(region.chunks.begin(), region.chunks.end(), chunk,
                                      [](const ChunkPlace& p, uint64_t value) { return p.chunk < value; });
  return place != region.chunks.end() && place->chunk == chunk ? &*place : nullptr;
}

Status for_each_cell(const ArrayRegion& region, const Box& box, const std::function<Status(uint64_t chunk)>& visit) {
  const size_t rank = region.shape.size();
  if (element_count(box.shape) == 0) {
    return {};
  }
  // The sub-grid of chunks that the box touches: first index and count along each axis.
  Extents first(rank);
  Extents count(rank);
  Extents grid(rank);
  for (size_t i = 0; i < rank; ++i) {
    const uint64_t step = region.chunk_shape[i];
    grid[i] = (region.shape[i] + step - 1) / step;
    first[i] = box.origin[i] / step;
    count[i] = (box.origin[i] + box.shape[i] - 1) / step - first[i] + 1;
  }
  Extents index(rank, 0);
  do {
    uint64_t chunk = 0;
    for (size_t i = 0; i < rank; ++i) {
      chunk = chunk * grid[i] + first[i] + index[i];
    }
    VARVE_TRY(visit(chunk));
  } while (codec::next_index(index, count));
  return {};
}

void for_each_chunk(const ArrayRegion& region, const Box& box, const VisitChunk& visit) {
  static_cast<void>(for_each_cell(region, box, [&](uint64_t chunk) -> Status {
    if (const ChunkPlace* place = find_chunk(region, chunk); place != nullptr) {
      const ChunkGeometry geometry(region, chunk);
      visit(*place, geometry, intersection(box, {geometry.origin(), geometry.valid()}));
    }
    return {};
  }));
}

void for_each_file_range(const ArrayRegion& region, const Box& box,
                         const std::function<void(uint64_t offset, uint64_t length)>& visit) {
  const size_t element = element_size(region.dtype);
  for_each_chunk(region, box, [&](const ChunkPlace& place, const ChunkGeometry& geometry, const Box& part) {
    for_each_run(part, geometry.origin(), geometry.shape(), [&](uint64_t offset, uint64_t elements) {
      visit(place.offset + offset * element, elements * element);
    });
  });
}

}  // namespace varve::fs
