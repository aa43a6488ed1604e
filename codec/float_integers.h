// What decimals (decimal.h) and multiples (lorenzo.h) share: the integers that stand for floats, and the least of them,
// which stand for escapes: elements that no other integer stands for.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "codec/element.h"

namespace varve::codec {

/// The integers of f32 are i32, those of f64 i64.
template <typename Float>
using IntegerOf = std::conditional_t<sizeof(Float) == 4, int32_t, int64_t>;

inline constexpr size_t kConvertedTogether = 256;  ///< elements; then whether all of them fit is looked at

template <typename Float>
IntegerOf<Float> escape_integer(size_t escape) {
  using Integer = IntegerOf<Float>;
  return static_cast<Integer>(std::numeric_limits<Integer>::min() + static_cast<Integer>(escape));
}

/// Which escape an integer below escape_integer(kMostEscapes) stands for.
template <typename Integer>
size_t escape_number(Integer integer) {
  return static_cast<size_t>(integer - std::numeric_limits<Integer>::min());
}

/// The bits of an element, zero-extended. `x` may not be aligned.
template <typename Float>
uint64_t bits_at(const std::byte* x, size_t i) {
  BitsOf<Float> bits;
  std::memcpy(&bits, x + i * sizeof bits, sizeof bits);
  return bits;
}

/// The number of a bit pattern among the escapes.
inline std::optional<size_t> escape_of(const std::vector<uint64_t>& escapes, uint64_t bits) {
  const auto found = std::find(escapes.begin(), escapes.end(), bits);
  return found == escapes.end() ? std::nullopt : std::optional<size_t>(found - escapes.begin());
}

/// Adding it to a number and taking it away rounds to whole numbers, to even where two are as near.
inline constexpr double kRounding = 0x1.8p52;

}  // namespace varve::codec
