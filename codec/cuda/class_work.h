// What encoding and decoding a class have in common. Functions of a block: called by all of its threads.
#pragma once

#include <cstring>

#include "codec/cuda/predict.h"

namespace varve::codec::cuda {

template <typename W>
__device__ inline W real_of(BitsOf<W> bits) {
  W value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename W>
__device__ inline BitsOf<W> bits_of(W value) {
  BitsOf<W> bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The number of a point among a brick's level's elements, which are in C order.
__device__ inline uint32_t element_number(const ClassPoints& points, const Place& place) {
  const Array<uint32_t, 3>& n = points.level.n;
  const uint32_t z = 2 * place.i[0] + (odd_along(points.c, 0) ? 1U : 0U);
  const uint32_t y = 2 * place.i[1] + (odd_along(points.c, 1) ? 1U : 0U);
  const uint32_t x = 2 * place.i[2] + (odd_along(points.c, 2) ? 1U : 0U);
  const uint32_t few = n[2] / 2;  // of rows where every second point is of a coarser level: y and z even
  const uint32_t even_slab = (n[1] + 1) / 2 * few + n[1] / 2 * n[2];
  const uint32_t odd_slab = n[1] * n[2];
  const uint32_t item = (n[0] + 1) / 2 * even_slab + n[0] / 2 * odd_slab;
  const uint32_t slabs = (z + 1) / 2 * even_slab + z / 2 * odd_slab;
  const uint32_t rows = z % 2 == 0 ? (y + 1) / 2 * few + y / 2 * n[2] : y * n[2];
  return place.item * item + slabs + rows + (z % 2 == 0 && y % 2 == 0 ? x / 2 : x);
}

/// Raises `most`, which no thread lowers, to a magnitude; a NaN raises nothing.
__device__ inline void raise(uint32_t& most, uint32_t bits) { atomicMax(&most, bits); }
__device__ inline void raise(uint64_t& most, uint64_t bits) {
  atomicMax(reinterpret_cast<unsigned long long*>(&most), static_cast<unsigned long long>(bits));
}
template <typename W>
__device__ inline void raise_magnitude(BitsOf<W>& most, W value) {
  const W magnitude = static_cast<W>(fabs(value));
  if (magnitude > W(0)) {
    raise(most, bits_of<W>(magnitude));  // in the order of the numbers, as their signs are clear
  }
}

/// Whether an element of a record of elements predicts nothing.
template <typename W>
__device__ inline bool is_special_element(const ArrayTerms<W>& terms, BitsOf<W> element) {
  bool special = !is_finite(real_of<W>(element));
  for (uint32_t k = 0; k < terms.special_count; ++k) {
    special = special || element == terms.specials[k];
  }
  return special;
}

__device__ inline uint32_t groups_of(const ClassPoints& points) { return (points.count + kGroup - 1) / kGroup; }

/// Contexts of all points, and which groups are silent. Ends with a barrier.
template <typename W>
__device__ inline void find_contexts(const Surroundings<W>& around, const ClassPoints& points,
                                     const ArrayTerms<W>& terms, const ClassMemory<W>& work) {
  for (uint32_t group = warp_number(); group < groups_of(points); group += warps_of_block()) {
    const uint32_t p = group * uint32_t{kGroup} + lane_number();
    uint8_t context = 0;
    if (p < points.count) {
      context = context_of(around, points, place_of(points, p), terms);
      work.contexts[p] = context;
    }
    const unsigned loud = __ballot_sync(kAllLanes, context != 0);
    if (lane_number() == 0) {
      work.silent[group] = loud == 0 ? 1 : 0;
    }
  }
  __syncthreads();
}

/// Calls f(first, step, extent) for the lines along which codes are coded as differences: points first, first + step,
/// ..., `extent` of them. Each thread takes some lines.
template <typename W, typename F>
__device__ inline void for_difference_lines(const ClassPoints& points, const ArrayTerms<W>& terms, const BoxJob& box,
                                            const F& f) {
  const bool grid_axis = terms.difference_axis < kBatchAxis;
  uint32_t step = grid_axis ? 1 : box.items_between;
  for (unsigned axis = grid_axis ? terms.difference_axis + 1 : 0; axis < 3; ++axis) {
    step *= points.own.n[axis];
  }
  const uint32_t extent = grid_axis ? points.own.n[terms.difference_axis] : box.difference_extent;
  for (uint32_t line = threadIdx.x; line < points.count / extent; line += blockDim.x) {
    f(line / step * step * extent + line % step, step, extent);
  }
}

/// A block's part of the memory for classes.
template <typename W>
__device__ inline ClassMemory<W> part_of(const ClassMemory<W>& all) {
  const uint64_t points = blockIdx.x * all.points;
  const uint64_t groups = points / kGroup;
  return {all.points,         all.contexts + points, all.tokens + points, all.codes + points,
          all.flags + groups, all.silent + groups,   all.rank + groups,   all.active + groups};
}

template <typename W>
__device__ inline Planes<W> coarse_planes(const CoarseMemory<W>& coarse, const BoxJob& tile) {
  const bool marks = !(coarse.mark == nullptr);
  return {tile.grid, coarse.value + tile.points, coarse.activity + tile.points,
          marks ? coarse.mark + tile.points : coarse.mark};
}

/// What a brick is predicted from: `own`: where the block's memory for its points begins.
template <typename W>
__device__ inline void surround(const CoarseMemory<W>& coarse, const BrickMemory<W>& memory, const BoxJob& tile,
                                const BoxJob& brick, Surroundings<W>& out) {
  const uint64_t own = blockIdx.x * memory.points;
  const bool marks = !(memory.mark == nullptr);
  out.own = {brick.grid, memory.value + own, memory.activity + own, marks ? memory.mark + own : memory.mark};
  out.tile = coarse_planes(coarse, tile);
  out.has_tile = true;
  out.origin = brick.origin;
}

/// Calls f(item, z, y, x, from, to) for each coarse point of a brick: its index there, its place among the tile's
/// coarse points and in the brick's grid. Each thread takes some.
template <typename W, typename F>
__device__ inline void for_coarse_points(const Surroundings<W>& around, unsigned shift, const F& f) {
  ClassPoints points = class_points(around.own.grid, shift, 0);
  points.own = points.level;
  points.count = points.own.batch * points.own.n[0] * points.own.n[1] * points.own.n[2];
  for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
    const Place place = place_of(points, p);
    const uint32_t from = grid_place(around.tile.grid, place.item, around.origin[0] + place.i[0],
                                     around.origin[1] + place.i[1], around.origin[2] + place.i[2]);
    const uint32_t z = place.i[0] << shift;
    const uint32_t y = place.i[1] << shift;
    const uint32_t x = place.i[2] << shift;
    f(place.item, z, y, x, from, grid_place(around.own.grid, place.item, z, y, x));
  }
}

}  // namespace varve::codec::cuda
