#include "codec/entropy.h"

#include <cstring>

namespace varve::codec {

void FrequencyTable::finish() {
  unsigned sum = 0;
  unsigned run = 0;
  unsigned longest = 0;
  for (unsigned token = 0; token < kTokens; ++token) {
    start[token] = static_cast<uint16_t>(sum);
    sum += frequency[token];
    run = frequency[token] > 0 ? run + 1 : 0;
    if (run > longest) {
      longest = run;
      codable_first = static_cast<uint8_t>(token + 1 - run);
      codable_last = static_cast<uint8_t>(token);
    }
  }
}

void TableSet::finish() {
  constexpr size_t kStride = 256;
  static_assert(kTokens <= kStride);
  encode_.assign(tables_.size() * kStride, 0);
  decode_.resize(tables_.size() * kProbabilityScale);
  uint32_t* slot = decode_.data();
  for (size_t k = 0; k < tables_.size(); ++k) {
    const FrequencyTable& table = tables_[k];
    for (unsigned token = 0; token < kTokens; ++token) {
      const uint32_t frequency = table.frequency[token];
      if (frequency != 0) {
        encode_[k * kStride + token] = frequency | static_cast<uint32_t>(table.start[token]) << 16;
      }
      for (uint32_t i = 0; i < frequency; ++i) {
        *slot++ = token | frequency << 8 | i << 20;
      }
    }
  }
}

TokenRuns TableSet::codable_runs(unsigned context_base) const {
  TokenRuns runs{};
  for (unsigned k = 0; k < kClassContexts && context_base + k < kContexts; ++k) {
    const FrequencyTable& one = table(context_base + k);
    runs.first[k] = one.codable_first;
    runs.span[k] = static_cast<uint8_t>(one.codable_last - one.codable_first);
  }
  return runs;
}

RansTables TableSet::look_up(unsigned context_base) const {
  RansTables out{encode_.data(), decode_.data(), {}};
  for (unsigned k = 0; k < kClassContexts && context_base + k < kContexts; ++k) {
    out.base[k] = table_of_.at(context_base + k);
  }
  return out;
}

void rans_encode(const TableSet& tables, std::span<const Segment> segments, const uint8_t* tokens,
                 const uint8_t* contexts, unsigned lanes, ByteWriter& out) {
  size_t total = 0;
  for (const Segment& segment : segments) {
    total += segment.count;
  }
  thread_local Buffer<uint16_t> words;  // filled from its end
  uint16_t* const last = words.reserve(total + 1) + total;
  uint16_t* first = last;
  std::array<uint32_t, kMaxLanes> state{};
  state.fill(kRansLow);
  const Kernels& set = kernels();
  size_t end = total;
  for (size_t s = segments.size(); s-- > 0;) {
    const Segment& segment = segments[s];
    end -= segment.count;
    first = set.rans_encode(tables.look_up(segment.context_base), tokens + end, contexts + end, segment.count, lanes,
                            state.data(), first);
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    out.put_u32(state.at(lane));
  }
  out.put_bytes(std::as_bytes(std::span(first, last)));
}

bool RansDecoder::start(std::span<const std::byte> data, unsigned lanes) {
  if (lanes == 0 || lanes > state_.size() || data.size() < lanes * sizeof(uint32_t)) {
    return false;
  }
  lanes_ = lanes;
  std::memcpy(state_.data(), data.data(), lanes * sizeof(uint32_t));
  input_ = {data.data() + lanes * sizeof(uint32_t), data.data() + data.size(), false};
  return true;
}

void RansDecoder::decode(const TableSet& tables, unsigned context_base, const uint8_t* contexts, size_t count,
                         uint8_t* tokens) {
  kernels().rans_decode(tables.look_up(context_base), contexts, count, lanes_, state_.data(), input_, tokens);
}

bool RansDecoder::finished() const {
  bool all = !input_.overrun && input_.next == input_.end;
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    all = all && state_.at(lane) == kRansLow;
  }
  return all;
}

}  // namespace varve::codec
