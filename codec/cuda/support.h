// Which arrays kernels work on. The others are the CPU's.
#pragma once

#include <string_view>

#include "codec/settings.h"

namespace varve::codec::cuda {

/// Why an array is left to the CPU.
enum class Unsupported : uint8_t {
  no,        ///< it is not: kernels work on it
  decimals,  ///< floats that are stored as integers, decimal ones or multiples of a step
  elements,  ///< elements through Zstandard, without predictions
  lossless,  ///< exact residuals
  mapped,    ///< work values that stand for elements: 16-bit floats, integers, point-wise bounds, rounding
};

Unsupported why_unsupported(const Settings& settings);
/// As a sentence's end.
std::string_view text_of(Unsupported why);

}  // namespace varve::codec::cuda
