// The words that the codec shares with the other folders: element types, bounds, boxes, record names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"

namespace varve::codec {

using Bytes = std::vector<std::byte>;

/// Element types. The numbers are stored on disk: never renumber.
enum class DType : uint8_t {
  u8 = 1,
  i8 = 2,
  u16 = 3,
  i16 = 4,
  u32 = 5,
  i32 = 6,
  u64 = 7,
  i64 = 8,
  f16 = 9,  ///< IEEE 754 binary16
  f32 = 10,
  f64 = 11,
  bf16 = 12,  ///< bfloat16: the upper half of a binary32
};

/// Bytes of one element; 0 for a number that is no DType.
size_t element_size(DType type);
bool is_float(DType type);
/// Bits of a float's mantissa, the hidden one not counted: 10, 7, 23, 52; 0 for integers.
unsigned mantissa_bits(DType type);
/// "f32", "u16", ...
std::string_view name_of(DType type);
/// The inverse of name_of; also takes "float32", "bfloat16", "int16", ... An unknown name: EINVAL.
Result<DType> parse_dtype(std::string_view name);

/// How far a finite element may move. The numbers are stored on disk: never renumber. The *range* of an array is
/// max - min over its finite elements, but for missing values: declared ones, and such as are repeated in over 2% of
/// the elements further from the rest than the rest spans.
enum class BoundMode : uint8_t {
  lossless = 0,
  absolute = 1,               ///< |x - x'| <= value
  relative = 2,               ///< |x - x'| <= value * range
  pointwise = 3,              ///< |x - x'| <= value * |x|; signs and zeros are exact
  psnr = 4,                   ///< 20 log10(range / root of the mean of (x - x')^2) is about `value` decibels or more
  absolute_and_relative = 5,  ///< |x - x'| <= value and <= second * range
  ratio = 6,                  ///< the smallest absolute bound that stores the array in 1/value of its bytes
  bits = 7,                   ///< x' is x rounded to `value` bits of mantissa (a whole number, 0 to 52), or x itself
};

struct Bound {
  BoundMode mode = BoundMode::lossless;
  double value = 0;
  double second = 0;  ///< BoundMode::absolute_and_relative alone
  bool operator==(const Bound&) const = default;
};

inline constexpr unsigned kMostKeptBits = 52;

/// Parses "lossless", "abs:0.5", "rel:1e-3", "pwrel:1e-3", "psnr:60", "abs:0.1+rel:1e-3" (in either order), "ratio:20",
/// "bits:12". Negative, NaN, infinite or malformed: EINVAL with a sentence that names the text and what would be
/// accepted; so are psnr:0, a ratio under 1 and bits over 52. A 0 in abs, rel or pwrel yields lossless.
Result<Bound> parse_bound(std::string_view text);
/// "lossless", "abs:0.5", "abs:0.1+rel:0.001", ...; parse_bound gives the same Bound back.
std::string to_string(const Bound& bound);
/// What any finite element of an array of this range may move by. Nothing: it is not the same for all elements, or not
/// known from the range (pointwise, psnr, ratio, bits).
std::optional<double> limit_of(const Bound& bound, double range);

/// Extents or indices, slowest axis first. An array has 0 (scalar) to 32 axes.
using Extents = std::vector<uint64_t>;
inline constexpr size_t kMaxRank = 32;

/// Product of the extents; 1 for rank 0.
uint64_t element_count(const Extents& shape);

/// The elements with origin[i] <= index[i] < origin[i] + shape[i].
struct Box {
  Extents origin;
  Extents shape;
  bool operator==(const Box&) const = default;
};

/// Names a record within one array. Level 3 stands for the coarse record of a tile (levels 3 and up) and `brick` is
/// then the tile's number; levels 2, 1, 0 are of one brick.
struct RecordId {
  uint8_t level = 0;
  uint64_t brick = 0;
  bool operator==(const RecordId&) const = default;
};

inline constexpr uint8_t kCoarseLevel = 3;

}  // namespace varve::codec
