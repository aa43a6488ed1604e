// The kernels that decode: one for the coarse points of tiles, one for bricks. A block works on one tile or brick after
// the other, so that memory for work is needed for as many as there are blocks.
#pragma once

#include "codec/cuda/decode_class.h"

namespace varve::codec::cuda {

template <typename W>
struct DecodeJob {
  ArrayTerms<W> terms;
  RecordMemory<W> memory;
  Global<const BoxJob> tiles;
  uint32_t tile_count;
  Global<const BoxJob> bricks;
  uint32_t brick_count;
  CoarseMemory<W> coarse;
  ClassMemory<W> work;
  BrickMemory<W> brick;
  Global<BitsOf<W>> out;
  Global<uint32_t> damaged;  ///< by record: whether its lists and its tokens do not fit each other
};

/// The anchors of a tile: each is predicted by the one before. Gives how many there are.
template <typename W>
__device__ uint32_t decode_anchors(const ClassDecoder<W>& decoder, unsigned top) {
  DecodeShared<W>& shared = decoder.shared;
  ClassPoints anchors{};
  anchors.count = shared.box.grid.batch;
  const Method method = shared.cursor.input.method;
  if (method == Method::tokens) {
    if (warp_number() == 0) {
      decode_segment(
          decoder.terms, decoder.memory, shared.cursor, kAnchorContext, anchors.count, [](uint32_t) { return 0U; },
          [&](uint32_t i, uint8_t token) { decoder.work.tokens[i] = token; });
    }
    __syncthreads();
    decoder.codes(anchors);
  } else if (method == Method::zero) {
    decoder.zeros(anchors, false);
  }
  if (threadIdx.x == 0) {
    W before = 0;
    const W quantum = decoder.terms.quantum[top < kQuanta ? top : kQuanta - 1];
    for (uint32_t i = 0; i < anchors.count; ++i) {
      const uint32_t at = grid_place(shared.box.grid, i, 0, 0, 0);
      const uint64_t to = decoder.place_out(i, 0, 0, 0);
      const W prediction = one_sided_prediction(before, before);
      if (has_elements(method)) {
        decoder.put_element(decoder.memory.elements[shared.cursor.input.elements + i], prediction, at, to);
      } else {
        decoder.put(decoder.work.tokens[i], prediction, quantum, decoder.work.codes[i], false, at, to);
      }
      before = shared.around.own.value[at];
    }
  }
  __syncthreads();
  return anchors.count;
}

/// The coarse points of tiles.
template <typename W>
__global__ void __launch_bounds__(kThreads) decode_tiles(DecodeJob<W> job) {
  VARVE_SHARED(DecodeShared<W>, shared);
  const ClassDecoder<W> decoder{job.terms,          job.memory, part_of(job.work),     shared,
                                job.coarse.element, false,      job.terms.coarse_shift};
  for (uint32_t number = blockIdx.x; number < job.tile_count; number += gridDim.x) {
    if (threadIdx.x == 0) {
      shared.box = job.tiles[number];
      shared.around.own = coarse_planes(job.coarse, shared.box);
      shared.around.has_tile = false;
      open_record(job.memory, shared.box.record[0], shared.cursor);
    }
    __syncthreads();
    const unsigned top = shared.box.top;
    uint32_t done = decode_anchors(decoder, top);
    for (unsigned level = top; level-- > job.terms.coarse_shift;) {
      decoder.level(level, false, done);
      for (unsigned i = 0; i < 7; ++i) {
        done += class_points(shared.box.grid, level - job.terms.coarse_shift, class_at(i)).count;
      }
    }
    if (threadIdx.x == 0) {
      job.damaged[shared.box.record[0]] = is_used_up(job.memory, shared.cursor) ? 0 : 1;
    }
    __syncthreads();
  }
}

/// Copies a brick's coarse points from its tile's.
template <typename W>
__device__ void take_coarse_points(const DecodeJob<W>& job, const ClassDecoder<W>& decoder) {
  const Surroundings<W>& around = decoder.shared.around;
  const uint64_t tile_points = job.tiles[decoder.shared.box.tile].points;
  for_coarse_points(around, job.terms.coarse_shift,
                    [&](uint32_t item, uint32_t z, uint32_t y, uint32_t x, uint32_t from, uint32_t to) {
                      const bool special = job.terms.special_count > 0 && around.tile.mark[from] != 0;
                      decoder.put_point(around.tile.value[from], job.coarse.element[tile_points + from],
                                        around.tile.activity[from], special, to, decoder.place_out(item, z, y, x));
                    });
  __syncthreads();
}

/// Bricks, into the array.
template <typename W>
__global__ void __launch_bounds__(kThreads) decode_bricks(DecodeJob<W> job) {
  VARVE_SHARED(DecodeShared<W>, shared);
  const ClassDecoder<W> decoder{job.terms, job.memory, part_of(job.work), shared, job.out, true, 0};
  for (uint32_t number = blockIdx.x; number < job.brick_count; number += gridDim.x) {
    if (threadIdx.x == 0) {
      shared.box = job.bricks[number];
      surround(job.coarse, job.brick, job.tiles[shared.box.tile], shared.box, shared.around);
    }
    __syncthreads();
    take_coarse_points(job, decoder);
    for (unsigned level = job.terms.coarse_shift; level-- > 0;) {
      const uint32_t record = shared.box.record[level];
      const bool preview = level < job.terms.finest;
      if (record == kNoRecord && !preview) {
        continue;  // a level without points
      }
      if (threadIdx.x == 0 && !preview) {
        open_record(job.memory, record, shared.cursor);
      }
      __syncthreads();
      decoder.level(level, preview, 0);
      if (threadIdx.x == 0 && !preview) {
        job.damaged[record] = is_used_up(job.memory, shared.cursor) ? 0 : 1;
      }
      __syncthreads();
    }
  }
}

}  // namespace varve::codec::cuda
