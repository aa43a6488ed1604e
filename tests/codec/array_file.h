// Encoded arrays as files: the golden files, the seeds of the fuzz target, and what format_decoder.py reads.
#pragma once

#include "codec/bytes.h"
#include "tests/codec/arrays.h"

namespace varve::codec::testing {

inline void put_framed(ByteWriter& out, std::span<const std::byte> bytes) {
  out.put_varint(bytes.size());
  out.put_bytes(bytes);
}

/// The records, each behind its level and brick.
inline void put_store(ByteWriter& out, const Store& store) {
  for (const auto& [id, record] : store) {
    out.put_u8(id.first);
    out.put_varint(id.second);
    put_framed(out, record);
  }
}

/// A golden file: the header, what the records decode to, then the records until the end.
inline Bytes array_file(std::span<const std::byte> header, std::span<const std::byte> decoded, const Store& store) {
  ByteWriter out;
  put_framed(out, header);
  put_framed(out, encode_bytes(decoded));
  put_store(out, store);
  return out.take();
}

}  // namespace varve::codec::testing
