// How good a lossy copy of an array is, by the measures of the compression literature. After Z-checker (Tao, Di, Guo,
// Chen, Cappello: Z-checker: A framework for assessing lossy compression of scientific data, IJHPCA 33(2), 2019) and
// QCAT (github.com/szcompressor/qcat); where these leave a choice, the comments say what is done here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace varve::tools {

/// Over elements that are finite in both arrays. Error: copy - original.
struct ArrayQuality {
  uint64_t elements = 0, compared = 0;
  double min = 0, max = 0;  ///< of the original
  double max_error = 0, mean_error = 0, rmse = 0;
  double max_relative_error = 0;         ///< max_error / (max - min); 0 for a constant
  std::optional<double> nrmse;           ///< rmse / (max - min); nothing for a constant
  std::optional<double> psnr;            ///< -20 log10 nrmse, dB; nothing: no error, or a constant
  std::optional<double> pearson;         ///< correlation of values; nothing for a constant
  std::optional<double> ssim;            ///< mean over windows; nothing if there is none
  std::optional<double> gradient_nrmse;  ///< sqrt(sum |grad x' - grad x|^2 / sum |grad x|^2)
  double max_gradient_error = 0;         ///< the longest difference of gradients; values a grid step

  std::vector<double> error_bins;       ///< middles, from -max_error to max_error; empty if there is no error
  std::vector<double> error_share;      ///< of elements, in each bin
  std::vector<double> autocorrelation;  ///< of the error at lags 1, 2, ... in C order; empty if it does not vary
  std::vector<double> wave_number;      ///< shells (spectrum.h)
  std::vector<double> power, copy_power;
};

/// `shape`: C order; the last three axes are space, leading ones a batch. The arrays have equal lengths.
///   SSIM        Wang, Bovik, Sheikh, Simoncelli, IEEE Trans. Image Processing 13(4), 2004, with C1 = (0.01 R)^2 and
///               C2 = (0.03 R)^2, R the original's range; windows of 7 points an axis, equal weights, 2 apart; windows
///               with a value that is not finite are left out. No range: nothing.
///   gradients   central differences along the spatial axes of 3 points and more, inside.
///   spectra     of the arrays without their means.
ArrayQuality assess(std::span<const double> original, std::span<const double> copy, const std::vector<uint64_t>& shape);

}  // namespace varve::tools
