#include "tests/bench/bench_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

namespace varve::bench {

namespace {

/// "NAME_3x4x5" -> 3, 4, 5; nothing when it has no such end.
codec::Extents dims_of(const std::string& stem) {
  codec::Extents shape;
  const size_t at = stem.rfind('_');
  if (at == std::string::npos) {
    return shape;
  }
  const char* next = stem.data() + at + 1;
  const char* end = stem.data() + stem.size();
  while (next < end) {
    uint64_t extent = 0;
    const auto parsed = std::from_chars(next, end, extent);
    if (parsed.ec != std::errc() || extent == 0 || (parsed.ptr < end && *parsed.ptr != 'x')) {
      return {};
    }
    shape.push_back(extent);
    next = parsed.ptr + 1;
  }
  return shape;
}

/// Fill values by file name: column 8 of MANIFEST.tsv, "-" for none.
std::map<std::string, double> fills_of(const std::filesystem::path& folder) {
  std::map<std::string, double> fills;
  std::ifstream in(folder / "MANIFEST.tsv");
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream columns(line);
    std::string column;
    std::vector<std::string> all;
    while (std::getline(columns, column, '\t')) {
      all.push_back(column);
    }
    double value = 0;
    if (all.size() > 8 && std::from_chars(all[7].data(), all[7].data() + all[7].size(), value).ec == std::errc()) {
      fills[all[0]] = value;
    }
  }
  return fills;
}

Field cube(const std::string& name, size_t edge, const std::vector<float>& values) {
  Field field;
  field.name = fmt::format("{}_{}", name, edge);
  field.shape = {edge, edge, edge};
  field.data.resize(values.size() * sizeof(float));
  std::memcpy(field.data.data(), values.data(), field.data.size());
  return field;
}

/// Sum over octaves of smooth noise: at each octave random values on a lattice, interpolated by cubics. The amplitude
/// falls by `fall` an octave; 2^(-5/6 - ...) gives a k^-11/3 spectrum for fall = 0.5612.
std::vector<float> octave_noise(size_t edge, double fall, uint64_t seed) {
  std::vector<float> out(edge * edge * edge, 0.0F);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  double amplitude = 1;
  for (size_t cells = 2; cells <= edge / 2; cells *= 2, amplitude *= fall) {
    const size_t n = cells + 3;
    std::vector<double> lattice(n * n * n);
    for (double& value : lattice) {
      value = normal(random) * amplitude;
    }
    std::vector<std::array<double, 4>> weight(edge);
    std::vector<size_t> base(edge);
    for (size_t i = 0; i < edge; ++i) {
      const double x = static_cast<double>(i * cells) / static_cast<double>(edge);
      base[i] = static_cast<size_t>(x);
      const double t = x - static_cast<double>(base[i]);
      weight[i] = {(1 - t) * (1 - t) * (1 - t) / 6, (3 * t * t * t - 6 * t * t + 4) / 6,
                   (-3 * t * t * t + 3 * t * t + 3 * t + 1) / 6, t * t * t / 6};  // cubic B-spline
    }
    // Separable: first z, then y, then x.
    std::vector<double> by_z(edge * n * n, 0.0);
    for (size_t z = 0; z < edge; ++z) {
      for (size_t k = 0; k < 4; ++k) {
        const double* plane = lattice.data() + (base[z] + k) * n * n;
        for (size_t i = 0; i < n * n; ++i) {
          by_z[z * n * n + i] += weight[z].at(k) * plane[i];
        }
      }
    }
    std::vector<double> row(n);
    for (size_t z = 0; z < edge; ++z) {
      for (size_t y = 0; y < edge; ++y) {
        for (size_t i = 0; i < n; ++i) {
          const double* column = by_z.data() + z * n * n + base[y] * n + i;
          row[i] = weight[y][0] * column[0] + weight[y][1] * column[n] + weight[y][2] * column[2 * n] +
                   weight[y][3] * column[3 * n];
        }
        float* line = out.data() + (z * edge + y) * edge;
        for (size_t x = 0; x < edge; ++x) {
          const double* b = row.data() + base[x];
          line[x] +=
              static_cast<float>(weight[x][0] * b[0] + weight[x][1] * b[1] + weight[x][2] * b[2] + weight[x][3] * b[3]);
        }
      }
    }
  }
  return out;
}

std::vector<float> wave_field(size_t edge) {
  std::vector<float> out(edge * edge * edge);
  constexpr std::array<std::array<double, 3>, 3> kSources = {{{0.2, 0.5, 0.5}, {0.3, 0.25, 0.8}, {0.8, 0.7, 0.3}}};
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t row = i / edge;
    const size_t plane = row / edge;
    const double z = static_cast<double>(plane) / static_cast<double>(edge);
    const double y = static_cast<double>(row % edge) / static_cast<double>(edge);
    const double x = static_cast<double>(i % edge) / static_cast<double>(edge);
    double sum = 0;
    for (const auto& source : kSources) {
      const double r = std::sqrt((z - source[0]) * (z - source[0]) + (y - source[1]) * (y - source[1]) +
                                 (x - source[2]) * (x - source[2]));
      const double front = (r - 0.35) / 0.05;
      sum += (1 - 2 * front * front) * std::exp(-front * front) / (r + 0.1);
    }
    out[i] = static_cast<float>(sum);
  }
  return out;
}

}  // namespace

Result<std::vector<Field>> read_fields(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto extension = entry.path().extension();
    if ((extension == ".f32" || extension == ".f64") && !dims_of(entry.path().stem().string()).empty()) {
      paths.push_back(entry.path());
    }
  }
  if (error) {
    return Error{error.value(), fmt::format("folder {} cannot be listed: {}", folder.string(), error.message())};
  }
  std::sort(paths.begin(), paths.end());
  const auto fills = fills_of(folder);
  std::vector<Field> fields;
  for (const auto& path : paths) {
    Field field;
    field.name = path.stem().string();
    field.dtype = path.extension() == ".f32" ? codec::DType::f32 : codec::DType::f64;
    field.shape = dims_of(field.name);
    const size_t size = codec::element_count(field.shape) * codec::element_size(field.dtype);
    std::ifstream in(path, std::ios::binary);
    field.data.resize(size);
    in.read(reinterpret_cast<char*>(field.data.data()), static_cast<std::streamsize>(size));
    if (!in || in.peek() != std::ifstream::traits_type::eof()) {
      return Error{EINVAL, fmt::format("{} does not have the {} bytes that its name tells", path.string(), size)};
    }
    if (const auto found = fills.find(path.filename().string()); found != fills.end()) {
      field.fill_values.push_back(field.dtype == codec::DType::f32
                                      ? uint64_t{std::bit_cast<uint32_t>(static_cast<float>(found->second))}
                                      : std::bit_cast<uint64_t>(found->second));
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<Field> generated_fields(size_t edge) {
  std::vector<Field> fields;
  fields.push_back(cube("made_turbulence", edge, octave_noise(edge, 0.5612, 7)));
  std::vector<float> density = octave_noise(edge, 0.75, 8);
  for (float& value : density) {
    value = std::exp(1.6F * value);
  }
  fields.push_back(cube("made_lognormal", edge, density));
  fields.push_back(cube("made_wave", edge, wave_field(edge)));
  return fields;
}

}  // namespace varve::bench
