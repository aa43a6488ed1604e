// What was decoded, encoded again under the same absolute bound, decodes to the same bits.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

/// Encodes and decodes an array twice and more; the first time it may move by the bound.
void check_idempotent(Array array, int passes = 2) {
  SCOPED_TRACE(fmt::format("{} {} under {}", name_of(array.spec.dtype), fmt::join(array.spec.shape, "x"),
                           to_string(array.spec.bound)));
  const Array original = array;
  check_round_trip(array, &array.data);
  const Bytes first = array.data;
  for (int again = 0; again < passes; ++again) {
    check_round_trip(array, &array.data);
    ASSERT_TRUE(array.data == first) << "pass " << again;
  }
  EXPECT_EQ(violation(original, array.data), "");
}

TEST(Idempotence, EveryContent) {
  std::mt19937_64 random(75);
  std::uniform_real_distribution<double> exponent(-7, 1);
  for (int round = 0; round < 60; ++round) {
    const Content content = kContents.at(random() % kContents.size());
    const DType type = std::array{DType::f32, DType::f64, DType::f16}.at(random() % 3);
    const Bound bound{BoundMode::absolute, std::pow(10.0, exponent(random))};
    const Extents shape = {1 + random() % 20, 1 + random() % 60, 1 + random() % 60};
    SCOPED_TRACE(static_cast<int>(content));
    check_idempotent(make_array(type, shape, content, bound, random()), 3);
  }
}

/// A sum of waves along all axes, with noise, rounded (-0 among its zeros), raised to a power, or far from zero.
template <typename T>
Array drawn_array(std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(0, 1);
  std::normal_distribution<double> normal;
  const double count = std::array{2000, 4500, 9000, 20000, 60000}.at(random() % 5);
  Extents shape(1 + random() % 3);
  double left = std::log(count);
  for (uint64_t& extent : shape) {
    const double part = &extent == &shape.back() ? left : left * unit(random);
    extent = std::max<uint64_t>(1, static_cast<uint64_t>(std::exp(part)));
    left -= part;
  }
  std::vector<double> rate(shape.size());
  std::vector<double> phase(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    rate[axis] = 0.02 + 0.6 * unit(random);
    phase[axis] = 2 * std::numbers::pi * unit(random);
  }
  const uint64_t kind = random() % 6;
  std::vector<T> values(element_count(shape));
  double least = HUGE_VAL;
  double most = -HUGE_VAL;
  for (size_t i = 0; i < values.size(); ++i) {
    double sum = 0;
    for (size_t axis = shape.size(), rest = i; axis-- > 0; rest /= shape[axis]) {
      sum += std::sin(static_cast<double>(rest % shape[axis]) * rate[axis] + phase[axis]);
    }
    const std::array kinds = {
        sum, normal(random), sum + 0.05 * normal(random), std::round(sum * 10), std::exp(sum * 3), sum * 1e-2 + 300};
    values[i] = static_cast<T>(kinds.at(kind));
    least = std::min<double>(least, values[i]);
    most = std::max<double>(most, values[i]);
  }
  const double part = std::pow(10.0, -5 + 5.5 * unit(random));
  return array_of(values, shape, {BoundMode::absolute, most > least ? (most - least) * part : 1.0});
}

TEST(Idempotence, DrawnArrays) {
  std::mt19937_64 random(76);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    check_idempotent(round % 2 == 0 ? drawn_array<float>(random) : drawn_array<double>(random), 1);
  }
}

// Decoding moves the extremes; the quantum depends on the power of two that they are below.
TEST(Idempotence, ExtremesNextToAPowerOfTwo) {
  for (const double amplitude : {1.0, 2.0}) {
    for (const double bound : {1.8e-6, 1e-5, 1e-4, 1.8e-4, 0.3}) {
      for (int i = 0; i < 12; ++i) {
        std::vector<float> values(4500);
        for (size_t x = 0; x < values.size(); ++x) {
          values[x] = static_cast<float>(amplitude * std::sin(static_cast<double>(x) * (0.02 + 0.013 * i) + i));
        }
        SCOPED_TRACE(fmt::format("amplitude {}, {}", amplitude, i));
        check_idempotent(array_of(values, {4500}, {BoundMode::absolute, bound * amplitude}), 1);
      }
    }
  }
}

}  // namespace
}  // namespace varve::codec::testing
