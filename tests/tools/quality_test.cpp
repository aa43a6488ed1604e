// Quality measures against answers that are known beforehand, and the Fourier transform against its definition.
#include "tools/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "tools/spectrum.h"

namespace varve::tools {
namespace {

using Complex = std::complex<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> waves(const std::vector<uint64_t>& shape, double shift) {
  std::vector<double> values;
  for (uint64_t z = 0; z < shape[0]; ++z) {
    for (uint64_t y = 0; y < shape[1]; ++y) {
      for (uint64_t x = 0; x < shape[2]; ++x) {
        const auto turn = [](double at, uint64_t extent) {
          return 2 * std::numbers::pi * at / static_cast<double>(extent);
        };
        values.push_back(std::sin(turn(3 * (static_cast<double>(x) + shift), shape[2])) +
                         0.5 * std::cos(turn(static_cast<double>(y), shape[1])) +
                         0.25 * std::sin(turn(2 * static_cast<double>(z), shape[0])));
      }
    }
  }
  return values;
}

std::vector<double> noise(size_t count, double deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> values(count);
  for (double& value : values) {
    value = normal(random);
  }
  return values;
}

TEST(Fourier, IsWhatItsDefinitionSaysAtAnyLength) {
  for (const size_t length : {1U, 2U, 3U, 8U, 12U, 31U, 64U, 100U}) {
    const auto real = noise(length, 1, 1);
    const auto imaginary = noise(length, 1, 2);
    std::vector<Complex> values(length);
    for (size_t i = 0; i < length; ++i) {
      values[i] = {real[i], imaginary[i]};
    }
    std::vector<Complex> transformed = values;
    FourierTransform transform(length);
    transform.forward(transformed);
    for (size_t k = 0; k < length; ++k) {
      Complex sum;
      for (size_t j = 0; j < length; ++j) {
        sum += values[j] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k % length) /
                                               static_cast<double>(length));
      }
      EXPECT_NEAR(std::abs(transformed[k] - sum), 0, 1e-11) << length << " " << k;
    }
  }
}

TEST(Fourier, AllAxesKeepTheSumOfSquares) {
  const std::vector<uint64_t> shape = {6, 8, 15};
  const auto real = noise(6 * 8 * 15, 1, 3);
  std::vector<Complex> values(real.begin(), real.end());
  transform_all(values, shape);
  double before = 0;
  double after = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    before += real[i] * real[i];
    after += std::norm(values[i]);
  }
  EXPECT_NEAR(after / static_cast<double>(values.size()), before, 1e-9 * before);
}

TEST(Spectrum, AWaveIsInItsShellAndBothArraysAreToldApart) {
  const std::vector<uint64_t> shape = {16, 16, 16};
  std::vector<double> first;
  std::vector<double> second;
  for (size_t i = 0; i < 4096; ++i) {
    const auto x = static_cast<double>(i % 16);
    const auto y = static_cast<double>(i / 16 % 16);
    first.push_back(10 + std::cos(2 * std::numbers::pi * 3 * x / 16));
    second.push_back(-4 + 2 * std::sin(2 * std::numbers::pi * 5 * y / 16));
  }
  const SpectrumPair pair = power_spectra(first, second, shape);
  ASSERT_EQ(pair.wave_number.size(), 8U);
  for (size_t i = 0; i < pair.wave_number.size(); ++i) {
    EXPECT_EQ(pair.first[i] > 1, pair.wave_number[i] == 3) << i;
    EXPECT_EQ(pair.second[i] > 1, pair.wave_number[i] == 5) << i;
  }
}

TEST(Spectrum, WhiteNoiseIsFlat) {
  const auto values = noise(64 * 64, 2, 4);
  const SpectrumPair pair = power_spectra(values, values, {64, 64});
  for (size_t i = 3; i < pair.first.size(); ++i) {  // shells with many modes
    EXPECT_NEAR(pair.first[i] / (64 * 64 * 4.0), 1, 0.4);
    EXPECT_NEAR(pair.first[i], pair.second[i], 1e-9 * pair.first[i]);
  }
}

TEST(Quality, EqualArraysAreEqual) {
  const std::vector<uint64_t> shape = {9, 20, 24};
  const auto field = waves(shape, 0);
  const ArrayQuality quality = assess(field, field, shape);
  EXPECT_EQ(quality.max_error, 0);
  EXPECT_FALSE(quality.psnr);
  EXPECT_DOUBLE_EQ(quality.ssim.value(), 1);
  EXPECT_NEAR(quality.pearson.value(), 1, 1e-12);
  EXPECT_EQ(quality.gradient_nrmse.value(), 0);
  EXPECT_TRUE(quality.error_bins.empty());
  EXPECT_TRUE(quality.autocorrelation.empty());
}

TEST(Quality, OfConstantsThereIsLittleToSay) {
  const std::vector<double> first(1000, 5);
  const std::vector<double> second(1000, 5.5);
  const ArrayQuality quality = assess(first, second, {10, 10, 10});
  EXPECT_DOUBLE_EQ(quality.max_error, 0.5);
  EXPECT_DOUBLE_EQ(quality.mean_error, 0.5);
  EXPECT_FALSE(quality.psnr);
  EXPECT_FALSE(quality.ssim);
  EXPECT_FALSE(quality.pearson);
  EXPECT_FALSE(quality.gradient_nrmse);
  EXPECT_TRUE(quality.autocorrelation.empty());
}

TEST(Quality, WhiteNoiseOfKnownVariance) {
  const std::vector<uint64_t> shape = {40, 40, 40};
  const auto field = waves(shape, 0);
  const double deviation = 0.01;
  auto copy = noise(field.size(), deviation, 5);
  for (size_t i = 0; i < copy.size(); ++i) {
    copy[i] += field[i];
  }
  const ArrayQuality quality = assess(field, copy, shape);
  const double range = quality.max - quality.min;
  EXPECT_NEAR(quality.rmse, deviation, 0.01 * deviation);
  EXPECT_NEAR(quality.psnr.value(), 20 * std::log10(range / deviation), 0.1);
  EXPECT_NEAR(quality.mean_error, 0, 4 * deviation / std::sqrt(64000.0));
  for (const double value : quality.autocorrelation) {
    EXPECT_NEAR(value, 0, 5 / std::sqrt(64000.0));
  }
  double share = 0;
  double within = 0;
  for (size_t i = 0; i < quality.error_bins.size(); ++i) {
    share += quality.error_share[i];
    within += std::fabs(quality.error_bins[i]) < deviation ? quality.error_share[i] : 0;
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_NEAR(within, 0.6827, 0.03) << "a normal distribution";
  // Differences of two independent errors, halved, along three axes.
  EXPECT_NEAR(quality.max_gradient_error, 0.03, 0.02);
  double slopes = 0;  // of the waves: amplitude^2 / 2 times (sin h)^2 for each axis
  for (const auto& [amplitude, turns, extent] : {std::tuple{1.0, 3, 40}, {0.5, 1, 40}, {0.25, 2, 40}}) {
    slopes += amplitude * amplitude / 2 * std::pow(std::sin(2 * std::numbers::pi * turns / extent), 2);
  }
  EXPECT_NEAR(quality.gradient_nrmse.value(), std::sqrt(1.5 * deviation * deviation / slopes),
              0.1 * quality.gradient_nrmse.value());
  // Noise adds its own flat power: n times its variance.
  for (size_t i = 0; i < quality.power.size(); ++i) {
    if (quality.wave_number[i] > 8) {
      EXPECT_NEAR(quality.copy_power[i] / (64000 * deviation * deviation), 1, 0.2);
      EXPECT_LT(quality.power[i], 1e-9 * quality.copy_power[i]);
    } else if (quality.wave_number[i] <= 3) {
      EXPECT_NEAR(quality.copy_power[i] / quality.power[i], 1, 0.01);
    }
  }
}

TEST(Quality, AShiftKeepsPowerAndLosesSimilarity) {
  const std::vector<uint64_t> shape = {12, 24, 48};
  const auto field = waves(shape, 0);
  const auto shifted = waves(shape, 4);
  const ArrayQuality quality = assess(field, shifted, shape);
  EXPECT_NEAR(quality.max_error, 2 * std::sin(std::numbers::pi * 3 * 4 / 48), 1e-9);
  for (size_t i = 0; i < quality.power.size(); ++i) {
    if (quality.power[i] > 1e-9) {
      EXPECT_NEAR(quality.copy_power[i] / quality.power[i], 1, 1e-9) << i;
    }
  }
  EXPECT_LT(quality.ssim.value(), 0.6);
  EXPECT_GT(quality.autocorrelation[0], 0.8) << "the error of a shift is smooth";
}

TEST(Quality, SimilarityOfOneWindowIsItsFormula) {
  const auto first = noise(49, 1, 6);
  const auto second = noise(49, 1.2, 7);
  const ArrayQuality quality = assess(first, second, {7, 7});
  double a = 0;
  double b = 0;
  for (size_t i = 0; i < 49; ++i) {
    a += first[i] / 49;
    b += second[i] / 49;
  }
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (size_t i = 0; i < 49; ++i) {
    aa += (first[i] - a) * (first[i] - a) / 49;
    bb += (second[i] - b) * (second[i] - b) / 49;
    ab += (first[i] - a) * (second[i] - b) / 49;
  }
  const double range = quality.max - quality.min;
  const double c1 = std::pow(0.01 * range, 2);
  const double c2 = std::pow(0.03 * range, 2);
  EXPECT_NEAR(quality.ssim.value(), (2 * a * b + c1) * (2 * ab + c2) / ((a * a + b * b + c1) * (aa + bb + c2)), 1e-12);
}

TEST(Quality, WhatIsNotFiniteIsLeftOut) {
  const std::vector<uint64_t> shape = {20, 20, 20};
  auto field = waves(shape, 0);
  auto copy = field;
  for (double& value : copy) {
    value += 0.125;
  }
  const ArrayQuality whole = assess(field, copy, shape);
  field[0] = kNaN;
  copy[7999] = std::numeric_limits<double>::infinity();
  const ArrayQuality holes = assess(field, copy, shape);
  EXPECT_EQ(holes.compared, 7998U);
  EXPECT_NEAR(holes.max_error, 0.125, 1e-12);
  EXPECT_NEAR(holes.psnr.value(), whole.psnr.value(), 0.01);
  EXPECT_NEAR(holes.ssim.value(), whole.ssim.value(), 0.01);
  EXPECT_NEAR(holes.gradient_nrmse.value(), 0, 1e-12);
  const std::vector<double> nothing(10, kNaN);
  EXPECT_EQ(assess(nothing, nothing, {10}).compared, 0U);
  EXPECT_EQ(assess({}, {}, {0}).compared, 0U);
}

}  // namespace
}  // namespace varve::tools
