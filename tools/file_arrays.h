// Arrays inside files, as the tools read them: which there are, and their values on a grid of points.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fs/formats/recogniser.h"

namespace varve::tools {

/// "f32:256x384x384[:be]", as --raw takes it. EINVAL with a sentence.
Result<fs::RawHint> parse_raw(std::string_view text);

/// What the mount says of a file; nothing if it is in none.
Result<std::optional<nlohmann::json>> describe_if_mounted(const std::string& path);
/// The array of that name in such a description; null if it is not there.
const nlohmann::json* array_named(const nlohmann::json& description, const std::string& name);

/// The arrays of `file`, found by the names of `paths` in turn: where a raw file's shape is in its name, a copy may
/// have another. `raw`: as --raw gives it, or empty; else a description by the mount says how raw numbers are read. A
/// file that makes no sense has no arrays, with a line on standard error; with `raw`, it is an error.
Result<fs::Recognised> arrays_of(fs::FileView& file, const std::vector<std::string>& paths, const std::string& raw,
                                 const std::optional<nlohmann::json>& description);

/// From elements as a file has them to numbers. NaN: fill values. Numbers of 64 bits are rounded to double.
struct ElementDecoder {
  codec::DType dtype = codec::DType::u8;
  bool big_endian = false;
  std::vector<uint64_t> fill_values;  ///< bit patterns, host byte order, zero-extended

  /// `count` elements, `step` apart.
  void take(const std::byte* bytes, uint64_t count, uint64_t step, double* out) const;
};

/// "x" is the last axis, then y, z, t, and a number counts from the first.
std::string axis_name(size_t axis, size_t rank);

/// Points of an array: from `start`, each `step`-th, `count` of them along each axis.
struct PointGrid {
  codec::Extents start, count, step;
};

/// The whole array, each `step`-th point.
PointGrid every(const fs::ArrayRegion& array, uint64_t step);

/// Values at these points, C order. NaN: fill values, chunks that the file does not hold. Numbers of 64 bits are
/// rounded to double. Reads rows along the last axis and nothing between them. The grid must lie inside the array.
Result<std::vector<double>> read_points(fs::FileView& file, const fs::ArrayRegion& array, const PointGrid& grid);

}  // namespace varve::tools
