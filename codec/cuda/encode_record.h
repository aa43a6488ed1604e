// Finishing a record whose points are encoded: escapes, rANS, and its place among the records that are done. Functions
// of a block: called by all of its threads; they end with a barrier.
#pragma once

#include "codec/cuda/encode_class.h"

namespace varve::codec::cuda {

/// Replaces tokens that their tables lack.
template <typename W>
__device__ void escape_tokens(const ClassEncoder<W>& encoder) {
  StreamCursor& cursor = encoder.shared.cursor;
  const ArrayTerms<W>& terms = encoder.terms;
  uint32_t found = 0;
  for (uint32_t at = 0; at < cursor.tokens; at += blockDim.x) {
    const uint32_t i = at + threadIdx.x;
    const bool there = i < cursor.tokens;
    const uint8_t token = there ? encoder.stream.tokens[i] : uint8_t{0};
    const bool lacks = there && terms.encode[terms.table_of[encoder.stream.contexts[i]] * 256U + token] == 0;
    uint64_t all = 0;
    const auto rank = static_cast<uint32_t>(scan_block(lacks ? 1 : 0, encoder.shared.scan, all));
    if (lacks) {
      encoder.stream.escapes[found + rank] = token;
      encoder.stream.tokens[i] = kTokenEscape;
    }
    found += static_cast<uint32_t>(all);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    cursor.escapes = found;
  }
  __syncthreads();
}

/// Encodes the stream from its end on; words fill stream.words from its end. By the first warp.
template <typename W>
__device__ void encode_stream(const ClassEncoder<W>& encoder, unsigned lanes) {
  StreamCursor& cursor = encoder.shared.cursor;
  const ArrayTerms<W>& terms = encoder.terms;
  for (unsigned lane = threadIdx.x; lane < lanes; lane += blockDim.x) {
    cursor.state[lane] = kRansLow;
  }
  __syncthreads();
  if (warp_number() == 0) {
    const unsigned part = lanes < kWarpThreads ? lanes : kWarpThreads;  // tokens at once
    const unsigned own = lane_number();
    const auto room = static_cast<uint32_t>(stream_room(encoder.stream.points));
    uint32_t words = 0;
    for (uint32_t segment = cursor.segments; segment-- > 0;) {
      const uint32_t begin = segment > 0 ? encoder.stream.segments[segment - 1] : 0;
      const uint32_t count = encoder.stream.segments[segment] - begin;
      for (uint32_t turn = (count + part - 1) / part; turn-- > 0;) {
        const uint32_t i = turn * part + own;
        const bool active = own < part && i < count;
        uint32_t x = 0;
        uint32_t entry = 0;
        bool emits = false;
        if (active) {
          x = cursor.state[i & (lanes - 1)];
          entry =
              terms
                  .encode[terms.table_of[encoder.stream.contexts[begin + i]] * 256U + encoder.stream.tokens[begin + i]];
          emits = x >> (32 - kProbabilityBits) >= (entry & 0xffffU);
        }
        const unsigned emitting = __ballot_sync(kAllLanes, emits);
        if (emits) {  // the last token's word comes first, before those of the turn after
          const auto from_end = static_cast<uint32_t>(__popc(emitting >> own));
          encoder.stream.words[room - words - from_end] = static_cast<uint16_t>(x);
          x >>= 16;
        }
        words += static_cast<uint32_t>(__popc(emitting));
        if (active) {
          const uint32_t frequency = entry & 0xffffU;
          cursor.state[i & (lanes - 1)] = (x / frequency << kProbabilityBits) + x % frequency + (entry >> 16);
        }
      }
    }
    if (own == 0) {
      cursor.words = words;
    }
  }
  __syncthreads();
}

__device__ inline uint64_t varint_size(uint64_t value) {
  uint64_t size = 1;
  for (; value >= 0x80; value >>= 7) {
    ++size;
  }
  return size;
}
/// Bytes of a list that nothing is packed of.
__device__ inline uint64_t list_size(uint64_t count, uint64_t element_size) {
  return count == 0 ? 0 : varint_size(count) + varint_size(count * element_size) + count * element_size;
}

/// A record's parts to the others that are done.
template <typename W>
__device__ void put_record(const ClassEncoder<W>& encoder, const RecordOutput<W>& output, uint32_t number,
                           const DeviceRecord& record) {
  const StreamCursor& cursor = encoder.shared.cursor;
  const StreamMemory<W>& stream = encoder.stream;
  for (uint32_t i = threadIdx.x; i < record.raw_size; i += blockDim.x) {
    output.bytes[record.raw + i] = static_cast<uint8_t>(stream.raw[i / 4] >> 8 * (i % 4));
  }
  for (uint32_t i = threadIdx.x; i < record.special_count; i += blockDim.x) {
    output.bytes[record.special + i] = stream.special[i];
  }
  for (uint32_t i = threadIdx.x; i < record.escape_count; i += blockDim.x) {
    output.bytes[record.escape + i] = stream.escapes[i];
  }
  for (uint32_t i = threadIdx.x; i < record.element_count; i += blockDim.x) {
    output.elements[record.elements + i] = stream.exact[i];
  }
  for (uint32_t i = threadIdx.x; i < 2U * record.lanes; i += blockDim.x) {
    output.words[record.words + i] = static_cast<uint16_t>(cursor.state[i / 2] >> 16 * (i % 2));
  }
  const auto room = static_cast<uint32_t>(stream_room(stream.points));
  for (uint32_t i = threadIdx.x; i < record.word_count; i += blockDim.x) {
    output.words[record.words + 2U * record.lanes + i] = stream.words[room - record.word_count + i];
  }
  if (threadIdx.x == 0) {
    output.records[number] = record;
    output.encoded[number] = 1;
  }
  __syncthreads();
}

/// Whether a record of tokens, whose lists may be packed yet, is larger than its `points` elements and one byte.
template <typename W>
__device__ Outcome outcome_of(const DeviceRecord& record, uint32_t points) {
  constexpr uint64_t kNeverPacked = 64;  // lists of so many bytes are as they are
  const uint64_t exact = uint64_t{record.element_count} * sizeof(W);
  const uint64_t raw = record.raw_size == 0 ? 0 : varint_size(record.raw_size) + record.raw_size;
  const uint64_t least = 2 + raw + 4 * uint64_t{record.lanes} + 2 * uint64_t{record.word_count};
  const uint64_t most = least + list_size(record.element_count, sizeof(W)) + list_size(record.special_count, 1) +
                        list_size(record.escape_count, 1);
  const uint64_t limit = uint64_t{points} * sizeof(W) + 1;
  if (record.method == Method::zero || most <= limit) {
    return Outcome::done;
  }
  const bool known =
      exact <= kNeverPacked && record.special_count <= kNeverPacked && record.escape_count <= kNeverPacked;
  return known || least > limit ? Outcome::too_large : Outcome::unknown;
}

/// Ends a record of tokens of `points` points, and sets shared.outcome.
template <typename W>
__device__ void finish_record(const ClassEncoder<W>& encoder, const RecordOutput<W>& output, uint32_t number,
                              uint32_t points) {
  EncodeShared<W>& shared = encoder.shared;
  const StreamCursor& cursor = shared.cursor;
  DeviceRecord record{};
  record.method = Method::zero;
  if (cursor.nonzero > 0) {
    record.method = Method::tokens;
    escape_tokens(encoder);
    record.lanes = static_cast<uint8_t>(lanes_of_record(cursor.nonzero, cursor.tokens));
    encode_stream(encoder, record.lanes);
    record.raw_size = static_cast<uint32_t>((cursor.raw_bits + 7) / 8);
    record.element_count = cursor.exact;
    record.has_special_indices = cursor.has_special_indices;
    record.special_count = cursor.has_special_indices ? cursor.specials : 0;
    record.escape_count = cursor.escapes;
    record.word_count = cursor.words;
  }
  if (threadIdx.x == 0) {
    shared.outcome = outcome_of<W>(record, points);
    if (shared.outcome == Outcome::done) {
      const unsigned long long bytes = record.raw_size + record.special_count + record.escape_count;
      const unsigned long long words = 2ULL * record.lanes + record.word_count;
      shared.begin[0] = atomicAdd(&output.used[0], bytes);
      shared.begin[1] = atomicAdd(&output.used[1], static_cast<unsigned long long>(record.element_count));
      shared.begin[2] = atomicAdd(&output.used[2], words);
    }
  }
  __syncthreads();
  if (shared.outcome != Outcome::done) {
    return;
  }
  record.raw = shared.begin[0];
  record.special = record.raw + record.raw_size;
  record.escape = record.special + record.special_count;
  record.elements = shared.begin[1];
  record.words = shared.begin[2];
  put_record(encoder, output, number, record);
}

/// Begins a record of `points` elements; gives where they go. The host packs them.
template <typename W>
__device__ Global<BitsOf<W>> start_elements(const ClassEncoder<W>& encoder, const RecordOutput<W>& output,
                                            uint32_t number, uint32_t points) {
  EncodeShared<W>& shared = encoder.shared;
  if (threadIdx.x == 0) {
    DeviceRecord record{};
    record.method = Method::stored;
    record.element_count = points;
    record.elements = atomicAdd(&output.used[1], static_cast<unsigned long long>(points));
    shared.begin[1] = record.elements;
    output.records[number] = record;
    output.encoded[number] = 1;
  }
  __syncthreads();
  return output.elements + shared.begin[1];
}

}  // namespace varve::codec::cuda
