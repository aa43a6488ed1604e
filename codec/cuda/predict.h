// The prediction and the context of one point. FORMAT.md, "Prediction" and "Contexts".
#pragma once

#include <cmath>

#include "codec/arithmetic.h"
#include "codec/cuda/points.h"

namespace varve::codec::cuda {

template <typename W>
__device__ inline bool is_finite(W value) {
  return fabs(value) <= RealFacts<W>::kMax;
}
template <typename W>
__device__ inline W finite_or_zero(W value) {
  return is_finite(value) ? value : W(0);
}

/// Of lines along z and y: 16 times their prediction.
template <typename W>
__device__ inline W across_value(const Line<W>& line, Interpolation interpolation) {
  const bool six = interpolation == Interpolation::quintic;
  const W b = line.value(0);
  const bool has_a = line.has(-1);
  const W outer = six ? (b + b) * W(0) : W(0);  // what fewer points than six add
  if (!line.two_sided()) {
    const W a = has_a ? line.value(-1) : b;
    const W v = has_a ? weighted<W>(a, b, b, a, W(12), W(4)) : weighted<W>(b, b, b, b, W(8), W(0));
    return six ? v + outer : v;
  }
  const W c = line.value(1);
  if (interpolation == Interpolation::linear) {
    return weighted<W>(b, b, c, b, W(8), W(0));
  }
  const bool has_d = line.has(2);
  W a = has_a ? line.value(-1) : b;
  W d = has_d ? line.value(2) : c;
  if (six && line.has(-2) && line.has(3)) {
    return weighted<W>(line.value(-2), a, b, c, d, line.value(3), W(kQuinticNearWeight), W(kQuinticFarWeight),
                       W(kQuinticOuterWeight));
  }
  if (!has_a && has_d) {
    a = extrapolated<W>(b, c, d);
  } else if (!has_d && has_a) {
    d = extrapolated<W>(c, b, a);
  }
  const W v = weighted<W>(a, b, c, d, W(9), W(1));
  return six ? v + outer : v;
}

/// A point of a row along x, or what stands for those before and after it.
template <typename W>
__device__ inline W padded_value(const Line<W>& line, int32_t number) {
  const int32_t first = line.first;
  const int32_t last = line.last - 1;
  const bool three = last - first >= 2;
  if (number < first) {
    return three ? extrapolated<W>(line.value(first), line.value(first + 1), line.value(first + 2)) : line.value(first);
  }
  if (number > last) {
    return three ? extrapolated<W>(line.value(last), line.value(last - 1), line.value(last - 2)) : line.value(last);
  }
  return line.value(number);
}

/// Of a line along x with points on both sides.
template <typename W>
__device__ inline W along_value(const Line<W>& line, Interpolation interpolation) {
  const W a = padded_value(line, -1);
  const W b = line.value(0);
  const W c = line.value(1);
  const W d = padded_value(line, 2);
  if (interpolation == Interpolation::quintic) {
    return weighted<W>(padded_value(line, -2), a, b, c, d, padded_value(line, 3), W(kQuinticNearWeight),
                       W(kQuinticFarWeight), W(kQuinticOuterWeight));
  }
  const bool linear = interpolation == Interpolation::linear;
  return weighted<W>(a, b, c, d, W(linear ? 8 : 9), W(linear ? 0 : 1));
}

/// Of a point that has nothing after it along x and no other axis: from the one before it, and the one before that.
template <typename W>
__device__ inline W one_sided_prediction(W b, W a) {
  return finite_or_zero(axes_mean<W>(W(0) + weighted_one_sided<W>(b, a)));
}

template <typename W>
__device__ inline W predict(const Surroundings<W>& around, const ClassPoints& points, const Place& place,
                            Interpolation interpolation) {
  const bool from_tile = around.from_tile(points);
  const bool along_x = odd_along(points.c, 2);
  Array<W, 2> across;
  unsigned used = 0;
  for (unsigned axis = 0; axis < 2; ++axis) {
    if (!odd_along(points.c, axis)) {
      continue;
    }
    const Line<W> line = around.line(points, place, axis, from_tile);
    // One-sided axes are used where nothing else is: the last odd one alone.
    const bool last_odd = !along_x && (axis == 1 || !odd_along(points.c, 1));
    if (line.two_sided() || (last_odd && used == 0)) {
      across[used++] = across_value(line, interpolation);
    }
  }
  if (!along_x) {
    return finite_or_zero(used == 2 ? axes_mean<W>(across[0], across[1]) : axes_mean<W>(across[0]));
  }
  const Line<W> line = around.line(points, place, 2, from_tile);
  if (line.two_sided()) {
    const W v = along_value(line, interpolation);
    const W mean =
        used == 0 ? axes_mean<W>(v) : (used == 1 ? axes_mean<W>(across[0], v) : axes_mean<W>(across[0], across[1], v));
    return finite_or_zero(mean);
  }
  if (used == 0) {
    const W b = line.value(0);
    return one_sided_prediction(b, line.has(-1) ? line.value(-1) : b);
  }
  const W sum = used == 2 ? across[0] + across[1] : across[0];
  return finite_or_zero((sum + W(0)) * (used == 2 ? W(0.03125) : W(0.0625)));
}

/// a + 2b + 2c + d of a line; what is missing repeats the one next to it.
template <typename W, typename Get>
__device__ inline unsigned line_sum(const Line<W>& line, const Get& get) {
  const unsigned b = get(line, 0);
  const unsigned c = line.two_sided() ? get(line, 1) : b;
  const unsigned a = line.has(-1) ? get(line, -1) : b;
  const unsigned d = line.has(2) ? get(line, 2) : c;
  return a + 2 * b + 2 * c + d;
}

/// The context, within its class, of a point.
template <typename W>
__device__ inline uint8_t context_of(const Surroundings<W>& around, const ClassPoints& points, const Place& place,
                                     const ArrayTerms<W>& terms) {
  const bool from_tile = around.from_tile(points);
  const unsigned axes = odd_count(points.c);
  unsigned sum = 0;
  unsigned holes = 0;
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (!odd_along(points.c, axis)) {
      continue;
    }
    const Line<W> line = around.line(points, place, axis, from_tile);
    sum += line_sum(line, [](const Line<W>& of, int32_t number) { return of.activity(number); });
    if (terms.special_count > 0) {
      holes += line_sum(line, [](const Line<W>& of, int32_t number) { return of.mark(number); });
    }
  }
  if (holes > 0) {
    return static_cast<uint8_t>(kHoleContext + (holes > 3 * axes ? 1 : 0) + (holes >= 6 * axes ? 1 : 0));
  }
  unsigned context = 0;
  for (unsigned k = 0; k < kPlainContexts - 1; ++k) {
    const unsigned threshold = terms.sum_thresholds[k] == 1 ? 1U : terms.sum_thresholds[k] * axes;
    context += sum >= threshold ? 1 : 0;
  }
  return static_cast<uint8_t>(context);
}

/// The activity of a token.
template <typename W>
__device__ inline uint8_t activity_of(const ArrayTerms<W>& terms, unsigned token) {
  unsigned reached = 0;
  for (unsigned k = 0; k < kMaxActivity; ++k) {
    reached += token >= terms.activity_thresholds[k] ? 1 : 0;
  }
  return static_cast<uint8_t>(token == kTokenExact ? kMaxActivity : reached);
}

}  // namespace varve::codec::cuda
