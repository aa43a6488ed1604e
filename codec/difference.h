// Codes as differences along an axis: what interpolation leaves is often alike in the next slice, where it predicts
// nothing (times of a field, layers of a model). FORMAT.md, "Differences".
#pragma once

#include "codec/bytes.h"
#include "codec/element.h"
#include "codec/settings.h"

namespace varve::codec {

/// The points of a class in their order: `extent` along the axis, `step` apart, one such block behind the other.
struct CodeSteps {
  size_t extent = 1;
  size_t step = 1;
};

/// The axis of differences in a tile or brick.
class DifferenceAxis {
 public:
  /// None: codes are coded as they are.
  DifferenceAxis() = default;
  DifferenceAxis(const Settings& settings, const Box& box);
  explicit operator bool() const { return any_; }
  CodeSteps steps(const Dims& of_class) const;

 private:
  bool any_ = false;
  std::optional<size_t> grid_axis_;  ///< see Geometry::grid_axis(); of a batch axis:
  size_t extent_ = 1;                ///< it has so many items,
  size_t items_between_ = 1;         ///< so far apart
};

/// Memory for the work on one class; one for each thread.
template <typename W>
class CodeDifferences {
 public:
  /// Tokens of codes become tokens of differences. `wide`: the codes of wide tokens, with room for `count` of them and
  /// slack, as both have; the return value says how many those are then. Points that have no code count as the one
  /// before.
  size_t take(uint8_t* tokens, size_t count, CodeSteps steps, BitsOf<W>* wide);
  /// The inverse.
  size_t undo(uint8_t* tokens, size_t count, CodeSteps steps, BitsOf<W>* wide);

 private:
  Buffer<BitsOf<W>> codes_;  ///< signed, in two's complement
};

extern template class CodeDifferences<float>;
extern template class CodeDifferences<double>;
extern template class CodeDifferences<int32_t>;
extern template class CodeDifferences<int64_t>;

}  // namespace varve::codec
