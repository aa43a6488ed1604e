// What views of a brick's coarse levels differ by from what its encoder made of it: the numbers that ViewErrors
// (view_error.h) needs. Functions of a block: called by all of its threads; they end with a barrier.
#pragma once

#include "codec/cuda/encode_class.h"

namespace varve::codec::cuda {

/// Raises `most` to the greatest magnitude of the points of levels >= `step` of a grid.
template <typename W>
__device__ void raise_known(const Planes<W>& own, unsigned step, BitsOf<W>& most) {
  ClassPoints points = class_points(own.grid, step, 0);
  points.own = points.level;
  const uint32_t count = points.own.batch * points.own.n[0] * points.own.n[1] * points.own.n[2];
  W found = 0;
  for (uint32_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Place place = place_of(points, p);
    const W value = static_cast<W>(
        fabs(own.value[grid_place(own.grid, place.item, place.i[0] << step, place.i[1] << step, place.i[2] << step)]));
    found = value > found ? value : found;
  }
  raise_magnitude<W>(most, found);
  __syncthreads();
}

/// Copies the values of the points of levels >= `step`.
template <typename W>
__device__ void copy_known(const Planes<W>& from, unsigned step, const Planes<W>& to) {
  ClassPoints points = class_points(from.grid, step, 0);
  points.own = points.level;
  const uint32_t count = points.own.batch * points.own.n[0] * points.own.n[1] * points.own.n[2];
  for (uint32_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Place place = place_of(points, p);
    const uint32_t at = grid_place(from.grid, place.item, place.i[0] << step, place.i[1] << step, place.i[2] << step);
    to.value[at] = from.value[at];
  }
  __syncthreads();
}

/// Interpolates a level of a view from the points above it, and raises `most` to what its points differ by from `seen`.
template <typename W>
__device__ void raise_difference(const Surroundings<W>& view, const Planes<W>& seen, unsigned level,
                                 Interpolation interpolation, BitsOf<W>& most) {
  W found = 0;
  for (unsigned i = 0; i < 7; ++i) {
    const ClassPoints points = class_points(view.own.grid, level, class_at(i));
    for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
      const Place place = place_of(points, p);
      const uint32_t at = grid_place(view.own.grid, points, place);
      const W value = predict(view, points, place, interpolation) + W(0);
      view.own.value[at] = value;
      const W off = static_cast<W>(fabs(value - seen.value[at]));
      found = off > found ? off : found;
    }
    __syncthreads();
  }
  raise_magnitude<W>(most, found);
  __syncthreads();
}

/// After a level of a brick is encoded: views 2 and 3 of it, and how large the points above it are.
template <typename W>
__device__ void measure_level(EncodeShared<W>& shared, unsigned level, Interpolation interpolation) {
  const Planes<W>& own = shared.around.own;
  BrickMeasures<W>& measures = shared.measures;
  if (level == 2) {
    copy_known(own, 3, shared.view.own);
    raise_difference(shared.view, own, 2, interpolation, measures.coarsest_3);
  } else if (level == 1) {
    raise_known(own, 2, measures.known[1]);
    raise_difference(shared.view, own, 1, interpolation, measures.coarser_3);
    copy_known(own, 2, shared.view.own);
    raise_difference(shared.view, own, 1, interpolation, measures.coarser_2);
  } else {
    raise_known(own, 1, measures.known[0]);
  }
}

/// Forgets what was measured. One thread.
template <typename W>
__device__ void clear_measures(BrickMeasures<W>& measures) {
  measures.coarsest_3 = measures.coarser_3 = measures.coarser_2 = 0;
  for (unsigned level = 0; level < 2; ++level) {
    measures.known[level] = 0;
    for (unsigned c = 0; c < 8; ++c) {
      measures.code[level][c] = measures.off[level][c] = 0;
    }
  }
}

}  // namespace varve::codec::cuda
