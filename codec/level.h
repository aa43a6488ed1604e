// One level of a brick or tile: from the points at even places of its grid (known) to all of them.
//
// A point's class has one bit an axis (4: z, 2: y, 1: x) that says where its index is odd; class 0 are the known ones.
// Classes with one bit come first, then two, then three; each is predicted from classes with one bit less, so that all
// points of a class can be worked on at once. Every class is kept in an array of its own: rows are contiguous.
#pragma once

#include <span>

#include "codec/bytes.h"
#include "codec/element.h"
#include "codec/geometry.h"
#include "codec/kernels.h"
#include "codec/tokens.h"

namespace varve::codec {

inline constexpr std::array<uint8_t, 7> kClassOrder = {1, 2, 4, 3, 5, 6, 7};

inline bool is_odd(unsigned c, unsigned axis) { return (c >> (2 - axis) & 1U) != 0; }
inline unsigned odd_axes(unsigned c) { return (c & 1U) + (c >> 1 & 1U) + (c >> 2 & 1U); }

/// Points of class c of a grid.
inline Dims class_dims(const Dims& full, unsigned c) {
  Dims dims = full;
  for (unsigned axis = 0; axis < 3; ++axis) {
    dims.n.at(axis) = is_odd(c, axis) ? full.n.at(axis) / 2 : (full.n.at(axis) + 1) / 2;
  }
  return dims;
}

/// Values, activities and marks of special points of a grid or class. Rows have two points before them and two after.
template <typename W>
struct Plane {
  W* value = nullptr;  ///< of the point 0, 0, 0; likewise the others
  uint8_t* activity = nullptr;
  uint8_t* special = nullptr;  ///< 1 where a point is special, else 0; null in arrays without
  bool any_special = false;    ///< whether some point is
  Strides strides;
  std::array<ptrdiff_t, 3> first{};  ///< indices (z, y, x) below 0 that exist: class 0 of a brick reaches into its tile
  std::array<ptrdiff_t, 3> last{};   ///< one past the last that exists
};

/// Memory of a plane.
template <typename W>
class PlaneMemory {
 public:
  /// Room for a grid of `dims`; contents are undefined. Without `special`, there are no marks.
  Plane<W> reserve(const Dims& dims, bool special) { return reserve(dims, special, {}, {}); }
  /// With `before` and `after` more points on each axis (x: at most 2 and 3).
  Plane<W> reserve(const Dims& dims, bool special, const std::array<size_t, 3>& before,
                   const std::array<size_t, 3>& after);

 private:
  Buffer<W> value_;
  Buffer<uint8_t> activity_;
  Buffer<uint8_t> special_;
};

/// Memory that levels share; one for each thread that works.
template <typename W>
struct LevelMemory {
  std::array<PlaneMemory<W>, 8> classes;
  std::array<PlaneMemory<W>, 2> whole;
  PlaneMemory<W> window;
  Buffer<W> scratch;
  Buffer<uint8_t> marks;
  std::vector<W> zeros;  ///< what predicts where there is no interpolation
};

template <typename W>
class Level {
 public:
  /// `full`: the level's grid. `even`: its class 0, valid while this object lives.
  Level(const Dims& full, const Plane<W>& even, Interpolation interpolation, LevelMemory<W>& memory);

  const Dims& dims(unsigned c) const { return dims_[c]; }
  const Plane<W>& plane(unsigned c) const { return planes_[c]; }

  /// What predicts class c and where its values go.
  void describe(unsigned c, ClassJob<W>& job) const;
  /// The context, within the class, of every point of class c in order; room for kSlackBytes more.
  void contexts(unsigned c, uint8_t* out) const;
  /// Whether some point that predicts class c is special.
  bool near_special(unsigned c) const;
  /// Sets activities and marks of class c from its tokens (null: all codes are 0), which have kSlackBytes of slack.
  void mark(unsigned c, const uint8_t* tokens, const Thresholds& thresholds);
  /// The same for points that are stored as elements: special[i] != 0 where one is special.
  void mark_elements(unsigned c, const uint8_t* special);
  /// Whether some point of the grid is special.
  bool any_special() const;
  /// Writes the whole grid.
  void assemble(Plane<W>& out) const;
  /// The same without activities and marks, which need not be set.
  void assemble_values(const Plane<W>& out) const;

 private:
  Dims full_;
  Interpolation interpolation_;
  LevelMemory<W>& memory_;
  std::array<Plane<W>, 8> planes_;
  std::array<Dims, 8> dims_;
};

/// Sets the points before and after every row of a whole grid.
template <typename W>
void pad_rows(const Plane<W>& plane, const Dims& dims);

/// Calls f(item, z, y) for every row of a grid.
template <typename F>
void for_each_row(const Dims& dims, F&& f) {
  for (size_t item = 0; item < dims.batch; ++item) {
    for (size_t z = 0; z < dims.n[0]; ++z) {
      for (size_t y = 0; y < dims.n[1]; ++y) {
        f(item, z, y);
      }
    }
  }
}

extern template class PlaneMemory<float>;
extern template class PlaneMemory<double>;
extern template class PlaneMemory<int32_t>;
extern template class PlaneMemory<int64_t>;
extern template class Level<float>;
extern template class Level<double>;
extern template class Level<int32_t>;
extern template class Level<int64_t>;

}  // namespace varve::codec
