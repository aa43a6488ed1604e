// Floats that are decimal fractions - integers divided by a power of ten, as instruments, text files and unpacked
// integers give them - are stored as those integers, which lossless coding predicts far better than their bits. The
// idea is that of ALP (Afroozeh, Kuffo and Boncz, "ALP: Adaptive Lossless Floating-Point Compression", SIGMOD 2023),
// but for one exponent for a whole array, so that its integers stay smooth.
#pragma once

#include "codec/codec.h"

namespace varve::codec {

inline constexpr unsigned kMostDigits = 15;
inline constexpr size_t kMostEscapes = 16;

/// Element x and integer k stand for each other if x has the bits of k / 10^digits, divided as doubles and rounded to
/// the element's type. Other elements have one of a few bit patterns: the i-th is the least integer plus i.
struct Decimal {
  unsigned digits = 0;
  std::vector<uint64_t> escapes;
};

/// The integers of f32 are i32, those of f64 i64; other types have none.
bool has_decimals(DType type);
DType integers_of(DType type);
DType floats_of(DType type);

/// How to store an array as integers, if that pays: all of its elements fit, and the integers are no finer than the
/// largest elements. Reads the array once if a first look says yes. Errors: what `read` returned.
Result<std::optional<Decimal>> find_decimal(const ArraySpec& spec, const ReadBox& read);

/// `type`: of the floats. False: an element does not fit (and `out` is not complete).
bool to_integers(DType type, const Decimal& decimal, const std::byte* floats, size_t count, std::byte* out);
/// In place; any integers give floats.
void to_floats(DType type, const Decimal& decimal, std::byte* elements, size_t count);

/// What stands for an escape among the integers, zero-extended bits.
uint64_t escape_bits(DType type, size_t escape);

}  // namespace varve::codec
