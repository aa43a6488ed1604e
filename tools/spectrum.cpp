#include "tools/spectrum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace varve::tools {
namespace {

using Complex = std::complex<double>;

Complex unit(double turns) { return std::polar(1.0, -2 * std::numbers::pi * turns); }

/// std::complex's product looks for infinities; this one does not.
Complex product(const Complex& a, const Complex& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

struct Means {
  double first = 0, second = 0;
};

Means means_of(std::span<const double> first, std::span<const double> second) {
  Means means;
  double count = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    if (std::isfinite(first[i]) && std::isfinite(second[i])) {
      means.first += first[i];
      means.second += second[i];
      ++count;
    }
  }
  means.first /= std::max(count, 1.0);
  means.second /= std::max(count, 1.0);
  return means;
}

/// The shells of one box, added to sums.
class Shells {
 public:
  explicit Shells(const std::vector<uint64_t>& shape)
      : shape_(shape),
        longest_(*std::ranges::max_element(shape)),
        first_(longest_ / 2 + 1),
        second_(first_),
        modes_(first_) {}

  void add(const std::vector<Complex>& values) {
    std::vector<uint64_t> at(shape_.size());
    for (const Complex& value : values) {
      double square = 0;
      size_t mirrored = 0;
      for (size_t axis = 0; axis < shape_.size(); ++axis) {
        const uint64_t extent = shape_[axis];
        const auto frequency = static_cast<double>(std::min(at[axis], extent - at[axis]));
        square += std::pow(frequency / static_cast<double>(extent), 2);
        mirrored = mirrored * extent + (at[axis] == 0 ? 0 : extent - at[axis]);
      }
      const auto shell = static_cast<size_t>(std::lround(std::sqrt(square) * static_cast<double>(longest_)));
      if (shell >= 1 && shell < modes_.size()) {
        // Real parts give an image that is its own conjugate mirror, imaginary parts the negative of that.
        const Complex other = std::conj(values[mirrored]);
        first_[shell] += std::norm(value + other) / 4;
        second_[shell] += std::norm(value - other) / 4;
        ++modes_[shell];
      }
      for (size_t axis = shape_.size(); axis-- > 0 && ++at[axis] == shape_[axis];) {
        at[axis] = 0;
      }
    }
  }

  SpectrumPair result() const {
    SpectrumPair pair;
    for (size_t shell = 1; shell < modes_.size(); ++shell) {
      if (modes_[shell] > 0) {
        pair.wave_number.push_back(static_cast<double>(shell));
        pair.first.push_back(first_[shell] / modes_[shell]);
        pair.second.push_back(second_[shell] / modes_[shell]);
      }
    }
    return pair;
  }

 private:
  const std::vector<uint64_t>& shape_;
  uint64_t longest_;
  std::vector<double> first_, second_, modes_;
};

}  // namespace

FourierTransform::FourierTransform(size_t length)
    : length_(length), work_length_(std::has_single_bit(length) ? length : std::bit_ceil(2 * length)) {
  roots_.resize(work_length_ / 2);
  for (size_t k = 0; k < roots_.size(); ++k) {
    roots_[k] = unit(static_cast<double>(k) / static_cast<double>(work_length_));
  }
  if (work_length_ == length_) {
    return;
  }
  chirp_.resize(length_);
  chirp_image_.assign(work_length_, 0);
  for (size_t k = 0; k < length_; ++k) {
    const auto squared = static_cast<double>(k * k % (2 * length_));  // what is taken off are whole turns
    chirp_[k] = unit(squared / static_cast<double>(2 * length_));
    chirp_image_[k] = chirp_image_[(work_length_ - k) % work_length_] = std::conj(chirp_[k]);
  }
  powers_of_two(chirp_image_);
  work_.resize(work_length_);
}

void FourierTransform::powers_of_two(std::span<Complex> values) const {
  const size_t n = values.size();
  for (size_t i = 1, mirror = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; (mirror & bit) != 0; bit >>= 1) {
      mirror ^= bit;
    }
    mirror |= bit;
    if (i < mirror) {
      std::swap(values[i], values[mirror]);
    }
  }
  for (size_t half = 1; half < n; half *= 2) {
    const size_t stride = n / (2 * half);
    for (size_t start = 0; start < n; start += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        const Complex even = values[start + k];
        const Complex odd = product(values[start + k + half], roots_[k * stride]);
        values[start + k] = even + odd;
        values[start + k + half] = even - odd;
      }
    }
  }
}

void FourierTransform::forward(std::span<Complex> values) {
  if (chirp_.empty()) {
    powers_of_two(values);
    return;
  }
  std::ranges::fill(work_, 0);
  for (size_t k = 0; k < length_; ++k) {
    work_[k] = product(values[k], chirp_[k]);
  }
  powers_of_two(work_);
  for (size_t k = 0; k < work_length_; ++k) {
    work_[k] = std::conj(product(work_[k], chirp_image_[k]));
  }
  powers_of_two(work_);  // of the conjugate: backwards
  for (size_t k = 0; k < length_; ++k) {
    values[k] = product(std::conj(work_[k]), chirp_[k]) / static_cast<double>(work_length_);
  }
}

void transform_all(std::vector<Complex>& values, const std::vector<uint64_t>& shape) {
  size_t inner = 1;
  for (size_t axis = shape.size(); axis-- > 0; inner *= shape[axis]) {
    const size_t extent = shape[axis];
    if (extent < 2) {
      continue;
    }
    FourierTransform transform(extent);
    constexpr size_t kTogether = 8;  // neighbouring lines, gathered at once: whole cache lines are used
    std::vector<Complex> lines(kTogether * extent);
    for (size_t outer = 0; outer < values.size(); outer += inner * extent) {
      for (size_t first = 0; first < inner; first += kTogether) {
        const size_t count = std::min(kTogether, inner - first);
        for (size_t i = 0; i < extent; ++i) {
          for (size_t line = 0; line < count; ++line) {
            lines[line * extent + i] = values[outer + i * inner + first + line];
          }
        }
        for (size_t line = 0; line < count; ++line) {
          transform.forward(std::span(lines).subspan(line * extent, extent));
        }
        for (size_t i = 0; i < extent; ++i) {
          for (size_t line = 0; line < count; ++line) {
            values[outer + i * inner + first + line] = lines[line * extent + i];
          }
        }
      }
    }
  }
}

SpectrumPair power_spectra(std::span<const double> first, std::span<const double> second,
                           const std::vector<uint64_t>& shape) {
  constexpr size_t kSpace = 3;
  const size_t axes = std::min(kSpace, shape.size());
  const std::vector<uint64_t> box(shape.end() - static_cast<ptrdiff_t>(axes), shape.end());
  size_t size = 1;
  for (const uint64_t extent : box) {
    size *= extent;
  }
  if (axes == 0 || size < 2) {
    return {};
  }
  Shells shells(box);
  const Means means = means_of(first, second);
  std::vector<Complex> values(size);
  for (size_t start = 0; start + size <= first.size(); start += size) {
    for (size_t i = 0; i < size; ++i) {
      const double a = first[start + i];
      const double b = second[start + i];
      const bool finite = std::isfinite(a) && std::isfinite(b);
      values[i] = finite ? Complex(a - means.first, b - means.second) : Complex();
    }
    transform_all(values, box);
    shells.add(values);
  }
  return shells.result();
}

}  // namespace varve::tools
