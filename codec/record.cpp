#include "codec/record.h"

#include <fmt/format.h>

#include "codec/lossless.h"

namespace varve::codec {

namespace {

// Second byte of a record of tokens: log2 of the lanes, and which lists there are.
constexpr unsigned kLanesMask = 7;
constexpr unsigned kHasRaw = 8;
constexpr unsigned kHasExact = 16;
constexpr unsigned kHasSpecials = 32;
constexpr unsigned kHasEscapes = 64;

constexpr std::array<std::byte, 8> kZeros{};

/// Bytes of a record's elements that tell how to pack all of them.
constexpr size_t kPackingSample = 32768;

/// Whether a group of bytes all have one value.
template <uint8_t kValue>
bool is_all(const uint8_t* bytes) {
  constexpr uint64_t kPattern = kValue * uint64_t{0x0101010101010101};
  std::array<uint64_t, kGroup / sizeof(uint64_t)> words{};
  std::memcpy(words.data(), bytes, kGroup);
  uint64_t other = 0;
  for (const uint64_t word : words) {
    other |= word ^ kPattern;
  }
  return other == 0;
}

Error damaged(std::string_view what) {
  return {EBADMSG, fmt::format("record is damaged: {}; restore it from a copy", what)};
}

/// Not more bits than there are, and all but the zeros that pad the last byte.
bool all_bits_read(const BitInput& bits) {
  return (bits.next + 7) / 8 == bits.size &&
         (bits.next % 8 == 0 || static_cast<unsigned>(bits.data[bits.next / 8]) >> bits.next % 8 == 0);
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
  size_ = nonzero_ = 0;
  segments_.clear();
  raw_.clear();
  raw_bits_ = 0;
  exact_.clear();
  specials_.clear();
  escapes_.clear();
  all_first_special_ = true;
}

void Emitter::grow(size_t more) {
  if (tokens_.size() < size_ + more + kSlackBytes) {
    tokens_.resize(size_ + more + kSlackBytes);
    contexts_.resize(tokens_.size());
  }
}

void Emitter::add_anchors(const uint8_t* tokens, size_t count) {
  grow(count);
  std::copy(tokens, tokens + count, tokens_.data() + size_);
  std::fill_n(contexts_.data() + size_, count, uint8_t{0});
  nonzero_ += count - static_cast<size_t>(std::count(tokens, tokens + count, uint8_t{kTokenZero}));
  segments_.push_back({kAnchorContext, count});
  size_ += count;
}

void Emitter::add_class(unsigned context_base, uint8_t* tokens, uint8_t* contexts, size_t count) {
  std::memset(contexts + count, 0, kSlackBytes);
  std::memset(tokens + count, kTokenZero, kSlackBytes);
  grow(count + count / kGroup + 2 * kGroup);
  uint8_t* out = tokens_.data() + size_;
  for (size_t at = 0; at < count; at += kGroup) {
    if (is_all<0>(contexts + at)) {
      *out++ = is_all<kTokenZero>(tokens + at) ? kFlagQuiet : kFlagActive;
    }
  }
  const auto flags = static_cast<size_t>(out - tokens_.data()) - size_;
  if (flags > 0) {
    std::fill_n(contexts_.data() + size_, flags, uint8_t{kFlagContext});
    segments_.push_back({context_base, flags});
    size_ += flags;
  }
  const size_t begin = size_;
  for (size_t at = 0; at < count; at += kGroup) {
    const bool zero = is_all<kTokenZero>(tokens + at);
    if (zero && is_all<0>(contexts + at)) {
      continue;
    }
    std::memcpy(tokens_.data() + size_, tokens + at, kGroup);
    std::memcpy(contexts_.data() + size_, contexts + at, kGroup);
    const size_t some = std::min(kGroup, count - at);
    size_ += some;
    nonzero_ += zero ? 0 : kGroup - static_cast<size_t>(std::count(tokens + at, tokens + at + kGroup, kTokenZero));
  }
  if (size_ > begin) {
    segments_.push_back({context_base, size_ - begin});
  }
}

void Emitter::count_into(Histogram& histogram) const {
  // Neighbours mostly fall into one counter, and counting twice in a row waits for the first: the odd ones have their
  // own, where there are enough points to be worth it.
  constexpr size_t kMany = 4096;
  static thread_local std::array<Counts, kClassContexts> odd{};
  size_t at = 0;
  for (const Segment& segment : segments_) {
    Counts* counts = histogram.counts.data() + segment.context_base;
    const size_t end = at + segment.count;
    if (segment.count >= kMany) {
      for (; at + 2 <= end; at += 2) {
        ++counts[contexts_[at]][tokens_[at]];
        ++odd[contexts_[at + 1]][tokens_[at + 1]];
      }
      const size_t contexts = std::min(odd.size(), histogram.counts.size() - segment.context_base);  // anchors: one
      for (size_t context = 0; context < contexts; ++context) {
        for (unsigned token = 0; token < kTokens; ++token) {
          counts[context][token] += odd[context][token];
        }
        odd[context].fill(0);
      }
    }
    for (; at < end; ++at) {
      ++counts[contexts_[at]][tokens_[at]];
    }
  }
}

/// Replaces tokens that their tables lack.
void Emitter::escape(const TableSet& tables) {
  size_t at = 0;
  for (const Segment& segment : segments_) {
    uint8_t* tokens = tokens_.data() + at;
    const uint8_t* contexts = contexts_.data() + at;
    at += segment.count;
    const TokenRuns runs = tables.codable_runs(segment.context_base);
    if (!kernels().any_beyond(tokens, contexts, runs, segment.count)) {
      continue;
    }
    const RansTables look_up = tables.look_up(segment.context_base);
    for (size_t begin = 0; begin < segment.count; begin += kGroup) {
      const size_t end = std::min(segment.count, begin + kGroup);
      if (!kernels().any_beyond(tokens + begin, contexts + begin, runs, end - begin)) {
        continue;
      }
      for (size_t i = begin; i < end; ++i) {
        if (look_up.encode[look_up.base[contexts[i]] << 8 | tokens[i]] == 0) {
          escapes_.push_back(static_cast<std::byte>(tokens[i]));
          tokens[i] = kTokenEscape;
        }
      }
    }
  }
}

Bytes Emitter::finish(const TableSet& tables, size_t element_size, bool complete) {
  if (nonzero_ == 0) {
    return {static_cast<std::byte>(Method::zero)};
  }
  if (!complete) {
    escape(tables);
  }
  RecordParts parts;
  parts.method = Method::tokens;
  parts.lanes = lanes_of_record(nonzero_, size_);
  parts.raw = raw_bits_ > 0 ? raw_.finish() : std::span<const std::byte>();
  parts.exact = exact_;
  parts.specials = specials_;
  parts.has_special_indices = !all_first_special_;
  parts.escapes = escapes_;
  ByteWriter out;
  out.reserve(nonzero_ * 2 + size_ / 16 + raw_bits_ / 8 + exact_.size() + 400);
  put_lists(out, parts, element_size);
  rans_encode(tables, segments_, tokens_.data(), contexts_.data(), parts.lanes, out);
  return out.take();
}

void put_lists(ByteWriter& out, const RecordParts& parts, size_t element_size) {
  unsigned flags = static_cast<unsigned>(std::bit_width(parts.lanes)) - 1;
  flags |= parts.raw.empty() ? 0U : kHasRaw;
  flags |= parts.exact.empty() ? 0U : kHasExact;
  flags |= parts.has_special_indices ? kHasSpecials : 0U;
  flags |= parts.escapes.empty() ? 0U : kHasEscapes;
  out.put_u8(static_cast<uint8_t>(Method::tokens));
  out.put_u8(static_cast<uint8_t>(flags));
  if (!parts.raw.empty()) {
    out.put_varint(parts.raw.size());
    out.put_bytes(parts.raw);
  }
  if (!parts.exact.empty()) {
    put_list(out, parts.exact, element_size);
  }
  if (parts.has_special_indices) {
    put_list(out, parts.specials, 1);
  }
  if (!parts.escapes.empty()) {
    put_list(out, parts.escapes, 1);
  }
}

Bytes pack_elements(std::span<const std::byte> elements, size_t element_size) {
  const auto record = [](Method method, std::span<const std::byte> body) {
    Bytes made;
    made.reserve(1 + body.size());
    made.push_back(static_cast<std::byte>(method));
    made.insert(made.end(), body.begin(), body.end());
    return made;
  };
  if (is_constant(elements, element_size)) {
    return record(Method::constant, elements.first(element_size));
  }
  // What repeats whole elements is better left as it is. A part tells.
  const auto part = elements.first(std::min(elements.size(), kPackingSample / element_size * element_size));
  Bytes plain = element_size > 1 ? zstd_pack(part) : Bytes(part.begin(), part.end());
  Bytes mixed = zstd_pack(shuffle(part, element_size));
  const bool shuffled = mixed.size() <= plain.size();
  Bytes& packed = shuffled ? mixed : plain;
  if (part.size() < elements.size()) {
    packed = shuffled ? zstd_pack(shuffle(elements, element_size)) : zstd_pack(elements);
  }
  if (packed.size() >= elements.size()) {
    return record(Method::stored, elements);
  }
  return record(shuffled ? Method::shuffled : Method::packed, packed);
}

std::span<const std::byte> constant_of(std::span<const std::byte> record, size_t element_size) {
  const bool is = record.size() == 1 + element_size && record[0] == static_cast<std::byte>(Method::constant);
  return is ? record.subspan(1) : std::span<const std::byte>();
}

namespace {

Status take_tokens_apart(ByteReader& in, size_t points, size_t element_size, RecordParts& out) {
  const unsigned flags = in.get_u8();
  if (flags > (kLanesMask | kHasRaw | kHasExact | kHasSpecials | kHasEscapes) ||
      1U << (flags & kLanesMask) > kMaxLanes) {
    return damaged("its flags are unknown");
  }
  out.lanes = 1U << (flags & kLanesMask);
  if ((flags & kHasRaw) != 0) {
    out.raw = in.get_bytes(in.get_varint());
  }
  if ((flags & kHasExact) != 0) {
    VARVE_TRY(get_list(in, points, element_size, out.held[0]));
    out.exact = out.held[0];
  }
  if ((flags & kHasSpecials) != 0) {
    VARVE_TRY(get_list(in, points, 1, out.held[1]));
    out.specials = out.held[1];
    out.has_special_indices = true;
  }
  if ((flags & kHasEscapes) != 0) {
    VARVE_TRY(get_list(in, points + points / kGroup + 8, 1, out.held[2]));
    out.escapes = out.held[2];
  }
  out.coded = in.get_bytes(in.left());
  return in.failed() || out.coded.size() < out.lanes * sizeof(uint32_t) ? damaged("it is cut short") : Status();
}

}  // namespace

Result<RecordParts> take_apart(std::span<const std::byte> record, size_t points, size_t element_size) {
  RecordParts out;
  if (record.empty()) {
    return damaged("it is empty");
  }
  out.method = static_cast<Method>(record[0]);
  ByteReader in(record.subspan(1));
  const size_t raw = points * element_size;
  switch (out.method) {
    case Method::zero:
      if (in.left() != 0) {
        return damaged("bytes follow a record of zeros");
      }
      return out;
    case Method::tokens:
      VARVE_TRY(take_tokens_apart(in, points, element_size, out));
      return out;
    case Method::stored:
      if (in.left() != raw) {
        return damaged(fmt::format("it stores {} bytes where {} belong", in.left(), raw));
      }
      out.exact = in.get_bytes(raw);
      return out;
    case Method::shuffled: {
      Bytes mixed(raw);
      VARVE_TRY(zstd_unpack(in.get_bytes(in.left()), mixed));
      out.held[0].resize(raw);
      unshuffle(mixed, element_size, out.held[0].data());
      out.exact = out.held[0];
      return out;
    }
    case Method::packed:
      out.held[0].resize(raw);
      VARVE_TRY(zstd_unpack(in.get_bytes(in.left()), out.held[0]));
      out.exact = out.held[0];
      return out;
    case Method::constant: {
      const auto element = constant_of(record, element_size);
      if (element.empty()) {
        return damaged(fmt::format("it holds {} bytes where one element belongs", in.left()));
      }
      out.held[0].resize(raw);
      for (size_t i = 0; i < raw; ++i) {
        out.held[0][i] = element[i % element_size];
      }
      out.exact = out.held[0];
      return out;
    }
  }
  return damaged(fmt::format("it names method {}, which this version does not know", static_cast<unsigned>(record[0])));
}

Status RecordReader::open(std::span<const std::byte> record, size_t points, size_t element_size, size_t special_count) {
  std::vector<uint8_t> kept = std::move(work_);
  *this = RecordReader();
  work_ = std::move(kept);
  element_size_ = element_size;
  special_count_ = special_count;
  VARVE_ASSIGN(parts_, take_apart(record, points, element_size));
  raw_ = {parts_.raw.data(), parts_.raw.size(), 0};
  if (parts_.method == Method::tokens && !rans_.start(parts_.coded, parts_.lanes)) {
    return damaged("it is cut short");
  }
  return {};
}

void RecordReader::undo_escapes(uint8_t* tokens, size_t count) {
  uint8_t* const end = tokens + count;
  if (!kernels().any_outside(tokens, count, kTokenEscape + 1, kTokens)) {
    return;
  }
  for (uint8_t* at = tokens; (at = std::find(at, end, uint8_t{kTokenEscape})) != end; ++at) {
    const unsigned token =
        escape_next_ < parts_.escapes.size() ? static_cast<unsigned>(parts_.escapes[escape_next_++]) : 0;
    failed_ = failed_ || token == kTokenEscape || token >= kTokens;
    *at = static_cast<uint8_t>(token == kTokenEscape || token >= kTokens ? kTokenZero : token);
  }
}

void RecordReader::anchor_tokens(const TableSet& tables, size_t count, uint8_t* out) {
  work_.assign(count + kSlackBytes, 0);
  rans_.decode(tables, kAnchorContext, work_.data(), count, out);
  undo_escapes(out, count);
}

bool RecordReader::class_tokens(const TableSet& tables, unsigned context_base, uint8_t* contexts, size_t count,
                                uint8_t* out) {
  std::memset(contexts + count, 0, kSlackBytes);
  const size_t groups = (count + kGroup - 1) / kGroup;
  // First the flags' tokens (and their contexts), then the tokens of active groups (and theirs).
  const size_t room = groups + kSlackBytes + count + kGroup + kSlackBytes;
  if (work_.size() < 3 * room) {
    work_.resize(3 * room);
  }
  uint8_t* flag = work_.data();
  uint8_t* active = flag + groups + kSlackBytes;
  uint8_t* active_context = active + room;
  uint8_t* silent = active_context + room;  // which groups have contexts of 0 alone
  size_t flags = 0;
  for (size_t g = 0; g < groups; ++g) {
    silent[g] = is_all<0>(contexts + g * kGroup) ? 1 : 0;
    flags += silent[g];
  }
  if (flags > 0) {
    std::fill_n(active, flags, uint8_t{kFlagContext});
    rans_.decode(tables, context_base, active, flags, flag);
    undo_escapes(flag, flags);
  }
  size_t size = 0;
  const uint8_t* next = flag;
  for (size_t g = 0; g < groups; ++g) {
    if (silent[g] != 0 && *next++ == kFlagQuiet) {
      continue;
    }
    std::memcpy(active_context + size, contexts + g * kGroup, kGroup);
    size += std::min(kGroup, count - g * kGroup);
  }
  if (size == 0) {
    return false;
  }
  rans_.decode(tables, context_base, active_context, size, active);
  undo_escapes(active, size);
  next = flag;
  for (size_t g = 0; g < groups; ++g) {
    if (silent[g] != 0 && *next++ == kFlagQuiet) {
      std::memset(out + g * kGroup, kTokenZero, kGroup);
      continue;
    }
    std::memcpy(out + g * kGroup, active, kGroup);
    active += kGroup;
  }
  return true;
}

const std::byte* RecordReader::exact() {
  if (parts_.exact.size() - exact_next_ < element_size_) {
    failed_ = true;
    return kZeros.data();
  }
  const std::byte* element = parts_.exact.data() + exact_next_;
  exact_next_ += element_size_;
  return element;
}

uint8_t RecordReader::special() {
  uint8_t index = 0;
  if (parts_.has_special_indices) {
    if (special_next_ >= parts_.specials.size()) {
      failed_ = true;
      return kUnlistedSpecial;
    }
    index = static_cast<uint8_t>(parts_.specials[special_next_++]);
  }
  if (index != kUnlistedSpecial && index >= special_count_) {
    failed_ = true;
    return kUnlistedSpecial;
  }
  return index;
}

Status RecordReader::finish() const {
  bool good = !failed_ && exact_next_ == parts_.exact.size();
  if (parts_.method == Method::tokens) {
    good = good && rans_.finished() && all_bits_read(raw_) && special_next_ == parts_.specials.size() &&
           escape_next_ == parts_.escapes.size();
  }
  return good ? Status() : damaged("its lists and its tokens do not fit each other");
}

}  // namespace varve::codec
