// The kernels that encode, by the tables and choices that the CPU planned: one for the coarse points of tiles, one for
// bricks. As those that decode, blocks take one tile or brick after the other.
#pragma once

#include "codec/cuda/encode_record.h"
#include "codec/cuda/measure.h"
#include "codec/cuda/rans.h"

namespace varve::codec::cuda {

template <typename W>
struct EncodeJob {
  ArrayTerms<W> terms;
  Global<const BoxJob> tiles;
  uint32_t tile_count;
  Global<const BoxJob> bricks;
  uint32_t brick_count;
  CoarseMemory<W> coarse;  ///< without elements
  ClassMemory<W> work;
  StreamMemory<W> stream;
  BrickMemory<W> brick;
  Global<const BitsOf<W>> array;
  RecordOutput<W> output;
  Global<BrickMeasures<W>> measures;  ///< of each brick; null: nobody asks
};

/// The anchors of a tile: each is predicted by the one before.
template <typename W>
__device__ void encode_anchors(const ClassEncoder<W>& encoder) {
  EncodeShared<W>& shared = encoder.shared;
  const Planes<W>& own = shared.around.own;
  const uint32_t count = shared.box.grid.batch;
  if (threadIdx.x == 0) {
    W before = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const W prediction = one_sided_prediction(before, before);
      before = encoder.quantize(encoder.element(i, 0, 0, 0), prediction, shared.box.top, i);
      own.value[grid_place(own.grid, i, 0, 0, 0)] = before;
    }
  }
  __syncthreads();
  encoder.finish_tokens(count);
  encoder.lists(count, [&](uint32_t i) { return encoder.element(i, 0, 0, 0); });
  uint32_t nonzero = 0;
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    const uint8_t token = encoder.work.tokens[i];
    const uint32_t at = grid_place(own.grid, i, 0, 0, 0);
    own.activity[at] = activity_of(encoder.terms, token);
    if (encoder.terms.special_count > 0) {
      own.mark[at] = token == kTokenSpecial ? 1 : 0;
    }
    encoder.put(i, token, kAnchorContext);
    nonzero += token != kTokenZero ? 1 : 0;
  }
  if (nonzero > 0) {
    atomicAdd(&shared.cursor.nonzero, nonzero);
  }
  encoder.end_segment(count);
}

/// The same for a record of elements. Gives how many there are.
template <typename W>
__device__ uint32_t encode_anchor_elements(const ClassEncoder<W>& encoder, Global<BitsOf<W>> to) {
  const GridShape& grid = encoder.shared.box.grid;
  if (threadIdx.x == 0) {
    W before = 0;
    for (uint32_t i = 0; i < grid.batch; ++i) {
      const BitsOf<W> bits = encoder.element(i, 0, 0, 0);
      before = encoder.put_element(bits, one_sided_prediction(before, before), grid_place(grid, i, 0, 0, 0));
      to[i] = bits;
    }
  }
  __syncthreads();
  return grid.batch;
}

/// The coarse records of tiles.
template <typename W>
__global__ void __launch_bounds__(kThreads) encode_tiles(EncodeJob<W> job) {
  VARVE_SHARED(EncodeShared<W>, shared);
  const unsigned unit = job.terms.coarse_shift;
  const ClassEncoder<W> encoder{job.terms, part_of(job.work), part_of(job.stream), shared, job.array, unit};
  for (uint32_t number = blockIdx.x; number < job.tile_count; number += gridDim.x) {
    if (threadIdx.x == 0) {
      shared.box = job.tiles[number];
      shared.around.own = coarse_planes(job.coarse, shared.box);
      shared.around.has_tile = false;
      shared.measured = false;
    }
    __syncthreads();
    const GridShape& grid = shared.box.grid;
    const uint32_t record = shared.box.record[0];
    const uint32_t points = grid.batch * grid.n[0] * grid.n[1] * grid.n[2];
    encoder.start_record();
    encode_anchors(encoder);
    for (unsigned level = shared.box.top; level-- > unit;) {
      encoder.level(level);
    }
    finish_record(encoder, job.output, record, points);
    if (shared.outcome == Outcome::too_large) {
      const Global<BitsOf<W>> to = start_elements(encoder, job.output, record, points);
      uint32_t done = encode_anchor_elements(encoder, to);
      for (unsigned level = shared.box.top; level-- > unit;) {
        done = encoder.elements_level(level, false, done, to);
      }
    }
    __syncthreads();
  }
}

template <typename W>
__device__ void encode_level(const EncodeJob<W>& job, const ClassEncoder<W>& encoder, unsigned level, uint32_t record) {
  EncodeShared<W>& shared = encoder.shared;
  encoder.start_record();
  encoder.level(level);
  uint32_t points = 0;
  for (unsigned i = 0; i < 7; ++i) {
    points += class_points(shared.box.grid, level, class_at(i)).count;
  }
  finish_record(encoder, job.output, record, points);
  if (shared.outcome == Outcome::too_large) {
    if (threadIdx.x == 0 && level < 2) {
      for (unsigned c = 0; c < 8; ++c) {
        shared.measures.code[level][c] = shared.measures.off[level][c] = 0;
      }
    }
    encoder.elements_level(level, true, 0, start_elements(encoder, job.output, record, points));
  }
}

/// The records of a brick's levels, until the size of one is not known.
template <typename W>
__device__ void encode_brick(const EncodeJob<W>& job, const ClassEncoder<W>& encoder) {
  EncodeShared<W>& shared = encoder.shared;
  for (unsigned level = job.terms.coarse_shift; level-- > 0;) {
    const uint32_t record = shared.box.record[level];
    if (record != kNoRecord) {  // else a level without points
      encode_level(job, encoder, level, record);
      if (shared.outcome == Outcome::unknown) {
        return;
      }
    }
    if (shared.measured) {
      measure_level(shared, level, job.terms.interpolation);
    }
  }
}

/// The records of bricks whose tiles have coarse ones.
template <typename W>
__global__ void __launch_bounds__(kThreads) encode_bricks(EncodeJob<W> job) {
  VARVE_SHARED(EncodeShared<W>, shared);
  const ClassEncoder<W> encoder{job.terms, part_of(job.work), part_of(job.stream), shared, job.array, 0};
  for (uint32_t number = blockIdx.x; number < job.brick_count; number += gridDim.x) {
    if (threadIdx.x == 0) {
      shared.box = job.bricks[number];
      surround(job.coarse, job.brick, job.tiles[shared.box.tile], shared.box, shared.around);
      shared.measured = !(job.measures == nullptr);
      if (shared.measured) {
        clear_measures(shared.measures);
        shared.view = shared.around;
        shared.view.own.value = job.brick.view + blockIdx.x * job.brick.points;
      }
    }
    __syncthreads();
    if (job.output.encoded[job.tiles[shared.box.tile].record[0]] != 0) {
      const Surroundings<W>& around = shared.around;
      for_coarse_points(around, job.terms.coarse_shift,
                        [&](uint32_t, uint32_t, uint32_t, uint32_t, uint32_t from, uint32_t to) {
                          around.own.value[to] = around.tile.value[from];
                          around.own.activity[to] = around.tile.activity[from];
                          if (job.terms.special_count > 0) {
                            around.own.mark[to] = around.tile.mark[from];
                          }
                        });
      __syncthreads();
      encode_brick(job, encoder);
    }
    if (threadIdx.x == 0 && shared.measured) {
      job.measures[number] = shared.measures;
    }
    __syncthreads();
  }
}

}  // namespace varve::codec::cuda
