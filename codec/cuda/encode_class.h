// Encoding one class of one level by a block: codes, then tokens and contexts into the record's stream, and lists.
#pragma once

#include "codec/cuda/class_work.h"
#include "codec/cuda/scan.h"
#include "codec/entropy.h"

namespace varve::codec::cuda {

/// A record while it is encoded. In shared memory.
struct StreamCursor {
  uint64_t raw_bits;
  uint32_t exact;
  uint32_t specials;
  uint32_t tokens;
  uint32_t segments;
  uint32_t nonzero;  ///< tokens of points whose code is not 0
  uint32_t escapes;
  uint32_t words;
  bool has_special_indices;  ///< some special point is not the first special value
  Array<uint32_t, kMaxLanes> state;
};

/// What became of a record's tokens.
enum class Outcome : uint8_t {
  done,
  too_large,  ///< they take more than the elements
  unknown,    ///< that depends on what the lists are packed to
};

/// Shared memory of the kernels that encode.
template <typename W>
struct EncodeShared {
  StreamCursor cursor;
  ScanMemory scan;
  Surroundings<W> around;
  BoxJob box;
  Surroundings<W> view;  ///< the brick in a view
  BrickMeasures<W> measures;
  bool measured;                       ///< whether anybody asks for them
  Outcome outcome;                     ///< of the record that was finished last
  Array<unsigned long long, 3> begin;  ///< where a finished record's bytes, elements and words go
};

/// A block's part of the memory for records.
template <typename W>
__device__ inline StreamMemory<W> part_of(const StreamMemory<W>& all) {
  const uint64_t points = blockIdx.x * all.points;
  const uint64_t room = blockIdx.x * stream_room(all.points);
  return {all.points,
          all.tokens + room,
          all.contexts + room,
          all.segments + uint64_t{blockIdx.x} * kMostSegments,
          all.raw + blockIdx.x * (all.points * (sizeof(W) / 4) + 1),
          all.exact + points,
          all.special + points,
          all.escapes + room,
          all.words + room};
}

/// What a block works with. Every method is called by all of its threads, and ends with a barrier, unless it says
/// otherwise.
template <typename W>
struct ClassEncoder {
  using Bits = BitsOf<W>;
  const ArrayTerms<W>& terms;
  ClassMemory<W> work;  ///< the block's own, as the next
  StreamMemory<W> stream;
  EncodeShared<W>& shared;
  Global<const Bits> array;
  unsigned level_unit;  ///< level of the grid's finest points

  __device__ Bits element(uint32_t item, uint32_t z, uint32_t y, uint32_t x) const {
    const BoxJob& box = shared.box;
    const Array<uint64_t, 3>& stride = terms.stride;
    return array[box.base + terms.item_offset[box.item_offset + item] + (uint64_t{z} << level_unit) * stride[0] +
                 (uint64_t{y} << level_unit) * stride[1] + (uint64_t{x} << level_unit) * stride[2]];
  }
  __device__ Bits element(const ClassPoints& points, const Place& place) const {
    return element(place.item, grid_index(points, place, 0), grid_index(points, place, 1),
                   grid_index(points, place, 2));
  }

  __device__ void start_record() const {
    if (threadIdx.x == 0) {
      StreamCursor& cursor = shared.cursor;
      cursor.raw_bits = 0;
      cursor.exact = cursor.specials = cursor.tokens = cursor.segments = cursor.nonzero = 0;
      cursor.escapes = cursor.words = 0;
      cursor.has_special_indices = false;
      stream.raw[0] = 0;
    }
    __syncthreads();
  }

  /// All classes of a level in order, from the points above it.
  __device__ void level(unsigned level) const {
    for (unsigned i = 0; i < 7; ++i) {
      const ClassPoints points = class_points(shared.around.own.grid, level - level_unit, class_at(i));
      if (points.count == 0) {
        continue;
      }
      quantize(points, level);
      if (shared.measured && level < 2) {
        measure_reach(points, level);
      }
      if (terms.difference_axis != kNoAxis) {
        take_differences(points);
      }
      find_contexts(shared.around, points, terms, work);
      finish_tokens(points.count);
      lists(points.count, [&](uint32_t p) { return element(points, place_of(points, p)); });
      marks(points);
      const unsigned base = context_base(level, odd_count(points.c));
      flags(points, base);
      tokens(points, base);
    }
  }

  /// The same for a record of elements, which go to `to`. `done`: of a tile's record, how many are there already; gives
  /// how many there are then.
  __device__ uint32_t elements_level(unsigned level, bool in_c_order, uint32_t done, Global<Bits> to) const {
    for (unsigned i = 0; i < 7; ++i) {
      const ClassPoints points = class_points(shared.around.own.grid, level - level_unit, class_at(i));
      W found = 0;
      for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
        const Place place = place_of(points, p);
        const Bits bits = element(points, place);
        const W prediction = predict(shared.around, points, place, terms.interpolation);
        const W value = put_element(bits, prediction, grid_place(shared.around.own.grid, points, place));
        const W off = static_cast<W>(fabs(value - prediction));  // of special points 0
        found = off > found ? off : found;
        to[in_c_order ? element_number(points, place) : done + p] = bits;
      }
      done += points.count;
      if (shared.measured && level < 2) {
        raise_magnitude<W>(shared.measures.off[level][points.c], found);
      }
      __syncthreads();
    }
    return done;
  }
  /// One point of a record of elements: its value, no activity, its mark. Gives the value.
  __device__ W put_element(Bits bits, W prediction, uint32_t at) const {
    const Planes<W>& own = shared.around.own;
    const bool special = is_special_element<W>(terms, bits);
    const W value = special ? prediction : real_of<W>(bits);
    own.value[at] = value;
    own.activity[at] = 0;
    if (terms.special_count > 0) {
      own.mark[at] = special ? 1 : 0;
    }
    return value;
  }

  /// Values, codes and tokens; those of points that have a code are kTokenZero as yet.
  __device__ void quantize(const ClassPoints& points, unsigned level) const {
    for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
      const Place place = place_of(points, p);
      const W prediction = predict(shared.around, points, place, terms.interpolation);
      shared.around.own.value[grid_place(shared.around.own.grid, points, place)] =
          quantize(element(points, place), prediction, level, p);
    }
    __syncthreads();
  }

  /// How far values of a class are from their predictions: by codes that are no differences yet, and exactly.
  __device__ void measure_reach(const ClassPoints& points, unsigned level) const {
    W found = 0;
    Bits most = 0;
    for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
      if (work.tokens[p] == kTokenExact) {
        const Place place = place_of(points, p);
        const W x = real_of<W>(element(points, place));
        const W prediction = predict(shared.around, points, place, terms.interpolation);
        const W off = static_cast<W>(fabs((is_finite(x) ? x : prediction) - prediction));
        found = off > found ? off : found;
      } else if (work.tokens[p] >= kTokenZero) {
        const Bits u = zigzag_of(work.codes[p]);
        most = u > most ? u : most;
      }
    }
    raise_magnitude<W>(shared.measures.off[level][points.c], found);
    raise(shared.measures.code[level][points.c], most);
    __syncthreads();
  }

  static __device__ Bits zigzag_of(Bits v) {
    return static_cast<Bits>(v << 1) ^ (Bits{0} - static_cast<Bits>(v >> (8 * sizeof(W) - 1)));
  }

  /// The value of one point, number p of its class: linear quantization, checked. The rounded difference must be below
  /// the bound, see kernels_classes.h.
  __device__ W quantize(Bits bits, W prediction, unsigned level, uint32_t p) const {
    constexpr Bits kSign = Bits{1} << (8 * sizeof(W) - 1);
    const unsigned k = level < kQuanta ? level : kQuanta - 1;
    const W x = real_of<W>(bits);
    const Quantized<W> found = quantized<W>(x, prediction, terms.quantum[k], terms.reciprocal[k]);
    bool special = false;
    for (uint32_t i = 0; i < terms.special_count; ++i) {
      special = special || bits == terms.specials[i];
    }
    const bool good = fabs(found.scaled) < RealFacts<W>::kLimit && fabs(x - found.value) < terms.bound && bits != kSign;
    work.tokens[p] = special ? kTokenSpecial : (good ? kTokenZero : kTokenExact);
    work.codes[p] = bits_of<W>(found.shifted) - bits_of<W>(RealFacts<W>::kMagic);
    const W kept = is_finite(x) ? x : prediction;
    return special ? prediction : (good ? found.value : kept);
  }

  /// Codes become their differences along lines, of which each thread takes some. Points that have no code count as the
  /// one before.
  __device__ void take_differences(const ClassPoints& points) const {
    for_difference_lines(points, terms, shared.box, [&](uint32_t first, uint32_t step, uint32_t extent) {
      Bits before = 0;
      for (uint32_t k = 0, p = first; k < extent; ++k, p += step) {
        const Bits own = work.tokens[p] < kTokenZero ? before : work.codes[p];
        work.codes[p] = own - before;
        before = own;
      }
    });
    __syncthreads();
  }

  /// Codes become zig-zag ones, and tokens theirs.
  __device__ void finish_tokens(uint32_t count) const {
    for (uint32_t p = threadIdx.x; p < count; p += blockDim.x) {
      if (work.tokens[p] >= kTokenZero) {
        const Bits u = zigzag_of(work.codes[p]);
        work.codes[p] = u;
        work.tokens[p] = static_cast<uint8_t>(token_of(u));
      }
    }
    __syncthreads();
  }

  /// Raw bits, exact elements and special indices of `count` points; element_of(p) gives the element of one.
  template <typename ElementOf>
  __device__ void lists(uint32_t count, const ElementOf& element_of) const {
    StreamCursor& cursor = shared.cursor;
    for (uint32_t at = 0; at < count; at += blockDim.x) {
      const uint32_t p = at + threadIdx.x;
      const unsigned token = p < count ? work.tokens[p] : kTokenZero;
      const unsigned bits = token >= kFirstWideToken ? extra_bits_of(token) : 0;
      const bool exact = token == kTokenExact;
      const bool special = token == kTokenSpecial && terms.special_count > 1;
      // One scan of three sums, which of the points of a block fit 16 bits each.
      const uint64_t own = bits | static_cast<uint64_t>(exact) << 16 | static_cast<uint64_t>(special) << 32;
      uint64_t all = 0;
      const uint64_t before = scan_block(own, shared.scan, all);
      const uint64_t next = cursor.raw_bits + (all & 0xffffU);
      for (uint64_t word = cursor.raw_bits / 32 + 1 + threadIdx.x; word <= next / 32; word += blockDim.x) {
        stream.raw[word] = 0;
      }
      __syncthreads();
      if (bits > 0) {
        put_raw(cursor.raw_bits + (before & 0xffffU), bits, work.codes[p]);
      }
      if (exact) {
        stream.exact[cursor.exact + (before >> 16 & 0xffffU)] = element_of(p);
      }
      if (special) {
        put_special(cursor.specials + (before >> 32), element_of(p));
      }
      __syncthreads();
      if (threadIdx.x == 0) {
        cursor.raw_bits = next;
        cursor.exact += static_cast<uint32_t>(all >> 16 & 0xffffU);
        cursor.specials += static_cast<uint32_t>(all >> 32);
      }
      __syncthreads();
    }
  }

  /// The `count` lowest bits of a code from bit `at` on; the words there are 0 where no bits are. One thread.
  __device__ void put_raw(uint64_t at, unsigned count, uint64_t code) const {
    while (count > 0) {
      const auto shift = static_cast<unsigned>(at % 32);
      const unsigned some = count < 32 - shift ? count : 32 - shift;
      const auto low = static_cast<uint32_t>(code & ((uint64_t{1} << some) - 1));
      atomicOr(&stream.raw[at / 32], low << shift);
      code >>= some;
      at += some;
      count -= some;
    }
  }
  __device__ void put_special(uint64_t place, Bits element) const {
    uint32_t index = 0;
    while (index < terms.special_count && terms.specials[index] != element) {
      ++index;
    }
    stream.special[place] = static_cast<uint8_t>(index);
    if (index > 0) {
      shared.cursor.has_special_indices = true;  // the same from whichever thread
    }
  }

  /// Activities and marks of a class.
  __device__ void marks(const ClassPoints& points) const {
    const Planes<W>& own = shared.around.own;
    for (uint32_t p = threadIdx.x; p < points.count; p += blockDim.x) {
      const uint32_t at = grid_place(own.grid, points, place_of(points, p));
      own.activity[at] = activity_of(terms, work.tokens[p]);
      if (terms.special_count > 0) {
        own.mark[at] = work.tokens[p] == kTokenSpecial ? 1 : 0;
      }
    }
    __syncthreads();
  }

  /// Whether the codes of all points of a group are 0. One thread.
  __device__ bool is_zero(uint32_t count, uint32_t group) const {
    const uint32_t begin = group * uint32_t{kGroup};
    bool zero = true;
    for (uint32_t p = begin; p < count && p < begin + kGroup; ++p) {
      zero = zero && work.tokens[p] == kTokenZero;
    }
    return zero;
  }

  /// The flags of silent groups into the stream; notes in work.flags which groups are zero.
  __device__ void flags(const ClassPoints& points, unsigned base) const {
    const uint32_t groups = groups_of(points);
    uint32_t done = 0;
    for (uint32_t at = 0; at < groups; at += blockDim.x) {
      const uint32_t group = at + threadIdx.x;
      const bool silent = group < groups && work.silent[group] != 0;
      uint64_t all = 0;
      const auto rank = static_cast<uint32_t>(scan_block(silent ? 1 : 0, shared.scan, all));
      if (group < groups) {
        const bool zero = is_zero(points.count, group);
        work.flags[group] = zero ? 1 : 0;
        if (silent) {
          put(shared.cursor.tokens + done + rank, zero ? kFlagQuiet : kFlagActive, base + kFlagContext);
        }
      }
      done += static_cast<uint32_t>(all);
    }
    end_segment(done);
  }

  /// The tokens of the groups that are not quiet.
  __device__ void tokens(const ClassPoints& points, unsigned base) const {
    const uint32_t groups = groups_of(points);
    const uint32_t missing = groups * uint32_t{kGroup} - points.count;  // of the last group
    uint32_t active = 0;
    bool ends_short = false;
    for (uint32_t at = 0; at < groups; at += blockDim.x) {
      const uint32_t group = at + threadIdx.x;
      const bool quiet = group < groups && work.silent[group] != 0 && work.flags[group] != 0;
      const bool is = group < groups && !quiet;
      const uint64_t last = is && group == groups - 1 ? uint64_t{1} << 32 : 0;
      uint64_t all = 0;
      const auto rank = static_cast<uint32_t>(scan_block((is ? 1 : 0) | last, shared.scan, all));
      uint32_t nonzero = 0;
      for (uint32_t k = 0; k < kGroup && is; ++k) {
        const uint32_t p = group * uint32_t{kGroup} + k;
        if (p < points.count) {
          put(shared.cursor.tokens + (active + rank) * uint32_t{kGroup} + k, work.tokens[p], base + work.contexts[p]);
          nonzero += work.tokens[p] != kTokenZero ? 1 : 0;
        }
      }
      if (nonzero > 0) {
        atomicAdd(&shared.cursor.nonzero, nonzero);
      }
      active += static_cast<uint32_t>(all);
      ends_short = ends_short || all >> 32 != 0;
    }
    end_segment(active * uint32_t{kGroup} - (ends_short ? missing : 0));
  }

  /// One token into the stream. One thread.
  __device__ void put(uint32_t place, unsigned token, unsigned context) const {
    stream.tokens[place] = static_cast<uint8_t>(token);
    stream.contexts[place] = static_cast<uint8_t>(context);
  }

  __device__ void end_segment(uint32_t count) const {
    __syncthreads();
    if (threadIdx.x == 0 && count > 0) {
      StreamCursor& cursor = shared.cursor;
      cursor.tokens += count;
      stream.segments[cursor.segments++] = cursor.tokens;
    }
    __syncthreads();
  }
};

}  // namespace varve::codec::cuda
