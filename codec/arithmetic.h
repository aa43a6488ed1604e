// The arithmetic that decides what a point decodes to, once for all that predict, quantize and decode: kernels of the
// CPU on vectors, CUDA kernels on single numbers. Only + - * and comparisons; neither side may contract a * b + c
// (-ffp-contract=off, -fmad=false). T: float or double; V: T, or a vector of it. FORMAT.md, "Prediction" and "Tokens".
#pragma once

#include <cstdint>

#include "codec/host_device.h"

namespace varve::codec {

template <typename T>
struct RealFacts;
template <>
struct RealFacts<float> {
  using Unsigned = uint32_t;
  using Signed = int32_t;
  static constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
  static constexpr float kLimit = 2097152.0F;   // 2^21
  static constexpr float kMax = __FLT_MAX__;
  static constexpr float kThird = static_cast<float>(1.0 / 48.0);
};
template <>
struct RealFacts<double> {
  using Unsigned = uint64_t;
  using Signed = int64_t;
  static constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLimit = 1073741824.0;        // 2^30
  static constexpr double kMax = __DBL_MAX__;
  static constexpr double kThird = 1.0 / 48.0;
};

// Of six points: Deslauriers and Dubuc, Constr. Approx. 5 (1989): 150, 25 and 3 of 256.
inline constexpr double kQuinticNearWeight = 9.375;
inline constexpr double kQuinticFarWeight = 1.5625;
inline constexpr double kQuinticOuterWeight = 0.1875;

namespace {  // each file has its own: those of instruction sets must not be mixed, see kernels_vectors.h

/// 16 times an axis's prediction from the points before and after: in their order a, b, c, d.
template <typename T, typename V>
VARVE_HOST_DEVICE inline V weighted(V a, V b, V c, V d, T near, T far) {
  return (b + c) * near - (a + d) * far;
}
/// The same of six points: e, a, b, c, d, f.
template <typename T, typename V>
VARVE_HOST_DEVICE inline V weighted(V e, V a, V b, V c, V d, V f, T near, T far, T outer) {
  return weighted<T>(a, b, c, d, near, far) + (e + f) * outer;
}
/// 16 times the prediction of a point with nothing after it along x; `a`: the one before b, or b.
template <typename T, typename V>
VARVE_HOST_DEVICE inline V weighted_one_sided(V b, V a) {
  return b * T(24) - a * T(8);
}
/// A missing point, by quadratic extrapolation from the three next to it.
template <typename T, typename V>
VARVE_HOST_DEVICE inline V extrapolated(V one, V two, V three) {
  return (one - two) * T(3) + three;
}

/// The means of one, two and three axes, from 16 times their predictions.
template <typename T, typename V>
VARVE_HOST_DEVICE inline V axes_mean(V v) {
  return v * T(0.0625);
}
template <typename T, typename V>
VARVE_HOST_DEVICE inline V axes_mean(V v, V w) {
  return (v + w) * T(0.03125);
}
template <typename T, typename V>
VARVE_HOST_DEVICE inline V axes_mean(V v, V w, V u) {
  return ((v + w) + u) * RealFacts<T>::kThird;
}

/// What a point of code v, as a real, decodes to.
template <typename T, typename V>
VARVE_HOST_DEVICE inline V dequantized(V prediction, T quantum, V v) {
  return prediction + quantum * v;
}

template <typename V>
struct Quantized {
  V scaled;   ///< the code before rounding: only if its magnitude is below kLimit is there one
  V shifted;  ///< its bits less those of kMagic are the code
  V value;    ///< what the code decodes to
};
template <typename T, typename V>
VARVE_HOST_DEVICE inline Quantized<V> quantized(V x, V prediction, T quantum, T reciprocal) {
  Quantized<V> out;
  out.scaled = (x - prediction) * reciprocal;
  out.shifted = out.scaled + RealFacts<T>::kMagic;
  out.value = dequantized<T>(prediction, quantum, out.shifted - RealFacts<T>::kMagic);
  return out;
}

}  // namespace
}  // namespace varve::codec
