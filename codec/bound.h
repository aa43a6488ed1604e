// From the bound that was asked for to what the quantized scheme needs: a mapping, a distance, a quantum.
#pragma once

#include <functional>
#include <string_view>

#include "codec/mapping.h"
#include "codec/scan.h"

namespace varve::codec {

/// The extremes of an array's finite elements without missing values, as values. Both 0 if there are none.
struct ValueRange {
  uint64_t counted = 0;
  double min = 0;
  double max = 0;
};

/// From a scan's rest_min and rest_max, which of f16 and bf16 are orders (see element.h). Of u64 beyond 2^63, which a
/// scan takes for negative, and of halves that are not finite: an infinite range, which no bound applies to.
ValueRange value_range(DType type, const Scan& scan);

/// What a bound comes to for one array. With quantum 0 the array is stored losslessly and nothing else is set but
/// `why`.
struct ResolvedBound {
  Mapping mapping;
  /// No element moves by more than this. For pointwise and bits that is what the largest may move by.
  double absolute_bound = 0;
  /// How far a work value may be from the element's: what is nearer is stored as something that keeps the bound (but
  /// for the few elements that `Mapping::keeps` then refuses). For f32 and f64 by value: the absolute bound itself.
  double work_bound = 0;
  double quantum = 0;  ///< of level 0, in the work domain
  bool exceeds_range = false;
  /// Work values know no order between 0 and the least normal number: zeros are worth a place among the specials.
  bool zero_is_special = false;
  std::string_view why;  ///< a bound was asked for and cannot be applied: a sentence's end, after "lossless: "

  bool lossless() const { return quantum == 0; }
};

/// Pure. BoundMode::ratio is lossless here: find its absolute bound first (below). Integers have no bits mode.
///
/// psnr: errors that are uniform in +-B have the mean square B^2/3, so B = range * 10^(-dB/20) * sqrt(3). What is
/// measured is as a rule better: coarse levels have a smaller quantum, points that are predicted well have errors near
/// 0, and B is made 0.5% less so that chance does not spoil it. It is no guarantee: errors of +-B everywhere, which a
/// field would have to be made for, are 4.8 dB worse. Elements with a grid of their own (integers, halves) add the
/// error of being rounded to it; B is less by that.
ResolvedBound resolve_bound(DType type, const Bound& bound, const ValueRange& range);

/// Absolute bounds between which a ratio is searched; high = 0: there is nothing to search (a constant or empty array).
struct BoundLimits {
  double low = 0;
  double high = 0;
};
BoundLimits ratio_limits(DType type, const ValueRange& range);

struct RatioBound {
  double bound = 0;  ///< absolute; 0: lossless storage reaches the ratio
  double ratio = 0;  ///< what `ratio_of` says of it
  bool reached = false;
};

/// The smallest absolute bound with ratio_of(bound) >= ratio, to within 1%, by bisection of its logarithm: about 12
/// calls. `ratio_of`: raw over stored bytes, as estimated on a sample; ratio_of(0) is asked for lossless storage. Where
/// it does not rise with the bound everywhere, some bound that reaches the ratio while one 1% smaller does not. Not
/// even `high` reaches it: `high`.
RatioBound find_ratio_bound(double ratio, const BoundLimits& limits, const std::function<double(double)>& ratio_of);

}  // namespace varve::codec
