// Fields to measure the codec on: raw files of 2-D to 4-D floats, and generated cubes.
#pragma once

#include <string>
#include <vector>

#include "codec/types.h"

namespace varve::tools {

struct Field {
  std::string name;
  std::string path;  ///< the file it was read from; empty: generated
  codec::DType dtype = codec::DType::f32;
  codec::Extents shape;
  codec::Bytes data;                  ///< C order, host byte order
  std::vector<uint64_t> fill_values;  ///< bit patterns

  uint64_t elements() const { return codec::element_count(shape); }
  double megabytes() const { return static_cast<double>(data.size()) / 1e6; }
};

/// The file `path`, whose name tells type and shape ("NAME_256x384x384.f32", as fs/formats/raw.h reads them), with the
/// fill value that column 8 of a MANIFEST.tsv beside it tells. EINVAL: another name, size, type or number of axes.
Result<Field> read_field(const std::string& path);

/// The files of fields among `paths`, where a folder stands for the fields directly in it, by name. ENOENT: no such
/// path.
Result<std::vector<std::string>> find_fields(const std::vector<std::string>& paths);

/// Three cubes of f32, `edge` a power of two of at least 8: a Gaussian random field with a k^(-11/3) spectrum of energy
/// density ("turbulence", after Kolmogorov), exp() of one with k^-2.8 ("lognormal", as of densities), and pulses in a
/// box of three media ("wave"). The first two are periodic. Seeds are fixed: the same on every machine, up to the last
/// digits of libm.
std::vector<Field> generated_fields(size_t edge);

/// The field `times` times along each axis: seamless when it is periodic.
Field repeated(const Field& cube, size_t times);

}  // namespace varve::tools
