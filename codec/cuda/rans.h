// The interleaved rANS coder: one warp a record; lane i of a record is coded by thread i mod 32 of the warp.
#pragma once

#include "codec/cuda/jobs.h"
#include "codec/entropy.h"

namespace varve::codec::cuda {

/// Where a decoder is in a record. In shared memory.
struct RecordCursor {
  DeviceRecord input;
  Array<uint32_t, kMaxLanes> state;
  uint64_t raw_next;  ///< in bits
  uint32_t element_next;
  uint32_t special_next;
  uint32_t escape_next;
  uint32_t word_next;
  bool failed;
};

/// Takes the states of a record's lanes. One thread; the others wait for it.
template <typename W>
__device__ inline void open_record(const RecordMemory<W>& memory, uint32_t number, RecordCursor& cursor) {
  cursor.input = memory.records[number];
  cursor.raw_next = 0;
  cursor.element_next = cursor.special_next = cursor.escape_next = cursor.word_next = 0;
  cursor.failed = false;
  if (cursor.input.method == Method::tokens) {
    const Global<const uint16_t> words = memory.words + cursor.input.words;
    for (unsigned lane = 0; lane < cursor.input.lanes; ++lane) {
      cursor.state[lane] = words[2 * lane] | static_cast<uint32_t>(words[2 * lane + 1]) << 16;
    }
    cursor.input.words += 2 * cursor.input.lanes;
  }
}

/// Whether all of a record was used up, and nothing else. One thread.
template <typename W>
__device__ inline bool is_used_up(const RecordMemory<W>& memory, const RecordCursor& cursor) {
  const DeviceRecord& input = cursor.input;
  bool good = !cursor.failed;
  if (input.method == Method::tokens) {
    const uint32_t indices = input.has_special_indices ? cursor.special_next : 0;
    good = good && cursor.element_next == input.element_count && indices == input.special_count &&
           cursor.escape_next == input.escape_count && cursor.word_next == input.word_count &&
           (cursor.raw_next + 7) / 8 == input.raw_size;
    for (unsigned lane = 0; lane < input.lanes; ++lane) {
      good = good && cursor.state[lane] == kRansLow;
    }
    if (good && cursor.raw_next % 8 != 0) {
      good = memory.bytes[input.raw + cursor.raw_next / 8] >> cursor.raw_next % 8 == 0;  // the padding
    }
  }
  return good;
}

/// Decodes the next segment: get_context(i) gives the context, within the class, of its i-th token, and put(i, token)
/// takes that, escapes being replaced. Called by one whole warp.
template <typename W, typename GetContext, typename Put>
__device__ inline void decode_segment(const ArrayTerms<W>& terms, const RecordMemory<W>& memory, RecordCursor& cursor,
                                      unsigned base, uint32_t count, const GetContext& get_context, const Put& put) {
  const Global<const uint16_t> words = memory.words + cursor.input.words;
  const Global<const uint8_t> escapes = memory.bytes + cursor.input.escape;
  const unsigned lanes = cursor.input.lanes;
  const unsigned part = lanes < kWarpThreads ? lanes : kWarpThreads;  // tokens at once
  const unsigned own = lane_number();
  uint32_t word_next = cursor.word_next;
  uint32_t escape_next = cursor.escape_next;
  bool failed = false;
  for (uint32_t at = 0; at < count; at += part) {
    const uint32_t i = at + own;
    const bool active = own < part && i < count;
    const unsigned lane = i & (lanes - 1);
    uint32_t x = 0;
    unsigned token = kTokenZero;
    if (active) {
      x = cursor.state[lane];
      const uint32_t table = terms.table_of[base + get_context(i)];
      const uint32_t entry = terms.decode[(table << kProbabilityBits) + (x & (kProbabilityScale - 1))];
      token = entry & 0xffU;
      x = (entry >> 8 & 4095U) * (x >> kProbabilityBits) + (entry >> 20);
    }
    const unsigned refill = __ballot_sync(kAllLanes, active && x < kRansLow);
    if (active && x < kRansLow) {
      const uint32_t place = word_next + static_cast<uint32_t>(__popc(refill & lanes_below()));
      failed = failed || place >= cursor.input.word_count;
      x = x << 16 | (place < cursor.input.word_count ? words[place] : 0U);
    }
    word_next += static_cast<uint32_t>(__popc(refill));
    const unsigned escaped = __ballot_sync(kAllLanes, active && token == kTokenEscape);
    if (active && token == kTokenEscape) {
      const uint32_t place = escape_next + static_cast<uint32_t>(__popc(escaped & lanes_below()));
      token = place < cursor.input.escape_count ? escapes[place] : kTokenEscape;
      if (token == kTokenEscape || token >= kTokens) {
        failed = true;
        token = kTokenZero;
      }
    }
    escape_next += static_cast<uint32_t>(__popc(escaped));
    if (active) {
      cursor.state[lane] = x;
      put(i, static_cast<uint8_t>(token));
    }
  }
  const unsigned any_failed = __ballot_sync(kAllLanes, failed);
  if (own == 0) {
    cursor.word_next = word_next;
    cursor.escape_next = escape_next;
    cursor.failed = cursor.failed || any_failed != 0;
  }
  __syncwarp();
}

}  // namespace varve::codec::cuda
