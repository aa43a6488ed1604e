// The worker's answer as bytes. Variable-length numbers; strings and lists with their length in front. Both ends
// are the same program, so there is no version; the reader still believes nothing.
#include "fs/formats/serialise.h"

#include <fmt/format.h>

#include <algorithm>

#include "fs/formats/check.h"

namespace varve::fs {

namespace {

constexpr uint64_t kMagic = 0x3153'4552'5652'4156;  // "VARVRES1"

}  // namespace

void write_filters(SerialWriter& out, const std::vector<ChunkFilter>& filters) {
  out.number(filters.size());
  for (const ChunkFilter& filter : filters) {
    out.number(static_cast<uint64_t>(filter.kind));
    out.number(filter.parameter);
  }
}

std::vector<ChunkFilter> read_filters(SerialReader& in) {
  std::vector<ChunkFilter> filters(in.count(2));
  for (ChunkFilter& filter : filters) {
    filter.kind = static_cast<ChunkFilter::Kind>(std::min<uint64_t>(in.number(), 255));
    filter.parameter = static_cast<uint32_t>(std::min<uint64_t>(in.number(), UINT32_MAX));
  }
  return filters;
}

void write_array(SerialWriter& out, const ArrayRegion& array) {
  out.text(array.name);
  out.number(static_cast<uint64_t>(array.dtype));
  out.flag(array.big_endian);
  out.flag(array.fortran_order);
  out.numbers(array.shape);
  out.numbers(array.chunk_shape);
  out.number(array.chunks.size());
  for (const ChunkPlace& place : array.chunks) {
    out.number(place.chunk);
    out.number(place.offset);
  }
  write_filters(out, array.filters);
  for (const StoredChunk& chunk : array.stored) {
    out.number(chunk.length);
    out.number(chunk.skipped);
  }
  out.numbers(array.fill_values);
  out.text(array.keep_exact);
}

ArrayRegion read_array(SerialReader& in) {
  ArrayRegion array;
  array.name = in.text();
  uint64_t dtype = in.number();
  array.dtype = dtype <= 255 ? static_cast<codec::DType>(dtype) : codec::DType{};
  array.big_endian = in.flag();
  array.fortran_order = in.flag();
  array.shape = in.numbers();
  array.chunk_shape = in.numbers();
  array.chunks.resize(in.count(2));
  for (ChunkPlace& place : array.chunks) {
    place.chunk = in.number();
    place.offset = in.number();
  }
  array.filters = read_filters(in);
  array.stored.resize(array.filters.empty() ? 0 : array.chunks.size());
  for (StoredChunk& chunk : array.stored) {
    chunk.length = in.number();
    chunk.skipped = static_cast<uint32_t>(std::min<uint64_t>(in.number(), UINT32_MAX));
  }
  array.fill_values = in.numbers();
  array.keep_exact = in.text();
  return array;
}

std::vector<std::byte> serialise(const Recognised& recognised) {
  SerialWriter out;
  out.number(kMagic);
  out.text(recognised.format);
  out.number(recognised.arrays.size());
  for (const ArrayRegion& array : recognised.arrays) {
    write_array(out, array);
  }
  return out.take();
}

Result<Recognised> deserialise(std::span<const std::byte> bytes) {
  SerialReader in(bytes);
  if (in.number() != kMagic) {
    return Error{EBADMSG, "the recogniser's answer does not start as it must"};
  }
  Recognised result;
  result.format = in.text();
  uint64_t count = in.count(kSmallestArray);
  for (uint64_t i = 0; i < count && !in.failed(); ++i) {
    result.arrays.push_back(read_array(in));
    VARVE_TRY(check_array(result.arrays.back()));
  }
  if (in.failed() || !in.at_end()) {
    return Error{EBADMSG, fmt::format("the recogniser's answer of {} bytes is cut short or too long", bytes.size())};
  }
  return result;
}

}  // namespace varve::fs
