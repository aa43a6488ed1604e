// Decoding one class of one level by a block: tokens, then codes, then values and elements.
#pragma once

#include <cstring>

#include "codec/cuda/class_work.h"
#include "codec/cuda/rans.h"
#include "codec/cuda/scan.h"

namespace varve::codec::cuda {

/// Shared memory of the kernels that decode.
template <typename W>
struct DecodeShared {
  RecordCursor cursor;
  ScanMemory scan;
  Surroundings<W> around;
  BoxJob box;
};

/// What a block works with. Every method is called by all of its threads, and ends with a barrier.
template <typename W>
struct ClassDecoder {
  using Bits = BitsOf<W>;
  const ArrayTerms<W>& terms;
  const RecordMemory<W>& memory;
  ClassMemory<W> work;  ///< the block's own
  DecodeShared<W>& shared;
  Global<Bits> out;     ///< where elements go: an array, or a tile's coarse points
  bool in_array;        ///< the former
  unsigned level_unit;  ///< level of the grid's finest points

  /// Where the element of a point of the grid goes.
  __device__ uint64_t place_out(uint32_t item, uint32_t z, uint32_t y, uint32_t x) const {
    const BoxJob& box = shared.box;
    if (!in_array) {
      return box.points + grid_place(box.grid, item, z, y, x);
    }
    return box.base + terms.item_offset[box.item_offset + item] + z * terms.stride[0] + y * terms.stride[1] +
           x * terms.stride[2];
  }

  /// All levels' classes in order, from the points above them; `done`: of a tile's record of elements, how many are
  /// read.
  __device__ void level(unsigned level, bool preview, uint32_t done) const {
    const Method method = preview ? Method::zero : shared.cursor.input.method;
    for (unsigned i = 0; i < 7; ++i) {
      const ClassPoints points = class_points(shared.around.own.grid, level - level_unit, class_at(i));
      if (points.count == 0) {
        continue;
      }
      if (has_elements(method)) {
        elements(points,
                 [&](uint32_t p, const Place& place) { return in_array ? element_number(points, place) : done + p; });
        done += points.count;
        continue;
      }
      if (method == Method::tokens) {
        tokens(points, level);
        codes(points);
        if (terms.difference_axis != kNoAxis) {
          undo_differences(points);
        }
      } else {
        zeros(points, preview && terms.special_count > 0);
      }
      values(points, level, preview);
    }
  }

  /// Tokens of points whose codes are all 0. `holes`: those amid special points are special.
  __device__ void zeros(const ClassPoints& points, bool holes) const {
    if (holes) {
      find_contexts(shared.around, points, terms, work);
    }
    for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
      work.tokens[p] = holes && work.contexts[p] == kHoleContext + 2 ? kTokenSpecial : kTokenZero;
      work.codes[p] = 0;
    }
    __syncthreads();
  }

  /// The tokens of a class into work.tokens.
  __device__ void tokens(const ClassPoints& points, unsigned level) const {
    find_contexts(shared.around, points, terms, work);
    const unsigned base = context_base(level, odd_count(points.c));
    flags(points, base);
    const uint32_t some = active_groups(points);
    if (warp_number() == 0) {
      const auto position = [&](uint32_t i) { return work.active[i / kGroup] * uint32_t{kGroup} + i % kGroup; };
      decode_segment(
          terms, memory, shared.cursor, base, some, [&](uint32_t i) { return work.contexts[position(i)]; },
          [&](uint32_t i, uint8_t token) { work.tokens[position(i)] = token; });
    }
    __syncthreads();
  }

  /// The flags of silent groups.
  __device__ void flags(const ClassPoints& points, unsigned base) const {
    const uint32_t groups = groups_of(points);
    uint32_t silent = 0;
    for (uint32_t at = 0; at < groups; at += blockDim.x) {
      const uint32_t group = at + threadIdx.x;
      const bool is = group < groups && work.silent[group] != 0;
      uint64_t all = 0;
      const uint64_t rank = scan_block(is ? 1 : 0, shared.scan, all);
      if (is) {
        work.rank[group] = silent + static_cast<uint32_t>(rank);
      }
      silent += static_cast<uint32_t>(all);
    }
    if (warp_number() == 0) {
      decode_segment(
          terms, memory, shared.cursor, base, silent, [](uint32_t) { return kFlagContext; },
          [&](uint32_t i, uint8_t token) { work.flags[i] = token; });
    }
    __syncthreads();
  }

  /// Lists the groups whose tokens are coded, sets the others' tokens; gives how many tokens are coded.
  __device__ uint32_t active_groups(const ClassPoints& points) const {
    const uint32_t groups = groups_of(points);
    uint32_t active = 0;
    for (uint32_t at = 0; at < groups; at += blockDim.x) {
      const uint32_t group = at + threadIdx.x;
      const bool quiet = group < groups && work.silent[group] != 0 && work.flags[work.rank[group]] == kFlagQuiet;
      const bool is = group < groups && !quiet;
      uint64_t all = 0;
      const uint64_t rank = scan_block(is ? 1 : 0, shared.scan, all);
      if (is) {
        work.active[active + static_cast<uint32_t>(rank)] = group;
      }
      for (unsigned k = 0; k < kGroup && quiet; ++k) {
        work.tokens[group * uint32_t{kGroup} + k] = kTokenZero;
      }
      active += static_cast<uint32_t>(all);
    }
    __syncthreads();
    const uint32_t missing = groups * uint32_t{kGroup} - points.count;  // of the last group
    const bool ends_short = active > 0 && work.active[active - 1] == groups - 1;
    return active * uint32_t{kGroup} - (ends_short ? missing : 0);
  }

  /// Into work.codes: codes, and for exact and special points their number in the record's list.
  __device__ void codes(const ClassPoints& points) const {
    RecordCursor& cursor = shared.cursor;
    for (uint32_t at = 0; at < points.count; at += blockDim.x) {
      const uint32_t p = at + threadIdx.x;
      const unsigned token = p < points.count ? work.tokens[p] : kTokenZero;
      const unsigned bits = token >= kFirstWideToken ? extra_bits_of(token) : 0;
      // One scan of three sums, which of the points of a block fit 16 bits each.
      const uint64_t own = bits | static_cast<uint64_t>(token == kTokenExact) << 16 |
                           static_cast<uint64_t>(token == kTokenSpecial) << 32;
      uint64_t all = 0;
      const uint64_t before = scan_block(own, shared.scan, all);
      if (p < points.count) {
        work.codes[p] = code(token, bits, cursor.raw_next + (before & 0xffffU), before >> 16 & 0xffffU, before >> 32);
      }
      __syncthreads();
      if (threadIdx.x == 0) {
        cursor.raw_next += all & 0xffffU;
        cursor.element_next += static_cast<uint32_t>(all >> 16 & 0xffffU);
        cursor.special_next += static_cast<uint32_t>(all >> 32);
      }
      __syncthreads();
    }
  }

  __device__ Bits code(unsigned token, unsigned bits, uint64_t raw_at, uint64_t exact_before,
                       uint64_t special_before) const {
    const RecordCursor& cursor = shared.cursor;
    if (token == kTokenExact) {
      return static_cast<Bits>(cursor.element_next + exact_before);
    }
    if (token == kTokenSpecial) {
      return static_cast<Bits>(cursor.special_next + special_before);
    }
    const uint64_t u = bits == 0 ? token - kTokenZero : code_of(token, raw_bits(raw_at, bits));
    const auto low = static_cast<Bits>(u);
    return static_cast<Bits>((low >> 1) ^ (Bits{0} - (low & 1)));
  }

  /// `count` raw bits from bit `at` on; those beyond the end are 0.
  __device__ uint64_t raw_bits(uint64_t at, unsigned count) const {
    const DeviceRecord& input = shared.cursor.input;
    uint64_t value = 0;
    for (unsigned have = 0; have < count;) {
      const uint64_t byte = at / 8 < input.raw_size ? memory.bytes[input.raw + at / 8] : 0U;
      const auto skip = static_cast<unsigned>(at % 8);
      value |= byte >> skip << have;
      have += 8 - skip;
      at += 8 - skip;
    }
    return count < 64 ? value & ((uint64_t{1} << count) - 1) : value;
  }

  /// Codes from their differences: sums along lines, of which each thread takes some.
  __device__ void undo_differences(const ClassPoints& points) const {
    for_difference_lines(points, terms, shared.box, [&](uint32_t first, uint32_t step, uint32_t extent) {
      Bits sum = 0;
      for (uint32_t k = 0, p = first; k < extent; ++k, p += step) {
        if (work.tokens[p] >= kTokenZero) {  // others keep their number; the sum goes on past them
          sum += work.codes[p];
          work.codes[p] = sum;
        }
      }
    });
    __syncthreads();
  }

  /// Values, activities, marks and elements of a class.
  __device__ void values(const ClassPoints& points, unsigned level, bool preview) const {
    const W quantum = terms.quantum[level < kQuanta ? level : kQuanta - 1];
    for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
      const Place place = place_of(points, p);
      const W prediction = predict(shared.around, points, place, terms.interpolation);
      const uint32_t at = grid_place(shared.around.own.grid, points, place);
      const uint64_t to = place_out(place.item, grid_index(points, place, 0), grid_index(points, place, 1),
                                    grid_index(points, place, 2));
      put(work.tokens[p], prediction, quantum, work.codes[p], preview, at, to);
    }
    __syncthreads();
  }

  /// The same for a class of a record of elements; `order`: of point p, its number among the record's elements.
  template <typename Order>
  __device__ void elements(const ClassPoints& points, const Order& order) const {
    for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
      const Place place = place_of(points, p);
      const W prediction = predict(shared.around, points, place, terms.interpolation);
      const uint32_t at = grid_place(shared.around.own.grid, points, place);
      const uint64_t to = place_out(place.item, grid_index(points, place, 0), grid_index(points, place, 1),
                                    grid_index(points, place, 2));
      put_element(memory.elements[shared.cursor.input.elements + order(p, place)], prediction, at, to);
    }
    __syncthreads();
  }

  /// One point: `code` as codes() gives it, `at` in the grid, `to` in the output.
  __device__ void put(unsigned token, W prediction, W quantum, Bits code, bool preview, uint32_t at,
                      uint64_t to) const {
    RecordCursor& cursor = shared.cursor;
    W value = prediction;
    Bits element = 0;
    if (token == kTokenExact) {
      const bool there = code < cursor.input.element_count;
      if (!there) {
        cursor.failed = true;  // the same from whichever thread
      }
      element = there ? memory.elements[cursor.input.elements + code] : Bits{0};
      const W exact = real_of<W>(element);
      value = is_finite(exact) ? exact : prediction;
    } else if (token == kTokenSpecial) {
      const uint32_t index = preview ? 0U : special_index(code);
      element = index < terms.special_count ? terms.specials[index] : bits_of<W>(value);
    } else {
      value = dequantized<W>(prediction, quantum, static_cast<W>(static_cast<typename RealFacts<W>::Signed>(code)));
      element = bits_of<W>(value);
    }
    put_point(value, element, activity_of(terms, token), token == kTokenSpecial, at, to);
  }

  __device__ uint32_t special_index(Bits number) const {
    RecordCursor& cursor = shared.cursor;
    uint32_t index = 0;
    if (cursor.input.has_special_indices) {
      index = number < cursor.input.special_count ? memory.bytes[cursor.input.special + number] : kUnlistedSpecial;
    }
    if (index >= terms.special_count) {
      cursor.failed = true;
    }
    return index;
  }

  __device__ void put_element(Bits element, W prediction, uint32_t at, uint64_t to) const {
    const bool special = is_special_element<W>(terms, element);
    put_point(special ? prediction : real_of<W>(element), element, 0, special, at, to);
  }

  __device__ void put_point(W value, Bits element, uint8_t activity, bool special, uint32_t at, uint64_t to) const {
    const Planes<W>& own = shared.around.own;
    own.value[at] = value;
    own.activity[at] = activity;
    if (terms.special_count > 0) {
      own.mark[at] = special ? 1 : 0;
    }
    out[to] = element;
  }
};

}  // namespace varve::codec::cuda
