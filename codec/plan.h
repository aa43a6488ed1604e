// Choosing an array's settings.
#pragma once

#include "codec/settings.h"

namespace varve::codec {

/// Arrays of up to so many elements are read whole and encoded in one pass.
inline constexpr uint64_t kWholeElements = ArrayCodec::kEncodeWhole;

struct Plan {
  Settings settings;                    ///< all but the tables
  /// The array, where it is in memory, in the form that is encoded (see lorenzo.h); else empty.
  std::span<const std::byte> elements;
  Bytes memory;                         ///< what `elements` lie in, if the plan read them
  std::vector<uint8_t> plain_axes;      ///< predicted axes of the geometry for records of elements
  bool try_elements = true;             ///< records of elements may be smaller
};

/// Scans the array, and finds by estimates which axes to predict along, and whether quantized or exact.
Result<Plan> choose_settings(const ArraySpec& spec, const ReadBox& read);

}  // namespace varve::codec
