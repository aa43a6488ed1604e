// Tokens, the tables that an array's records share, and the interleaved rANS coder.
#pragma once

#include <bit>
#include <span>

#include "codec/bytes.h"
#include "codec/kernels.h"
#include "codec/predictor.h"

namespace varve::codec {

// A code (zig-zag, unsigned) below 64 is a token of its own. A larger one of n bits is a token for n and the bit after
// the leading one, and n - 2 raw bits.
inline constexpr unsigned kTokenEscape = 0;   ///< the element follows in the record's list of exact elements
inline constexpr unsigned kTokenSpecial = 1;  ///< a missing value, NaN or infinity
inline constexpr unsigned kTokenZero = 2;     ///< code 0
inline constexpr unsigned kDirectCodes = 64;
inline constexpr unsigned kFirstLongToken = kTokenZero + kDirectCodes;
inline constexpr unsigned kTokens = kFirstLongToken + 2 * 58;

struct Token {
  uint8_t token;
  uint8_t extra_bits;
};
inline Token token_of(uint64_t code) {
  if (code < kDirectCodes) {
    return {static_cast<uint8_t>(kTokenZero + code), 0};
  }
  const unsigned bits = static_cast<unsigned>(std::bit_width(code));
  const auto second = static_cast<unsigned>(code >> (bits - 2) & 1U);
  return {static_cast<uint8_t>(kFirstLongToken + (bits - 7) * 2 + second), static_cast<uint8_t>(bits - 2)};
}
/// Raw bits after a token >= kFirstLongToken.
inline unsigned extra_bits_of(unsigned token) { return 5 + (token - kFirstLongToken) / 2; }
inline uint64_t code_of(unsigned token, uint64_t extra) {
  const unsigned k = token - kFirstLongToken;
  return (uint64_t{2} | (k & 1U)) << extra_bits_of(token) | extra;
}

// A context: level group (0, 1, 2, 3 and up), class, context within the class; and one for anchors.
inline constexpr unsigned kLevelGroups = 4;
inline constexpr unsigned kAnchorContext = kLevelGroups * 7 * kClassContexts;
inline constexpr unsigned kContexts = kAnchorContext + 1;
inline unsigned context_base(unsigned level, unsigned point_class) {
  return (std::min(level, kLevelGroups - 1) * 7 + point_class - 1) * kClassContexts;
}

using Counts = std::array<uint32_t, kTokens>;

/// How often each token was seen in each context.
struct Histogram {
  std::vector<Counts> counts{kContexts};
  /// Bits that the tokens would take in ideal tables of their own, without their raw bits and lists.
  double bits() const;
};

inline constexpr unsigned kProbabilityBits = 12;
inline constexpr unsigned kProbabilityScale = 1U << kProbabilityBits;
inline constexpr unsigned kMaxTables = 96;

/// Frequencies of tokens; they sum to kProbabilityScale. A frequency of 0: the token cannot be coded.
struct FrequencyTable {
  std::array<uint16_t, kTokens> frequency{};
  std::array<uint16_t, kTokens> start{};
  unsigned codable_below = 0;     ///< the first token that cannot be coded
  unsigned implied = kTokenZero;  ///< the token whose frequency is what the others leave
  void finish();
};

/// The tables of an array and which context uses which. Immutable once made.
class TableSet {
 public:
  TableSet() = default;
  /// Groups contexts that cost least together. At least one table comes out. `complete`: the histogram is of all that
  /// will be coded, so that nothing else needs to be codable.
  static TableSet build(const Histogram& histogram, bool complete);
  void write(ByteWriter& out) const;
  static Result<TableSet> read(ByteReader& in);

  bool empty() const { return tables_.empty(); }
  size_t size() const { return tables_.size(); }
  const FrequencyTable& table(unsigned context) const { return tables_[table_of_[context]]; }
  /// Bits that the histogram's tokens take in these tables, without raw bits and lists.
  double bits(const Histogram& histogram) const;
  /// What the coder looks up for a segment.
  RansTables look_up(unsigned context_base) const;

 private:
  void finish();
  std::vector<FrequencyTable> tables_;
  std::array<uint8_t, kContexts> table_of_{};
  std::vector<uint32_t> encode_;  // as in RansTables
  std::vector<uint64_t> reciprocal_;
  std::vector<uint32_t> decode_;
};

/// A run of tokens coded together: the points of one class, or a tile's anchors. `context_base` plus the entries of the
/// list of contexts give the context.
struct Segment {
  unsigned context_base;
  size_t count;
};

/// Lanes of a record whose tokens take about `bytes`.
unsigned lanes_for(size_t bytes);

/// Appends lane states and words for the tokens.
void rans_encode(const TableSet& tables, std::span<const Segment> segments, const uint8_t* tokens,
                 const uint8_t* contexts, unsigned lanes, ByteWriter& out);

class RansDecoder {
 public:
  /// False: too short.
  bool start(std::span<const std::byte> data, unsigned lanes);
  void decode(const TableSet& tables, unsigned context_base, const uint8_t* contexts, size_t count, uint8_t* tokens);
  /// True when all that was written was read, and nothing else.
  bool finished() const;

 private:
  std::array<uint32_t, 32> state_{};
  unsigned lanes_ = 0;
  RansInput input_{nullptr, nullptr, false};
};

}  // namespace varve::codec
