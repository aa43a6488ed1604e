// Floats as multiples of a step, as differences from Lorenzo's predictor.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

bool is_lorenzo(const ArrayCodec& codec) { return codec.info().method.find("Lorenzo") != std::string::npos; }

bool is_lorenzo(const Array& array) {
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  return codec.ok() && is_lorenzo(*codec);
}

const std::vector<Extents>& shapes() {
  static const std::vector<Extents> all = {{9000},       {150000},    {90, 100},       {600, 300},    {20, 30, 40},
                                           {70, 66, 68}, {3, 40, 50}, {7, 12, 30, 24}, {1, 90, 1, 77}};
  return all;
}

TEST(Lorenzo, PatchesKeepTheirBoundAndTakeLess) {
  for (const DType type : {DType::f32, DType::f64}) {
    for (const Extents& shape : shapes()) {
      for (const Bound& bound : {Bound{BoundMode::relative, 1e-2}, Bound{BoundMode::absolute, 1e-3},
                                 Bound{BoundMode::absolute_and_relative, 1e-2, 1e-3}}) {
        SCOPED_TRACE(fmt::format("{} {} under {}", name_of(type), fmt::join(shape, "x"), to_string(bound)));
        Array array = make_array(type, shape, Content::patches, bound, 3);
        EXPECT_TRUE(is_lorenzo(array));
        const size_t stored = check_round_trip(array);
        array.spec.bound = {BoundMode::psnr, 20 * std::log10(1 / 1e-3)};  // never differences
        EXPECT_FALSE(is_lorenzo(array));
        EXPECT_LT(bound.value < 1e-2 ? stored : 0, check_round_trip(array));
      }
    }
  }
}

TEST(Lorenzo, WhatIsSmoothIsInterpolated) {
  for (const Extents& shape : {Extents{90, 100}, Extents{20, 30, 40}}) {
    EXPECT_FALSE(is_lorenzo(make_array(DType::f32, shape, Content::waves, {BoundMode::relative, 1e-3}, 3)));
  }
}

/// Fill values lie on multiples of the step, or where no multiple is; other elements may not become one.
TEST(Lorenzo, FillValuesAreExactAndAlone) {
  for (const float fill : {0.0F, 1.0F, -0.0F, 1e20F, std::numeric_limits<float>::quiet_NaN()}) {
    SCOPED_TRACE(fill);
    Array array = make_array(DType::f32, {40, 50, 60}, Content::patches, {BoundMode::absolute, 1e-3}, 3);
    const float near = fill + 4e-4F;
    for (size_t i = 0; i < array.count(); i += 3000) {
      std::memcpy(array.data.data() + i * sizeof fill, &fill, sizeof fill);
      std::memcpy(array.data.data() + (i + 1) * sizeof fill, &near, sizeof fill);
    }
    array.spec.fill_values = {std::bit_cast<uint32_t>(fill)};
    check_round_trip(array);
  }
}

/// Sixteen patterns of NaN can be told apart; with more, all are coded otherwise.
TEST(Lorenzo, ManyKindsOfNaN) {
  for (const unsigned kinds : {12U, 13U, 14U, 17U, 100U}) {
    SCOPED_TRACE(kinds);
    Array array = make_array(DType::f64, {90, 100}, Content::patches, {BoundMode::absolute, 1e-3}, 3);
    for (size_t i = 0; i < array.count(); i += 20) {
      const uint64_t bits = 0x7ff8000000000001U + i / 20 % kinds;
      std::memcpy(array.data.data() + i * sizeof bits, &bits, sizeof bits);
    }
    check_round_trip(array);
  }
}

/// Under a relative bound the range moves a little, and with it the step that would be taken.
TEST(Lorenzo, DecodedDataStaysAsItIs) {
  for (const DType type : {DType::f32, DType::f64}) {
    for (const Extents& shape : shapes()) {
      for (const double value : {1e-1, 1e-2, 3e-4}) {
        SCOPED_TRACE(fmt::format("{} {} under abs:{}", name_of(type), fmt::join(shape, "x"), value));
        Array array = make_array(type, shape, Content::patches, {BoundMode::absolute, value}, 5);
        check_round_trip(array, &array.data);
        const Bytes once = array.data;
        check_round_trip(array, &array.data);
        EXPECT_TRUE(array.data == once);
      }
    }
  }
}

// A file is changed after its arrays were planned: tiles are encoded with what is there.
TEST(Lorenzo, TilesThatNoLongerFitAreExact) {
  for (const DType type : {DType::f32, DType::f64}) {
    const Extents shape{70, 600, 90};
    const Array array = make_array(type, shape, Content::patches, {BoundMode::absolute, 1e-3}, 5);
    Array changed = make_array(type, shape, Content::specials, {BoundMode::absolute, 1e-3}, 6);
    const size_t half = array.data.size() / 2;
    std::copy_n(array.data.begin(), half, changed.data.begin());
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    ASSERT_TRUE(codec.ok());
    ASSERT_TRUE(is_lorenzo(*codec));
    const auto store = encode_all(*codec, changed);
    ASSERT_TRUE(store.ok());
    const auto decoded = decode_all(*codec, *store);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(violation(changed, *decoded, codec->info().absolute_bound), "");
    EXPECT_EQ(std::memcmp(decoded->data() + half + half / 2, changed.data.data() + half + half / 2, half / 4), 0);
    for (uint8_t finest = 1; finest < 4; ++finest) {
      const auto view = decode_all(*codec, *store, finest);
      ASSERT_TRUE(view.ok());
      EXPECT_TRUE(*view == *decoded) << "a view is as exact as the array";
    }
  }
}

TEST(Lorenzo, HeadersThatAreImpossibleAreRefused) {
  const Array array = make_array(DType::f32, {90, 100}, Content::patches, {BoundMode::absolute, 1e-3}, 3);
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  ASSERT_TRUE(codec.ok());
  const Bytes header = codec->header();
  ASSERT_EQ(static_cast<unsigned>(header[1]), 15U);
  const auto refused = [&](size_t at, uint8_t byte) {
    Bytes other = header;
    other[at] = std::byte{byte};
    return !ArrayCodec::parse(other).ok();
  };
  EXPECT_TRUE(refused(9, 0xff)) << "a step below 0";
  EXPECT_TRUE(refused(17, 0xff)) << "a bound below 0";
  EXPECT_TRUE(refused(18, 17)) << "17 escapes";
  const size_t flags = 19 + 4 * static_cast<size_t>(header[18]);
  const auto old = static_cast<uint8_t>(header[flags]);
  EXPECT_TRUE(refused(flags, (old & ~3U) | 2U)) << "codes";
  EXPECT_TRUE(refused(flags, old | 4U)) << "linear";
}

}  // namespace
}  // namespace varve::codec::testing
