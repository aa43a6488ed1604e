// Fields to measure the codec on: raw files, and generated ones.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "codec/codec.h"

namespace varve::bench {

struct Field {
  std::string name;
  codec::DType dtype = codec::DType::f32;
  codec::Extents shape;
  codec::Bytes data;
  std::vector<uint64_t> fill_values;  ///< bit patterns
};

/// Every NAME_dims.f32 and NAME_dims.f64 of a folder, by name, with the fill values that its MANIFEST.tsv tells.
Result<std::vector<Field>> read_fields(const std::filesystem::path& folder);

/// Sums of many plane waves with a falling spectrum (turbulence-like), its exponential (lognormal), and a few
/// interfering spherical waves; edge^3 f32, the same on every machine up to the last digits of libm.
std::vector<Field> generated_fields(size_t edge);

}  // namespace varve::bench
