#include "tools/bench_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <optional>
#include <utility>

#include "fs/formats/raw.h"

namespace varve::tools {

using codec::DType;
using codec::element_count;
using codec::element_size;

namespace {

/// Type and shape by the name alone, if they are of the kind that is measured.
std::optional<fs::RawHint> hint_of(const std::filesystem::path& path) {
  auto hint = fs::raw_hint_of_name(path.filename().string());
  if (hint && (hint->dtype == DType::f32 || hint->dtype == DType::f64) && hint->shape.size() >= 2 &&
      hint->shape.size() <= 4) {
    return hint;
  }
  return std::nullopt;
}

/// The fill value of a file: column 8 of its line in the MANIFEST.tsv beside it.
std::optional<double> fill_of(const std::filesystem::path& path) {
  std::ifstream in(path.parent_path() / "MANIFEST.tsv");
  const std::string start = path.filename().string() + '\t';
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with(start)) {
      continue;
    }
    size_t at = 0;
    for (int column = 0; column < 7 && at != std::string::npos; ++column) {
      at = line.find('\t', at);
      at += at == std::string::npos ? 0 : 1;
    }
    double value = 0;
    if (at != std::string::npos &&
        std::from_chars(line.data() + at, line.data() + line.size(), value).ec == std::errc()) {
      return value;
    }
  }
  return std::nullopt;
}

using Complex = std::complex<float>;

/// Lines that are transformed at once: the innermost loops run over them, and so are vectors.
constexpr size_t kLanes = 16;

/// Discrete Fourier transform of `kLanes` interleaved lines of n points, in place: radix 2, decimation in time
/// (Cooley and Tukey 1965). n is a power of two; roots[k] = exp(2 pi i k / n).
void transform(std::vector<Complex>& lines, size_t n, const std::vector<Complex>& roots) {
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) {
      j ^= bit;
    }
    j ^= bit;
    if (i < j) {
      std::swap_ranges(lines.data() + i * kLanes, lines.data() + (i + 1) * kLanes, lines.data() + j * kLanes);
    }
  }
  for (size_t half = 1; half < n; half *= 2) {
    for (size_t block = 0; block < n; block += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        const float c = roots[k * (n / (2 * half))].real();
        const float s = roots[k * (n / (2 * half))].imag();
        auto* const a = reinterpret_cast<float*>(lines.data() + (block + k) * kLanes);
        auto* const b = reinterpret_cast<float*>(lines.data() + (block + k + half) * kLanes);
        for (size_t lane = 0; lane < 2 * kLanes; lane += 2) {
          const float re = b[lane] * c - b[lane + 1] * s;
          const float im = b[lane] * s + b[lane + 1] * c;
          b[lane] = a[lane] - re;
          b[lane + 1] = a[lane + 1] - im;
          a[lane] += re;
          a[lane + 1] += im;
        }
      }
    }
  }
}

/// Transforms all lines along one axis of a cube: lines of stride `stride` whose neighbours are `across` apart; the
/// remaining axis has stride `rest`.
void transform_axis(std::vector<Complex>& cube, size_t n, size_t stride, size_t across, size_t rest,
                    const std::vector<Complex>& roots) {
  std::vector<Complex> lines(n * kLanes);
  for (size_t slice = 0; slice < n; ++slice) {
    for (size_t first = 0; first < n; first += kLanes) {
      const size_t lanes = std::min(kLanes, n - first);
      Complex* const start = cube.data() + slice * rest + first * across;
      for (size_t i = 0; i < n; ++i) {
        for (size_t lane = 0; lane < lanes; ++lane) {
          lines[i * kLanes + lane] = start[i * stride + lane * across];
        }
      }
      transform(lines, n, roots);
      for (size_t i = 0; i < n; ++i) {
        for (size_t lane = 0; lane < lanes; ++lane) {
          start[i * stride + lane * across] = lines[i * kLanes + lane];
        }
      }
    }
  }
}

/// A Gaussian random field (the real part) of mean 0 and deviation 1, periodic, whose energy density falls as
/// k^(-slope): white noise, weighed in Fourier space, with a soft end (a Gaussian) before the Nyquist wave number.
std::vector<Complex> random_field(size_t n, double slope, uint64_t seed) {
  std::vector<Complex> cube(n * n * n);
  uint64_t state = seed;
  const auto uniform = [&state] {  // SplitMix64 (Steele, Lea and Flood 2014)
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<float>(((z ^ (z >> 31)) >> 40) + 1) * 0x1p-24F;
  };
  const auto square = [n](size_t i) {
    const auto k = static_cast<double>(std::min(i, n - i));
    return k * k;
  };
  std::vector<float> weights(3 * (n / 2) * (n / 2) + 1, 0.0F);  // by the square of the wave number; none for the mean
  const double end = square(n / 2) * 0.49;
  for (size_t k2 = 1; k2 < weights.size(); ++k2) {
    const auto x = static_cast<double>(k2);
    weights[k2] = static_cast<float>(std::pow(x, -slope / 4) * std::exp(-x / end));
  }
  for (size_t i = 0; i < cube.size(); ++i) {
    const double k2 = square(i / (n * n)) + square(i / n % n) + square(i % n);
    const float radius = weights[static_cast<size_t>(k2)] * std::sqrt(-2 * std::log(uniform()));  // Box, Muller 1958
    const float angle = 2 * std::numbers::pi_v<float> * uniform();
    cube[i] = {radius * std::cos(angle), radius * std::sin(angle)};
  }
  std::vector<Complex> roots(n);
  for (size_t k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    roots[k] = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
  }
  transform_axis(cube, n, 1, n, n * n, roots);
  transform_axis(cube, n, n, 1, n * n, roots);
  transform_axis(cube, n, n * n, 1, n, roots);
  double power = 0;
  for (const Complex& value : cube) {
    power += static_cast<double>(value.real()) * value.real();
  }
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(cube.size()) / power));
  for (Complex& value : cube) {
    value *= scale;
  }
  return cube;
}

template <typename Value>
Field cube_of(const std::string& name, size_t edge, Value value) {
  Field field;
  field.name = fmt::format("{}_{}x{}x{}", name, edge, edge, edge);
  field.shape = {edge, edge, edge};
  field.data.resize(edge * edge * edge * sizeof(float));
  for (size_t i = 0; i < edge * edge * edge; ++i) {
    const float v = value(i);
    std::memcpy(field.data.data() + i * sizeof(float), &v, sizeof(v));
  }
  return field;
}

/// Two pulses with the shape of Ricker's wavelet in a box of three media: the wave equation by second-order finite
/// differences, the field 0 at the walls.
class WaveBox {
 public:
  explicit WaveBox(size_t edge) : n_(edge), now_(edge * edge * edge), before_(now_) {}

  std::vector<float> run() {
    constexpr double kSteps = 180.0 / 256;  // of a cube of 256: the fronts have then met
    const auto at = [this](double z, double y, double x) {
      const auto place = [this](double part) { return static_cast<size_t>(part / 256 * static_cast<double>(n_)); };
      return (place(z) * n_ + place(y)) * n_ + place(x);
    };
    for (size_t t = 0; static_cast<double>(t) < kSteps * static_cast<double>(n_); ++t) {
      step(t);
      const float a = static_cast<float>(t) * 0.15F - 2;
      const float pulse = (1 - 2 * a * a) * std::exp(-a * a);
      before_[at(40, 128, 128)] += pulse;
      before_[at(60, 60, 200)] += pulse / 2;
      now_.swap(before_);
    }
    return now_;
  }

 private:
  /// Writes the next state over the one before. What lies further from both sources than t cells is 0 still.
  void step(size_t t) {
    const auto range = [this, t](size_t first, size_t last) {
      first = first * n_ / 256;
      last = last * n_ / 256;
      return std::pair(first > t + 2 ? first - t - 1 : size_t{1}, std::min(last + t + 2, n_ - 1));
    };
    const auto [z0, z1] = range(40, 60);
    const auto [y0, y1] = range(60, 128);
    const auto [x0, x1] = range(128, 200);
    for (size_t z = z0; z < z1; ++z) {
      for (size_t y = y0; y < y1; ++y) {
        const float speed = (z < n_ / 2 ? 0.45F : 0.3F) * (y >= n_ / 3 && y < n_ / 2 ? 0.8F : 1.0F);
        row((z * n_ + y) * n_, x0, x1, speed * speed);
      }
    }
  }

  void row(size_t start, size_t x0, size_t x1, float factor) {
    constexpr float kNothing = 1e-20F;  // keeps denormal numbers, which are slow, away
    const float* const u = now_.data() + start;
    float* const out = before_.data() + start;
    const size_t plane = n_ * n_;
    for (size_t x = x0; x < x1; ++x) {
      const float around = u[x - 1] + u[x + 1] + u[x - n_] + u[x + n_] + u[x - plane] + u[x + plane];
      const float value = 2 * u[x] - out[x] + factor * (around - 6 * u[x]);
      out[x] = std::fabs(value) < kNothing ? 0 : value;
    }
  }

  const size_t n_;
  std::vector<float> now_;
  std::vector<float> before_;
};

}  // namespace

Result<Field> read_field(const std::string& path) {
  const auto hint = hint_of(path);
  if (!hint) {
    return Error{EINVAL, fmt::format("{} is not named like a field of 2 to 4 axes: NAME_64x128.f32 or .f64", path)};
  }
  Field field;
  field.name = std::filesystem::path(path).stem().string();
  field.path = path;
  field.dtype = hint->dtype;
  field.shape = hint->shape;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error || size != element_count(field.shape) * element_size(field.dtype)) {
    return Error{error ? error.value() : EINVAL,
                 fmt::format("{} cannot be read, or does not have the bytes that its name tells", path)};
  }
  field.data.resize(size);
  std::ifstream in(path, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(field.data.data()), static_cast<std::streamsize>(size))) {
    return Error{EIO, fmt::format("{} cannot be read", path)};
  }
  if (const auto fill = fill_of(path)) {
    field.fill_values.push_back(field.dtype == DType::f32 ? uint64_t{std::bit_cast<uint32_t>(static_cast<float>(*fill))}
                                                          : std::bit_cast<uint64_t>(*fill));
  }
  return field;
}

Result<std::vector<std::string>> find_fields(const std::vector<std::string>& paths) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      if (!std::filesystem::exists(path, error)) {
        return Error{ENOENT, fmt::format("there is no {}", path)};
      }
      found.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (hint_of(entry.path())) {
        inside.push_back(entry.path().string());
      }
    }
    if (error) {
      return Error{error.value(), fmt::format("the folder {} cannot be listed: {}", path, error.message())};
    }
    std::sort(inside.begin(), inside.end());
    found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

std::vector<Field> generated_fields(size_t edge) {
  std::vector<Field> fields;
  {
    const std::vector<Complex> noise = random_field(edge, 11.0 / 3, 7);
    fields.push_back(cube_of("turbulence", edge, [&](size_t i) { return noise[i].real(); }));
  }
  {
    const std::vector<Complex> noise = random_field(edge, 2.8, 8);
    fields.push_back(cube_of("lognormal", edge, [&](size_t i) { return std::exp(1.6F * noise[i].real()); }));
  }
  const std::vector<float> wave = WaveBox(edge).run();
  fields.push_back(cube_of("wave", edge, [&](size_t i) { return wave[i]; }));
  return fields;
}

Field repeated(const Field& cube, size_t times) {
  const size_t edge = cube.shape.front();
  const size_t row = edge * element_size(cube.dtype);
  Field field = cube;
  const size_t large = edge * times;
  field.shape = {large, large, large};
  field.data.resize(cube.data.size() * times * times * times);
  std::byte* to = field.data.data();
  for (size_t z = 0; z < large; ++z) {
    for (size_t y = 0; y < large; ++y) {
      const std::byte* const from = cube.data.data() + ((z % edge) * edge + y % edge) * row;
      for (size_t x = 0; x < times; ++x, to += row) {
        std::memcpy(to, from, row);
      }
    }
  }
  return field;
}

}  // namespace varve::tools
