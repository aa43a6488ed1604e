#include "codec/entropy.h"

#include <cstring>

namespace varve::codec {

namespace {

constexpr uint32_t kLowState = 1U << 16;

}  // namespace

void FrequencyTable::finish() {
  decode.resize(kProbabilityScale);
  codable_below = static_cast<unsigned>(std::find(frequency.begin(), frequency.end(), 0) - frequency.begin());
  unsigned sum = 0;
  for (unsigned token = 0; token < kTokens; ++token) {
    start[token] = static_cast<uint16_t>(sum);
    reciprocal[token] = frequency[token] != 0 ? (uint64_t{1} << 44) / frequency[token] + 1 : 0;
    for (unsigned k = 0; k < frequency[token]; ++k) {
      decode[sum + k] = token | static_cast<uint32_t>(frequency[token]) << 8 | k << 20;
    }
    sum += frequency[token];
  }
}

unsigned lanes_for(size_t bytes) {
  // A lane's state costs about two bytes beyond the information that it carries: keep all of them under 2 %.
  unsigned lanes = 1;
  while (lanes < 32 && bytes >= size_t{200} * lanes) {
    lanes *= 2;
  }
  return lanes;
}

void rans_encode(const TableSet& tables, std::span<const Segment> segments, const uint8_t* tokens,
                 const uint8_t* contexts, unsigned lanes, ByteWriter& out) {
  size_t total = 0;
  for (const Segment& segment : segments) {
    total += segment.count;
  }
  std::vector<uint16_t> words;  // in reverse
  words.reserve(total / 8 + 16);
  std::array<uint32_t, 32> state{};
  state.fill(kLowState);
  size_t end = total;
  for (size_t s = segments.size(); s-- > 0;) {
    const Segment& segment = segments[s];
    std::array<const FrequencyTable*, kClassContexts> table{};
    for (unsigned k = 0; k < kClassContexts && segment.context_base + k < kContexts; ++k) {
      table.at(k) = &tables.table(segment.context_base + k);
    }
    const size_t begin = end - segment.count;
    for (size_t i = segment.count; i-- > 0;) {
      const FrequencyTable& t = *table[contexts[begin + i]];
      const uint8_t token = tokens[begin + i];
      const uint32_t frequency = t.frequency[token];
      uint32_t& x = state[i & (lanes - 1)];
      if (x >= frequency << (32 - kProbabilityBits)) {
        words.push_back(static_cast<uint16_t>(x));
        x >>= 16;
      }
      const auto quotient = static_cast<uint32_t>(x * t.reciprocal[token] >> 44);
      x = (quotient << kProbabilityBits) + (x - quotient * frequency) + t.start[token];
    }
    end = begin;
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    out.put_u32(state.at(lane));
  }
  std::reverse(words.begin(), words.end());
  out.put_bytes(std::as_bytes(std::span(words)));
}

bool RansDecoder::start(std::span<const std::byte> data, unsigned lanes) {
  if (lanes == 0 || lanes > state_.size() || data.size() < lanes * sizeof(uint32_t)) {
    return false;
  }
  lanes_ = lanes;
  std::memcpy(state_.data(), data.data(), lanes * sizeof(uint32_t));
  next_ = data.data() + lanes * sizeof(uint32_t);
  end_ = data.data() + data.size();
  overrun_ = false;
  return true;
}

void RansDecoder::decode(const TableSet& tables, unsigned context_base, const uint8_t* contexts, size_t count,
                         uint8_t* tokens) {
  std::array<const uint32_t*, kClassContexts> table{};
  for (unsigned k = 0; k < kClassContexts && context_base + k < kContexts; ++k) {
    table.at(k) = tables.table(context_base + k).decode.data();
  }
  for (size_t i = 0; i < count; ++i) {
    uint32_t& x = state_[i & (lanes_ - 1)];
    const uint32_t entry = table[contexts[i]][x & (kProbabilityScale - 1)];
    tokens[i] = static_cast<uint8_t>(entry);
    x = (entry >> 8 & (kProbabilityScale - 1)) * (x >> kProbabilityBits) + (entry >> 20);
    if (x < kLowState) {
      uint16_t word = 0;
      if (end_ - next_ >= 2) {
        std::memcpy(&word, next_, sizeof word);
        next_ += 2;
      } else {
        overrun_ = true;
      }
      x = x << 16 | word;
    }
  }
}

bool RansDecoder::finished() const {
  bool all = !overrun_ && next_ == end_;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    all = all && state_.at(lane) == kLowState;
  }
  return all;
}

}  // namespace varve::codec
