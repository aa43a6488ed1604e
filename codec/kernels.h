// The loops that take the codec's time, as tables of functions: a portable set, and the same source compiled for wider
// vectors, chosen at run time. All sets give the same bits (tests/codec/kernels_test.cpp): no set contracts a * b + c
// or reorders sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/element.h"

namespace varve::codec {

/// Rows that kernels write may be overrun by so many bytes; buffers have as much room after their last row.
inline constexpr size_t kSlackBytes = 64;

/// Where rows of points lie: items (of batch axes), slabs (z), rows (y); points of a row are adjacent.
struct Strides {
  ptrdiff_t item = 0;
  ptrdiff_t slab = 0;
  ptrdiff_t row = 0;
  ptrdiff_t at(size_t i, size_t z, size_t y) const {
    return static_cast<ptrdiff_t>(i) * item + static_cast<ptrdiff_t>(z) * slab + static_cast<ptrdiff_t>(y) * row;
  }
};

/// The points, one step in a class's odd axis away, that predict it. Along z and y, `first` <= index < `last` exist;
/// along x every row has two points before it and two after it (extrapolated where there are none).
template <typename T>
struct Source {
  T* at = nullptr;  ///< null: the class is not odd along this axis
  Strides strides;
  ptrdiff_t first = 0;
  ptrdiff_t last = 0;
};

/// The points of one class of one level.
struct ClassShape {
  size_t items = 0;
  size_t slabs = 0;
  size_t rows = 0;
  size_t count = 0;  ///< points of a row
  size_t points() const { return items * slabs * rows * count; }
};

/// What predicts a point along an axis: two, four or six points around it; or 0 does, see Level::describe().
enum class Interpolation : uint8_t { linear, cubic, quintic, none };

template <typename T>
struct ClassJob {
  ClassShape shape;
  Source<const T> source[3];                           // NOLINT(modernize-avoid-c-arrays): z, y, x
  bool one_sided = false;                              ///< the last point of a row has nothing after it along x
  bool has_left = false;                               ///< the point before it has one before itself
  Interpolation interpolation = Interpolation::cubic;  ///< quintic: real T alone
  bool pads = false;                                   ///< rows of `value` get points before and after them
  T* value = nullptr;                                  ///< what the points decode to, as far as predictions see it
  Strides strides;                                     ///< of `value`
  T* scratch = nullptr;                                ///< room for four rows, each with slack
};

/// What the contexts of a class are made from: activities (0 to kMaxActivity) or marks of special points (0 or 1), at
/// the places that predict it.
struct ContextJob {
  ClassShape shape;
  Source<const uint8_t> activity[3];  // NOLINT(modernize-avoid-c-arrays)
  Source<const uint8_t> special[3];   // NOLINT(modernize-avoid-c-arrays)
  bool has_special = false;
  uint8_t* contexts = nullptr;  ///< of all points in order, and slack
};

/// Activities of a class, and marks of its special points (`special` null: none), from its tokens; rows with the points
/// before and after them.
struct MarkJob {
  ClassShape shape;
  const uint8_t* tokens = nullptr;      ///< and slack
  const uint8_t* thresholds = nullptr;  ///< kMaxActivity of them: see Thresholds
  uint8_t* activity = nullptr;
  uint8_t* special = nullptr;
  Strides strides;
};

/// Integer residuals: bits of T above the element's, and how those are extended.
struct IntegerWidth {
  unsigned unused = 0;
  bool is_signed = true;
};

template <typename T>
struct EncodeJob : ClassJob<T> {
  const T* x = nullptr;                 ///< the class's first element; elements of a row are 2 apart
  const size_t* item_offset = nullptr;  ///< of each item, in elements
  Strides x_strides;                    ///< item unused
  const T* x_end = nullptr;             ///< nothing at or after it may be read
  T quantum{}, reciprocal{}, bound{};   ///< codes: see quantize()
  IntegerWidth width;
  const T* special = nullptr;  ///< values whose token is kTokenSpecial, by their bits
  size_t specials = 0;
  uint8_t* tokens = nullptr;  ///< of all points in order, and slack
  uint32_t* exact = nullptr;  ///< numbers of the points whose token is kTokenExact
  size_t exact_count = 0;
  BitsOf<T>* wide = nullptr;  ///< codes of the points whose token is wide; room for a vector more
  size_t wide_count = 0;
  bool measure = false;  ///< residuals: whether `reach` is wanted
  T reach{};             ///< the most that a value of the class, of codes an exact one, differs from its prediction
};

/// Points of the same shape in two places, whose rows have slack; where `b` is null, the others are 0.
template <typename T>
struct CompareJob {
  ClassShape shape;
  const T* a = nullptr;
  Strides a_strides;
  const T* b = nullptr;
  Strides b_strides;
};

template <typename T>
struct DecodeJob : ClassJob<T> {
  const uint8_t* tokens = nullptr;  ///< null: all codes are 0; else of all points in order, and slack
  const BitsOf<T>* wide = nullptr;  ///< the code of each wide token, and slack
  const T* exact = nullptr;         ///< for each kTokenExact
  T quantum{};
  IntegerWidth width;
};

/// What some elements tell of their range; -0 and +0 are equal.
template <typename T>
struct Extremes {
  uint64_t counted = 0;
  bool all_finite = true;
  T low{};
  T high{};
  uint64_t low_count = 0;
  uint64_t high_count = 0;
  T second_low{};   ///< the least above low; `high` if there is none
  T second_high{};  ///< the greatest below high; `low` if there is none
};

/// Bits in order, the least significant of each byte first.
struct BitInput {
  const std::byte* data = nullptr;
  size_t size = 0;  ///< bytes; bits beyond them are read as 0
  size_t next = 0;  ///< in bits; beyond 8 `size` when too many were read
};

template <typename T>
struct TypedKernels {
  void (*encode_codes)(EncodeJob<T>& job);  ///< null for integers
  void (*encode_residuals)(EncodeJob<T>& job);
  void (*decode_codes)(const DecodeJob<T>& job);  ///< null for integers
  void (*decode_residuals)(const DecodeJob<T>& job);
  /// The codes of the tokens from kFirstWideToken on, whose raw bits are in `bits`; `out` has room for `count` and
  /// slack.
  void (*wide_codes)(const uint8_t* tokens, size_t count, BitInput& bits, BitsOf<T>* out);
  /// The signed codes of tokens; those without one have code 0. `wide`: as DecodeJob has them. `codes` has slack.
  void (*codes_of)(const uint8_t* tokens, size_t count, const BitsOf<T>* wide, BitsOf<T>* codes);
  /// The inverse: those of codes in place of the tokens that had some. `wide` has room for a vector more. Returns how
  /// many are wide.
  size_t (*tokens_of)(const BitsOf<T>* codes, size_t count, uint8_t* tokens, BitsOf<T>* wide);
  /// codes[i] = codes[i - step] where tokens[i] has no code, for all i >= step, in order.
  void (*carry_codes)(const uint8_t* tokens, BitsOf<T>* codes, size_t count, size_t step);
  /// codes[i] -= codes[i - step] as it was, for all i >= step.
  void (*subtract_before)(BitsOf<T>* codes, size_t count, size_t step);
  /// The inverse.
  void (*add_before)(BitsOf<T>* codes, size_t count, size_t step);
  /// out[i] = from[2 i]; reads nothing at or after `end`.
  void (*every_second)(const T* from, const T* end, size_t count, T* out);
  /// out = even[0], odd[0], even[1], ..., `count` in all; nothing after it is written. `even` and `odd` have slack, but
  /// for `odd` where count is 1.
  void (*interleave)(const T* even, const T* odd, size_t count, T* out);
  /// row[i] = value where marks[i] != 0; `marks` has slack.
  void (*put_marked)(T* row, const uint8_t* marks, size_t count, T value);
  /// 0 where there are none.
  BitsOf<T> (*largest_code)(const BitsOf<T>* codes, size_t count);
  /// The largest |a - b|, in the arithmetic of T; integers: as if without sign. What is no number counts as 0.
  T (*largest_difference)(const CompareJob<T>& job);
  /// Gives the points before and after a row of class points (see Source).
  void (*pad_row)(T* row, size_t count);
  /// Of elements that are finite and none of `fills` (by their bits). The seconds and counts are left alone where low
  /// is above `known_low` and high below `known_high`.
  void (*extremes)(const T* x, size_t count, const T* fills, size_t fill_count, T known_low, T known_high,
                   Extremes<T>& out);
};

/// By context: the tokens from `first` on, `span` of them after it.
struct TokenRuns {
  std::array<uint8_t, 16> first;
  std::array<uint8_t, 16> span;
};

/// What the rANS coder looks up. A context k of a segment has table base[k].
struct RansTables {
  const uint32_t* encode;  ///< [table * 256 + token]: frequency | start << 16
  const uint32_t* decode;  ///< [table << bits | slot]: token | frequency << 8 | (slot - start) << 20
  uint32_t base[16];       // NOLINT(modernize-avoid-c-arrays)
};

/// Where a decoder is in its words.
struct RansInput {
  const std::byte* next;
  const std::byte* end;
  bool overrun;
};

struct Kernels {
  const char* name;
  TypedKernels<float> f32;
  TypedKernels<double> f64;
  TypedKernels<int32_t> i32;
  TypedKernels<int64_t> i64;
  void (*contexts)(const ContextJob& job);
  void (*mark)(const MarkJob& job);
  uint8_t (*largest_byte)(const uint8_t* bytes, size_t count);
  /// Whether a byte is below `low` or at or above `high`.
  bool (*any_outside)(const uint8_t* bytes, size_t count, uint8_t low, uint8_t high);
  /// Numbers of the bytes that are, in order; `places` has room for `count`. Returns how many.
  size_t (*find_outside)(const uint8_t* bytes, size_t count, uint8_t low, uint8_t high, uint32_t* places);
  /// Whether some token is outside the run of its context.
  bool (*any_beyond)(const uint8_t* tokens, const uint8_t* contexts, const TokenRuns& runs, size_t count);
  /// out = even[0], odd[0], even[1], ...: `count` bytes.
  void (*interleave8)(const uint8_t* even, const uint8_t* odd, size_t count, uint8_t* out);
  /// Encodes a segment from its end on; words go before `words_end`; returns where they begin. `lanes`: a power of two,
  /// at most 64.
  uint16_t* (*rans_encode)(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts, size_t count,
                           unsigned lanes, uint32_t* state, uint16_t* words_end);
  void (*rans_decode)(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes, uint32_t* state,
                      RansInput& input, uint8_t* tokens);
};

inline constexpr uint32_t kRansLow = 1U << 16;
inline constexpr unsigned kProbabilityBits = 10;
inline constexpr unsigned kMaxLanes = 64;

template <typename T>
const TypedKernels<T>& typed(const Kernels& set) {
  if constexpr (sizeof(T) == 4 && T(1) / 2 != 0) {
    return set.f32;
  } else if constexpr (T(1) / 2 != 0) {
    return set.f64;
  } else if constexpr (sizeof(T) == 4) {
    return set.i32;
  } else {
    return set.i64;
  }
}

/// The set in use: the widest that this CPU has, unless use_kernels() chose another.
const Kernels& kernels();
/// The set number `index` (0: portable, then wider), or null when there is none or the CPU cannot run it.
const Kernels* kernel_set(size_t index);
/// For tests: makes all threads use `set`; null: the widest.
void use_kernels(const Kernels* set);

}  // namespace varve::codec
