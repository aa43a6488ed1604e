#include "codec/geometry.h"

#include <cstring>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace varve::codec {

namespace {

constexpr uint64_t kMaxEdge = uint64_t{1} << 24;

uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

uint64_t cells(const Extents& shape, const Extents& edge) {
  uint64_t count = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    count *= divide_up(shape[axis], edge[axis]);
  }
  return count;
}

Box cell_box(const Extents& shape, const Extents& edge, uint64_t number) {
  Box box{Extents(shape.size()), Extents(shape.size())};
  for (size_t axis = shape.size(); axis-- > 0;) {
    const uint64_t grid = divide_up(shape[axis], edge[axis]);
    box.origin[axis] = number % grid * edge[axis];
    box.shape[axis] = std::min(edge[axis], shape[axis] - box.origin[axis]);
    number /= grid;
  }
  return box;
}

/// Numbers, ascending, of the cells with first[i] <= index[i] <= last[i].
std::vector<uint64_t> cells_between(const Extents& shape, const Extents& edge, const Extents& first,
                                    const Extents& last) {
  std::vector<uint64_t> numbers{0};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const uint64_t grid = divide_up(shape[axis], edge[axis]);
    std::vector<uint64_t> next;
    next.reserve(numbers.size() * (last[axis] - first[axis] + 1));
    for (const uint64_t number : numbers) {
      for (uint64_t index = first[axis]; index <= last[axis]; ++index) {
        next.push_back(number * grid + index);
      }
    }
    numbers = std::move(next);
  }
  return numbers;
}

/// Short axes get a short edge; what that saves goes to the longer ones.
std::vector<uint64_t> predicted_edges(const std::vector<uint64_t>& extents) {
  constexpr std::array<uint64_t, 3> kEdge = {65536, 256, 64};
  const size_t count = extents.size();
  std::vector<uint64_t> edges(count, kEdge.at(count - 1));
  uint64_t budget = 1;
  for (const uint64_t edge : edges) {
    budget *= edge;
  }
  uint64_t product = 1;
  for (size_t k = 0; k < count; ++k) {
    edges[k] = std::max<uint64_t>(8, std::min(edges[k], std::bit_ceil(extents[k])));
    product *= edges[k];
  }
  while (product * 2 <= budget) {
    size_t best = count;
    for (size_t k = 0; k < count; ++k) {
      if (edges[k] < extents[k] && (best == count || edges[k] < edges[best])) {
        best = k;
      }
    }
    if (best == count) {
      break;
    }
    edges[best] *= 2;
    product *= 2;
  }
  return edges;
}

}  // namespace

Geometry Geometry::make(const Extents& shape, const std::vector<uint8_t>& predicted) {
  Geometry made;
  made.shape = shape;
  made.predicted = predicted;
  made.coarse_shift = element_count(shape) <= kTinyArray ? 0 : 3;
  made.brick.assign(shape.size(), 1);
  made.tile.assign(shape.size(), 1);
  if (predicted.empty()) {
    return made;
  }
  std::vector<uint64_t> extents;
  extents.reserve(predicted.size());
  for (const uint8_t axis : predicted) {
    extents.push_back(std::max<uint64_t>(1, shape[axis]));
  }
  const std::vector<uint64_t> edges = predicted_edges(extents);
  uint64_t item = 1;
  for (size_t k = 0; k < predicted.size(); ++k) {
    const uint8_t axis = predicted[k];
    made.brick[axis] = edges[k];
    made.tile[axis] = edges[k] * (k == 0 && predicted.size() > 1 ? 1 : 8);
    item *= axis == 0 ? edges[k] : std::min(edges[k], extents[k]);
  }
  uint64_t room = std::max<uint64_t>(1, kMaxBrickElements / item);
  for (size_t axis = shape.size(); axis-- > 0 && room > 1;) {
    if (made.grid_axis(axis) || shape[axis] == 0) {
      continue;
    }
    made.brick[axis] = made.tile[axis] = axis == 0 ? room : std::min(room, shape[axis]);
    room /= made.brick[axis];
    if (made.brick[axis] < shape[axis]) {
      break;
    }
  }
  return made;
}

Status Geometry::check() const {
  const auto bad = [](std::string_view what) {
    return Error{EBADMSG, fmt::format("header of an array: {}; restore it from a copy", what)};
  };
  const size_t rank = shape.size();
  if (rank > kMaxRank || brick.size() != rank || tile.size() != rank) {
    return bad("its rank is wrong");
  }
  if (predicted.size() > 3 || (predicted.empty() != (rank == 0)) || (coarse_shift != 0 && coarse_shift != 3)) {
    return bad("its axes are wrong");
  }
  for (size_t k = 0; k < predicted.size(); ++k) {
    if (predicted[k] >= rank || (k > 0 && predicted[k] <= predicted[k - 1])) {
      return bad("its predicted axes are not ascending axis numbers");
    }
  }
  uint64_t count = 1;
  uint64_t in_brick = 1;
  uint64_t in_tile = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    const bool along = grid_axis(axis).has_value();
    if (brick[axis] == 0 || brick[axis] > kMaxEdge || tile[axis] == 0 || tile[axis] > kMaxEdge ||
        tile[axis] % brick[axis] != 0 || (along ? brick[axis] % 8 != 0 : tile[axis] != brick[axis])) {
      return bad("an edge of its bricks or tiles breaks the rules");
    }
    if (shape[axis] != 0 && count > kMaxElements / shape[axis]) {
      return bad("its shape is impossibly large");
    }
    count *= std::max<uint64_t>(1, shape[axis]);
    in_brick *= std::min(brick[axis], std::max<uint64_t>(1, shape[axis]));
    in_tile *= std::min(tile[axis], std::max<uint64_t>(1, shape[axis]));
    if (in_brick > kMaxBrickElements || in_tile > kMaxTileElements) {
      return bad("its bricks or tiles are too large");
    }
  }
  if (coarse_shift == 0 && count > kTinyArray) {
    return bad("it claims to be tiny and is not");
  }
  return {};
}

uint64_t Geometry::tile_count() const { return cells(shape, tile); }
uint64_t Geometry::brick_count() const { return cells(shape, brick); }
Box Geometry::tile_box(uint64_t tile_number) const { return cell_box(shape, tile, tile_number); }
Box Geometry::brick_box(uint64_t brick_number) const { return cell_box(shape, brick, brick_number); }

uint64_t Geometry::tile_of(uint64_t brick_number) const {
  const Box box = brick_box(brick_number);
  uint64_t number = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    number = number * divide_up(shape[axis], tile[axis]) + box.origin[axis] / tile[axis];
  }
  return number;
}

std::vector<uint64_t> Geometry::bricks_of(uint64_t tile_number) const { return bricks_in(tile_box(tile_number)); }

std::vector<uint64_t> Geometry::bricks_in(const Box& box) const {
  const size_t rank = shape.size();
  Extents first(rank);
  Extents last(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (box.shape[axis] == 0 || box.origin[axis] >= shape[axis]) {
      return {};
    }
    const uint64_t end = box.origin[axis] + std::min(box.shape[axis], shape[axis] - box.origin[axis]);
    first[axis] = box.origin[axis] / brick[axis];
    last[axis] = (end - 1) / brick[axis];
  }
  return cells_between(shape, brick, first, last);
}

std::optional<size_t> Geometry::grid_axis(size_t axis) const {
  const auto found = std::find(predicted.begin(), predicted.end(), axis);
  return found == predicted.end() ? std::nullopt : std::optional(3 - static_cast<size_t>(predicted.end() - found));
}

Dims Geometry::dims_of(const Box& box) const {
  Dims dims{1, {1, 1, 1}};
  for (size_t axis = 0; axis < box.shape.size(); ++axis) {
    if (const auto place = grid_axis(axis)) {
      dims.n.at(*place) = box.shape[axis];
    } else {
      dims.batch *= box.shape[axis];
    }
  }
  return dims;
}

Layout Geometry::layout(const Box& box, const Box& container) const {
  const size_t rank = shape.size();
  Layout out;
  out.dims = dims_of(box);
  out.batch_offset.assign(1, 0);
  std::vector<size_t> stride(rank);
  size_t step = 1;
  size_t base = 0;
  for (size_t axis = rank; axis-- > 0;) {
    stride[axis] = step;
    base += (box.origin[axis] - container.origin[axis]) * step;
    step *= container.shape[axis];
  }
  out.batch_offset[0] = base;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (const auto place = grid_axis(axis)) {
      out.stride.at(*place) = stride[axis];
      continue;
    }
    std::vector<size_t> next;
    next.reserve(out.batch_offset.size() * box.shape[axis]);
    for (const size_t offset : out.batch_offset) {
      for (uint64_t index = 0; index < box.shape[axis]; ++index) {
        next.push_back(offset + index * stride[axis]);
      }
    }
    out.batch_offset = std::move(next);
  }
  return out;
}

void copy_box(const Extents& shape, const std::byte* array, const Box& box, size_t size, std::byte* out) {
  for_each_run(box, Extents(shape.size(), 0), shape, [&](uint64_t first, uint64_t count) {
    std::memcpy(out, array + first * size, count * size);
    out += count * size;
  });
}

const std::byte* tile_elements(const Geometry& geometry, uint64_t tile, const std::byte* array, size_t size,
                               Bytes& memory) {
  const Box box = geometry.tile_box(tile);
  if (box.shape.empty()) {
    return array;
  }
  if (std::equal(box.shape.begin() + 1, box.shape.end(), geometry.shape.begin() + 1)) {
    const uint64_t slice = element_count(box.shape) / box.shape[0];
    return array + box.origin[0] * slice * size;
  }
  memory.resize(element_count(box.shape) * size);
  copy_box(geometry.shape, array, box, size, memory.data());
  return memory.data();
}

}  // namespace varve::codec
