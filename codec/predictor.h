// One level of a brick or tile: from the points at even places of its grid (known) to all of them.
//
// A point's class has one bit an axis (4: z, 2: y, 1: x) that says where its index is odd; class 0 are the known ones.
// Classes with one bit come first, then two, then three; each is predicted from classes with one bit less, so that all
// points of a class can be worked on at once. Every class is kept in an array of its own: rows are contiguous.
#pragma once

#include <algorithm>

#include "codec/arithmetic.h"
#include "codec/bytes.h"
#include "codec/geometry.h"
#include "codec/kernels.h"

namespace varve::codec {

/// Magnitude of a point's code as its neighbours' contexts see it: 0 to kMaxActivity, or kSpecialActivity.
using Activity = uint16_t;
inline constexpr Activity kMaxActivity = 63;
inline constexpr Activity kSpecialActivity = 2048;

inline constexpr std::array<uint8_t, 7> kClassOrder = {1, 2, 4, 3, 5, 6, 7};
inline constexpr unsigned kPlainContexts = 12;
inline constexpr unsigned kClassContexts = 15;  // and three for points with special neighbours

/// From the weighted sum of the neighbours' activities to the context within a class.
class ContextMap {
 public:
  /// For lossy codes (activity: magnitude) or for residuals (activity: bit length, `base`: that of context 0).
  static ContextMap for_codes();
  static ContextMap for_residuals(unsigned base);
  /// Contexts of a row from its sums; `axes` odd axes (1 to 3): a sum has a weight of 6 an axis.
  void row(unsigned axes, const uint16_t* sums, size_t m, uint8_t* out) const;

 private:
  static constexpr unsigned kSteps = kPlainContexts - 1;
  static constexpr int16_t kNever = 0x7fff;
  /// By axes: the least sums that belong to contexts 1, 2, ...
  std::array<std::array<int16_t, kSteps>, 3> threshold_{};
  std::array<std::array<uint8_t, 19>, 3> special_{};
  template <typename ContextOf>
  static ContextMap make(ContextOf context_of);
};

/// Values and activities of the points of one class. Index 0 is the brick's first; begin and end (per axis z, y, x) say
/// what may be read: class 0 of a brick's coarsest level reaches into the tile around it.
template <typename W>
struct Plane {
  W* value = nullptr;
  Activity* activity = nullptr;
  size_t batch_stride = 0;
  std::array<size_t, 3> stride{};
  std::array<ptrdiff_t, 3> begin{};
  std::array<ptrdiff_t, 3> end{};
  ptrdiff_t at(size_t batch, size_t z, size_t y) const {
    return static_cast<ptrdiff_t>(batch * batch_stride + z * stride[0] + y * stride[1]);
  }
};

template <typename W>
Plane<W> contiguous_plane(W* value, Activity* activity, const Dims& dims) {
  Plane<W> plane{value, activity, dims.n[0] * dims.n[1] * dims.n[2], {dims.n[1] * dims.n[2], dims.n[2], 1}, {}, {}};
  for (size_t axis = 0; axis < 3; ++axis) {
    plane.end.at(axis) = static_cast<ptrdiff_t>(dims.n.at(axis));
  }
  return plane;
}

/// Memory that levels share; one for each thread that works.
template <typename W>
struct LevelMemory {
  std::array<Buffer<W>, 8> value;
  std::array<Buffer<Activity>, 8> activity;
  std::array<Buffer<W>, 2> whole;
  std::array<Buffer<Activity>, 2> whole_activity;
  Buffer<W> row;
  Buffer<uint16_t> sums;
};

template <typename W>
class LevelStep {
 public:
  /// `full`: the level's grid. `even`: its class 0, valid while this object lives.
  LevelStep(const Dims& full, const Plane<W>& even, bool cubic, LevelMemory<W>& memory)
      : full_(full), cubic_(cubic), memory_(memory) {
    planes_[0] = even;
    for (const uint8_t c : kClassOrder) {
      const Dims dims = class_dims(c);
      const size_t count = dims.count();
      planes_[c] = contiguous_plane<W>(memory.value[c].reserve(count), memory.activity[c].reserve(count), dims);
    }
    memory.row.reserve(full.n[2] / 2 + 1);
  }

  Dims class_dims(unsigned c) const {
    Dims dims = full_;
    for (unsigned axis = 0; axis < 3; ++axis) {
      dims.n[axis] = odd(c, axis) ? full_.n[axis] / 2 : (full_.n[axis] + 1) / 2;
    }
    return dims;
  }
  static bool odd(unsigned c, unsigned axis) { return (c >> (2 - axis) & 1U) != 0; }
  static unsigned axes_of(unsigned c) { return (c & 1U) + (c >> 1 & 1U) + (c >> 2 & 1U); }
  const Plane<W>& plane(unsigned c) const { return planes_[c]; }

  /// The context, within the class, of every point of class c in order.
  void contexts(unsigned c, const ContextMap& map, uint8_t* out) const;
  /// Predictions of one row of class c.
  void predict_row(unsigned c, size_t batch, size_t z, size_t y, W* out) const;
  /// Writes the whole grid, contiguous.
  void assemble(W* value, Activity* activity) const;

 private:
  struct Neighbours {
    bool a, c, d;
  };
  static Neighbours neighbours(const Plane<W>& source, unsigned axis, size_t index) {
    const auto i = static_cast<ptrdiff_t>(index);
    return {i - 1 >= source.begin[axis], i + 1 < source.end[axis], i + 2 < source.end[axis]};
  }
  W predict_point(unsigned c, size_t batch, const std::array<size_t, 3>& index) const;
  static AxisTerm<W> term_for(const Taps& taps, const W* b, ptrdiff_t step);
  void line_row(const Plane<W>& source, const W* b, size_t count, W* out) const;
  void add_activity(const Plane<W>& source, unsigned axis, size_t batch, const std::array<size_t, 3>& index, size_t m,
                    uint16_t* sums) const;

  Dims full_;
  bool cubic_;
  LevelMemory<W>& memory_;
  std::array<Plane<W>, 8> planes_;
};

extern template class LevelStep<float>;
extern template class LevelStep<double>;
extern template class LevelStep<int32_t>;
extern template class LevelStep<int64_t>;

}  // namespace varve::codec
