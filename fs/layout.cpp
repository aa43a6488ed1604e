#include "fs/layout.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>

#include "fs/formats/check.h"
#include "fs/formats/serialise.h"
#include "fs/serial.h"

namespace varve::fs {

using codec::Box;
using codec::element_count;
using codec::element_size;
using codec::Extents;

namespace {

constexpr uint64_t kLayoutVersion = 3;  // 1: without errors of level views; 2: without filters
constexpr size_t kCompressFrom = 512;
constexpr uint64_t kMaxLayoutBytes = uint64_t{4} << 30;

void write_intervals(SerialWriter& out, const IntervalSet& set) {
  out.number(set.count());
  uint64_t last = 0;
  for (const auto& [begin, end] : set.intervals()) {
    out.number(begin - last);
    out.number(end - begin);
    last = end;
  }
}

IntervalSet read_intervals(SerialReader& in) {
  IntervalSet set;
  uint64_t last = 0;
  for (uint64_t left = in.count(); left > 0 && !in.failed(); --left) {
    const uint64_t begin = last + in.number();
    last = begin + in.number();
    set.add(begin, last);
  }
  return set;
}

void write_filtering(SerialWriter& out, const ArrayRegion& region) {
  write_filters(out, region.filters);
  for (const StoredChunk& chunk : region.stored) {
    out.number(chunk.length);
    out.number(chunk.skipped);
    out.number(chunk.sum);
  }
}

void read_filtering(SerialReader& in, ArrayRegion& region) {
  region.filters = read_filters(in);
  region.stored.resize(region.filters.empty() ? 0 : region.chunks.size());
  for (StoredChunk& chunk : region.stored) {
    chunk.length = in.number();
    chunk.skipped = static_cast<uint32_t>(in.number());
    chunk.sum = in.number();
  }
}

void write_array(SerialWriter& out, const ArrayEntry& entry) {
  const ArrayRegion& region = entry.region;
  out.text(region.name);
  out.number(static_cast<uint64_t>(region.dtype));
  out.number((region.big_endian ? 1U : 0U) | (region.fortran_order ? 2U : 0U));
  out.numbers(region.shape);
  out.numbers(region.chunk_shape);
  out.number(region.chunks.size());
  ChunkPlace last;
  for (const ChunkPlace& place : region.chunks) {
    out.number(place.chunk - last.chunk);
    out.number(place.offset - last.offset);  // wraps: offsets need not ascend
    last = place;
  }
  out.numbers(region.fill_values);
  out.text(region.keep_exact);
  out.number(static_cast<uint64_t>(entry.bound.mode));
  out.real(entry.bound.value);
  if (entry.bound.mode == codec::BoundMode::absolute_and_relative) {
    out.real(entry.bound.second);
  }
  out.text(entry.why);
  out.text(entry.codec);
  out.flag(entry.errors.has_value());
  if (entry.errors) {
    for (const double error : entry.errors->most) {
      out.real(error);
    }
    out.real(entry.least);
    out.real(entry.greatest);
  }
  write_filtering(out, region);
}

ArrayEntry read_array(SerialReader& in, uint64_t version) {
  ArrayEntry entry;
  ArrayRegion& region = entry.region;
  region.name = in.text();
  region.dtype = static_cast<codec::DType>(in.number());
  const uint64_t flags = in.number();
  region.big_endian = (flags & 1U) != 0;
  region.fortran_order = (flags & 2U) != 0;
  region.shape = in.numbers();
  region.chunk_shape = in.numbers();
  region.chunks.resize(in.count());
  ChunkPlace last;
  for (ChunkPlace& place : region.chunks) {
    place.chunk = last.chunk + in.number();
    place.offset = last.offset + in.number();
    last = place;
  }
  region.fill_values = in.numbers();
  region.keep_exact = in.text();
  entry.bound.mode = static_cast<codec::BoundMode>(in.number());
  entry.bound.value = in.real();
  if (entry.bound.mode == codec::BoundMode::absolute_and_relative) {
    entry.bound.second = in.real();
  }
  entry.why = in.text();
  entry.codec = in.text();
  if (version > 1 && in.flag()) {
    for (double& error : entry.errors.emplace().most) {
      error = in.real();
    }
    entry.least = in.real();
    entry.greatest = in.real();
  }
  if (version > 2) {
    read_filtering(in, region);
  }
  return entry;
}

Result<std::string> decompress(std::string_view text) {
  const auto size = ZSTD_getFrameContentSize(text.data(), text.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > kMaxLayoutBytes) {
    return Error{EIO, "a file's layout in the index is not a Zstandard frame of a sane size"};
  }
  std::string out(size, '\0');
  const size_t got = ZSTD_decompress(out.data(), out.size(), text.data(), text.size());
  if (ZSTD_isError(got) != 0 || got != size) {
    return Error{EIO, "a file's layout in the index does not decompress"};
  }
  return out;
}

}  // namespace

Status Layout::build_extents() {
  extents.clear();
  patches.clear();
  std::vector<Extent> pieces;
  for (size_t i = 0; i < arrays.size(); ++i) {
    for (const ChunkPlace& place : arrays[i].region.chunks) {
      const ChunkGeometry geometry(arrays[i].region, place.chunk);
      const uint64_t length =
          arrays[i].region.filters.empty() ? geometry.bytes() : stored_chunk(arrays[i].region, place).length;
      if (length > 0) {
        pieces.push_back({.offset = place.offset,
                          .length = length,
                          .kind = Extent::Kind::array,
                          .array = static_cast<uint32_t>(i),
                          .chunk = place.chunk,
                          .stream = geometry.padding_bytes()});
      }
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });

  uint64_t at = 0;
  uint64_t stream = 0;
  const auto fill_gap = [&](uint64_t until) {
    holes.split(at, until, [&](uint64_t begin, uint64_t end, bool hole) {
      extents.push_back({.offset = begin,
                         .length = end - begin,
                         .kind = hole ? Extent::Kind::hole : Extent::Kind::stream,
                         .stream = stream});
      stream += hole ? 0 : end - begin;
      return true;
    });
  };
  extents.reserve(pieces.size() * 2 + 1);
  for (Extent& piece : pieces) {
    if (piece.offset < at || piece.offset > size || piece.length > size - piece.offset) {
      return Error{EINVAL, fmt::format("array {} overlaps another or leaves the file at offset {}",
                                       arrays[piece.array].region.name, piece.offset)};
    }
    fill_gap(piece.offset);
    const uint64_t padding = piece.stream;
    piece.stream = stream;
    stream += padding;
    at = piece.offset + piece.length;
    holes.remove(piece.offset, at);  // zeros that were never written, but elements now, which a bound may move
    extents.push_back(piece);
  }
  fill_gap(size);
  stream_size = stream;

  patch_size = 0;
  for (const auto& [begin, end] : patched.intervals()) {
    patches.push_back({.offset = begin, .length = end - begin, .stream = patch_size});
    patch_size += end - begin;
  }
  return {};
}

const Extent& Layout::extent_at(uint64_t offset) const {
  const auto after = std::upper_bound(extents.begin(), extents.end(), offset,
                                      [](uint64_t value, const Extent& extent) { return value < extent.offset; });
  return *std::prev(after);
}

std::string Layout::serialise() const {
  SerialWriter out;
  out.number(size);
  out.text(format);
  out.text(note);
  out.text(deflater);
  write_intervals(out, holes);
  write_intervals(out, patched);
  out.number(arrays.size());
  for (const ArrayEntry& entry : arrays) {
    write_array(out, entry);
  }
  std::string body = out.take_text();
  std::string result(2, '\0');
  result[0] = static_cast<char>(kLayoutVersion);
  if (body.size() >= kCompressFrom) {
    std::string packed(ZSTD_compressBound(body.size()), '\0');
    const size_t length = ZSTD_compress(packed.data(), packed.size(), body.data(), body.size(), 3);
    if (ZSTD_isError(length) == 0 && length < body.size()) {
      packed.resize(length);
      result[1] = 1;
      return result + packed;
    }
  }
  return result + body;
}

Result<Layout> Layout::parse(std::string_view text) {
  const uint64_t version = text.size() < 2 ? 0 : static_cast<uint8_t>(text[0]);
  if (version == 0 || version > kLayoutVersion) {
    return Error{EPROTO, "a file's layout in the index has a version that this program does not know"};
  }
  std::string unpacked;
  std::string_view body = text.substr(2);
  if (text[1] != 0) {
    VARVE_ASSIGN(unpacked, decompress(body));
    body = unpacked;
  }
  SerialReader in(body);
  Layout layout;
  layout.size = in.number();
  layout.format = in.text();
  layout.note = in.text();
  layout.deflater = version > 2 ? in.text() : "";
  layout.holes = read_intervals(in);
  layout.patched = read_intervals(in);
  layout.arrays.resize(in.count());
  for (ArrayEntry& entry : layout.arrays) {
    entry = read_array(in, version);
    const ArrayRegion& region = entry.region;
    if (in.failed() || element_size(region.dtype) == 0 || region.shape.size() > codec::kMaxRank ||
        region.shape.size() != region.chunk_shape.size()) {
      return Error{EIO, "a file's layout in the index is malformed"};
    }
  }
  if (in.failed() || !in.at_end()) {
    return Error{EIO, "a file's layout in the index is malformed"};
  }
  VARVE_TRY(layout.build_extents());
  return layout;
}

}  // namespace varve::fs
