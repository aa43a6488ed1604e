// What encoder and decoder share: the constants of an array in its work type, and the walk over the levels of a tile or
// brick.
#pragma once

#include "codec/level.h"
#include "codec/settings.h"

namespace varve::codec {

/// The quantum of a level's codes.
template <typename W>
W quantum_of(const Settings& settings, unsigned level) {
  return static_cast<W>(settings.quantum * level_scale(settings.schedule, level));
}

/// Settings in the work type W, and the way between elements and points.
template <typename W>
struct Coding {
  explicit Coding(const Settings& from)
      : settings(&from),
        type(from.dtype),
        size(element_size(from.dtype)),
        range(range_of<W>(from.dtype)),
        mapped(from.is_mapped()) {
    if (mapped) {
      specials.resize(from.specials.empty() ? 0 : 1, marker());
      return;
    }
    for (const uint64_t bits : from.specials) {
      specials.push_back(from_bits<W>(from.dtype, bits));
    }
  }
  /// out[i] = the point of element i * stride of p, unaligned.
  void load(const std::byte* p, size_t stride, size_t m, W* out) const {
    if constexpr (kIsReal<W>) {
      if (mapped) {
        load_mapped<W>(type, settings->mapping, p, stride, m, out);
        for_specials_in(p, stride, m, [&](size_t i) { out[i] = marker(); });
        return;
      }
    }
    load_row<W>(type, p, stride, m, out);
  }
  /// Element i * stride of p = what point v[i] decodes to, but for those that are special or kept exactly.
  void store(const W* v, size_t m, std::byte* p, size_t stride) const {
    if constexpr (kIsReal<W>) {
      if (mapped) {
        store_mapped<W>(type, settings->mapping, v, m, p, stride);
        return;
      }
    }
    store_row<W>(type, v, m, p, stride);
  }
  /// bad[i] = 1 where mapped point v[i] would be stored as one of the special values.
  void mark_stored_specials(const W* v, size_t m, uint8_t* bad) const {
    std::array<std::byte, 8 * kRowPart> stored;
    for (size_t at = 0; at < m && !specials.empty(); at += kRowPart) {
      const size_t n = std::min(kRowPart, m - at);
      store(v + at, n, stored.data(), 1);
      for_specials_in(stored.data(), 1, n, [&](size_t i) { bad[at + i] = 1; });
    }
  }
  /// Whether a point that was loaded is stored as the element that it came from.
  bool stores_as(W value, uint64_t bits) const {
    if (!is_finite(value)) {
      return false;
    }
    uint64_t stored = 0;
    if (mapped) {
      store(&value, 1, reinterpret_cast<std::byte*>(&stored), 1);
    }
    return !mapped || stored == bits;
  }
  static bool is_finite(W value) {
    if constexpr (kIsReal<W>) {
      return std::fabs(value) <= std::numeric_limits<W>::max();
    } else {
      return true;
    }
  }
  bool has_specials() const { return !specials.empty(); }
  W quantum(unsigned level) const { return quantum_of<W>(*settings, level); }
  /// The number of an element, which is one, in the array's list of special values.
  uint8_t special_index(uint64_t bits) const {
    const auto& all = settings->specials;
    return static_cast<uint8_t>(std::find(all.begin(), all.end(), bits) - all.begin());
  }
  /// Points whose element is stored in records of elements, but which predict nothing.
  bool is_special(W value) const {
    return !is_finite(value) ||
           std::any_of(specials.begin(), specials.end(), [&](W special) { return same_bits(special, value); });
  }
  IntegerWidth width() const {
    return kIsReal<W> ? IntegerWidth()
                      : IntegerWidth{static_cast<unsigned>(8 * sizeof(W)) - range.width, range.is_signed};
  }

  const Settings* settings;
  DType type;
  size_t size;
  ElementRange<W> range;
  bool mapped;
  std::vector<W> specials;  ///< as points: one marker for all where elements are mapped

 private:
  /// A NaN that no element maps to: stands for special elements.
  static W marker() { return std::bit_cast<W>(static_cast<BitsOf<W>>(~BitsOf<W>{0} >> 1)); }
  /// Calls f(i) for the elements of a row that are special.
  template <typename F>
  void for_specials_in(const std::byte* p, size_t stride, size_t m, F&& f) const {
    with_element(type, [&](auto element) {
      using Bits = typename decltype(element)::Bits;
      for (const uint64_t bits : settings->specials) {
        for (size_t i = 0; i < m; ++i) {
          if (load_as<Bits>(p + i * stride * sizeof(Bits)) == static_cast<Bits>(bits)) {
            f(i);
          }
        }
      }
    });
  }
};

/// The largest number of type W that is not above `bound`.
template <typename W>
W bound_below(double bound) {
  if (bound >= static_cast<double>(std::numeric_limits<W>::max())) {
    return std::numeric_limits<W>::max();
  }
  W below = static_cast<W>(bound);
  if (static_cast<double>(below) > bound) {
    below = std::nextafter(below, W(0));
  }
  return below;
}

/// Writes a row of points as elements, every `stride`th: the first special value where `marks` (null: nowhere) says so.
/// `to` null: the points are elements and in place.
template <typename W>
void store_points(const Coding<W>& coding, W* row, const uint8_t* marks, size_t m, std::byte* to, size_t stride) {
  if (marks != nullptr && !coding.mapped) {
    typed<W>(kernels()).put_marked(row, marks, m, coding.specials[0]);
  }
  if (to == nullptr) {
    return;
  }
  coding.store(row, m, to, stride);
  if (marks != nullptr && coding.mapped) {
    const uint64_t special = coding.settings->first_special();
    for (size_t i = 0; i < m; ++i) {
      if (marks[i] != 0) {
        std::memcpy(to + i * stride * coding.size, &special, coding.size);
      }
    }
  }
}

/// Levels above the coarsest shift: the stride 2^top reaches past every axis, so that anchors alone are left.
inline unsigned top_level(const Dims& dims) {
  unsigned top = 0;
  for (const size_t n : dims.n) {
    top = std::max(top, static_cast<unsigned>(std::bit_width(n - 1)));
  }
  return top;
}

/// Points that level `level` adds.
inline size_t points_of_level(const Dims& dims, unsigned level) {
  return coarsen(dims, level).count() - coarsen(dims, level + 1).count();
}

/// Calls f(place, offset, step, count) for each row of a grid with the points of the level that the grid is of: `count`
/// points from `offset` on along x, `step` apart. In C order: the order of elements in records of a brick's level.
template <typename F>
void for_each_level_row(const Dims& grid, F&& f) {
  for_each_row(grid, [&](size_t item, size_t z, size_t y) {
    const bool even = z % 2 == 0 && y % 2 == 0;  // every second point is of a coarser level
    f(std::array<size_t, 3>{item, z, y}, even ? size_t{1} : 0, even ? size_t{2} : 1, even ? grid.n[2] / 2 : grid.n[2]);
  });
}

/// Walks the coarse levels of a tile from the anchors down to `shift` and returns the coarse grid, which lies in
/// `memory`. `op.anchors(plane, dims, level)` handles the anchors, `op.level(step, level)` a level.
template <typename W, typename Op>
Plane<W> walk_coarse(const Dims& tile, unsigned shift, const Coding<W>& coding, LevelMemory<W>& memory, Op& op) {
  const unsigned top = std::max(top_level(tile), shift);
  const Dims anchors = coarsen(tile, top);
  unsigned turn = 0;
  Plane<W> even = memory.whole[turn].reserve(anchors, coding.has_specials());
  op.anchors(even, anchors, top);
  for (size_t item = 0; item < anchors.batch && even.special != nullptr; ++item) {
    even.any_special = even.any_special || even.special[even.strides.at(item, 0, 0)] != 0;
  }
  pad_rows(even, anchors);
  for (unsigned level = top; level-- > shift;) {
    const Dims dims = coarsen(tile, level);
    Level<W> step(dims, even, coding.settings->interpolation, memory);
    op.level(step, level);
    turn ^= 1U;
    Plane<W> whole = memory.whole[turn].reserve(dims, coding.has_specials());
    step.assemble(whole);
    even = whole;
  }
  return even;
}

/// Walks levels 2, 1 and 0 of a brick; `coarse`: its coarse points. `op.level(step, level)` returns false to stop.
template <typename W, typename Op>
void walk_brick(const Dims& brick, const Plane<W>& coarse, const Coding<W>& coding, LevelMemory<W>& memory, Op& op) {
  Plane<W> even = coarse;
  for (unsigned level = 3; level-- > 0;) {
    const Dims dims = coarsen(brick, level);
    Level<W> step(dims, even, coding.settings->interpolation, memory);
    if (!op.level(step, level)) {
      return;
    }
    if (level > 0) {
      even = memory.whole[level % 2].reserve(dims, coding.has_specials());
      step.assemble(even);
    }
  }
}

/// The coarse grid of a tile: contiguous arrays in the order of its points.
template <typename W>
struct CoarsePoints {
  Dims dims;
  const std::byte* value = nullptr;  ///< W, not aligned
  const uint8_t* activity = nullptr;
  const uint8_t* special = nullptr;  ///< null in arrays without
};

/// A brick's part of its tile's coarse grid with the points around it that prediction can reach. `origin`: the brick's
/// first coarse point; `brick`: extents of its own coarse grid.
template <typename W>
Plane<W> coarse_window(const CoarsePoints<W>& from, const std::array<size_t, 3>& origin, const Dims& brick,
                       LevelMemory<W>& memory) {
  std::array<size_t, 3> before{};
  std::array<size_t, 3> after{};
  for (size_t axis = 0; axis < 3; ++axis) {
    before.at(axis) = std::min<size_t>(origin.at(axis), 2);
    after.at(axis) = std::min<size_t>(from.dims.n.at(axis) - origin.at(axis) - brick.n.at(axis), 3);
  }
  Plane<W> out = memory.window.reserve(brick, from.special != nullptr, before, after);
  const auto& n = from.dims.n;
  const size_t count = before[2] + brick.n[2] + after[2];
  for (size_t item = 0; item < brick.batch; ++item) {
    for (ptrdiff_t z = out.first[0]; z < out.last[0]; ++z) {
      for (ptrdiff_t y = out.first[1]; y < out.last[1]; ++y) {
        const size_t at =
            ((item * n[0] + origin[0] + static_cast<size_t>(z)) * n[1] + origin[1] + static_cast<size_t>(y)) * n[2] +
            origin[2] - before[2];
        const ptrdiff_t to =
            static_cast<ptrdiff_t>(item) * out.strides.item + z * out.strides.slab + y * out.strides.row + out.first[2];
        // Padded as a row by itself: points beyond the tile are extrapolated.
        W* row = out.value + to;
        std::memcpy(row, from.value + at * sizeof(W), count * sizeof(W));
        typed<W>(kernels()).pad_row(row, count);
        const auto bytes = [&](const uint8_t* source, uint8_t* target) {
          std::memcpy(target, source + at, count);
          target[-1] = target[0];
          target[count] = target[count + 1] = target[count - 1];
        };
        bytes(from.activity, out.activity + to);
        if (from.special != nullptr) {
          bytes(from.special, out.special + to);
          out.any_special = out.any_special || std::memchr(from.special + at, 1, count) != nullptr;
        }
      }
    }
  }
  return out;
}

/// A brick's first coarse point within its tile's coarse grid.
inline std::array<size_t, 3> coarse_origin(const Geometry& geometry, const Box& brick, const Box& tile) {
  std::array<size_t, 3> origin{};
  const size_t count = geometry.predicted.size();
  for (size_t k = 0; k < count; ++k) {
    const uint8_t axis = geometry.predicted[k];
    origin.at(3 - count + k) = (brick.origin[axis] - tile.origin[axis]) >> geometry.coarse_shift;
  }
  return origin;
}

}  // namespace varve::codec
