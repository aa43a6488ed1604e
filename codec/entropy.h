// Tokens, the tables that an array's records share, and the interleaved rANS coder.
#pragma once

#include <bit>
#include <span>

#include "codec/bytes.h"
#include "codec/kernels.h"
#include "codec/tokens.h"

namespace varve::codec {

using Counts = std::array<uint32_t, kTokens>;

/// How often each token was seen in each context.
struct Histogram {
  std::vector<Counts> counts{kContexts};
  /// Bits that the tokens would take in ideal tables of their own, without their raw bits and lists.
  double bits() const;
};

inline constexpr unsigned kProbabilityScale = 1U << kProbabilityBits;
inline constexpr unsigned kMaxTables = 96;

/// Frequencies of tokens; they sum to kProbabilityScale. A frequency of 0: the token cannot be coded.
struct FrequencyTable {
  std::array<uint16_t, kTokens> frequency{};
  std::array<uint16_t, kTokens> start{};
  uint8_t codable_first = 0;  ///< of the longest run of tokens that can be coded
  uint8_t codable_last = 0;
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
  /// By context of a segment.
  TokenRuns codable_runs(unsigned context_base) const;
  /// Bits that the histogram's tokens take in these tables, without raw bits and lists.
  double bits(const Histogram& histogram) const;
  /// What the coder looks up for a segment.
  RansTables look_up(unsigned context_base) const;
  // The same for all segments: the table of each context, and the entries as RansTables has them.
  std::vector<uint8_t> table_numbers() const { return {table_of_.begin(), table_of_.end()}; }
  const std::vector<uint32_t>& encode_entries() const { return encode_; }
  const std::vector<uint32_t>& decode_entries() const { return decode_; }

 private:
  void finish();
  std::vector<FrequencyTable> tables_;
  std::array<uint8_t, kContexts> table_of_{};
  std::vector<uint32_t> encode_;  // as in RansTables
  std::vector<uint32_t> decode_;
};

/// A run of tokens coded together: points of one class, flags of its groups, or a tile's anchors. `context_base` plus
/// the entries of the list of contexts give the context.
struct Segment {
  unsigned context_base;
  size_t count;
};

/// Lanes of a record whose tokens take about `bytes`. A lane's state costs about two bytes beyond the information that
/// it carries: all of them stay under 2.5 %.
VARVE_HOST_DEVICE inline unsigned lanes_for(size_t bytes) {
  unsigned lanes = 1;
  while (lanes < kMaxLanes && bytes >= size_t{160} * lanes) {
    lanes *= 2;
  }
  return lanes;
}
/// The lanes of a record of `tokens` tokens, of which `nonzero` are not of code 0. A rough guess of the size is enough:
/// about six bits a token that is not zero, and little for the others.
VARVE_HOST_DEVICE inline unsigned lanes_of_record(size_t nonzero, size_t tokens) {
  return lanes_for(nonzero * 6 / 8 + tokens / 64);
}

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
  std::array<uint32_t, kMaxLanes> state_{};
  unsigned lanes_ = 0;
  RansInput input_{nullptr, nullptr, false};
};

}  // namespace varve::codec
