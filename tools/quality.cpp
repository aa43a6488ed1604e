#include "tools/quality.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tools/spectrum.h"

namespace varve::tools {
namespace {

constexpr size_t kBins = 201;
constexpr size_t kLags = 64;

/// The last three axes, padded in front; what lies before them is the batch.
struct Space {
  std::array<size_t, 3> extent{1, 1, 1};
  std::array<size_t, 3> stride{1, 1, 1};
  size_t batches = 1, size = 1;

  explicit Space(const std::vector<uint64_t>& shape) {
    for (size_t i = 0; i < shape.size(); ++i) {
      const size_t from_end = shape.size() - i;
      if (from_end <= 3) {
        extent[3 - from_end] = shape[i];
      } else {
        batches *= shape[i];
      }
    }
    stride = {extent[1] * extent[2], extent[2], 1};
    size = extent[0] * stride[0];
  }
};

bool both_finite(double a, double b) { return std::isfinite(a) && std::isfinite(b); }

void add_errors(std::span<const double> original, std::span<const double> copy, ArrayQuality& quality) {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < original.size(); ++i) {
    if (both_finite(original[i], copy[i])) {
      const double error = copy[i] - original[i];
      least = std::min(least, original[i]);
      most = std::max(most, original[i]);
      sum += error;
      squares += error * error;
      quality.max_error = std::max(quality.max_error, std::fabs(error));
      ++quality.compared;
    }
  }
  if (quality.compared == 0) {
    return;
  }
  const auto count = static_cast<double>(quality.compared);
  quality.min = least;
  quality.max = most;
  quality.mean_error = sum / count;
  quality.rmse = std::sqrt(squares / count);
  const double range = most - least;
  if (range > 0) {
    quality.max_relative_error = quality.max_error / range;
    quality.nrmse = quality.rmse / range;
    if (quality.rmse > 0) {
      quality.psnr = -20 * std::log10(*quality.nrmse);
    }
  }
}

void add_correlation(std::span<const double> original, std::span<const double> copy, ArrayQuality& quality) {
  double mean_a = 0;
  double mean_b = 0;
  const auto count = static_cast<double>(quality.compared);
  for (size_t i = 0; i < original.size(); ++i) {
    if (both_finite(original[i], copy[i])) {
      mean_a += original[i] / count;
      mean_b += copy[i] / count;
    }
  }
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (size_t i = 0; i < original.size(); ++i) {
    if (both_finite(original[i], copy[i])) {
      const double a = original[i] - mean_a;
      const double b = copy[i] - mean_b;
      aa += a * a;
      bb += b * b;
      ab += a * b;
    }
  }
  const bool varies = quality.max > quality.min && bb > 1e-28 * count * mean_b * mean_b;  // by more than rounding
  if (varies && aa > 0) {
    quality.pearson = ab / std::sqrt(aa) / std::sqrt(bb);
  }
}

void add_histogram(std::span<const double> original, std::span<const double> copy, ArrayQuality& quality) {
  if (quality.max_error == 0) {
    return;
  }
  const double width = 2 * quality.max_error / kBins;
  quality.error_share.assign(kBins, 0);
  for (size_t i = 0; i < original.size(); ++i) {
    if (both_finite(original[i], copy[i])) {
      const auto bin = static_cast<size_t>((copy[i] - original[i] + quality.max_error) / width);
      quality.error_share[std::min(bin, kBins - 1)] += 1 / static_cast<double>(quality.compared);
    }
  }
  for (size_t bin = 0; bin < kBins; ++bin) {
    quality.error_bins.push_back((static_cast<double>(bin) + 0.5) * width - quality.max_error);
  }
}

/// sum (e[i] - m)(e[i + lag] - m) / sum (e[i] - m)^2. What is not finite counts as the mean m.
void add_autocorrelation(std::span<const double> original, std::span<const double> copy, ArrayQuality& quality) {
  std::vector<double> error(original.size());
  double squares = 0;
  for (size_t i = 0; i < original.size(); ++i) {
    error[i] = both_finite(original[i], copy[i]) ? copy[i] - original[i] - quality.mean_error : 0;
    squares += error[i] * error[i];
  }
  // Errors that differ by their rounding alone do not vary.
  const auto count = static_cast<double>(quality.compared);
  if (!(squares > 1e-20 * count * quality.max_error * quality.max_error)) {
    return;
  }
  for (size_t lag = 1; lag <= kLags && lag < error.size(); ++lag) {
    std::array<double, 8> sums{};  // apart, so that they are added up side by side
    size_t i = 0;
    for (; i + lag + sums.size() <= error.size(); i += sums.size()) {
      for (size_t k = 0; k < sums.size(); ++k) {
        sums[k] += error[i + k] * error[i + k + lag];
      }
    }
    double sum = 0;
    for (; i + lag < error.size(); ++i) {
      sum += error[i] * error[i + lag];
    }
    for (const double part : sums) {
      sum += part;
    }
    quality.autocorrelation.push_back(sum / squares);
  }
}

/// Sums over one window. Values are taken from `base`, so that large means do not swallow small variances.
struct Window {
  double count = 0, a = 0, b = 0, aa = 0, bb = 0, ab = 0;
  bool finite = true;

  void take(double x, double y) {
    finite = finite && both_finite(x, y);
    ++count;
    a += x;
    b += y;
    aa += x * x;
    bb += y * y;
    ab += x * y;
  }
  double similarity(double base, double range) const {
    const double c1 = 0.01 * range * 0.01 * range;
    const double c2 = 0.03 * range * 0.03 * range;
    const double mean_a = a / count;
    const double mean_b = b / count;
    const double variance_a = std::max(0.0, aa / count - mean_a * mean_a);
    const double variance_b = std::max(0.0, bb / count - mean_b * mean_b);
    const double covariance = ab / count - mean_a * mean_b;
    const double ma = mean_a + base;
    const double mb = mean_b + base;
    return (2 * ma * mb + c1) * (2 * covariance + c2) / ((ma * ma + mb * mb + c1) * (variance_a + variance_b + c2));
  }
};

void add_similarity(std::span<const double> original, std::span<const double> copy, const Space& space,
                    ArrayQuality& quality) {
  constexpr size_t kEdge = 7;
  constexpr size_t kStep = 2;
  const double range = quality.max - quality.min;
  const double base = quality.min + range / 2;
  std::array<size_t, 3> edge{};
  for (size_t axis = 0; axis < 3; ++axis) {
    edge[axis] = std::min(kEdge, space.extent[axis]);
  }
  double sum = 0;
  uint64_t windows = 0;
  for (size_t batch = 0; range > 0 && batch < space.batches; ++batch) {
    for (size_t z = 0; z + edge[0] <= space.extent[0]; z += kStep) {
      for (size_t y = 0; y + edge[1] <= space.extent[1]; y += kStep) {
        for (size_t x = 0; x + edge[2] <= space.extent[2]; x += kStep) {
          Window window;
          for (size_t dz = 0; dz < edge[0]; ++dz) {
            for (size_t dy = 0; dy < edge[1]; ++dy) {
              const size_t row = batch * space.size + (z + dz) * space.stride[0] + (y + dy) * space.stride[1] + x;
              for (size_t dx = 0; dx < edge[2]; ++dx) {
                window.take(original[row + dx] - base, copy[row + dx] - base);
              }
            }
          }
          if (window.finite) {
            sum += window.similarity(base, range);
            ++windows;
          }
        }
      }
    }
  }
  if (windows > 0) {
    quality.ssim = sum / static_cast<double>(windows);
  }
}

void add_gradients(std::span<const double> original, std::span<const double> copy, const Space& space,
                   ArrayQuality& quality) {
  double squares = 0;
  double error_squares = 0;
  double longest = 0;
  std::array<bool, 3> used{};
  for (size_t axis = 0; axis < 3; ++axis) {
    used[axis] = space.extent[axis] >= 3;
  }
  for (size_t i = 0; i < original.size(); ++i) {
    const size_t in_box = i % space.size;
    double square = 0;
    double error_square = 0;
    bool inside = used[0] || used[1] || used[2];
    for (size_t axis = 0; axis < 3 && inside; ++axis) {
      const size_t at = in_box / space.stride[axis] % space.extent[axis];
      if (used[axis] && (at == 0 || at + 1 == space.extent[axis])) {
        inside = false;
      } else if (used[axis]) {
        const size_t step = space.stride[axis];
        const double slope = (original[i + step] - original[i - step]) / 2;
        const double error = (copy[i + step] - copy[i - step]) / 2 - slope;
        square += slope * slope;
        error_square += error * error;
      }
    }
    if (inside && both_finite(square, error_square)) {
      squares += square;
      error_squares += error_square;
      longest = std::max(longest, error_square);
    }
  }
  quality.max_gradient_error = std::sqrt(longest);
  if (squares > 0) {
    quality.gradient_nrmse = std::sqrt(error_squares / squares);
  }
}

}  // namespace

ArrayQuality assess(std::span<const double> original, std::span<const double> copy,
                    const std::vector<uint64_t>& shape) {
  ArrayQuality quality;
  quality.elements = original.size();
  add_errors(original, copy, quality);
  if (quality.compared == 0) {
    return quality;
  }
  const Space space(shape);
  add_correlation(original, copy, quality);
  add_histogram(original, copy, quality);
  add_autocorrelation(original, copy, quality);
  add_similarity(original, copy, space, quality);
  add_gradients(original, copy, space, quality);
  SpectrumPair spectra = power_spectra(original, copy, shape);
  quality.wave_number = std::move(spectra.wave_number);
  quality.power = std::move(spectra.first);
  quality.copy_power = std::move(spectra.second);
  return quality;
}

}  // namespace varve::tools
