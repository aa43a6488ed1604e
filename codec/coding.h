// What encoder and decoder share: the constants of an array in its work type, where points lie, and the walk over the
// levels of a tile or brick.
#pragma once

#include "codec/settings.h"

namespace varve::codec {

/// The quantum of a level over that of level 0: coarser points predict many others and are kept more precisely.
inline constexpr std::array<double, 5> kLevelScale = {1.0, 0.8, 0.64, 0.512, 0.5};

template <typename W>
const RowKernels<W>& row_kernels() {
  if constexpr (std::is_same_v<W, float>) {
    return kernels().f32;
  } else {
    return kernels().f64;
  }
}

/// Settings in the work type W.
template <typename W>
struct Coding {
  explicit Coding(const Settings& from)
      : settings(&from), type(from.dtype), size(element_size(from.dtype)), range(range_of<W>(from.dtype)) {
    for (const uint64_t bits : from.specials) {
      specials.push_back(from_bits<W>(from.dtype, bits));
      finite_specials = finite_specials || is_finite(specials.back());
    }
  }
  static bool is_finite(W value) {
    if constexpr (kIsReal<W>) {
      return std::fabs(value) <= std::numeric_limits<W>::max();
    } else {
      return true;
    }
  }
  W quantum(unsigned level) const {
    return static_cast<W>(settings->quantum * kLevelScale.at(std::min<size_t>(level, kLevelScale.size() - 1)));
  }
  /// Index in the table of specials, or -1.
  int special_index(W value) const {
    for (size_t i = 0; i < specials.size(); ++i) {
      if (same_bits(specials[i], value)) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  const Settings* settings;
  DType type;
  size_t size;
  ElementRange<W> range;
  std::vector<W> specials;
  bool finite_specials = false;
};

/// Elements of a box in memory, seen from one level: `shift` is the level's above that of the layout's points.
template <typename Byte>
struct Place {
  Byte* data;
  const Layout* layout;
  size_t size;
  unsigned shift;
  /// First element of a row of class c.
  Byte* row(unsigned c, size_t batch, size_t z, size_t y) const {
    const auto& stride = layout->stride;
    const size_t at = layout->batch_offset[batch] + ((2 * z + (c >> 2 & 1U)) << shift) * stride[0] +
                      ((2 * y + (c >> 1 & 1U)) << shift) * stride[1] + (size_t{c & 1U} << shift) * stride[2];
    return data + at * size;
  }
  /// From one element of a row to the next, in elements.
  size_t step() const { return layout->stride[2] << (shift + 1); }
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

/// Walks the coarse levels of a tile from the anchors down to `shift`. `op.anchors(values, activities, dims)` handles
/// the anchors, `op.level(step, level)` a level. Afterwards value and activity hold the coarse grid.
template <typename W, typename Op>
void walk_coarse(const Dims& tile, unsigned shift, bool cubic, LevelMemory<W>& memory, Op& op, W* value,
                 Activity* activity) {
  const unsigned top = std::max(top_level(tile), shift);
  const Dims anchors = coarsen(tile, top);
  unsigned turn = 0;
  const auto target = [&](unsigned level, const Dims& dims) {
    turn ^= 1U;
    return level == shift ? contiguous_plane<W>(value, activity, dims)
                          : contiguous_plane<W>(memory.whole[turn].reserve(dims.count()),
                                                memory.whole_activity[turn].reserve(dims.count()), dims);
  };
  Plane<W> even = target(top, anchors);
  op.anchors(even.value, even.activity, anchors, top);
  for (unsigned level = top; level-- > shift;) {
    const Dims dims = coarsen(tile, level);
    const LevelStep<W> step(dims, even, cubic, memory);
    op.level(step, level);
    const Plane<W> whole = target(level, dims);
    step.assemble(whole.value, whole.activity);
    even = whole;
  }
}

/// Walks levels 2, 1 and 0 of a brick down to `last`; `even`: its coarse points. `op.level` returns false to stop.
template <typename W, typename Op>
void walk_brick(const Dims& brick, const Plane<W>& coarse, bool cubic, LevelMemory<W>& memory, Op& op) {
  Plane<W> even = coarse;
  for (unsigned level = 3; level-- > 0;) {
    const Dims dims = coarsen(brick, level);
    const LevelStep<W> step(dims, even, cubic, memory);
    if (!op.level(step, level)) {
      return;
    }
    if (level > 0) {
      even = contiguous_plane<W>(memory.whole[level % 2].reserve(dims.count()),
                                 memory.whole_activity[level % 2].reserve(dims.count()), dims);
      step.assemble(even.value, even.activity);
    }
  }
}

/// A brick's part of a tile's coarse grid with the points around it that cubic interpolation can reach.
template <typename W>
class CoarseWindow {
 public:
  /// `tile_grid`: extents of the tile's coarse grid; `origin`: the brick's first coarse point in it; `brick`: extents
  /// of the brick's own coarse grid. value and activity may be unaligned bytes.
  CoarseWindow(const std::byte* value, const std::byte* activity, const Dims& tile_grid,
               const std::array<size_t, 3>& origin, const Dims& brick) {
    constexpr std::array<size_t, 2> kReach = {1, 2};
    std::array<size_t, 3> low{};
    std::array<size_t, 3> n{};
    for (size_t axis = 0; axis < 3; ++axis) {
      low.at(axis) = std::min(origin.at(axis), kReach[0]);
      const size_t after = tile_grid.n.at(axis) - origin.at(axis) - brick.n.at(axis);
      n.at(axis) = low.at(axis) + brick.n.at(axis) + std::min(after, kReach[1]);
      plane_.begin.at(axis) = -static_cast<ptrdiff_t>(low.at(axis));
      plane_.end.at(axis) = static_cast<ptrdiff_t>(n.at(axis) - low.at(axis));
    }
    values_.resize(brick.batch * n[0] * n[1] * n[2]);
    activities_.resize(values_.size());
    size_t to = 0;
    for (size_t batch = 0; batch < brick.batch; ++batch) {
      for (size_t z = 0; z < n[0]; ++z) {
        for (size_t y = 0; y < n[1]; ++y, to += n[2]) {
          const size_t from =
              ((batch * tile_grid.n[0] + origin[0] - low[0] + z) * tile_grid.n[1] + origin[1] - low[1] + y) *
                  tile_grid.n[2] +
              origin[2] - low[2];
          std::memcpy(values_.data() + to, value + from * sizeof(W), n[2] * sizeof(W));
          std::memcpy(activities_.data() + to, activity + from * sizeof(Activity), n[2] * sizeof(Activity));
        }
      }
    }
    const size_t first = (low[0] * n[1] + low[1]) * n[2] + low[2];
    plane_.value = values_.data() + first;
    plane_.activity = activities_.data() + first;
    plane_.batch_stride = n[0] * n[1] * n[2];
    plane_.stride = {n[1] * n[2], n[2], 1};
  }
  const Plane<W>& plane() const { return plane_; }

 private:
  std::vector<W> values_;
  std::vector<Activity> activities_;
  Plane<W> plane_;
};

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
