// Floats that are decimal fractions.
#include <fmt/format.h>

#include "codec/decimal.h"
#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

/// A smooth array of floats with so many decimal digits, some missing: NaN, -0.0 and a declared fill value.
template <typename Float>
Array decimals(const Extents& shape, unsigned digits, DType type) {
  Array array = make_array(type, shape, Content::waves, {}, digits);
  const double power = std::pow(10.0, digits);
  std::mt19937_64 random(digits);
  const auto fill = static_cast<Float>(-9999.25);
  for (size_t i = 0; i < array.count(); ++i) {
    const double wave = std::floor(double{element<Float>(array.data, i)} * 5000) / power;
    const std::array<Float, 3> missing = {std::numeric_limits<Float>::quiet_NaN(), Float(-0.0), fill};
    const Float value = random() % 100 == 0 ? missing.at(random() % 3) : static_cast<Float>(wave);
    std::memcpy(array.data.data() + i * sizeof value, &value, sizeof value);
  }
  uint64_t bits = 0;
  std::memcpy(&bits, &fill, sizeof fill);
  array.spec.fill_values = {bits};
  return array;
}

bool is_decimal(const Array& array) {
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  return codec.ok() && codec->info().method.starts_with("decimal");
}

TEST(Decimal, AnyNumberOfDigitsComesBackAndTakesLess) {
  for (unsigned digits = 0; digits <= 12; ++digits) {
    for (const DType type : {DType::f32, DType::f64}) {
      for (const Extents& shape : std::vector<Extents>{{30, 40, 50}, {200, 90}, {7000}, {20, 14}}) {
        SCOPED_TRACE(fmt::format("{} digits, {} {}", digits, name_of(type), fmt::join(shape, "x")));
        const Array array =
            type == DType::f32 ? decimals<float>(shape, digits, type) : decimals<double>(shape, digits, type);
        EXPECT_TRUE(is_decimal(array));
        const size_t stored = check_round_trip(array);
        Array bits = array;
        bits.spec.dtype = integers_of(type);
        EXPECT_LT(stored, check_round_trip(bits) + 100);
      }
    }
  }
}

TEST(Decimal, WhatIsFinerThanTheFloatsIsNotTaken) {
  Array array = make_array(DType::f32, {50, 60}, Content::waves, {}, 3);
  for (size_t i = 0; i < array.count(); ++i) {
    const float value = 300 + element<float>(array.data, i);  // any float there is some integer of 10^-5
    std::memcpy(array.data.data() + i * sizeof value, &value, sizeof value);
  }
  EXPECT_FALSE(is_decimal(array));
  check_round_trip(array);
}

TEST(Decimal, OneOtherElementIsEnough) {
  Array array = decimals<float>({40, 50, 60}, 2, DType::f32);
  std::mt19937_64 random(4);
  for (size_t i = 0; i < 20; ++i) {
    const float value = 0.1234567F + static_cast<float>(i) / 7;
    std::memcpy(array.data.data() + random() % array.count() * sizeof value, &value, sizeof value);
  }
  EXPECT_FALSE(is_decimal(array));
  check_round_trip(array);
}

TEST(Decimal, ABoundIsNotForDecimals) {
  Array array = decimals<float>({40, 50, 60}, 2, DType::f32);
  array.spec.bound = {BoundMode::absolute, 0.1};
  EXPECT_FALSE(is_decimal(array));
}

// A file is changed after its arrays were planned: tiles are encoded with what is there.
TEST(Decimal, TilesThatNoLongerFitAreExact) {
  for (const DType type : {DType::f32, DType::f64}) {
    const Extents shape{70, 600, 90};
    const Array array = make_array(type, shape, Content::decimals, {}, 5);
    Array changed = make_array(type, shape, Content::noise, {}, 6);
    const size_t half = array.data.size() / 2;
    std::copy_n(array.data.begin(), half, changed.data.begin());
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    ASSERT_TRUE(codec.ok());
    ASSERT_TRUE(codec->info().method.starts_with("decimal"));
    const auto store = encode_all(*codec, changed);
    ASSERT_TRUE(store.ok());
    const auto decoded = decode_all(*codec, *store);
    ASSERT_TRUE(decoded.ok());
    EXPECT_TRUE(*decoded == changed.data);
    for (uint8_t finest = 1; finest < 4; ++finest) {
      EXPECT_TRUE(decode_all(*codec, *store, finest).ok());
    }
  }
}

}  // namespace
}  // namespace varve::codec::testing
