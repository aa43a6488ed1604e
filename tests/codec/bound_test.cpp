#include "codec/bound.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/codec/arrays.h"

namespace varve::codec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array kTypes = {DType::u8,  DType::i8,  DType::u16, DType::i16,  DType::u32, DType::i32,
                               DType::u64, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr std::array kFloats = {DType::f16, DType::bf16, DType::f32, DType::f64};

enum class Shape { noise, waves, lognormal };

/// The nearest element to a value, as bits.
uint64_t element_near(DType type, double value) {
  return with_element(type, [&](auto element) -> uint64_t {
    using E = decltype(element);
    return static_cast<uint64_t>(ValueMapping<E>(Mapping{}).store(static_cast<typename E::Work>(value)));
  });
}
double value_of(DType type, uint64_t bits) {
  return with_element(type, [&](auto element) {
    return static_cast<double>(element.value(static_cast<typename decltype(element)::Bits>(bits)));
  });
}

/// Elements as bits; those of integers spread over a good part of their range.
std::vector<uint64_t> make_line(DType type, Shape shape, size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal;
  const bool is_signed = type != DType::u8 && type != DType::u16 && type != DType::u32 && type != DType::u64;
  const double size =
      is_float(type) ? 300 : std::ldexp(1.0, std::min(40, static_cast<int>(8 * element_size(type) - 2)));
  std::vector<uint64_t> line(count);
  for (size_t i = 0; i < count; ++i) {
    const double at = static_cast<double>(i);
    const double value = shape == Shape::noise   ? uniform(random)
                         : shape == Shape::waves ? 0.5 + 0.3 * std::sin(at / 97) + 0.2 * std::sin(at / 31)
                                                 : std::exp(normal(random) - 3);
    line[i] = element_near(type, size * (std::min(value, 1.0) - (is_signed && shape != Shape::lognormal ? 0.5 : 0)));
  }
  return line;
}

ValueRange range_of_line(DType type, const std::vector<uint64_t>& line) {
  ValueRange range{line.size(), kInfinity, -kInfinity};
  for (const uint64_t bits : line) {
    range.min = std::min(range.min, value_of(type, bits));
    range.max = std::max(range.max, value_of(type, bits));
  }
  return range;
}

struct Coded {
  std::vector<uint64_t> stored;
  std::vector<int64_t> codes;
  size_t refused = 0;  ///< stored as they were, since the bound was not kept
};

/// The quantized scheme in one line, closed loop: each element predicted from the two before.
template <typename M>
Coded code_line(const M& map, double quantum_asked, const std::vector<uint64_t>& line) {
  using W = typename M::Work;
  Coded out;
  const auto quantum = static_cast<W>(quantum_asked);
  W before = 0;
  W second = 0;
  for (const uint64_t bits : line) {
    const auto x = static_cast<typename M::Bits>(bits);
    const W prediction = before + (before - second) * W(0.4375);
    const W code = round_even((map.load(x) - prediction) / quantum);
    W value = prediction + quantum * code;
    auto s = map.store(value);
    if (!map.keeps(x, s)) {
      ++out.refused;
      s = x;
      value = map.load(x);
    }
    second = before;
    before = value;
    out.stored.push_back(static_cast<uint64_t>(s));
    out.codes.push_back(static_cast<int64_t>(code));
  }
  return out;
}
Coded code_line(DType type, const ResolvedBound& resolved, const std::vector<uint64_t>& line) {
  return with_mapping(type, resolved.mapping, [&](const auto& map) { return code_line(map, resolved.quantum, line); });
}

double psnr_of(DType type, const ValueRange& range, const std::vector<uint64_t>& line, const Coded& coded) {
  double squares = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const double error = value_of(type, line[i]) - value_of(type, coded.stored[i]);
    squares += error * error;
  }
  return 20 * std::log10(range.max - range.min) - 10 * std::log10(squares / static_cast<double>(line.size()));
}

TEST(Bound, ModesComeToTheirAbsoluteBounds) {
  const ValueRange range{1000, -2, 6};
  for (const DType type : {DType::f32, DType::f64}) {
    EXPECT_EQ(resolve_bound(type, {BoundMode::absolute, 0.1}, range).absolute_bound, 0.1);
    EXPECT_EQ(resolve_bound(type, {BoundMode::relative, 0.125}, range).absolute_bound, 1);
    EXPECT_EQ(resolve_bound(type, {BoundMode::absolute_and_relative, 0.5, 0.125}, range).absolute_bound, 0.5);
    EXPECT_EQ(resolve_bound(type, {BoundMode::absolute_and_relative, 3, 0.125}, range).absolute_bound, 1);
    EXPECT_NEAR(resolve_bound(type, {BoundMode::psnr, 60}, range).absolute_bound, 8e-3 * std::sqrt(3.0), 1e-4);
    EXPECT_EQ(resolve_bound(type, {BoundMode::pointwise, 0.25}, range).absolute_bound, 1.5);
    EXPECT_EQ(resolve_bound(type, {BoundMode::bits, 3}, range).absolute_bound, 0.25) << "6 is in steps of 1/2";
    EXPECT_FALSE(resolve_bound(type, {BoundMode::absolute, 8}, range).exceeds_range);
    EXPECT_TRUE(resolve_bound(type, {BoundMode::absolute, 8.1}, range).exceeds_range);
  }
  EXPECT_EQ(resolve_bound(DType::f32, {BoundMode::absolute, 0.1}, range).mapping,
            (Mapping{MappingKind::values, 0, 0.1}));
  EXPECT_TRUE(resolve_bound(DType::f32, {BoundMode::pointwise, 0.1}, range).zero_is_special);
  const ValueRange huge{1000, -1.7e308, 1.7e308};
  EXPECT_EQ(resolve_bound(DType::f64, {BoundMode::relative, 0.01}, huge).absolute_bound, 2 * (0.01 * 1.7e308));
}

TEST(Bound, WhatCannotBeBoundedIsLossless) {
  const ValueRange range{1000, 0, 100};
  const auto is_lossless = [](DType type, const Bound& bound, const ValueRange& of, bool explained = true) {
    const ResolvedBound resolved = resolve_bound(type, bound, of);
    return resolved.lossless() && resolved.absolute_bound == 0 && resolved.work_bound == 0 &&
           resolved.mapping == Mapping{} && resolved.why.empty() != explained;
  };
  EXPECT_TRUE(is_lossless(DType::f32, {}, range, false));
  EXPECT_TRUE(is_lossless(DType::f32, {BoundMode::ratio, 10}, range, false));
  EXPECT_TRUE(is_lossless(DType::f32, {BoundMode::relative, 1e-3}, {}, false)) << "an array of missing values";
  EXPECT_TRUE(is_lossless(DType::f32, {BoundMode::absolute, 1e-3}, {10, 0, 0}, false));
  EXPECT_TRUE(is_lossless(DType::f32, {BoundMode::relative, 1e-3}, {10, 5, 5}));
  EXPECT_TRUE(is_lossless(DType::f32, {BoundMode::absolute, 1e-45}, range));
  EXPECT_TRUE(is_lossless(DType::u8, {BoundMode::absolute, 0.99}, range));
  EXPECT_TRUE(is_lossless(DType::u8, {BoundMode::bits, 3}, range));
  EXPECT_TRUE(is_lossless(DType::u8, {BoundMode::pointwise, 1e-3}, range));
  EXPECT_TRUE(is_lossless(DType::i64, {BoundMode::absolute, 5}, {10, -0x1p53, 0}));
  EXPECT_FALSE(is_lossless(DType::i64, {BoundMode::absolute, 5}, {10, -0x1.fffffffffffffp52, 0}));
  EXPECT_TRUE(is_lossless(DType::u64, {BoundMode::absolute, 5}, {10, 0, kInfinity}));
  EXPECT_TRUE(is_lossless(DType::f16, {BoundMode::absolute, 0x1p-25}, range));
  EXPECT_TRUE(is_lossless(DType::bf16, {BoundMode::pointwise, 1e-3}, range));
  EXPECT_TRUE(is_lossless(DType::f64, {BoundMode::pointwise, 0x1p-37}, range));
  EXPECT_FALSE(is_lossless(DType::f64, {BoundMode::pointwise, 0x1p-36}, range));
  EXPECT_TRUE(is_lossless(DType::f32, {BoundMode::bits, 23}, range));
  EXPECT_FALSE(is_lossless(DType::f32, {BoundMode::bits, 22}, range));
  EXPECT_TRUE(is_lossless(DType::f64, {BoundMode::bits, 35}, range));
  EXPECT_FALSE(is_lossless(DType::f64, {BoundMode::bits, 34}, range));
}

/// Every type under every mode: hardly anything is refused, codes use the whole bound, and coding what was decoded
/// gives the same codes.
void check_coding(DType type, const Bound& bound, Shape shape) {
  const std::vector<uint64_t> line = make_line(type, shape, 20000, 1);
  const ValueRange range = range_of_line(type, line);
  const ResolvedBound resolved = resolve_bound(type, bound, range);
  const std::string where = std::string(name_of(type)) + " " + to_string(bound);
  ASSERT_FALSE(resolved.lossless()) << where << ": " << resolved.why;
  ASSERT_TRUE(is_valid(type, resolved.mapping));
  EXPECT_GE(resolved.quantum, 1.8 * std::min(resolved.work_bound, resolved.quantum)) << where;
  const Coded coded = code_line(type, resolved, line);
  EXPECT_LE(coded.refused, line.size() / 50) << where;
  double worst = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    worst = std::max(worst, std::fabs(value_of(type, line[i]) - value_of(type, coded.stored[i])));
  }
  EXPECT_LE(worst, resolved.absolute_bound) << where;
  EXPECT_GT(worst, 0) << where;
  const Coded again = code_line(type, resolved, coded.stored);
  EXPECT_EQ(again.stored, coded.stored) << where;
}

TEST(Bound, QuantaFitTheirMappings) {
  for (const Shape shape : {Shape::noise, Shape::waves, Shape::lognormal}) {
    for (const DType type : kTypes) {
      const bool is_brain = type == DType::bf16;
      for (const double part : {0.2, 0.05, is_brain ? 0.02 : 0.03, is_brain ? 0.017 : 0.0177}) {
        check_coding(type, {BoundMode::relative, part}, shape);
      }
      check_coding(type, {BoundMode::psnr, 35}, shape);
    }
    for (const DType type : kFloats) {
      check_coding(type, {BoundMode::pointwise, 0.02}, shape);
      check_coding(type, {BoundMode::pointwise, 0.3}, shape);
      check_coding(type, {BoundMode::bits, 3}, shape);
      check_coding(type, {BoundMode::bits, 6}, shape);
    }
    for (const DType type : {DType::f32, DType::f64}) {
      check_coding(type, {BoundMode::relative, 1e-4}, shape);
      check_coding(type, {BoundMode::pointwise, 1e-4}, shape);
      check_coding(type, {BoundMode::bits, 14}, shape);
    }
    for (const DType type : {DType::u8, DType::i16, DType::i32, DType::u64}) {
      for (const double steps : {1.0, 1.9, 2.0, 3.0, 7.0}) {
        check_coding(type, {BoundMode::absolute, steps}, shape);
      }
    }
    check_coding(DType::i32, {BoundMode::pointwise, 1e-3}, shape);
    check_coding(DType::u64, {BoundMode::pointwise, 1e-3}, shape);
  }
}

TEST(Bound, IntegersUseTheirWholeGrid) {
  const ResolvedBound resolved = resolve_bound(DType::u8, {BoundMode::absolute, 1}, {1000, 0, 255});
  EXPECT_EQ(resolved.work_bound, 1.5);
  EXPECT_GT(resolved.quantum, 2.9) << "three values a code";
  EXPECT_EQ(resolved.absolute_bound, 1);
}

/// Noise gives uniform errors, the worst that is not made up, and all quanta are those of level 0.
TEST(Bound, PsnrOfNoiseIsReachedAndNotOvershot) {
  for (const DType type : kTypes) {
    const std::vector<uint64_t> line = make_line(type, Shape::noise, 200000, 2);
    const ValueRange range = range_of_line(type, line);
    for (const double decibels : {20.0, 33.0, 47.0, 60.0, 80.0}) {
      const ResolvedBound resolved = resolve_bound(type, {BoundMode::psnr, decibels}, range);
      if (resolved.lossless()) {
        EXPECT_TRUE(decibels > 33 && element_size(type) <= 2) << name_of(type) << decibels;
        continue;
      }
      const double reached = psnr_of(type, range, line, code_line(type, resolved, line));
      EXPECT_GE(reached, decibels) << name_of(type);
      if (element_size(type) > 2 && decibels > 30) {
        EXPECT_LE(reached, decibels + 0.1) << name_of(type);
      }
    }
  }
}

TEST(Bound, RoundingToAGridIsCountedInThePsnr) {
  std::mt19937_64 random(5);
  std::vector<uint64_t> line(200000);
  std::generate(line.begin(), line.end(), [&] { return uint64_t{float_to_brain(128)} + random() % 128; });
  const ValueRange range = range_of_line(DType::bf16, line);  // 128 to 255, points one apart
  for (double decibels = 30; decibels < 42; decibels += 0.7) {
    const ResolvedBound resolved = resolve_bound(DType::bf16, {BoundMode::psnr, decibels}, range);
    ASSERT_FALSE(resolved.lossless());
    EXPECT_GE(psnr_of(DType::bf16, range, line, code_line(DType::bf16, resolved, line)), decibels);
  }
}

/// Predictions are sums of sixteenths: none may land just between two integers, where rounding may go wrong.
TEST(Bound, NoIntegerIsRefusedWhateverItsPrediction) {
  for (const double bound : {1.0, 2.0, 3.0, 7.0, 20.0}) {
    const ResolvedBound resolved = resolve_bound(DType::u8, {BoundMode::absolute, bound}, {1000, 0, 255});
    const ValueMapping<IntegerElement<uint8_t>> map(resolved.mapping);
    const auto quantum = static_cast<float>(resolved.quantum);
    for (unsigned x = 0; x < 256; ++x) {
      for (float prediction = 0; prediction < 256; prediction += 0.0625F) {
        const auto element = static_cast<uint8_t>(x);
        const float value = prediction + quantum * round_even((map.load(element) - prediction) / quantum);
        ASSERT_TRUE(map.keeps(element, map.store(value))) << x << " " << prediction << " " << bound;
      }
    }
  }
}

TEST(Bound, PsnrIsReachedByTheCodec) {
  using namespace testing;
  size_t tried = 0;
  for (const DType type : {DType::f32, DType::f64}) {
    for (const Content content : {Content::ramp, Content::waves, Content::noise, Content::steps}) {
      for (const double decibels : {25.0, 40.0, 60.0, 85.0}) {
        Array array = make_array(type, {34, 40, 42}, content, {}, 4);
        const auto scan = scan_array(array.spec, reader_of(array));
        ASSERT_TRUE(scan.ok());
        const ValueRange range = value_range(type, *scan);
        const ResolvedBound resolved = resolve_bound(type, {BoundMode::psnr, decibels}, range);
        ASSERT_FALSE(resolved.lossless());
        array.spec.bound = {BoundMode::psnr, decibels};
        Bytes decoded;
        check_round_trip(array, &decoded);
        std::vector<uint64_t> line(array.count());
        Coded coded;
        coded.stored.resize(line.size());
        for (size_t i = 0; i < line.size(); ++i) {
          std::memcpy(&line[i], array.data.data() + i * element_size(type), element_size(type));
          std::memcpy(&coded.stored[i], decoded.data() + i * element_size(type), element_size(type));
        }
        EXPECT_GE(psnr_of(type, range, line, coded), decibels) << static_cast<int>(content);
        tried += line == coded.stored ? 0 : 1;
      }
    }
  }
  EXPECT_GT(tried, 20U) << "hardly anything was bounded";
}

TEST(Bound, RangesOfHalvesAndOfLargeIntegersAreValues) {
  Scan scan;
  scan.counted = 5;
  scan.rest_min = half_to_order(float_to_half(-2.5F));
  scan.rest_max = half_to_order(float_to_half(1000));
  EXPECT_EQ(value_range(DType::f16, scan).min, -2.5);
  EXPECT_EQ(value_range(DType::f16, scan).max, 1000);
  scan.rest_min = half_to_order(float_to_brain(-0x1p100F));
  scan.rest_max = half_to_order(0);
  EXPECT_EQ(value_range(DType::bf16, scan).min, -0x1p100);
  EXPECT_EQ(value_range(DType::bf16, scan).max, 0);
  scan.rest_max = half_to_order(0x7f80);  // infinity
  EXPECT_TRUE(std::isinf(value_range(DType::bf16, scan).max));
  scan.rest_min = -5;
  scan.rest_max = 7;
  EXPECT_EQ(value_range(DType::i64, scan).min, -5);
  EXPECT_TRUE(std::isinf(value_range(DType::u64, scan).max)) << "one of them is 2^63 or more";
}

/// What ArrayCodec::plan chooses today, where it bounds at all.
TEST(Bound, PlansHaveTheSameBound) {
  for (const DType type : {DType::f32, DType::f64}) {
    for (const Bound& bound : {Bound{BoundMode::relative, 1e-3}, Bound{BoundMode::absolute, 0.5}}) {
      const std::vector<uint64_t> line = make_line(type, Shape::noise, 20000, 3);
      const size_t size = element_size(type);
      const ReadBox read = [&](const Box& box, std::byte* out) -> Status {
        for (uint64_t i = 0; i < box.shape[0]; ++i) {
          std::memcpy(out + i * size, &line[box.origin[0] + i], size);
        }
        return {};
      };
      const auto codec = ArrayCodec::plan({type, {line.size()}, bound, {}, {}}, read);
      ASSERT_TRUE(codec.ok());
      EXPECT_GT(codec->info().absolute_bound, 0);
      EXPECT_EQ(codec->info().absolute_bound, resolve_bound(type, bound, range_of_line(type, line)).absolute_bound);
    }
  }
}

TEST(Bound, TheSmallestBoundOfARatioIsFound) {
  const BoundLimits limits = ratio_limits(DType::f32, {1000, -1, 1});
  EXPECT_EQ(limits.high, 2);
  EXPECT_LT(limits.low, 1e-6);
  size_t calls = 0;
  const auto ratio_of = [&](double bound) {
    ++calls;
    return bound == 0 ? 1.5 : 32 / std::max(0.2, std::log2(2 / bound) + 1);
  };
  for (const double ratio : {2.0, 8.0, 20.0, 31.0}) {
    calls = 0;
    const RatioBound found = find_ratio_bound(ratio, limits, ratio_of);
    EXPECT_TRUE(found.reached);
    EXPECT_GE(found.ratio, ratio);
    EXPECT_EQ(found.ratio, ratio_of(found.bound));
    EXPECT_LT(ratio_of(found.bound / 1.011), ratio);
    EXPECT_LE(calls, 18U);
  }
  const RatioBound never = find_ratio_bound(33, limits, ratio_of);
  EXPECT_FALSE(never.reached);
  EXPECT_EQ(never.bound, limits.high);
  const RatioBound exact = find_ratio_bound(1.5, limits, ratio_of);
  EXPECT_TRUE(exact.reached);
  EXPECT_EQ(exact.bound, 0);
  const RatioBound step = find_ratio_bound(10, limits, [](double bound) { return bound >= 0.25 ? 40 : 2; });
  EXPECT_NEAR(step.bound, 0.25, 0.0026);
  EXPECT_GE(step.bound, 0.25);
  const BoundLimits subnormal = ratio_limits(DType::f64, {9, 0, 2e-323});
  EXPECT_GT(find_ratio_bound(9, subnormal, [](double bound) { return bound > 1e-323 ? 40 : 2; }).bound, 1e-323);
  EXPECT_EQ(find_ratio_bound(1.2, ratio_limits(DType::f32, {9, 1, 1}), [](double) { return 1; }).bound, 0);
}

}  // namespace
}  // namespace varve::codec
