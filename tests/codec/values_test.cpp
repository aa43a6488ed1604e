// Kinds of data on which other compressors broke their promise, each with what is right.
#include "codec/mapping.h"
#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

// SZ2 #10: bound exceeded by 3e-15 relative on ramps and random data.
TEST(Values, RampPlusNoiseInDoubleKeepsTheBoundExactly) {
  std::mt19937_64 random(40);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<double> values(400 * 500);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i) * 1e-3 + unit(random);
  }
  check_round_trip(array_of(values, {400, 500}, {BoundMode::absolute, 1e-5}));
}

// SZ2 #102: difference 1.00000000032e-5 for bound 1e-5 near 116.3.
TEST(Values, NearOneHundredAndSixteen) {
  std::mt19937_64 random(41);
  std::normal_distribution<double> normal(116.3, 0.01);
  std::vector<double> wide(171840);
  for (double& value : wide) {
    value = normal(random);
  }
  const std::vector<float> narrow(wide.begin(), wide.end());
  check_round_trip(array_of(wide, {171840}, {BoundMode::absolute, 1e-5}));
  check_round_trip(array_of(narrow, {171840}, {BoundMode::absolute, 1e-5}));
}

// zfp #62: a wide range of exponents under an absolute bound.
TEST(Values, LogUniformMagnitudes) {
  for (const double bound : {1e-4, 1e-20, 1e20}) {
    check_round_trip(make_array(DType::f32, {20000}, Content::huge_range, {BoundMode::absolute, bound}, 42));
    check_round_trip(make_array(DType::f64, {50, 400}, Content::huge_range, {BoundMode::absolute, bound}, 43));
  }
}

// zfp #119: blocks of subnormals lost all precision.
TEST(Values, Subnormals) {
  for (const Bound& bound : {Bound{BoundMode::relative, 1e-3}, Bound{BoundMode::absolute, 1e-45}, Bound{}}) {
    check_round_trip(make_array(DType::f32, {30, 40, 10}, Content::denormal, bound, 44));
    check_round_trip(make_array(DType::f64, {30, 40, 10}, Content::denormal, bound, 45));
  }
}

// MGARD #131: "number too large to be quantized"; ramps of ever tighter bounds.
TEST(Values, RampsUnderTightBounds) {
  std::vector<double> ramp(300 * 300);
  for (size_t i = 0; i < ramp.size(); ++i) {
    ramp[i] = static_cast<double>(i);
  }
  for (const double bound : {1e-6, 1e-9, 1e-12, 1e-15}) {
    check_round_trip(array_of(ramp, {300, 300}, {BoundMode::absolute, bound}));
  }
}

// MGARD #187: output larger than the input.
TEST(Values, NoiseUnderATightBoundDoesNotGrow) {
  const Array array = make_array(DType::f64, {128, 128, 16}, Content::noise, {BoundMode::absolute, 1e-17}, 46);
  EXPECT_LE(check_round_trip(array), array.data.size() + array.data.size() / 50);
  const Array exact = make_array(DType::f32, {200, 300}, Content::noise, {}, 47);
  EXPECT_LE(check_round_trip(exact), exact.data.size() + exact.data.size() / 50);
}

// Integers as floats under half a unit: errors fall on the bound itself.
TEST(Values, ErrorsThatFallOnTheBound) {
  std::mt19937_64 random(48);
  std::vector<float> values(60 * 70);
  for (float& value : values) {
    value = static_cast<float>(random() % 2000);
  }
  check_round_trip(array_of(values, {60, 70}, {BoundMode::absolute, 0.5}));
  check_round_trip(array_of(values, {60, 70}, {BoundMode::absolute, 1}));
}

TEST(Values, ExtremesOfTheTypeDoNotOverflowTheRange) {
  std::vector<double> values(5000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<double>(i) * 0.01) * std::numeric_limits<double>::max();
  }
  const std::vector<double>& wide = values;
  for (const double bound : {1e-3, 0.5, 1e-14}) {
    check_round_trip(array_of(wide, {5000}, {BoundMode::relative, bound}));
  }
  std::vector<float> narrow(5000);
  for (size_t i = 0; i < narrow.size(); ++i) {
    narrow[i] = std::sin(static_cast<float>(i) * 0.01F) * std::numeric_limits<float>::max();
  }
  check_round_trip(array_of(narrow, {50, 100}, {BoundMode::relative, 1e-3}));
}

// zfp #149: a mask must cost little and must not disturb what is around it.
TEST(Values, AMaskCostsLittle) {
  for (const bool declared : {true, false}) {
    std::vector<float> masked(300 * 400);
    std::vector<float> filled(masked.size());
    for (size_t i = 0; i < masked.size(); ++i) {
      const auto y = static_cast<double>(i) / 400;
      const auto x = static_cast<double>(i % 400);
      filled[i] = static_cast<float>(290 + 10 * std::sin(y * 0.05) * std::cos(x * 0.04));
      const bool land = std::hypot(y - 150, x - 200) < 80 || std::hypot(y - 40, x - 330) < 35;
      masked[i] = land ? 9.96921e36F : filled[i];
    }
    std::vector<uint64_t> fills;
    if (declared) {
      fills.push_back(std::bit_cast<uint32_t>(9.96921e36F));
    }
    const Bound bound{BoundMode::absolute, 0.02};
    Bytes decoded;
    const size_t with_mask = check_round_trip(array_of(masked, {300, 400}, bound, fills), &decoded);
    const size_t without = check_round_trip(array_of(filled, {300, 400}, bound));
    EXPECT_LE(with_mask, 2 * without + 600) << "declared: " << declared;
    for (size_t i = 0; i < masked.size(); ++i) {
      if (masked[i] > 1e30F) {
        ASSERT_EQ(element<float>(decoded, i), masked[i]);
      }
    }
  }
}

// astropy #8392 and the like: a NaN spoiled all of its tile.
TEST(Values, OneNanSpoilsNothing) {
  std::vector<float> values(36);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  values[7] = std::bit_cast<float>(0x7fc12345U);
  check_round_trip(array_of(values, {6, 6}, {BoundMode::relative, 1e-2}));
  check_round_trip(array_of<float>({5.3F, 6.2F, 7.3F, std::nanf("")}, {4}, {BoundMode::relative, 0.1}));
  const std::vector<float> nans(1000, std::bit_cast<float>(0xffc00001U));
  check_round_trip(array_of(nans, {10, 100}, {BoundMode::relative, 1e-2}));
}

// NaN and infinite halves are no numbers of the range, and a missing value is told by its distance as a value.
TEST(Values, MissingHalvesDoNotWidenARelativeRange) {
  for (const DType type : {DType::f16, DType::bf16}) {
    const bool is_half = type == DType::f16;
    for (const uint16_t missing : {uint16_t{0x7fff}, is_half ? uint16_t{0xfc00} : uint16_t{0xff80}, uint16_t{0x7b53}}) {
      Array array = make_array(type, {50, 60}, Content::waves, {BoundMode::relative, 1e-2}, 48);
      for (size_t i = 0; i < array.count(); i += 7) {
        std::memcpy(array.data.data() + 2 * i, &missing, 2);
      }
      const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
      ASSERT_TRUE(codec.ok());
      EXPECT_LT(codec->info().absolute_bound, 0.05) << name_of(type) << missing;
      EXPECT_GT(codec->info().absolute_bound, 0) << name_of(type) << missing;
      check_round_trip(array);
    }
  }
}

// Where elements are further apart than the bound, a bound must cost nothing.
TEST(Values, BoundsBelowTheStepsOfHalvesCostNothing) {
  Array array = make_array(DType::f16, {60, 70, 20}, Content::waves, {}, 51);
  for (size_t i = 0; i < array.count(); ++i) {
    const uint16_t value = float_to_half(288 + half_to_float(element<uint16_t>(array.data, i)));
    std::memcpy(array.data.data() + 2 * i, &value, 2);
  }
  const size_t lossless = check_round_trip(array);
  array.spec.bound = {BoundMode::absolute, 0.01};
  EXPECT_LE(check_round_trip(array), lossless + 40);
}

TEST(Values, FillValuesDoNotWidenARelativeRange) {
  Array array = make_array(DType::f32, {50, 60}, Content::fills, {BoundMode::relative, 1e-3}, 49);
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  ASSERT_TRUE(codec.ok());
  EXPECT_LT(codec->info().absolute_bound, 0.01);
  check_round_trip(array);
}

// Missing values are told from their numeric equals by their bits: -0.0 from 0.0, one NaN from another.
TEST(Values, MissingValuesAreBitPatterns) {
  std::mt19937_64 random(60);
  for (const uint32_t fill : {0x80000000U, 0x7f800001U, 0x7fc00001U}) {
    const std::array<uint32_t, 3> others = {fill, fill ^ 0x80000000U, fill ^ 0x00400000U};
    for (const Bound& bound : {Bound{BoundMode::absolute, 1e-3}, Bound{}}) {
      std::vector<float> values(90 * 90);
      for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t choice = random() % 20;
        values[i] = choice < others.size() ? std::bit_cast<float>(others.at(choice)) : static_cast<float>(i % 90) / 8;
      }
      SCOPED_TRACE(fmt::format("{:08x} {}", fill, to_string(bound)));
      const Array array = array_of(values, {90, 90}, bound, {fill});
      Bytes decoded;
      check_round_trip(array, &decoded);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(element<uint32_t>(decoded, i) == fill, element<uint32_t>(array.data, i) == fill) << i;
      }
    }
  }
}

// Levitus temperatures have land as -1e10 and do not say so: rel:1e-3 of that range would be a bound of 1e7.
TEST(Values, UndeclaredMissingValuesDoNotWidenARelativeRangeEither) {
  std::vector<float> values(200 * 300);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto y = static_cast<double>(i) / 300;
    const auto x = static_cast<double>(i % 300);
    values[i] = x > 200 ? -1e10F : static_cast<float>(15 + 10 * std::sin(y * 0.05) * std::cos(x * 0.04));
  }
  const Array array = array_of(values, {200, 300}, {BoundMode::relative, 1e-3});
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  ASSERT_TRUE(codec.ok());
  EXPECT_GT(codec->info().min, 0);
  EXPECT_NEAR(codec->info().absolute_bound, 0.02, 0.001);
  Bytes decoded;
  check_round_trip(array, &decoded);
  for (size_t i = 0; i < values.size(); ++i) {
    const float got = element<float>(decoded, i);
    ASSERT_TRUE(values[i] < 0 ? got == values[i] : std::fabs(got - values[i]) <= 0.021F) << i;
  }
}

TEST(Values, TwoUndeclaredMissingValuesAreBothFound) {
  const std::array<std::array<float, 2>, 3> pairs = {{{1e20F, -9999}, {-1e20F, 9999}, {-9999, 32767}}};
  for (const auto& [first, second] : pairs) {
    std::vector<float> values(100 * 100);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = i % 30 == 7   ? first
                  : i % 33 == 8 ? second
                                : static_cast<float>(2 * std::sin(static_cast<double>(i) * 0.01));
    }
    const Array array = array_of(values, {100, 100}, {BoundMode::relative, 1e-2});
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    ASSERT_TRUE(codec.ok());
    EXPECT_NEAR(codec->info().absolute_bound, 0.04, 0.001) << first << " and " << second;
    Bytes decoded;
    check_round_trip(array, &decoded);
    for (size_t i = 0; i < values.size(); ++i) {
      const float got = element<float>(decoded, i);
      ASSERT_TRUE(std::fabs(values[i]) > 3 ? got == values[i] : std::fabs(got - values[i]) <= 0.0401F) << i;
    }
  }
}

TEST(Values, ABoundBeyondTheRangeIsAppliedAndTold) {
  const Array array = make_array(DType::f32, {80, 90}, Content::noise, {BoundMode::absolute, 50}, 50);
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  ASSERT_TRUE(codec.ok());
  EXPECT_TRUE(codec->info().bound_exceeds_range);
  EXPECT_LT(check_round_trip(array), 200U);
  const Array fine = make_array(DType::f32, {80, 90}, Content::noise, {BoundMode::absolute, 0.1}, 50);
  EXPECT_FALSE(ArrayCodec::plan(fine.spec, reader_of(fine))->info().bound_exceeds_range);
}

// ERA-Interim: unrelated slices along short leading axes must not spoil the prediction.
TEST(Values, UnrelatedSlicesBecomeBatchAxes) {
  std::vector<float> values(6 * 100 * 120);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t slice = i / 12000;
    const double y = static_cast<double>(i / 120 % 100);
    const double x = static_cast<double>(i % 120);
    values[i] = static_cast<float>(std::sin(y * 0.05 + static_cast<double>(slice * slice)) * std::cos(x * 0.06) +
                                   static_cast<double>(slice * 17 % 5));
  }
  const Array stacked = array_of(values, {2, 3, 100, 120}, {BoundMode::absolute, 1e-3});
  const auto codec = ArrayCodec::plan(stacked.spec, reader_of(stacked));
  ASSERT_TRUE(codec.ok());
  EXPECT_NE(codec->info().method.find("along axes 2,3,"), std::string::npos) << codec->info().method;
  check_round_trip(stacked);
}

// ERA5 accumulated fluxes (SZ3 #58): large negative plateaus and exact zeros.
TEST(Values, AccumulatedFluxes) {
  std::mt19937_64 random(51);
  std::vector<float> values(4 * 90 * 180);
  for (size_t i = 0; i < values.size(); ++i) {
    const double day = std::sin(static_cast<double>(i % 180) * 0.035) - 0.2;
    values[i] = day < 0 ? 0.0F : static_cast<float>(-1e7 * day * (1 + 1e-3 * static_cast<double>(random() % 10)));
  }
  check_round_trip(array_of(values, {4, 90, 180}, {BoundMode::absolute, 1e3}));
}

}  // namespace
}  // namespace varve::codec::testing
