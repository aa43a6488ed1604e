// What encoder and decoder share: the constants of an array in its work type, and the walk over the levels of a tile or
// brick.
#pragma once

#include "codec/level.h"
#include "codec/settings.h"

namespace varve::codec {

/// Settings in the work type W.
template <typename W>
struct Coding {
  explicit Coding(const Settings& from)
      : settings(&from), type(from.dtype), size(element_size(from.dtype)), range(range_of<W>(from.dtype)) {
    for (const uint64_t bits : from.specials) {
      specials.push_back(from_bits<W>(from.dtype, bits));
    }
  }
  static bool is_finite(W value) {
    if constexpr (kIsReal<W>) {
      return std::fabs(value) <= std::numeric_limits<W>::max();
    } else {
      return true;
    }
  }
  bool has_specials() const { return !specials.empty(); }
  W quantum(unsigned level) const { return static_cast<W>(settings->quantum * level_scale(settings->schedule, level)); }
  /// Index in the table of specials, or -1.
  int special_index(W value) const {
    for (size_t i = 0; i < specials.size(); ++i) {
      if (same_bits(specials[i], value)) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }
  /// Points whose element is stored in records of elements, but which predict nothing.
  bool is_special(W value) const { return !is_finite(value) || special_index(value) >= 0; }
  IntegerWidth width() const {
    return kIsReal<W> ? IntegerWidth()
                      : IntegerWidth{static_cast<unsigned>(8 * sizeof(W)) - range.width, range.is_signed};
  }

  const Settings* settings;
  DType type;
  size_t size;
  ElementRange<W> range;
  std::vector<W> specials;
};

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
  pad_rows(even, anchors);
  for (unsigned level = top; level-- > shift;) {
    const Dims dims = coarsen(tile, level);
    const Level<W> step(dims, even, coding.settings->cubic, memory);
    op.level(step, level);
    turn ^= 1U;
    const Plane<W> whole = memory.whole[turn].reserve(dims, coding.has_specials());
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
    const Level<W> step(dims, even, coding.settings->cubic, memory);
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
    before.at(axis) = std::min<size_t>(origin.at(axis), 1);
    after.at(axis) = std::min<size_t>(from.dims.n.at(axis) - origin.at(axis) - brick.n.at(axis), 2);
  }
  const Plane<W> out = memory.window.reserve(brick, from.special != nullptr, before, after);
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
