#include "fs/formats/chunk_filters.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "fs/formats/check.h"

namespace varve::fs {

using codec::Bytes;

namespace {

using Kind = ChunkFilter::Kind;

constexpr size_t kChecksumBytes = 4;

Error bad(std::string_view what) { return {EBADMSG, fmt::format("a chunk of the file {}", what)}; }

/// Element i's byte k moves to place k * count + i; what is left over after the last whole element stays.
Bytes shuffle(const Bytes& in, size_t size, bool undo) {
  const size_t count = in.size() / std::max<size_t>(size, 1);
  if (size <= 1 || count <= 1) {
    return in;
  }
  Bytes out(in.size());
  for (size_t k = 0; k < size; ++k) {
    const size_t plane = k * count;
    if (undo) {
      for (size_t i = 0; i < count; ++i) {
        out[i * size + k] = in[plane + i];
      }
    } else {
      for (size_t i = 0; i < count; ++i) {
        out[plane + i] = in[i * size + k];
      }
    }
  }
  std::copy(in.begin() + static_cast<ptrdiff_t>(count * size), in.end(),
            out.begin() + static_cast<ptrdiff_t>(count * size));
  return out;
}

uint32_t folded(uint32_t sum) { return (sum & 0xffffU) + (sum >> 16U); }

/// Of big-endian words of 16 bits; an odd last byte is the upper half of one.
uint32_t fletcher32(std::span<const std::byte> data) {
  constexpr size_t kWordsBeforeOverflow = 360;
  uint32_t first = 0;
  uint32_t second = 0;
  size_t at = 0;
  for (size_t words = data.size() / 2; words > 0;) {
    const size_t here = std::min(words, kWordsBeforeOverflow);
    words -= here;
    for (size_t i = 0; i < here; ++i, at += 2) {
      first += std::to_integer<uint32_t>(data[at]) << 8U | std::to_integer<uint32_t>(data[at + 1]);
      second += first;
    }
    first = folded(first);
    second = folded(second);
  }
  if (at < data.size()) {
    first += std::to_integer<uint32_t>(data[at]) << 8U;
    second += first;
    first = folded(first);
    second = folded(second);
  }
  return folded(second) << 16U | folded(first);
}

std::array<std::byte, kChecksumBytes> checksum_of(std::span<const std::byte> data) {
  const uint32_t sum = fletcher32(data);
  std::array<std::byte, kChecksumBytes> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    out.at(i) = static_cast<std::byte>(sum >> (8 * i));
  }
  return out;
}

Result<Bytes> inflated(const Bytes& in, uint64_t bytes) {
  Bytes out(bytes);
  uLongf made = out.size();
  uLong taken = in.size();
  const int end =
      uncompress2(reinterpret_cast<Bytef*>(out.data()), &made, reinterpret_cast<const Bytef*>(in.data()), &taken);
  if (end != Z_OK || made != bytes || taken != in.size()) {
    return bad(fmt::format("does not inflate to its {} bytes", bytes));
  }
  return out;
}

Result<Bytes> deflated(const Bytes& in, uint32_t level) {
  // As large as HDF5 has it: where deflate stores, the size of its buffer decides on the bytes.
  constexpr uint64_t kThousandth = 1000;
  Bytes out(in.size() + (in.size() + kThousandth - 1) / kThousandth + 12);
  uLongf made = out.size();
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &made, reinterpret_cast<const Bytef*>(in.data()), in.size(),
                static_cast<int>(level)) != Z_OK) {
    return bad("cannot be deflated");
  }
  out.resize(made);
  return out;
}

bool is_applied(uint32_t skipped, size_t filter) { return (skipped >> filter & 1U) == 0; }

/// Bytes before filter number `filter` was applied.
uint64_t bytes_before(const ArrayRegion& region, uint32_t skipped, size_t filter, uint64_t bytes) {
  for (size_t i = 0; i < filter; ++i) {
    bytes += region.filters[i].kind == Kind::fletcher32 && is_applied(skipped, i) ? kChecksumBytes : 0;
  }
  return bytes;
}

}  // namespace

bool is_deflated(const ArrayRegion& region) {
  return std::any_of(region.filters.begin(), region.filters.end(),
                     [](const ChunkFilter& filter) { return filter.kind == Kind::deflate; });
}

std::string deflating_library() { return fmt::format("zlib {}", zlibVersion()); }

Result<Bytes> undo_filters(const ArrayRegion& region, uint32_t skipped, Bytes stored, uint64_t bytes) {
  for (size_t i = region.filters.size(); i-- > 0;) {
    const ChunkFilter& filter = region.filters[i];
    if (!is_applied(skipped, i)) {
      continue;
    }
    if (filter.kind == Kind::shuffle) {
      stored = shuffle(stored, filter.parameter, true);
    } else if (filter.kind == Kind::deflate) {
      VARVE_ASSIGN(stored, inflated(stored, bytes_before(region, skipped, i, bytes)));
    } else {
      if (stored.size() < kChecksumBytes) {
        return bad("is shorter than its checksum");
      }
      const auto data = std::span(stored).first(stored.size() - kChecksumBytes);
      const auto sum = checksum_of(data);
      const decltype(sum) swapped{sum[1], sum[0], sum[3], sum[2]};  // as HDF5 1.6.2 and earlier wrote it
      const auto found = stored.begin() + static_cast<ptrdiff_t>(data.size());
      if (!std::equal(sum.begin(), sum.end(), found) && !std::equal(swapped.begin(), swapped.end(), found)) {
        return bad("has another Fletcher32 checksum than its bytes");
      }
      stored.resize(data.size());
    }
  }
  if (stored.size() != bytes) {
    return bad(fmt::format("has {} bytes of elements, not {}", stored.size(), bytes));
  }
  return stored;
}

Result<Bytes> unfiltered_chunk(const ArrayRegion& region, const ChunkPlace& place, const ReadContent& read) {
  const StoredChunk& chunk = stored_chunk(region, place);
  Bytes stored(chunk.length);
  VARVE_TRY(read(place.offset, stored));
  return undo_filters(region, chunk.skipped, std::move(stored),
                      codec::element_count(region.chunk_shape) * codec::element_size(region.dtype));
}

Result<Bytes> redo_filters(const ArrayRegion& region, uint32_t skipped, Bytes elements) {
  for (size_t i = 0; i < region.filters.size(); ++i) {
    const ChunkFilter& filter = region.filters[i];
    if (!is_applied(skipped, i)) {
      continue;
    }
    if (filter.kind == Kind::shuffle) {
      elements = shuffle(elements, filter.parameter, false);
    } else if (filter.kind == Kind::deflate) {
      VARVE_ASSIGN(elements, deflated(elements, filter.parameter));
    } else {
      const auto sum = checksum_of(elements);
      elements.insert(elements.end(), sum.begin(), sum.end());
    }
  }
  return elements;
}

uint64_t sum_of_chunk(std::span<const std::byte> stored) { return XXH3_64bits(stored.data(), stored.size()); }

}  // namespace varve::fs
