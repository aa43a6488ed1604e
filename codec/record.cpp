#include "codec/record.h"

#include <fmt/format.h>

#include "codec/lossless.h"

namespace varve::codec {

namespace {

// Second byte of a record of tokens: log2 of the lanes, and which lists there are.
constexpr unsigned kLanesMask = 7;
constexpr unsigned kHasExtra = 8;
constexpr unsigned kHasExact = 16;
constexpr unsigned kHasSpecials = 32;

constexpr std::array<std::byte, 8> kZeros{};

Error damaged(std::string_view what) {
  return {EBADMSG, fmt::format("record is damaged: {}; restore it from a copy", what)};
}

/// A list that is packed where that is smaller: its stored size, then the bytes.
void put_list(ByteWriter& out, std::span<const std::byte> list, size_t element_size) {
  Bytes packed;
  if (list.size() > 64) {
    packed = zstd_pack(element_size > 1 ? shuffle(list, element_size) : Bytes(list.begin(), list.end()));
  }
  const bool use = !packed.empty() && packed.size() < list.size();
  out.put_varint(list.size() / element_size);
  out.put_varint(use ? packed.size() : list.size());
  out.put_bytes(use ? std::span<const std::byte>(packed) : list);
}

/// The inverse; at most `limit` entries. Into `held`.
Status get_list(ByteReader& in, size_t limit, size_t element_size, Bytes& held) {
  const uint64_t count = in.get_varint();
  const auto stored = in.get_bytes(in.get_varint());
  if (in.failed() || count > limit || stored.size() > count * element_size) {
    return damaged("a list is longer than it can be");
  }
  held.resize(count * element_size);
  if (stored.size() == held.size()) {
    std::copy(stored.begin(), stored.end(), held.begin());
    return {};
  }
  VARVE_TRY(zstd_unpack(stored, held));
  if (element_size > 1) {
    Bytes plain(held.size());
    unshuffle(held, element_size, plain.data());
    held = std::move(plain);
  }
  return {};
}

}  // namespace

void Emitter::clear() {
  begin_ = size_ = 0;
  segments_.clear();
  extra_.clear();
  extra_bits_ = 0;
  exact_.clear();
  specials_.clear();
  all_first_special_ = true;
}

void Emitter::begin_segment(unsigned context_base, size_t count) {
  begin_ = size_;
  size_ += count;
  if (tokens_.size() < size_) {
    tokens_.resize(size_);
    contexts_.resize(size_);
  }
  segments_.push_back({context_base, count});
}

void Emitter::count_into(Histogram& histogram) const {
  size_t at = 0;
  for (const Segment& segment : segments_) {
    for (size_t i = 0; i < segment.count; ++i, ++at) {
      ++histogram.counts[segment.context_base + contexts_[at]][tokens_[at]];
    }
  }
}

bool Emitter::all_zero() const {
  return std::all_of(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(size_),
                     [](uint8_t token) { return token == kTokenZero; });
}

Bytes Emitter::finish(const TableSet& tables, size_t element_size) {
  if (all_zero()) {
    return {static_cast<std::byte>(Method::zero)};
  }
  // A rough guess of the size is enough: about six bits a token that is not zero, and little for the others.
  const auto others =
      size_ - static_cast<size_t>(std::count(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(size_),
                                             static_cast<uint8_t>(kTokenZero)));
  const unsigned lanes = lanes_for(others * 6 / 8 + size_ / 64 + extra_bits_ / 8 + exact_.size());
  unsigned flags = static_cast<unsigned>(std::bit_width(lanes)) - 1;
  flags |= extra_bits_ > 0 ? kHasExtra : 0U;
  flags |= exact_.empty() ? 0U : kHasExact;
  flags |= all_first_special_ ? 0U : kHasSpecials;
  ByteWriter out;
  out.put_u8(static_cast<uint8_t>(Method::tokens));
  out.put_u8(static_cast<uint8_t>(flags));
  if (extra_bits_ > 0) {
    const Bytes& bits = extra_.finish();
    out.put_varint(bits.size());
    out.put_bytes(bits);
  }
  if (!exact_.empty()) {
    put_list(out, exact_, element_size);
  }
  if (!all_first_special_) {
    put_list(out, specials_, 1);
  }
  rans_encode(tables, segments_, tokens_.data(), contexts_.data(), lanes, out);
  return out.take();
}

Bytes pack_elements(std::span<const std::byte> elements, size_t element_size) {
  const Bytes packed = zstd_pack(shuffle(elements, element_size));
  const bool use = packed.size() < elements.size();
  Bytes record;
  record.reserve(1 + elements.size());
  record.push_back(static_cast<std::byte>(use ? Method::shuffled : Method::stored));
  if (use) {
    record.insert(record.end(), packed.begin(), packed.end());
  } else {
    record.insert(record.end(), elements.begin(), elements.end());
  }
  return record;
}

Status RecordReader::open(std::span<const std::byte> record, size_t points, size_t element_size, size_t special_count) {
  *this = RecordReader();
  element_size_ = element_size;
  if (record.empty()) {
    return damaged("it is empty");
  }
  method_ = static_cast<Method>(record[0]);
  ByteReader in(record.subspan(1));
  const size_t raw = points * element_size;
  switch (method_) {
    case Method::zero:
      return in.left() == 0 ? Status() : damaged("bytes follow a record of zeros");
    case Method::tokens:
      return open_tokens(in, points, special_count);
    case Method::stored:
      if (in.left() != raw) {
        return damaged(fmt::format("it stores {} bytes where {} belong", in.left(), raw));
      }
      exact_ = in.get_bytes(raw);
      return {};
    case Method::shuffled: {
      Bytes mixed(raw);
      VARVE_TRY(zstd_unpack(in.get_bytes(in.left()), mixed));
      held_.resize(raw);
      unshuffle(mixed, element_size, held_.data());
      exact_ = held_;
      return {};
    }
  }
  return damaged(fmt::format("it names method {}, which this version does not know", static_cast<unsigned>(record[0])));
}

Status RecordReader::open_tokens(ByteReader& in, size_t points, size_t special_count) {
  special_count_ = special_count;
  const unsigned flags = in.get_u8();
  if (flags > (kLanesMask | kHasExtra | kHasExact | kHasSpecials) || (flags & kLanesMask) > 5) {
    return damaged("its flags are unknown");
  }
  if ((flags & kHasExtra) != 0) {
    extra_ = BitReader(in.get_bytes(in.get_varint()));
  }
  if ((flags & kHasExact) != 0) {
    VARVE_TRY(get_list(in, points, element_size_, held_));
    exact_ = held_;
  }
  if ((flags & kHasSpecials) != 0) {
    VARVE_TRY(get_list(in, points, 1, specials_));
    all_first_special_ = false;
  }
  if (in.failed() || !rans_.start(in.get_bytes(in.left()), 1U << (flags & kLanesMask))) {
    return damaged("it is cut short");
  }
  return {};
}

const std::byte* RecordReader::exact() {
  if (exact_.size() - exact_next_ < element_size_) {
    failed_ = true;
    return kZeros.data();
  }
  const std::byte* element = exact_.data() + exact_next_;
  exact_next_ += element_size_;
  return element;
}

uint8_t RecordReader::special() {
  uint8_t index = 0;
  if (!all_first_special_) {
    if (special_next_ >= specials_.size()) {
      failed_ = true;
      return kUnlistedSpecial;
    }
    index = static_cast<uint8_t>(specials_[special_next_++]);
  }
  if (index != kUnlistedSpecial && index >= special_count_) {
    failed_ = true;
    return kUnlistedSpecial;
  }
  return index;
}

Status RecordReader::finish() const {
  bool good = !failed_ && exact_next_ == exact_.size();
  if (method_ == Method::tokens) {
    good = good && rans_.finished() && !extra_.failed() && extra_.at_end() && special_next_ == specials_.size();
  }
  return good ? Status() : damaged("its lists and its tokens do not fit each other");
}

}  // namespace varve::codec
