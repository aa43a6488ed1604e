// What one pass over an array's elements tells: extremes, special values, values that stand for missing ones.
#pragma once

#include <functional>

#include "codec/codec.h"

namespace varve::codec {

/// Facts over the elements of an array. Extremes are of finite elements that are no declared fill value.
struct Scan {
  uint64_t counted = 0;  ///< elements that the extremes are of
  double min = 0;
  double max = 0;
  /// The same without the values in `hidden`.
  double rest_min = 0;
  double rest_max = 0;
  std::vector<uint64_t> hidden;        ///< bit patterns of undeclared missing values: repeated, far outside of the rest
  std::vector<uint64_t> fills;         ///< bit patterns of the declared ones, without repeats
  std::optional<uint64_t> not_finite;  ///< the first NaN or infinity met
};

/// What no array can be: EINVAL (see ArrayCodec::plan).
Status check_spec(const ArraySpec& spec);

/// Boxes that cover an array of `shape` in C order, each of at most `limit` elements.
std::vector<Box> pieces_of(const Extents& shape, uint64_t limit);

Result<Scan> scan_array(const ArraySpec& spec, const ReadBox& read);
/// The same of an array in memory.
Scan scan_array(const ArraySpec& spec, std::span<const std::byte> elements);

}  // namespace varve::codec
