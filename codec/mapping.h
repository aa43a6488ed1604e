// Elements of any type as numbers that a bound can be put on: the *work values* that the quantized scheme predicts and
// codes. A mapping has
//   load(x)      the work value of an element (exact unless said otherwise; NaN and infinities give such, -0.0 gives
//   -0.0) store(w)     the element nearest to a work value: never NaN, infinite or -0.0, whatever w is keeps(x, s)
//   whether s may stand for x: the bound checked in the element's own domain, without slack
// for bit patterns x and s. NaN, infinities and -0.0 keep nothing but themselves.
//
// Why point-wise relative bounds are kept by counting steps (`OrderMapping`). Let x > 0 be normal, 2^e <= x < 2^(e+1),
// m the bits of its mantissa, u = 2^(e-m) the step of its binade, and s be n <= V * 2^m steps of the bit pattern away,
// V <= 1. *Downwards* no step is longer than u, so |x - s| <= n * u <= V * 2^e <= V * x. *Upwards* the steps are u
// until the border 2^(e+1) = x + j * u (j >= 1) and 2u from there; the next border is at least 2^m >= n steps further,
// hence never passed. If it is passed at all (n > j): |x - s| = (2n - j) * u and x = (2^(m+1) - j) * u, and (2n - j) /
// (2^(m+1) - j) <= 2n / 2^(m+1) <= V, because subtracting j from both parts of a fraction that is at most 1 does not
// increase it. Negative x: the same mirrored. Subnormal x have steps as long as the least normals' while |x| is less:
// they keep nothing but themselves. n < 2^m steps from a normal number reach neither zero nor the other sign, and s = 0
// is refused.
#pragma once

#include <algorithm>
#include <cmath>

#include "codec/element.h"

namespace varve::codec {

/// What work values are. The numbers are stored on disk.
enum class MappingKind : uint8_t {
  values = 0,   ///< the element's value; absolute bounds
  orders = 1,   ///< the place of its bits among those of all floats of its sign; point-wise relative bounds
  rounded = 2,  ///< the same in steps of the last mantissa bit to be kept, rounded to whole ones
};

struct Mapping {
  MappingKind kind = MappingKind::values;
  uint8_t kept_bits = 0;  ///< `rounded` alone: under the type's mantissa_bits
  double tolerance = 0;   ///< `values`: the absolute bound; `orders`: the point-wise one. Encoders alone need it.
  bool operator==(const Mapping&) const = default;
};

/// The nearest whole number, ties to even.
template <typename W>
inline W round_even(W value) {
  constexpr W kWhole = std::is_same_v<W, float> ? W(0x1p23) : W(0x1p52);  // from here on all numbers are whole
  const W magnitude = std::fabs(value);
  const W rounded = (magnitude + kWhole) - kWhole;  // outside of the choice, so that compilers can do many at once
  return std::copysign(magnitude < kWhole ? rounded : magnitude, value);
}

/// A NaN becomes `low`.
template <typename W>
inline W clamp_number(W value, W low, W high) {
  const W raised = value > low ? value : low;
  return raised < high ? raised : high;
}

/// Half to float: exact.
inline float half_to_float(uint16_t bits) {
  const uint32_t magnitude = uint32_t{bits} & 0x7fffU;
  const uint32_t wide = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F);
  const uint32_t finite_or_not = magnitude >= 0x7c00U ? wide | 0x7f800000U : wide;
  return std::bit_cast<float>(finite_or_not | (uint32_t{bits} & 0x8000U) << 16);
}

/// Float to the nearest half, ties to even; what is too large becomes infinite, a NaN stays one.
inline uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffU;
  // Below 2^-14: subnormal. The last place of 0.5 + x is the least half, 2^-24.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const uint32_t normal = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  const uint32_t not_finite = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const uint32_t half = magnitude < 0x47800000U ? finite : not_finite;  // 2^16
  return static_cast<uint16_t>(half | (bits >> 16 & 0x8000U));
}

/// bfloat16 to float: exact.
inline float brain_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

/// Float to the nearest bfloat16, ties to even; what is too large becomes infinite, a NaN stays one.
inline uint16_t float_to_brain(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t number = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? bits >> 16 | 0x40U : number);
}

/// What is known of a float type. Bits: the unsigned integer of its size; Work: its work type under `values`.
template <typename BitsType, typename WorkType, unsigned mantissa>
struct FloatFacts {
  using Bits = BitsType;
  using Work = WorkType;
  static constexpr bool kIsInteger = false;
  static constexpr unsigned kMantissa = mantissa;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  static constexpr Bits kInfinity = static_cast<Bits>(kSign - (Bits{1} << mantissa));
  static constexpr Bits kLeastNormal = static_cast<Bits>(Bits{1} << mantissa);
  static constexpr Bits magnitude(Bits x) { return static_cast<Bits>(x & ~kSign); }
  static constexpr bool is_finite(Bits x) { return magnitude(x) < kInfinity; }
};

struct HalfElement : FloatFacts<uint16_t, float, 10> {
  static Work value(Bits x) { return half_to_float(x); }
  static Bits nearest(Work w) { return float_to_half(w); }
};
struct BrainElement : FloatFacts<uint16_t, float, 7> {
  static Work value(Bits x) { return brain_to_float(x); }
  static Bits nearest(Work w) { return float_to_brain(w); }
};
struct SingleElement : FloatFacts<uint32_t, float, 23> {
  static Work value(Bits x) { return std::bit_cast<float>(x); }
  static Bits nearest(Work w) { return std::bit_cast<Bits>(w); }
};
struct DoubleElement : FloatFacts<uint64_t, double, 52> {
  static Work value(Bits x) { return std::bit_cast<double>(x); }
  static Bits nearest(Work w) { return std::bit_cast<Bits>(w); }
};

/// Integers; those of 64 bits only where all are less than 2^53 in magnitude.
template <typename Integer>
struct IntegerElement {
  using Bits = Integer;
  using Work = std::conditional_t<sizeof(Integer) <= 2, float, double>;
  static constexpr bool kIsInteger = true;
  static constexpr double kLow =
      std::max(static_cast<double>(std::numeric_limits<Integer>::min()), std::is_signed_v<Integer> ? -0x1p53 : 0.0);
  static constexpr double kHigh = std::min(static_cast<double>(std::numeric_limits<Integer>::max()), 0x1p53);
  template <typename W = Work>
  static W value(Bits x) {
    return static_cast<W>(x);
  }
  template <typename W>
  static Bits nearest(W w) {
    return static_cast<Integer>(clamp_number(round_even(w), static_cast<W>(kLow), static_cast<W>(kHigh)));
  }
  /// |x - s|: of any two integers.
  static uint64_t distance(Bits x, Bits s) {
    const auto difference = static_cast<uint64_t>(x) - static_cast<uint64_t>(s);
    return x < s ? uint64_t{0} - difference : difference;
  }
};

/// Whether |a - b| <= bound for finite a and b: the difference and what its rounding lost (Knuth's TwoSum) are compared
/// as one number.
inline bool is_within(double a, double b, double bound) {
  const double difference = a - b;
  if (!(std::fabs(difference) <= bound)) {
    return false;  // rounding is monotone: a true difference within the bound does not round to beyond it
  }
  const double back = difference - a;
  const double lost = (a - (difference - back)) - (b + back);
  return std::fabs(difference) < bound || (difference < 0 ? lost >= 0 : lost <= 0);
}

/// The element's value; the bound is absolute.
template <typename E>
class ValueMapping {
 public:
  using Bits = typename E::Bits;
  using Work = typename E::Work;
  explicit ValueMapping(const Mapping& from)
      : bound_(from.tolerance), most_(from.tolerance < 0x1p63 ? static_cast<uint64_t>(from.tolerance) : ~uint64_t{0}) {}

  Work load(Bits x) const { return E::value(x); }
  Bits store(Work w) const {
    if constexpr (E::kIsInteger) {
      return E::nearest(w);
    } else {
      const Work largest = E::value(static_cast<Bits>(E::kInfinity - 1));
      const Bits x = E::nearest(clamp_number(w, -largest, largest));
      return x == E::kSign ? Bits{0} : x;
    }
  }
  bool keeps(Bits x, Bits s) const {
    if (x == s) {
      return true;
    }
    if constexpr (E::kIsInteger) {
      return E::distance(x, s) <= most_;
    } else {
      return E::is_finite(x) && E::is_finite(s) && x != E::kSign && s != E::kSign &&
             is_within(double{E::value(x)}, double{E::value(s)}, bound_);
    }
  }

 private:
  double bound_;
  uint64_t most_;  ///< the bound as an integer
};

/// Floats: the bit pattern without its sign, with the value's sign: zero-centred, in the order of the values. Exact but
/// for f64, where load rounds to 53 bits: by 2^9 steps at most. The bound is relative to each element.
template <typename E>
class OrderMapping {
  static_assert(!E::kIsInteger);

 public:
  using Bits = typename E::Bits;
  using Work = std::conditional_t<sizeof(Bits) == 2, float, double>;
  /// The greatest pattern that store gives: of a finite number, and exact as a work value.
  static constexpr Bits kLargest = static_cast<Bits>(sizeof(Bits) == 8 ? E::kInfinity - 1024 : E::kInfinity - 1);

  explicit OrderMapping(const Mapping& from) : steps_(steps(from.tolerance)) {}
  /// Steps that `bound` allows; at most 2^mantissa: more is never needed.
  static uint64_t steps(double bound) {
    return static_cast<uint64_t>(clamp_number(bound, 0.0, 1.0) * static_cast<double>(uint64_t{1} << E::kMantissa));
  }

  Work load(Bits x) const {
    const Bits magnitude = E::magnitude(x);
    const Work order = magnitude < E::kInfinity ? as_number(magnitude) : std::numeric_limits<Work>::quiet_NaN();
    return magnitude == x ? order : -order;
  }
  Bits store(Work w) const {
    const Work order = round_even(clamp_number(w, -as_number(kLargest), as_number(kLargest)));
    const auto magnitude = static_cast<Bits>(static_cast<std::make_signed_t<Wide>>(std::fabs(order)));
    return static_cast<Bits>(order < 0 ? magnitude | E::kSign : magnitude);
  }
  bool keeps(Bits x, Bits s) const {
    const Bits from = E::magnitude(x);
    const Bits to = E::magnitude(s);
    const uint64_t distance = from < to ? uint64_t{to} - from : uint64_t{from} - to;
    return x == s || (from >= E::kLeastNormal && from < E::kInfinity && to != 0 && to < E::kInfinity &&
                      ((x ^ s) & E::kSign) == 0 && distance <= steps_);
  }

 private:
  using Wide = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;
  static constexpr Work as_number(Bits magnitude) {
    return static_cast<Work>(static_cast<std::make_signed_t<Wide>>(magnitude));  // signed: the faster conversion
  }
  uint64_t steps_;
};

/// Integers under a point-wise relative bound: the order of their value as a double.
template <typename E>
class IntegerOrderMapping {
  static_assert(E::kIsInteger);

 public:
  using Bits = typename E::Bits;
  using Work = double;
  explicit IntegerOrderMapping(const Mapping& from) : bound_(from.tolerance), orders_(from) {}

  Work load(Bits x) const { return orders_.load(std::bit_cast<uint64_t>(static_cast<double>(x))); }
  Bits store(Work w) const { return E::nearest(std::bit_cast<double>(orders_.store(w))); }
  bool keeps(Bits x, Bits s) const {
    if (x == s) {
      return true;
    }
    const uint64_t magnitude = E::distance(x, 0);
    const uint64_t distance = E::distance(x, s);
    // Both sides are exact but for the product's rounding, which is monotone: a bound that is broken is never below.
    return s != 0 && (x < 0) == (s < 0) && magnitude < uint64_t{1} << 53 && distance < uint64_t{1} << 53 &&
           static_cast<double>(distance) < bound_ * static_cast<double>(magnitude);
  }

 private:
  double bound_;
  OrderMapping<DoubleElement> orders_;
};

/// Floats rounded to `kept_bits` bits of mantissa, ties to even (the carry may raise the exponent): their order in
/// steps of the last bit kept, a whole number. load rounds; store(load(x)) is the rounded x, and nothing else keeps x
/// but x. Subnormals are rounded to the same steps as the least normal numbers. kept_bits <= 34, so that a work value
/// has at least eight bits behind the point.
template <typename E>
class RoundedMapping {
  static_assert(!E::kIsInteger);

 public:
  using Bits = typename E::Bits;
  using Work = std::conditional_t<sizeof(Bits) == 2, float, double>;
  explicit RoundedMapping(const Mapping& from) : drop_(E::kMantissa - from.kept_bits) {}

  Work load(Bits x) const {
    const Bits magnitude = E::magnitude(x);
    const Work order =
        magnitude < E::kInfinity ? as_number(rounded(magnitude)) : std::numeric_limits<Work>::quiet_NaN();
    return magnitude == x ? order : -order;
  }
  Bits store(Work w) const {
    const Work largest = as_number(static_cast<Bits>((E::kInfinity - 1) >> drop_));
    const Work order = round_even(clamp_number(w, -largest, largest));
    const auto magnitude = static_cast<Bits>(static_cast<Bits>(std::fabs(order)) << drop_);
    return static_cast<Bits>(order < 0 ? magnitude | E::kSign : magnitude);
  }
  bool keeps(Bits x, Bits s) const {
    const Bits from = E::magnitude(x);
    const Bits to = E::magnitude(s);
    return x == s || (from < E::kInfinity && to < E::kInfinity && to != 0 && ((x ^ s) & E::kSign) == 0 &&
                      to == static_cast<Bits>(rounded(from) << drop_));
  }

 private:
  using Wide = std::conditional_t<sizeof(Bits) == 8, uint64_t, uint32_t>;
  static Work as_number(Bits steps) { return static_cast<Work>(static_cast<std::make_signed_t<Wide>>(steps)); }
  Bits rounded(Bits magnitude) const {
    const Wide half = Wide{1} << (drop_ - 1);
    return static_cast<Bits>((Wide{magnitude} + (half - 1) + (Wide{magnitude} >> drop_ & 1U)) >> drop_);
  }
  unsigned drop_;  ///< bits of the mantissa that go, at least one
};

/// Calls f with the element type's facts. An unknown type is taken for f64.
template <typename F>
auto with_element(DType type, F&& f) {
  switch (type) {
    case DType::u8:
      return f(IntegerElement<uint8_t>());
    case DType::i8:
      return f(IntegerElement<int8_t>());
    case DType::u16:
      return f(IntegerElement<uint16_t>());
    case DType::i16:
      return f(IntegerElement<int16_t>());
    case DType::u32:
      return f(IntegerElement<uint32_t>());
    case DType::i32:
      return f(IntegerElement<int32_t>());
    case DType::u64:
      return f(IntegerElement<uint64_t>());
    case DType::i64:
      return f(IntegerElement<int64_t>());
    case DType::f16:
      return f(HalfElement());
    case DType::bf16:
      return f(BrainElement());
    case DType::f32:
      return f(SingleElement());
    default:
      return f(DoubleElement());
  }
}

/// Calls f with the mapping of a type. `rounded` of integers does not exist: their values are taken.
template <typename F>
auto with_mapping(DType type, const Mapping& mapping, F&& f) {
  return with_element(type, [&](auto element) {
    using E = decltype(element);
    if constexpr (E::kIsInteger) {
      return mapping.kind == MappingKind::orders ? f(IntegerOrderMapping<E>(mapping)) : f(ValueMapping<E>(mapping));
    } else {
      switch (mapping.kind) {
        case MappingKind::orders:
          return f(OrderMapping<E>(mapping));
        case MappingKind::rounded:
          return f(RoundedMapping<E>(mapping));
        default:
          return f(ValueMapping<E>(mapping));
      }
    }
  });
}

/// Whether work values are double, else float.
inline bool has_wide_work(DType type, const Mapping& mapping) {
  return with_mapping(type, mapping,
                      [](const auto& m) { return std::is_same_v<typename std::decay_t<decltype(m)>::Work, double>; });
}

/// `rounded` keeps no more than this, so that a work value has at least eight bits behind the point.
inline constexpr unsigned kMostRoundedBits = 34;

/// Whether a mapping that was read makes sense; no other may be used.
inline bool is_valid(DType type, const Mapping& mapping) {
  if (mapping.kind == MappingKind::rounded) {
    return mapping.kept_bits < mantissa_bits(type) && mapping.kept_bits <= kMostRoundedBits;
  }
  return mapping.kind <= MappingKind::rounded && mapping.kept_bits == 0;
}

/// Whether load and store do nothing: f32 and f64 by their values.
inline bool is_identity(DType type, const Mapping& mapping) {
  return mapping.kind == MappingKind::values && (type == DType::f32 || type == DType::f64);
}

/// Calls f with the mapping if its work type is W; else nothing happens.
template <typename W, typename F>
void with_mapping_to(DType type, const Mapping& mapping, F&& f) {
  with_mapping(type, mapping, [&](const auto& m) {
    if constexpr (std::is_same_v<typename std::decay_t<decltype(m)>::Work, W>) {
      f(m);
    }
  });
}

/// Rows are mapped in parts of so many elements: contiguous, so that compilers use vectors.
inline constexpr size_t kRowPart = 64;

/// out[i] = the work value of element i * stride of p, unaligned. W must be the mapping's work type.
template <typename W>
void load_mapped(DType type, const Mapping& mapping, const std::byte* p, size_t stride, size_t m, W* out) {
  with_mapping_to<W>(type, mapping, [&](const auto& map) {
    using Bits = typename std::decay_t<decltype(map)>::Bits;
    for (size_t i = 0; i < m; ++i) {
      out[i] = map.load(load_as<Bits>(p + i * stride * sizeof(Bits)));
    }
  });
}

/// Element i * stride of p = what v[i] is stored as.
template <typename W>
void store_mapped(DType type, const Mapping& mapping, const W* v, size_t m, std::byte* p, size_t stride) {
  with_mapping_to<W>(type, mapping, [&](const auto& map) {
    using Bits = typename std::decay_t<decltype(map)>::Bits;
    std::array<Bits, kRowPart> part;
    for (size_t at = 0; at < m; at += kRowPart) {
      const size_t n = std::min(kRowPart, m - at);
      for (size_t i = 0; i < n; ++i) {
        part[i] = map.store(v[at + i]);
      }
      for (size_t i = 0; i < n; ++i) {
        std::memcpy(p + (at + i) * stride * sizeof(Bits), &part[i], sizeof(Bits));
      }
    }
  });
}

/// bad[i] |= 1 where what v[i] is stored as does not keep element i * stride of p. Returns whether any bad[i] is set.
template <typename W>
bool mark_broken(DType type, const Mapping& mapping, const std::byte* p, size_t stride, const W* v, size_t m,
                 uint8_t* bad) {
  unsigned any = 0;
  with_mapping_to<W>(type, mapping, [&](const auto& map) {
    using Bits = typename std::decay_t<decltype(map)>::Bits;
    for (size_t i = 0; i < m; ++i) {
      bad[i] |= map.keeps(load_as<Bits>(p + i * stride * sizeof(Bits)), map.store(v[i])) ? 0 : 1;
      any |= bad[i];
    }
  });
  return any != 0;
}

}  // namespace varve::codec
