// Fourier transforms of any length, and isotropic power spectra.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace varve::tools {

/// Discrete Fourier transforms, sum x[j] exp(-2 pi i j k / n), of one length, over and over: by halves where n is a
/// power of two (Cooley and Tukey, Math. Comp. 19, 1965), else as a convolution with a chirp (Bluestein, IEEE Trans.
/// Audio 18, 1970). Not thread-safe.
class FourierTransform {
 public:
  explicit FourierTransform(size_t length);
  /// In place; `values` has the transform's length.
  void forward(std::span<std::complex<double>> values);

 private:
  void powers_of_two(std::span<std::complex<double>> values) const;

  size_t length_, work_length_;
  std::vector<std::complex<double>> roots_;        ///< of the work length: exp(-2 pi i k / n), the first half
  std::vector<std::complex<double>> chirp_;        ///< exp(-pi i k^2 / n); empty for powers of two
  std::vector<std::complex<double>> chirp_image_;  ///< the transform of the conjugate chirp
  std::vector<std::complex<double>> work_;
};

/// Along all axes of a C-ordered array, in place.
void transform_all(std::vector<std::complex<double>>& values, const std::vector<uint64_t>& shape);

/// Power per shell of wave numbers: shell k holds the modes of k - 1/2 <= |f| L < k + 1/2, where f is the frequency in
/// cycles a point and L the longest extent; k from 1 to L / 2. The power of a shell is the mean of |X|^2.
struct SpectrumPair {
  std::vector<double> wave_number;
  std::vector<double> first, second;
};

/// Spectra of two real arrays of one shape (C order, at most 3 axes count as space; leading ones as a batch, over which
/// powers are averaged). Both are transformed at once, as real and imaginary part. Means are taken off; what is not
/// finite in either counts as the mean.
SpectrumPair power_spectra(std::span<const double> first, std::span<const double> second,
                           const std::vector<uint64_t>& shape);

}  // namespace varve::tools
