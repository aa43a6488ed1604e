// The bytes of one record: collecting what an encoder emits, and taking apart what a decoder was given.
#pragma once

#include <span>

#include "codec/entropy.h"

namespace varve::codec {

/// First byte of a record. Never renumber.
enum class Method : uint8_t {
  zero = 0,      ///< every code is 0; nothing follows
  tokens = 1,    ///< rANS tokens and lists
  stored = 2,    ///< the elements as they are, in coding order
  shuffled = 3,  ///< the elements, byte-shuffled, through Zstandard
  packed = 4,    ///< the elements through Zstandard
  constant = 5,  ///< one element, which all are
};

/// Whether a record holds elements rather than codes.
VARVE_HOST_DEVICE constexpr bool has_elements(Method method) {
  return method != Method::zero && method != Method::tokens;
}

/// The element of a record of method `constant`; empty: it is of another method, or damaged.
std::span<const std::byte> constant_of(std::span<const std::byte> record, size_t element_size);

/// A special point's number in the record's list when its bits are not in the array's table.
inline constexpr uint8_t kUnlistedSpecial = 0xff;

/// What an encoder emits for the points of one record, in coding order.
class Emitter {
 public:
  void clear();
  /// The points of a class, or anchors (which have no groups). Both arrays have kSlackBytes of slack, which is
  /// overwritten; contexts are those within the class.
  void add_class(unsigned context_base, uint8_t* tokens, uint8_t* contexts, size_t count);
  void add_anchors(const uint8_t* tokens, size_t count);
  /// The raw bits of wide codes, in order.
  template <typename Code>
  void add_wide(const Code* codes, size_t count) {
    raw_bits_ += raw_.put_below_second(std::span(codes, count));
  }
  void exact(const std::byte* element, size_t size) { exact_.insert(exact_.end(), element, element + size); }
  /// `index`: in the array's table of special values, or kUnlistedSpecial (then exact() too).
  void special(uint8_t index) {
    specials_.push_back(static_cast<std::byte>(index));
    all_first_special_ = all_first_special_ && index == 0;
  }

  void count_into(Histogram& histogram) const;
  /// Bits beside the tokens.
  uint64_t side_bits() const { return raw_bits_ + 8 * exact_.size() + (all_first_special_ ? 0 : specials_.size()); }
  /// Points whose code is not 0, and those kept exactly.
  size_t nonzero() const { return nonzero_; }
  /// The record. `element_size`: of the exact elements. `complete`: the tables have all tokens.
  Bytes finish(const TableSet& tables, size_t element_size, bool complete = false);

 private:
  void grow(size_t more);
  void escape(const TableSet& tables);
  std::vector<uint8_t> tokens_;
  std::vector<uint8_t> contexts_;
  size_t size_ = 0;
  size_t nonzero_ = 0;
  std::vector<Segment> segments_;
  BitWriter raw_;
  uint64_t raw_bits_ = 0;
  Bytes exact_;
  Bytes specials_;
  Bytes escapes_;
  bool all_first_special_ = true;
};

/// Elements in coding order: stored, or shuffled and packed where that is smaller.
Bytes pack_elements(std::span<const std::byte> elements, size_t element_size);

/// What a record consists of. Borrows the record's bytes; to be moved, not copied.
struct RecordParts {
  Method method = Method::zero;
  unsigned lanes = 1;
  std::span<const std::byte> raw;       ///< bits
  std::span<const std::byte> exact;     ///< elements; of a record of elements: all of them
  std::span<const std::byte> specials;  ///< indices, if there is a list of them
  bool has_special_indices = false;
  std::span<const std::byte> escapes;
  std::span<const std::byte> coded;  ///< the lanes' states and words
  std::array<Bytes, 3> held;         ///< what `exact`, `specials` and `escapes` may lie in
};
/// Appends all of a record of tokens but its lanes' states and words. `parts.specials` is a list if
/// `has_special_indices`; the other lists are there if they are not empty.
void put_lists(ByteWriter& out, const RecordParts& parts, size_t element_size);
/// Takes a record apart and unpacks its lists. `points`: how many the record is for. Everything is bounds-checked, but
/// for what lists and words mean; errors are EBADMSG.
Result<RecordParts> take_apart(std::span<const std::byte> record, size_t points, size_t element_size);

/// Reads a record. Everything is bounds-checked; errors are EBADMSG.
class RecordReader {
 public:
  /// `points`: how many the record is for; `special_count`: entries of the array's table.
  Status open(std::span<const std::byte> record, size_t points, size_t element_size, size_t special_count);
  Method method() const { return parts_.method; }

  /// Of a record of elements: all of them.
  std::span<const std::byte> elements() const { return parts_.exact; }
  /// The same in another order; the record must have elements.
  void set_elements(Bytes ordered) {
    parts_.held[0] = std::move(ordered);
    parts_.exact = parts_.held[0];
  }
  /// For Method::tokens: the tokens of the next class or of the anchors, into `out`; kSlackBytes of slack in both.
  /// False: all codes are 0, and `out` is not set.
  bool class_tokens(const TableSet& tables, unsigned context_base, uint8_t* contexts, size_t count, uint8_t* out);
  void anchor_tokens(const TableSet& tables, size_t count, uint8_t* out);
  /// The codes of the wide tokens among `tokens`.
  template <typename W>
  void read_wide(const uint8_t* tokens, size_t count, BitsOf<W>* codes) {
    typed<W>(kernels()).wide_codes(tokens, count, raw_, codes);
  }
  /// The next exact element (for stored methods: the next element); zeros when there is none.
  const std::byte* exact();
  uint8_t special();
  /// EBADMSG unless all was used up.
  Status finish() const;

 private:
  void undo_escapes(uint8_t* tokens, size_t count);
  RecordParts parts_;
  size_t element_size_ = 1;
  RansDecoder rans_;
  BitInput raw_;
  size_t exact_next_ = 0;
  size_t special_next_ = 0;
  size_t special_count_ = 0;
  size_t escape_next_ = 0;
  std::vector<uint8_t> work_;
  bool failed_ = false;
};

}  // namespace varve::codec
