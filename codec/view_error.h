// What views of coarse levels differ by from the elements that were written, found while a tile is encoded.
//
// On the coarser levels views are computed, from what the encoder has, and compared. On the finest level that would
// take as long as encoding: there a bound is found, and on the next where it is no more than was seen in other bricks.
// A point's value is its prediction plus what its code says, at most the *reach* of its class; in a view it is the
// prediction alone, and that is a weighted sum of points of which is known how far they are off. The bound of a brick
// is this recursion over its classes.
#pragma once

#include "codec/coding.h"

namespace varve::codec {

/// A level of a brick as the recursion sees it.
struct LevelReach {
  Dims dims;
  Interpolation interpolation = Interpolation::cubic;
  std::array<double, 8> reach{};  ///< by class: the most that a value differs from its prediction
  double unit = 0;                ///< of reals: relative precision of the work type
  double step = 0;                ///< of integers: what their rounding adds to a prediction's error
  double greatest = 0;            ///< number of the work type
};

/// The most that points differ from their values in a view whose points of coarser levels differ by at most `even`;
/// those are at most `largest` in magnitude. Infinite where sums may overflow.
double bound_of_level(const LevelReach& level, double even, double largest);

/// Errors over some bricks, before the arithmetic of what found them is allowed for.
struct WorkErrors {
  std::array<double, kCoarseLevel + 1> most{};  ///< of view K from the decoded values; 0 at K = 0
  double largest = 0;                           ///< of integers: none that a decimal stands for is larger in magnitude
};

/// What the errors of views are from what an encoder measures of one brick after the other. W: the work type.
template <typename W>
class ViewErrors {
 public:
  explicit ViewErrors(const Settings& settings) : settings_(settings) {}

  // Of each brick in this order. `dims`: of the level's grid; `reach`: see LevelReach; `known`: the greatest magnitude
  // of the points of coarser levels.

  /// `difference`: between the level's points in view 3 and their values.
  void level_2(double difference);
  /// difference_of(k): the same for this level and view k, 3 or 2.
  template <typename DifferenceOf>
  void level_1(const Dims& dims, const std::array<double, 8>& reach, double known, const DifferenceOf& difference_of);
  /// `largest`: the greatest magnitude of any point, if has_own_scale() or W is no real; else `known`.
  void level_0(const Dims& dims, const std::array<double, 8>& reach, double known, double largest);

  const WorkErrors& get() const { return errors_; }

 private:
  LevelReach reach_of(const Dims& dims, const std::array<double, 8>& reach) const;
  const Settings& settings_;
  std::array<double, kCoarseLevel + 1> brick_{};  ///< in the work type, by view; so far
  std::array<double, kCoarseLevel + 1> seen_{};   ///< the most that bricks had above the finest level
  WorkErrors errors_;
};

template <typename W>
template <typename DifferenceOf>
void ViewErrors<W>::level_1(const Dims& dims, const std::array<double, 8>& reach, double known,
                            const DifferenceOf& difference_of) {
  const LevelReach one = reach_of(dims, reach);
  for (const unsigned k : {3U, 2U}) {
    const double bound = bound_of_level(one, brick_.at(k), known);
    if (bound <= seen_.at(k)) {
      brick_.at(k) = bound;
      continue;
    }
    brick_.at(k) = std::max(brick_.at(k), difference_of(k));
    seen_.at(k) = std::max(seen_.at(k), brick_.at(k));
  }
}

/// Compares the views of one brick after the other with what the encoder made of it.
template <typename W>
class ViewMeter {
 public:
  explicit ViewMeter(const Settings& settings) : errors_(settings) {}
  /// After each of the levels 2, 1 and 0 of a brick, in this order. `dims`: of the level's grid.
  void level(const Level<W>& step, unsigned level, const Dims& dims, const std::array<double, 8>& reach,
             const Coding<W>& coding);
  /// Of the elements; of decimals, of their integers.
  const WorkErrors& errors() const { return errors_.get(); }

 private:
  struct Memory {
    LevelMemory<W> levels;
    PlaneMemory<W> whole;
  };
  static Memory& memory() {
    thread_local Memory held;
    return held;
  }
  double difference(const Level<W>& step, Level<W>& view, const Coding<W>& coding);

  Plane<W> coarsest_;  ///< of view 3: its values of levels 2 and up
  ViewErrors<W> errors_;
};

extern template class ViewErrors<float>;
extern template class ViewErrors<double>;
extern template class ViewErrors<int32_t>;
extern template class ViewErrors<int64_t>;
extern template class ViewMeter<float>;
extern template class ViewMeter<double>;
extern template class ViewMeter<int32_t>;
extern template class ViewMeter<int64_t>;

/// Whether an array's encoder tells of its views: not of integers, which need errors_of_labels(), nor of decimals some
/// of which are numbers that are none, which need errors_by_decoding(). `missing`: declared missing values.
bool has_metered_views(const Settings& settings, std::span<const uint64_t> missing);
/// `exact`: no element of what was encoded moved, whatever the bound.
LevelErrors errors_of_elements(const Settings& settings, const WorkErrors& work, bool exact);

/// Of an array of integers, whose level views repeat the nearest point of the level. `data`: the tile's elements, C
/// order, host byte order.
LevelErrors errors_of_labels(const ArrayCodec& codec, uint64_t tile, const std::byte* data,
                             std::span<const uint64_t> missing);

/// Of any tile: the true errors, found in the time that decoding it four times takes.
Result<LevelErrors> errors_by_decoding(const ArrayCodec& codec, uint64_t tile, const std::vector<Record>& records,
                                       const std::byte* data, std::span<const uint64_t> missing);

}  // namespace varve::codec
