// Where the points of a class lie, and which points predict them.
#pragma once

#include "codec/cuda/jobs.h"

namespace varve::codec::cuda {

/// The i-th class in coding order: see kClassOrder.
__device__ inline unsigned class_at(unsigned i) { return 0x7653421U >> 4 * i & 7U; }
__device__ inline bool odd_along(unsigned c, unsigned axis) { return (c >> (2 - axis) & 1U) != 0; }
__device__ inline unsigned odd_count(unsigned c) { return (c & 1U) + (c >> 1 & 1U) + (c >> 2 & 1U); }

/// One class of one level of a grid. Levels are counted from the grid's finest: their points are 2^step apart.
struct ClassPoints {
  unsigned c;
  unsigned step;
  GridShape level;  ///< of the level's grid
  GridShape own;    ///< of the class
  uint32_t count;
};

__device__ inline ClassPoints class_points(const GridShape& grid, unsigned step, unsigned c) {
  ClassPoints out;
  out.c = c;
  out.step = step;
  out.level.batch = out.own.batch = out.count = grid.batch;
  for (unsigned axis = 0; axis < 3; ++axis) {
    const uint32_t n = ((grid.n[axis] - 1) >> step) + 1;
    out.level.n[axis] = n;
    out.own.n[axis] = odd_along(c, axis) ? n / 2 : (n + 1) / 2;
    out.count *= out.own.n[axis];
  }
  return out;
}

/// A point of a class: its item, and its index among the class's along each axis.
struct Place {
  uint32_t item;
  Array<uint32_t, 3> i;
};

/// The point `number` of a class in its order.
__device__ inline Place place_of(const ClassPoints& points, uint32_t number) {
  Place out;
  for (unsigned axis = 3; axis-- > 0;) {
    out.i[axis] = number % points.own.n[axis];
    number /= points.own.n[axis];
  }
  out.item = number;
  return out;
}

/// Its index in the grid along an axis.
__device__ inline uint32_t grid_index(const ClassPoints& points, const Place& place, unsigned axis) {
  return (2 * place.i[axis] + (odd_along(points.c, axis) ? 1U : 0U)) << points.step;
}

__device__ inline uint32_t grid_place(const GridShape& grid, uint32_t item, uint32_t z, uint32_t y, uint32_t x) {
  return ((item * grid.n[0] + z) * grid.n[1] + y) * grid.n[2] + x;
}
__device__ inline uint32_t grid_place(const GridShape& grid, const ClassPoints& points, const Place& place) {
  return grid_place(grid, place.item, grid_index(points, place, 0), grid_index(points, place, 1),
                    grid_index(points, place, 2));
}

/// The points along one odd axis that predict a point: number 0 is the nearest before it, 1 the nearest after it.
template <typename W>
struct Line {
  const Planes<W>* planes;
  int64_t at;     ///< of number 0
  int64_t step;   ///< from one to the next
  int32_t first;  ///< numbers of those that exist: first <= number < last
  int32_t last;
  __device__ bool has(int32_t number) const { return first <= number && number < last; }
  __device__ bool two_sided() const { return last > 1; }
  __device__ W value(int32_t number) const { return planes->value[at + number * step]; }
  __device__ unsigned activity(int32_t number) const { return planes->activity[at + number * step]; }
  __device__ unsigned mark(int32_t number) const { return planes->mark[at + number * step]; }
};

/// What points are predicted from: a grid's own points, and for a brick its tile's coarse ones.
template <typename W>
struct Surroundings {
  Planes<W> own;
  Planes<W> tile;
  bool has_tile;
  Array<uint32_t, 3> origin;  ///< the brick's first coarse point within the tile's

  /// `from_tile`: the sources of the class are coarse points, which reach beyond the brick.
  __device__ Line<W> line(const ClassPoints& points, const Place& place, unsigned axis, bool from_tile) const {
    Line<W> out;
    Array<uint32_t, 3> index;
    const auto own_index = static_cast<int32_t>(place.i[axis]);
    if (from_tile) {
      for (unsigned k = 0; k < 3; ++k) {
        index[k] = origin[k] + place.i[k];
      }
      out.planes = &tile;
      out.first = -own_index - static_cast<int32_t>(origin[axis]);
      out.last = static_cast<int32_t>(tile.grid.n[axis]) - static_cast<int32_t>(index[axis]);
      out.step = 1;
    } else {
      for (unsigned k = 0; k < 3; ++k) {
        index[k] = k == axis ? place.i[k] << (points.step + 1) : grid_index(points, place, k);
      }
      out.planes = &own;
      out.first = -own_index;
      out.last = static_cast<int32_t>((points.level.n[axis] + 1) / 2) - own_index;
      out.step = int64_t{2} << points.step;
    }
    for (unsigned k = axis + 1; k < 3; ++k) {
      out.step *= out.planes->grid.n[k];
    }
    out.at = grid_place(out.planes->grid, place.item, index[0], index[1], index[2]);
    return out;
  }
  /// Whether the sources of a class are the coarse points of the tile.
  __device__ bool from_tile(const ClassPoints& points) const {
    return has_tile && points.step == 2 && odd_count(points.c) == 1;
  }
};

}  // namespace varve::codec::cuda
