#include "fs/formats/check.h"

#include <fmt/format.h>

#include <algorithm>

namespace varve::fs {

namespace {

constexpr uint64_t kLargest = uint64_t{1} << 62;
constexpr uint32_t kMostDeflate = 9;
constexpr size_t kMostFilters = 32;  // bits of StoredChunk::skipped

std::string title(const ArrayRegion& array) { return array.name.empty() ? "the array" : "array " + array.name; }

Error bad(const ArrayRegion& array, std::string_view what) {
  return Error{EBADMSG, fmt::format("{} {}", title(array), what)};
}

std::optional<uint64_t> multiply(uint64_t a, uint64_t b) {
  if (b != 0 && a > kLargest / b) {
    return std::nullopt;
  }
  return a * b;
}

bool is_known(const ChunkFilter& filter) {
  switch (filter.kind) {
    case ChunkFilter::Kind::shuffle:
      return filter.parameter > 0;
    case ChunkFilter::Kind::fletcher32:
      return true;
    case ChunkFilter::Kind::deflate:
      return filter.parameter <= kMostDeflate;
  }
  return false;
}

/// At most one deflates: what it inflates to must be known.
bool are_known(const std::vector<ChunkFilter>& filters) {
  const auto deflating = std::count_if(filters.begin(), filters.end(),
                                       [](const ChunkFilter& f) { return f.kind == ChunkFilter::Kind::deflate; });
  return filters.size() <= kMostFilters && deflating <= 1 && std::all_of(filters.begin(), filters.end(), is_known);
}

struct Span {
  uint64_t begin, end;
  size_t array;
};

}  // namespace

std::optional<uint64_t> checked_product(const codec::Extents& extents) {
  // An empty axis makes the product 0 whatever the others are.
  if (std::find(extents.begin(), extents.end(), 0U) != extents.end()) {
    return 0;
  }
  uint64_t product = 1;
  for (uint64_t extent : extents) {
    auto next = multiply(product, extent);
    if (!next) {
      return std::nullopt;
    }
    product = *next;
  }
  return product;
}

std::optional<uint64_t> chunk_bytes(const ArrayRegion& array) {
  auto elements = checked_product(array.chunk_shape);
  return elements ? multiply(*elements, codec::element_size(array.dtype)) : std::nullopt;
}

uint64_t stored_bytes(const ArrayRegion& array, const ChunkPlace& place) {
  return array.filters.empty() ? *chunk_bytes(array) : stored_chunk(array, place).length;
}

std::optional<uint64_t> chunk_grid_size(const ArrayRegion& array) {
  codec::Extents grid(array.shape.size());
  for (size_t axis = 0; axis < grid.size(); ++axis) {
    grid[axis] = (array.shape[axis] - 1) / array.chunk_shape[axis] + 1;
  }
  return checked_product(grid);
}

Status check_array(const ArrayRegion& array) {
  if (codec::element_size(array.dtype) == 0) {
    return bad(array, "has an unknown element type");
  }
  if (array.shape.size() > codec::kMaxRank || array.chunk_shape.size() != array.shape.size()) {
    return bad(array, "has too many axes, or chunks of another rank");
  }
  auto elements = checked_product(array.shape);
  auto bytes = chunk_bytes(array);
  if (!elements || !bytes || !multiply(*elements, codec::element_size(array.dtype))) {
    return bad(array, "is larger than any file can be");
  }
  if (*elements == 0 || *bytes == 0) {
    return bad(array, "or its chunk has an axis of length 0");
  }
  auto grid = chunk_grid_size(array);
  if (!grid) {
    return bad(array, "has more chunks than can be counted");
  }
  if (!are_known(array.filters) || array.stored.size() != (array.filters.empty() ? 0 : array.chunks.size())) {
    return bad(array, "has unknown filters, or does not say of each chunk how it is stored");
  }
  for (size_t i = 0; i < array.chunks.size(); ++i) {
    if (array.chunks[i].chunk >= *grid) {
      return bad(array, fmt::format("has chunk number {} in a grid of {}", array.chunks[i].chunk, *grid));
    }
    if (i > 0 && array.chunks[i].chunk <= array.chunks[i - 1].chunk) {
      return bad(array, "lists its chunks out of order or twice");
    }
  }
  return {};
}

Status check_arrays(const Recognised& recognised, uint64_t file_size) {
  std::vector<Span> spans;
  for (size_t i = 0; i < recognised.arrays.size(); ++i) {
    const ArrayRegion& array = recognised.arrays[i];
    VARVE_TRY(check_array(array));
    for (const ChunkPlace& place : array.chunks) {
      const uint64_t length = stored_bytes(array, place);
      if (length > file_size || place.offset > file_size - length) {
        return bad(array, fmt::format("would have {} bytes at offset {}, past the end of the file ({} bytes)", length,
                                      place.offset, file_size));
      }
      spans.push_back({place.offset, place.offset + length, i});
    }
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].begin < spans[i - 1].end) {
      return bad(recognised.arrays[spans[i].array], fmt::format("shares the bytes at offset {} with {}", spans[i].begin,
                                                                title(recognised.arrays[spans[i - 1].array])));
    }
  }
  return {};
}

}  // namespace varve::fs
