#include "fs/bytes_stream.h"

#include <algorithm>

#include "fs/box_copy.h"
#include "fs/chunk_grid.h"

namespace varve::fs {

using codec::Box;
using codec::element_size;

namespace {

/// Copies what falls into [begin, begin + out.size()) of the bytes stream of the padding of one chunk of an array.
Status read_padding_bytes(const ArrayRegion& region, const Extent& extent, const ReadContent& read, uint64_t begin,
                          std::span<std::byte> out) {
  const ChunkGeometry geometry(region, extent.chunk);
  const uint64_t end = begin + out.size();
  if (geometry.padding_bytes() == 0 || extent.stream + geometry.padding_bytes() <= begin) {
    return {};
  }
  // Padding is what lies between the runs of valid elements.
  const size_t element = element_size(region.dtype);
  uint64_t at = 0;  // in the chunk
  uint64_t stream = extent.stream;
  Status status;
  const auto padding_until = [&](uint64_t stop) {
    const uint64_t from = std::max(begin, stream);
    const uint64_t to = std::min(end, stream + (stop - at));
    if (from < to && status.ok()) {
      status = read(extent.offset + at + (from - stream), out.subspan(from - begin, to - from));
    }
    stream += stop - at;
  };
  const Box valid{geometry.origin(), geometry.valid()};
  for_each_run(valid, geometry.origin(), geometry.shape(), [&](uint64_t offset, uint64_t elements) {
    padding_until(offset * element);
    at = (offset + elements) * element;
  });
  padding_until(geometry.bytes());
  return status;
}

}  // namespace

Status read_stream_chunk(const Layout& layout, const std::vector<std::unique_ptr<UnfilteredArray>>& unfiltered,
                         uint64_t chunk, const ReadContent& read, std::span<std::byte> out) {
  const uint64_t begin = chunk * kStreamChunk;
  const uint64_t end = begin + out.size();
  auto extent = std::lower_bound(layout.extents.begin(), layout.extents.end(), begin,
                                 [](const Extent& e, uint64_t value) { return e.stream < value; });
  // The extent before the first that starts at or after `begin` may reach into the chunk.
  if (extent != layout.extents.begin()) {
    --extent;
  }
  for (; extent != layout.extents.end() && extent->stream < end; ++extent) {
    if (extent->kind == Extent::Kind::hole) {
      continue;
    }
    if (extent->kind == Extent::Kind::stream) {
      const uint64_t from = std::max(begin, extent->stream);
      const uint64_t to = std::min(end, extent->stream + extent->length);
      if (from < to) {
        VARVE_TRY(read(extent->offset + (from - extent->stream), out.subspan(from - begin, to - from)));
      }
      continue;
    }
    UnfilteredArray* const plain = unfiltered[extent->array].get();
    if (plain == nullptr) {
      VARVE_TRY(read_padding_bytes(layout.arrays[extent->array].region, *extent, read, begin, out));
      continue;
    }
    Extent chunk = *extent;
    chunk.offset = find_chunk(plain->region(), extent->chunk)->offset;
    const auto elements = [&](uint64_t offset, std::span<std::byte> to) { return plain->read(offset, to); };
    VARVE_TRY(read_padding_bytes(plain->region(), chunk, elements, begin, out));
  }
  return {};
}

}  // namespace varve::fs
