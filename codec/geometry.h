// Which part of an array belongs to which tile and brick, and where the points of a box lie in memory.
// Words (FORMAT.md has them too): a *predicted* axis is one along which points predict each other, at most three, named
// z, y, x from slowest to fastest; the other axes are *batch* axes.
#pragma once

#include <optional>

#include "codec/box.h"

namespace varve::codec {

inline constexpr uint64_t kMaxBrickElements = uint64_t{1} << 18;
inline constexpr uint64_t kMaxTileElements = uint64_t{1} << 24;
/// Arrays of no more elements than this are stored as coarse records alone.
inline constexpr uint64_t kTinyArray = 4096;
inline constexpr uint64_t kMaxElements = uint64_t{1} << 62;

/// Points of a box: batch items times a grid along z, y, x (1 where fewer than three axes are predicted).
struct Dims {
  size_t batch = 0;
  std::array<size_t, 3> n{};
  size_t count() const { return batch * n[0] * n[1] * n[2]; }
  bool operator==(const Dims&) const = default;
};

/// Where the points of a box lie in a C-order array of a containing box, in elements.
struct Layout {
  Dims dims;
  std::vector<size_t> batch_offset;  ///< of each batch item's first point
  std::array<size_t, 3> stride{};    ///< along z, y, x
};

/// Plain data; immutable once made.
struct Geometry {
  Extents shape;
  Extents brick;                   ///< edge of a brick per axis
  Extents tile;                    ///< edge of a tile per axis, a multiple of the brick's
  std::vector<uint8_t> predicted;  ///< 1 to 3 axis numbers ascending; empty for rank 0
  unsigned coarse_shift = 3;       ///< the coarse grid keeps every 2^coarse_shift-th point; 3, or 0 in tiny arrays

  static Geometry make(const Extents& shape, const std::vector<uint8_t>& predicted);
  /// EBADMSG with a sentence when a rule of FORMAT.md is broken (for what parse() read).
  Status check() const;

  uint64_t tile_count() const;
  uint64_t brick_count() const;
  Box tile_box(uint64_t tile_number) const;
  Box brick_box(uint64_t brick_number) const;
  uint64_t tile_of(uint64_t brick_number) const;
  std::vector<uint64_t> bricks_of(uint64_t tile_number) const;
  std::vector<uint64_t> bricks_in(const Box& box) const;
  /// `box` lies within `container`.
  Layout layout(const Box& box, const Box& container) const;
  /// 0, 1, 2 for the axis that is z, y, x; nothing for a batch axis.
  std::optional<size_t> grid_axis(size_t axis) const;
  /// Extents of a box as batch and z, y, x.
  Dims dims_of(const Box& box) const;
};

/// Copies the elements of `box` from an array of `shape` in C order; `size`: bytes of an element.
void copy_box(const Extents& shape, const std::byte* array, const Box& box, size_t size, std::byte* out);

/// The elements of a tile of such an array: in place where they lie together, else copied into `memory`.
const std::byte* tile_elements(const Geometry& geometry, uint64_t tile, const std::byte* array, size_t size,
                               Bytes& memory);

/// Every 2^shift-th point of `dims`.
inline Dims coarsen(const Dims& dims, unsigned shift) {
  Dims out = dims;
  for (size_t& n : out.n) {
    n = ((n - 1) >> shift) + 1;
  }
  return out;
}

}  // namespace varve::codec
