// The arithmetic that decides decoded bytes: + - * and comparisons on IEEE numbers (no contraction, no libm, no
// division of reals), wrap-around on integers. Every decoder, on whatever device, computes exactly these expressions.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "codec/element.h"

namespace varve::codec {

/// Weights, in sixteenths, of the points at -3, -1, +1, +3 steps from the predicted one. They sum to 16.
struct Taps {
  int a = 0, b = 16, c = 0, d = 0;
};

/// The taps for what exists: b always does; a to its left; c, d to its right (d only with c).
constexpr Taps taps_for(bool has_a, bool has_c, bool has_d, bool cubic) {
  if (!has_c) {
    return has_a ? Taps{-8, 24, 0, 0} : Taps{0, 16, 0, 0};
  }
  if (!cubic) {
    return {0, 8, 8, 0};
  }
  if (has_a) {
    return has_d ? Taps{-1, 9, 9, -1} : Taps{-2, 12, 6, 0};
  }
  return has_d ? Taps{0, 6, 12, -2} : Taps{0, 8, 8, 0};
}

/// Wrap-around integer helpers.
template <typename W>
constexpr W wrap_add(W x, W y) {
  return static_cast<W>(static_cast<BitsOf<W>>(x) + static_cast<BitsOf<W>>(y));
}
template <typename W>
constexpr W wrap_sub(W x, W y) {
  return static_cast<W>(static_cast<BitsOf<W>>(x) - static_cast<BitsOf<W>>(y));
}
template <typename W>
constexpr W wrap_mul(W x, int k) {
  return static_cast<W>(static_cast<BitsOf<W>>(x) * static_cast<BitsOf<W>>(static_cast<W>(k)));
}

/// One axis' prediction: for reals 16 times the value, for integers the value.
template <typename W>
inline W axis_value(const Taps& t, W a, W b, W c, W d) {
  if constexpr (kIsReal<W>) {
    return (static_cast<W>(t.b) * b + static_cast<W>(t.c) * c) + (static_cast<W>(t.a) * a + static_cast<W>(t.d) * d);
  } else {
    const W sum =
        wrap_add(wrap_add(wrap_mul(wrap_sub(a, b), t.a), wrap_mul(wrap_sub(c, b), t.c)), wrap_mul(wrap_sub(d, b), t.d));
    return wrap_add(b, static_cast<W>(sum >> 4));
  }
}

/// The mean of what axis_value gave for 1, 2 or 3 axes.
template <typename W>
inline W mean_of(W p) {
  if constexpr (kIsReal<W>) {
    return p * W(0.0625);
  } else {
    return p;
  }
}
template <typename W>
inline W mean_of(W p, W q) {
  if constexpr (kIsReal<W>) {
    return (p + q) * W(0.03125);
  } else {
    return wrap_add(p, static_cast<W>(wrap_sub(q, p) >> 1));
  }
}
template <typename W>
inline W mean_of(W p, W q, W r) {
  if constexpr (kIsReal<W>) {
    return ((p + q) + r) * W(1.0 / 48.0);
  } else {
    return wrap_add(p, static_cast<W>(wrap_add(wrap_sub(q, p), wrap_sub(r, p)) / 3));
  }
}

/// A prediction that overflowed becomes 0, so that no NaN or infinity ever enters a prediction.
template <typename W>
inline W finite_or_zero(W value) {
  if constexpr (kIsReal<W>) {
    return std::fabs(value) <= std::numeric_limits<W>::max() ? value : W(0);
  } else {
    return value;
  }
}

/// Linear quantization. kMagic rounds to the nearest integer, ties to even, for |e| < kLimit.
template <typename W>
struct Quantizer;
template <>
struct Quantizer<float> {
  static constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
  static constexpr float kLimit = 2097152.0F;   // 2^21
};
template <>
struct Quantizer<double> {
  static constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLimit = 1073741824.0;        // 2^30
};

template <typename W>
inline W dequantize(W prediction, W quantum, int32_t code) {
  return prediction + quantum * static_cast<W>(code);
}

constexpr uint32_t zigzag(int32_t v) { return (static_cast<uint32_t>(v) << 1) ^ static_cast<uint32_t>(v >> 31); }
constexpr int32_t unzigzag(uint32_t v) { return static_cast<int32_t>((v >> 1) ^ (0U - (v & 1U))); }
constexpr uint64_t zigzag(int64_t v) { return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63); }
constexpr int64_t unzigzag(uint64_t v) { return static_cast<int64_t>((v >> 1) ^ (uint64_t{0} - (v & 1U))); }

/// Lossless residuals: the zig-zag of x - prediction, in the type's width, with wrap-around.
template <typename W>
inline BitsOf<W> residual_of(W x, W prediction, unsigned width) {
  if constexpr (kIsReal<W>) {
    using U = BitsOf<W>;
    using S = std::make_signed_t<U>;
    const U difference = bits_to_order(std::bit_cast<U>(x)) - bits_to_order(std::bit_cast<U>(prediction));
    return zigzag(static_cast<S>(difference));
  } else {
    const unsigned shift = 8 * sizeof(W) - width;
    const auto difference = static_cast<BitsOf<W>>(wrap_sub(x, prediction)) << shift;
    return zigzag(static_cast<W>(static_cast<W>(difference) >> shift));
  }
}

template <typename W>
inline W from_residual(BitsOf<W> residual, W prediction, const ElementRange<W>& range) {
  if constexpr (kIsReal<W>) {
    using U = BitsOf<W>;
    return std::bit_cast<W>(order_to_bits(
        static_cast<U>(bits_to_order(std::bit_cast<U>(prediction)) + static_cast<U>(unzigzag(residual)))));
  } else {
    using U = BitsOf<W>;
    const unsigned shift = 8 * sizeof(W) - range.width;
    const U sum = (static_cast<U>(prediction) + static_cast<U>(unzigzag(residual))) << shift;
    return range.is_signed ? static_cast<W>(static_cast<W>(sum) >> shift) : static_cast<W>(sum >> shift);
  }
}

}  // namespace varve::codec
