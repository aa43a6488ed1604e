#include "codec/mapping.h"

#include <gtest/gtest.h>

#include <random>

namespace varve::codec {
namespace {

using Wide = unsigned __int128;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kTypes = {DType::u8,  DType::i8,  DType::u16, DType::i16,  DType::u32, DType::i32,
                               DType::u64, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};

/// A finite number as mantissa * 2^exponent.
struct Parts {
  uint64_t mantissa = 0;
  int exponent = 0;
};
Parts parts_of(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  return {static_cast<uint64_t>(std::ldexp(fraction, 53)), exponent - 53};
}

/// |x - s| <= bound * |x| in whole numbers, for x and s of one sign within two binades of each other.
bool slow_pointwise(double x, double s, double bound) {
  const Parts a = parts_of(x);
  const Parts b = parts_of(s);
  const Parts v = parts_of(bound);
  const int unit = std::min(a.exponent, b.exponent);
  const Wide from = Wide{a.mantissa} << (a.exponent - unit);
  const Wide to = Wide{b.mantissa} << (b.exponent - unit);
  const Wide difference = from > to ? from - to : to - from;
  const Wide product = from * v.mantissa;  // 2^107 at most
  return -v.exponent < 128 && difference <= product >> -v.exponent;
}

template <typename E>
double number(typename E::Bits bits) {
  return double{E::value(bits)};
}

/// Every finite magnitude of a 16-bit float, and what lies between neighbours: conversion takes the nearer, ties the
/// even one.
template <typename E>
void check_conversion() {
  for (uint32_t bits = 0; bits < E::kInfinity; ++bits) {
    const auto x = static_cast<uint16_t>(bits);
    const double value = std::ldexp(bits < E::kLeastNormal ? bits : bits % E::kLeastNormal + E::kLeastNormal,
                                    static_cast<int>(std::max(1U, bits >> E::kMantissa)) -
                                        static_cast<int>((E::kInfinity >> E::kMantissa) / 2 + E::kMantissa));
    ASSERT_EQ(double{E::value(x)}, value) << bits;
    ASSERT_EQ(double{E::value(static_cast<uint16_t>(x | E::kSign))}, -value);
    ASSERT_TRUE(std::signbit(E::value(static_cast<uint16_t>(x | E::kSign))));
    ASSERT_EQ(E::nearest(E::value(x)), x);
    const uint16_t next = x + 1;
    const double above = next < E::kInfinity ? double{E::value(next)} : value + (value - double{E::value(x - 1)});
    const auto middle = static_cast<float>((value + above) / 2);
    const uint16_t even = x % 2 == 0 ? x : next;
    for (const uint16_t sign : {uint16_t{0}, E::kSign}) {
      const auto toward = [&](float w) { return E::nearest(sign != 0 ? -w : w); };
      ASSERT_EQ(toward(middle), even | sign) << bits;
      ASSERT_EQ(toward(std::nextafter(middle, 0.0F)), x | sign) << bits;
      ASSERT_EQ(toward(std::nextafter(middle, std::numeric_limits<float>::infinity())), next | sign) << bits;
    }
  }
  EXPECT_EQ(E::nearest(std::numeric_limits<float>::infinity()), E::kInfinity);
  for (const float nan : {std::bit_cast<float>(0x7f800001U), std::bit_cast<float>(0xffc00000U)}) {
    EXPECT_GT(E::magnitude(E::nearest(nan)), E::kInfinity);
  }
  for (uint32_t bits = E::kInfinity; bits < E::kSign; ++bits) {
    const float value = E::value(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::isnan(value), bits != E::kInfinity);
    ASSERT_FALSE(std::isfinite(value));
  }
}

TEST(Mapping, HalvesConvertToTheNearest) {
  check_conversion<HalfElement>();
  check_conversion<BrainElement>();
}

TEST(Mapping, DifferencesAreComparedWithoutSlack) {
  std::mt19937_64 random(1);
  size_t equal = 0;
  for (int i = 0; i < 200000; ++i) {
    const auto integer = [&](unsigned bits) { return static_cast<int64_t>(random() >> (64 - bits)); };
    const int apart = static_cast<int>(random() % 61);
    const int64_t a = integer(1 + random() % 53);
    const int64_t b = integer(1 + random() % 53) * (random() % 2 == 0 ? 1 : -1);
    const __int128 exact = (static_cast<__int128>(a) << apart) - b;
    const Wide distance = exact < 0 ? -static_cast<Wide>(exact) : static_cast<Wide>(exact);
    const double x = std::ldexp(static_cast<double>(a), apart);
    double bound = static_cast<double>(distance);
    bound = random() % 3 == 0 ? bound : std::nextafter(bound, random() % 2 == 0 ? 0 : kInfinity);
    const bool within = distance <= static_cast<Wide>(bound);
    equal += static_cast<Wide>(bound) == distance ? 1 : 0;
    ASSERT_EQ(is_within(x, static_cast<double>(b), bound), within) << x << " " << b << " " << bound;
    ASSERT_EQ(is_within(static_cast<double>(b), x, bound), within) << x << " " << b << " " << bound;
  }
  EXPECT_GT(equal, 1000U);
  EXPECT_FALSE(is_within(1, kNan, kInfinity));
  EXPECT_FALSE(is_within(1.7e308, -1.7e308, 1e308));
}

/// Every pattern of the 16-bit types under a mapping: load and store are inverse, and in the order of the values.
template <typename M, typename E>
void check_all_patterns(const M& map) {
  std::optional<std::pair<double, double>> before;
  for (int32_t order = -0x8000; order < 0x8000; ++order) {
    const uint16_t x = order_to_half(order);
    const auto w = map.load(x);
    if (!E::is_finite(x)) {
      ASSERT_FALSE(std::isfinite(w)) << x;
      continue;
    }
    if (x == E::kSign) {
      ASSERT_TRUE(w == 0 && std::signbit(w)) << "-0.0 must be told from 0";
      continue;
    }
    ASSERT_EQ(map.store(w), x);
    ASSERT_TRUE(map.keeps(x, x));
    if (before) {
      ASSERT_LT(before->second, double{w}) << x;
    }
    before = {number<E>(x), double{w}};
  }
}

TEST(Mapping, HalvesComeBackInTheirOrder) {
  check_all_patterns<ValueMapping<HalfElement>, HalfElement>(ValueMapping<HalfElement>(Mapping{}));
  check_all_patterns<ValueMapping<BrainElement>, BrainElement>(ValueMapping<BrainElement>(Mapping{}));
  check_all_patterns<OrderMapping<HalfElement>, HalfElement>(OrderMapping<HalfElement>(Mapping{}));
  check_all_patterns<OrderMapping<BrainElement>, BrainElement>(OrderMapping<BrainElement>(Mapping{}));
}

/// Elements of all kinds, those at borders of binades and of the type above all.
template <typename E>
typename E::Bits random_element(std::mt19937_64& random) {
  using Bits = typename E::Bits;
  const auto noise = static_cast<Bits>(random());
  if constexpr (E::kIsInteger) {
    const auto low = static_cast<Bits>(E::kLow);
    const auto high = static_cast<Bits>(E::kHigh);
    const auto near = static_cast<Bits>(random() % 5);
    switch (random() % 4) {
      case 0:
        return static_cast<Bits>(low + near);
      case 1:
        return static_cast<Bits>(high - near);
      case 2:
        return static_cast<Bits>(near - (std::is_signed_v<Bits> ? 2 : 0));
      default:
        return static_cast<Bits>(sizeof(Bits) == 8 ? noise / 2048 : noise);
    }
  } else {
    const auto sign = static_cast<Bits>(noise & E::kSign);
    const auto exponent = static_cast<Bits>(noise & E::kInfinity);
    const auto near = static_cast<Bits>(random() % 9 - 4);
    switch (random() % 4) {
      case 0:
        return static_cast<Bits>(static_cast<Bits>(exponent + near) & ~E::kSign) | sign;  // a border of binades
      case 1:
        return static_cast<Bits>(noise & (E::kSign | (E::kLeastNormal - 1)));  // subnormal
      case 2:
        return static_cast<Bits>(static_cast<Bits>(E::kInfinity - 1 - random() % 9) | sign);
      default:
        return noise;
    }
  }
}

TEST(Mapping, StoreTakesAnyNumber) {
  std::mt19937_64 random(2);
  for (const DType type : kTypes) {
    for (const Mapping& mapping : {Mapping{}, Mapping{MappingKind::orders}, Mapping{MappingKind::rounded, 5}}) {
      with_mapping(type, mapping, [&](const auto& map) {
        using Map = std::decay_t<decltype(map)>;
        using Work = typename Map::Work;
        std::vector<double> values = {0, -0.0, kNan, -kNan, kInfinity, -kInfinity, 1e-45, -1e-45, 0.5, -0.5, 1e308};
        for (int i = 0; i < 3000; ++i) {
          values.push_back(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 130) *
                           (i % 2 == 0 ? 1 : -1));
        }
        for (const double value : values) {
          const auto w =
              std::isfinite(value) && std::fabs(value) > 3e38 ? static_cast<Work>(3e38) : static_cast<Work>(value);
          const auto x = map.store(w);
          with_element(type, [&](auto element) {
            using E = decltype(element);
            if constexpr (!E::kIsInteger) {
              ASSERT_TRUE(E::is_finite(x)) << value;
              ASSERT_NE(x, E::kSign) << value;
            }
          });
          ASSERT_TRUE(std::isfinite(map.load(x))) << value;
          ASSERT_TRUE(map.keeps(x, x));
          ASSERT_EQ(map.store(map.load(x)), x) << name_of(type) << " " << value;
        }
      });
    }
  }
}

template <typename E>
void check_integers(std::mt19937_64& random) {
  using Bits = typename E::Bits;
  const ValueMapping<E> exact(Mapping{MappingKind::values, 0, 0});
  for (int i = 0; i < 20000; ++i) {
    const Bits x = random_element<E>(random);
    using Work = typename ValueMapping<E>::Work;
    ASSERT_EQ(exact.store(exact.load(x)), x);
    const double bound = static_cast<double>(random() % 1000) / 8;
    const ValueMapping<E> map(Mapping{MappingKind::values, 0, bound});
    const Work w = map.load(x) + static_cast<Work>(static_cast<double>(random() % 3000) / 8 - 187);
    const Bits s = map.store(w);
    const __int128 distance = static_cast<__int128>(x) - s;
    ASSERT_EQ(map.keeps(x, s), (distance < 0 ? -distance : distance) <= static_cast<__int128>(bound));
    const auto rounded = std::nearbyint(double{w});
    ASSERT_EQ(static_cast<double>(s), std::min(std::max(rounded, E::kLow), E::kHigh)) << double{w};
  }
  EXPECT_TRUE(ValueMapping<E>(Mapping{MappingKind::values, 0, 1e300})
                  .keeps(std::numeric_limits<Bits>::min(), std::numeric_limits<Bits>::max()));
}

TEST(Mapping, IntegersAreRoundedClampedAndHeldExactly) {
  std::mt19937_64 random(3);
  check_integers<IntegerElement<uint8_t>>(random);
  check_integers<IntegerElement<int8_t>>(random);
  check_integers<IntegerElement<uint16_t>>(random);
  check_integers<IntegerElement<int16_t>>(random);
  check_integers<IntegerElement<uint32_t>>(random);
  check_integers<IntegerElement<int32_t>>(random);
  check_integers<IntegerElement<uint64_t>>(random);
  check_integers<IntegerElement<int64_t>>(random);
}

/// Every normal number of a 16-bit type with the furthest that may stand for it.
template <typename E>
void check_all_orders(double bound) {
  const OrderMapping<E> map(Mapping{MappingKind::orders, 0, bound});
  const auto steps = static_cast<int32_t>(OrderMapping<E>::steps(bound));
  size_t kept = 0;
  for (int32_t x = 1; x < E::kInfinity; ++x) {
    for (const int32_t away : {1, steps - 1, steps, steps + 1}) {
      for (const int32_t to : {x - away, x + away}) {
        const auto s = static_cast<uint16_t>(std::clamp<int32_t>(to, 0, E::kInfinity));
        if (map.keeps(static_cast<uint16_t>(x), s)) {
          ASSERT_TRUE(slow_pointwise(number<E>(static_cast<uint16_t>(x)), number<E>(s), bound)) << x << " " << s;
          kept += x != s ? 1 : 0;
        }
      }
    }
  }
  EXPECT_EQ(kept > 0, steps > 0);
}

TEST(Mapping, StepsKeepThePointwiseBoundOfEveryHalf) {
  for (const double bound : {1.0, 0.3, 0.1, 0x1p-7, 0.01, 0x1p-10, 1e-3, 1e-5}) {
    check_all_orders<HalfElement>(bound);
    check_all_orders<BrainElement>(bound);
  }
}

template <typename E>
void check_orders(std::mt19937_64& random) {
  using Bits = typename E::Bits;
  size_t kept = 0;
  for (int i = 0; i < 300000; ++i) {
    const double bound =
        std::ldexp(1.0 + static_cast<double>(random() % 1024) / 1024, -static_cast<int>(random() % 40));
    const OrderMapping<E> map(Mapping{MappingKind::orders, 0, bound});
    const auto steps = static_cast<int64_t>(OrderMapping<E>::steps(bound));
    const Bits x = random_element<E>(random);
    const std::array<int64_t, 6> away = {steps,      -steps, steps + 1,
                                         -steps - 1, 1,      static_cast<int64_t>(random() % (2 * steps + 1)) - steps};
    const auto s = static_cast<Bits>(x + static_cast<Bits>(away.at(random() % away.size())));
    if (!map.keeps(x, s) || x == s) {
      continue;
    }
    ++kept;
    ASSERT_TRUE(E::is_finite(x) && E::is_finite(s));
    ASSERT_TRUE(number<E>(x) != 0 && number<E>(s) != 0 && std::signbit(number<E>(x)) == std::signbit(number<E>(s)));
    ASSERT_TRUE(slow_pointwise(number<E>(x), number<E>(s), bound)) << number<E>(x) << " " << number<E>(s) << bound;
  }
  EXPECT_GT(kept, 50000U);
}

TEST(Mapping, StepsKeepThePointwiseBoundOfFloats) {
  std::mt19937_64 random(4);
  check_orders<SingleElement>(random);
  check_orders<DoubleElement>(random);
  // No step is given away where the mantissa is 1: there the bound is met with equality.
  const OrderMapping<SingleElement> map(Mapping{MappingKind::orders, 0, 0x1p-10});
  const auto one = std::bit_cast<uint32_t>(1.0F);
  EXPECT_TRUE(map.keeps(one, std::bit_cast<uint32_t>(1.0F + 0x1p-10F)));
  EXPECT_FALSE(map.keeps(one, std::bit_cast<uint32_t>(1.0F + 0x1p-10F) + 1));
}

TEST(Mapping, SignsZerosSubnormalsAndInfinitiesAreNeverTraded) {
  const OrderMapping<SingleElement> map(Mapping{MappingKind::orders, 0, 1});
  const uint32_t least = SingleElement::kLeastNormal;
  EXPECT_FALSE(map.keeps(least, 0));
  EXPECT_TRUE(map.keeps(least, 1)) << "half of a least normal number and less";
  EXPECT_FALSE(map.keeps(0, 1));
  EXPECT_FALSE(map.keeps(2, 1));
  EXPECT_FALSE(map.keeps(least - 1, least));
  EXPECT_FALSE(map.keeps(least, least | SingleElement::kSign));
  EXPECT_FALSE(map.keeps(SingleElement::kSign, 0));
  EXPECT_FALSE(map.keeps(SingleElement::kInfinity - 1, SingleElement::kInfinity));
  EXPECT_FALSE(map.keeps(SingleElement::kInfinity, SingleElement::kInfinity - 1));
}

TEST(Mapping, OrdersOfDoublesAreLoadedToWithinTheirUnit) {
  std::mt19937_64 random(5);
  const OrderMapping<DoubleElement> map(Mapping{MappingKind::orders, 0, 1e-6});
  for (int i = 0; i < 100000; ++i) {
    const uint64_t x = random_element<DoubleElement>(random);
    if (!DoubleElement::is_finite(x) || DoubleElement::magnitude(x) > map.kLargest) {
      continue;
    }
    const uint64_t s = map.store(map.load(x));
    const auto distance = static_cast<int64_t>(x - s);
    ASSERT_LE(std::abs(distance), 512) << x;
    ASSERT_EQ(map.store(map.load(s)), s);
  }
}

template <typename E>
void check_integer_orders(std::mt19937_64& random) {
  size_t kept = 0;
  for (int i = 0; i < 50000; ++i) {
    const double bound =
        std::ldexp(1.0 + static_cast<double>(random() % 64) / 64, -static_cast<int>(random() % 12) - 1);
    const IntegerOrderMapping<E> map(Mapping{MappingKind::orders, 0, bound});
    const auto x = random_element<E>(random);
    if (std::fabs(static_cast<double>(x)) < 0x1p42) {  // an order may be rounded by 2^9 steps, 2^-43 of the value
      ASSERT_EQ(map.store(map.load(x)), x);
    }
    const auto s = map.store(map.load(x) * (1 + (static_cast<double>(random() % 2001) - 1000) * 1e-9));
    if (x == s || !map.keeps(x, s)) {
      continue;
    }
    ++kept;
    ASSERT_TRUE(s != 0 && x != 0 && (x < 0) == (s < 0));
    ASSERT_TRUE(slow_pointwise(static_cast<double>(x), static_cast<double>(s), bound)) << +x << " " << +s;
  }
  EXPECT_GT(kept, 100U);
}

TEST(Mapping, IntegersHavePointwiseBoundsToo) {
  std::mt19937_64 random(6);
  check_integer_orders<IntegerElement<uint16_t>>(random);
  check_integer_orders<IntegerElement<int32_t>>(random);
  check_integer_orders<IntegerElement<int64_t>>(random);
}

/// x rounded to `bits` bits of mantissa, ties to even, by arithmetic on values.
double slow_rounded(double x, unsigned bits, int least_exponent) {
  const double unit =
      std::ldexp(1.0, std::max(x == 0 ? least_exponent : std::ilogb(x), least_exponent) - static_cast<int>(bits));
  const double parts = x / unit;
  double whole = std::floor(parts);
  // With no bit left the neighbours are powers of 2, and the parity of the stored exponent says which is even.
  const int exponent = whole == 0 ? 0 : std::ilogb(x) - least_exponent + 1;
  const bool is_odd = bits == 0 ? exponent % 2 != 0 : std::fmod(whole, 2) != 0;
  const double rest = parts - whole;
  whole += rest > 0.5 || (rest == 0.5 && is_odd) ? 1 : 0;
  return whole * unit;
}

template <typename E>
void check_rounding(std::mt19937_64& random, unsigned bits, size_t count) {
  using Bits = typename E::Bits;
  const RoundedMapping<E> map(Mapping{MappingKind::rounded, static_cast<uint8_t>(bits)});
  const int least_exponent = std::ilogb(number<E>(E::kLeastNormal));
  for (size_t i = 0; i < count; ++i) {
    const Bits x = sizeof(Bits) == 2 ? static_cast<Bits>(i) : random_element<E>(random);
    const double value = number<E>(x);
    if (!E::is_finite(x)) {
      ASSERT_FALSE(std::isfinite(map.load(x)));
      continue;
    }
    const auto w = map.load(x);
    ASSERT_EQ(w, std::nearbyint(double{w}));
    const Bits s = map.store(w);
    ASSERT_EQ(s & ((Bits{1} << (E::kMantissa - bits)) - 1), 0);
    const double rounded = std::copysign(slow_rounded(std::fabs(value), bits, least_exponent), value);
    const bool vanishes = rounded == 0 && x != 0;
    const bool bursts = std::fabs(rounded) > number<E>(E::kInfinity - 1);
    if (!vanishes && !bursts) {
      ASSERT_EQ(number<E>(s), rounded) << value;
    }
    ASSERT_EQ(map.keeps(x, s), x == s || (!vanishes && !bursts)) << value;
    if (map.keeps(x, s)) {
      ASSERT_LE(std::fabs(value - number<E>(s)),
                std::ldexp(0.5, std::max(x == 0 ? 0 : std::ilogb(value), least_exponent) - static_cast<int>(bits)));
    }
    for (const auto off : {0.49, -0.49}) {
      if (!bursts) {
        ASSERT_EQ(map.store(w + static_cast<decltype(w)>(off)), s);
      }
    }
    ASSERT_EQ(map.load(s), w == 0 || bursts ? map.load(s) : w);
  }
}

TEST(Mapping, RoundingKeepsTheBitsAskedFor) {
  std::mt19937_64 random(7);
  for (const unsigned bits : {0U, 1U, 4U, 6U}) {
    check_rounding<HalfElement>(random, bits, 65536);
    check_rounding<BrainElement>(random, bits, 65536);
  }
  for (const unsigned bits : {0U, 3U, 9U, 12U, 22U}) {
    check_rounding<SingleElement>(random, bits, 50000);
    check_rounding<DoubleElement>(random, bits, 50000);
  }
  check_rounding<HalfElement>(random, 9, 65536);
  check_rounding<DoubleElement>(random, kMostRoundedBits, 50000);
}

TEST(Mapping, MappingsThatMakeNoSenseAreToldApart) {
  EXPECT_TRUE(is_valid(DType::u8, {}));
  EXPECT_TRUE(is_valid(DType::f32, {MappingKind::rounded, 22}));
  EXPECT_TRUE(is_valid(DType::i32, {MappingKind::orders}));
  EXPECT_FALSE(is_valid(DType::f32, {MappingKind::rounded, 23}));
  EXPECT_FALSE(is_valid(DType::f64, {MappingKind::rounded, 35}));
  EXPECT_FALSE(is_valid(DType::u8, {MappingKind::rounded, 0}));
  EXPECT_FALSE(is_valid(DType::f32, {MappingKind::values, 1}));
  EXPECT_FALSE(is_valid(DType::f32, {static_cast<MappingKind>(3)}));
}

TEST(Mapping, RowsDoWhatSingleElementsDo) {
  std::mt19937_64 random(8);
  constexpr size_t kCount = 37;
  for (const DType type : kTypes) {
    for (const Mapping& mapping : {Mapping{MappingKind::values, 0, 3}, Mapping{MappingKind::orders, 0, 0.01}}) {
      const size_t size = element_size(type);
      for (const size_t stride : {1U, 2U, 5U}) {
        Bytes data(1 + kCount * stride * size);  // and unaligned
        std::generate(data.begin(), data.end(), [&] { return static_cast<std::byte>(random() % 120); });
        const auto check = [&](auto zero) {
          using W = decltype(zero);
          std::vector<W> values(kCount);
          load_mapped<W>(type, mapping, data.data() + 1, stride, kCount, values.data());
          for (W& value : values) {
            value += static_cast<W>(random() % 9);
          }
          std::vector<uint8_t> bad(kCount, 0);
          bad[3] = 1;
          EXPECT_TRUE(mark_broken<W>(type, mapping, data.data() + 1, stride, values.data(), kCount, bad.data()));
          Bytes out(data);
          store_mapped<W>(type, mapping, values.data(), kCount, out.data() + 1, stride);
          with_mapping(type, mapping, [&](const auto& map) {
            using Bits = typename std::decay_t<decltype(map)>::Bits;
            for (size_t i = 0; i < kCount; ++i) {
              const size_t at = 1 + i * stride * size;
              const auto x = load_as<Bits>(data.data() + at);
              const auto s = load_as<Bits>(out.data() + at);
              ASSERT_EQ(s, map.store(static_cast<typename std::decay_t<decltype(map)>::Work>(values[i])));
              ASSERT_EQ(bad[i] != 0, i == 3 || !map.keeps(x, s));
            }
          });
        };
        has_wide_work(type, mapping) ? check(double{}) : check(float{});
      }
    }
  }
}

}  // namespace
}  // namespace varve::codec
