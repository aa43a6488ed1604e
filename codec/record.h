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
};

/// A special point's number in the record's list when its bits are not in the array's table.
inline constexpr uint8_t kUnlistedSpecial = 0xff;

/// What an encoder emits for the points of one record, in coding order.
class Emitter {
 public:
  void clear();
  /// Room for a segment of `count` points; the caller fills tokens() and contexts() from position() on.
  void begin_segment(unsigned context_base, size_t count);
  uint8_t* tokens() { return tokens_.data() + begin_; }
  uint8_t* contexts() { return contexts_.data() + begin_; }
  void extra(uint64_t value, unsigned bits) {
    extra_.put(value, bits);
    extra_bits_ += bits;
  }
  void exact(const std::byte* element, size_t size) { exact_.insert(exact_.end(), element, element + size); }
  /// `index`: in the array's table of special values, or kUnlistedSpecial (then exact() too).
  void special(uint8_t index) {
    specials_.push_back(static_cast<std::byte>(index));
    all_first_special_ = all_first_special_ && index == 0;
  }

  void count_into(Histogram& histogram) const;
  /// Bits beside the tokens.
  uint64_t side_bits() const { return extra_bits_ + 8 * exact_.size() + (all_first_special_ ? 0 : specials_.size()); }
  size_t points() const { return size_; }
  /// The record. `element_size`: of the exact elements.
  Bytes finish(const TableSet& tables, size_t element_size);

 private:
  bool all_zero() const;
  std::vector<uint8_t> tokens_;
  std::vector<uint8_t> contexts_;
  size_t begin_ = 0;
  size_t size_ = 0;
  std::vector<Segment> segments_;
  BitWriter extra_;
  uint64_t extra_bits_ = 0;
  Bytes exact_;
  Bytes specials_;
  bool all_first_special_ = true;
};

/// Elements in coding order: stored, or shuffled and packed where that is smaller.
Bytes pack_elements(std::span<const std::byte> elements, size_t element_size);

/// Takes a record apart. Everything is bounds-checked; errors are EBADMSG.
class RecordReader {
 public:
  /// `points`: how many the record is for; `special_count`: entries of the array's table.
  Status open(std::span<const std::byte> record, size_t points, size_t element_size, size_t special_count);
  Method method() const { return method_; }

  /// For Method::tokens: the tokens of the next segment.
  void tokens(const TableSet& tables, unsigned context_base, const uint8_t* contexts, size_t count, uint8_t* out) {
    rans_.decode(tables, context_base, contexts, count, out);
  }
  uint64_t extra(unsigned bits) { return extra_.get(bits); }
  /// The next exact element (for stored methods: the next element); zeros when there is none.
  const std::byte* exact();
  uint8_t special();
  /// EBADMSG unless all was used up.
  Status finish() const;

 private:
  Status open_tokens(ByteReader& in, size_t points, size_t special_count);
  Method method_ = Method::zero;
  size_t element_size_ = 1;
  RansDecoder rans_;
  BitReader extra_;
  Bytes held_;  ///< unpacked elements
  std::span<const std::byte> exact_;
  size_t exact_next_ = 0;
  Bytes specials_;
  bool all_first_special_ = true;
  size_t special_next_ = 0;
  size_t special_count_ = 0;
  bool failed_ = false;
};

}  // namespace varve::codec
