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

/// Compares the views of one brick after the other with what the encoder made of it.
template <typename W>
class ViewMeter {
 public:
  /// After each of the levels 2, 1 and 0 of a brick, in this order. `dims`: of the level's grid.
  void level(const Level<W>& step, unsigned level, const Dims& dims, const std::array<double, 8>& reach,
             const Coding<W>& coding);
  /// Of the elements, for view K; of decimals, of their integers.
  const std::array<double, kCoarseLevel + 1>& most() const { return most_; }
  double largest() const { return largest_; }

 private:
  struct Memory {
    LevelMemory<W> levels;
    PlaneMemory<W> whole;
  };
  static Memory& memory() {
    thread_local Memory held;
    return held;
  }
  void compare(const Level<W>& step, Level<W>& view, unsigned k, const Coding<W>& coding);

  Plane<W> coarsest_;                             ///< of view 3: its values of levels 2 and up
  std::array<double, kCoarseLevel + 1> brick_{};  ///< in the work type, by view; so far
  std::array<double, kCoarseLevel + 1> seen_{};   ///< the most that bricks had above the finest level
  std::array<double, kCoarseLevel + 1> most_{};
  double largest_ = 0;
};

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
