#include "fs/box_copy.h"

#include <algorithm>
#include <cstring>

namespace varve::fs {

using codec::Box;
using codec::Extents;

void copy_box(const Box& part, const BoxView& from, const BoxView& to, size_t element) {
  const size_t rank = part.shape.size();
  if (rank == 0) {
    std::memcpy(to.data, from.data, element);
    return;
  }
  for (const uint64_t extent : part.shape) {
    if (extent == 0) {
      return;
    }
  }
  // Rows along the last axis, with strides (in elements) of the others in both arrays.
  std::vector<uint64_t> from_stride(rank, 1);
  std::vector<uint64_t> to_stride(rank, 1);
  for (size_t i = rank - 1; i-- > 0;) {
    from_stride[i] = from_stride[i + 1] * from.box->shape[i + 1];
    to_stride[i] = to_stride[i + 1] * to.box->shape[i + 1];
  }
  uint64_t from_at = 0;
  uint64_t to_at = 0;
  for (size_t i = 0; i < rank; ++i) {
    from_at += (part.origin[i] - from.box->origin[i]) * from_stride[i];
    to_at += (part.origin[i] - to.box->origin[i]) * to_stride[i];
  }
  const size_t row = part.shape[rank - 1] * element;
  Extents index(rank - 1, 0);
  while (true) {
    std::memcpy(to.data + to_at * element, from.data + from_at * element, row);
    size_t i = rank - 1;
    while (true) {
      if (i == 0) {
        return;
      }
      --i;
      from_at += from_stride[i];
      to_at += to_stride[i];
      if (++index[i] < part.shape[i]) {
        break;
      }
      from_at -= from_stride[i] * part.shape[i];
      to_at -= to_stride[i] * part.shape[i];
      index[i] = 0;
    }
  }
}

namespace {

template <size_t kElement>
void copy_row(uint64_t count, const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride) {
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kElement);
    from += from_stride;
    to += to_stride;
  }
}

void copy_row(uint64_t count, const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
              size_t element) {
  const auto together = static_cast<int64_t>(element);
  if (from_stride == together && to_stride == together) {
    std::memcpy(to, from, count * element);
    return;
  }
  switch (element) {
    case 1:
      return copy_row<1>(count, from, from_stride, to, to_stride);
    case 2:
      return copy_row<2>(count, from, from_stride, to, to_stride);
    case 4:
      return copy_row<4>(count, from, from_stride, to, to_stride);
    default:
      return copy_row<8>(count, from, from_stride, to, to_stride);
  }
}

}  // namespace

std::vector<int64_t> strides_of(const Extents& shape, size_t element) {
  std::vector<int64_t> strides(shape.size());
  auto stride = static_cast<int64_t>(element);
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= static_cast<int64_t>(shape[i]);
  }
  return strides;
}

void copy_strided(const Extents& counts, const StridedView& from, const StridedView& to, size_t element) {
  const size_t rank = counts.size();
  if (std::find(counts.begin(), counts.end(), 0U) != counts.end()) {
    return;
  }
  const std::byte* source = from.data;
  std::byte* target = to.data;
  Extents index(rank, 0);
  while (true) {
    if (rank == 0) {
      std::memcpy(target, source, element);
      return;
    }
    copy_row(counts[rank - 1], source, from.strides[rank - 1], target, to.strides[rank - 1], element);
    size_t i = rank - 1;
    while (true) {
      if (i == 0) {
        return;
      }
      --i;
      source += from.strides[i];
      target += to.strides[i];
      if (++index[i] < counts[i]) {
        break;
      }
      source -= from.strides[i] * static_cast<int64_t>(counts[i]);
      target -= to.strides[i] * static_cast<int64_t>(counts[i]);
      index[i] = 0;
    }
  }
}

namespace {

template <typename Word, typename Swap>
void swap_words(std::byte* data, uint64_t count, Swap swap) {
  for (uint64_t i = 0; i < count; ++i) {
    Word word = 0;
    std::memcpy(&word, data + i * sizeof word, sizeof word);
    word = swap(word);
    std::memcpy(data + i * sizeof word, &word, sizeof word);
  }
}

}  // namespace

void swap_bytes(std::byte* data, uint64_t count, size_t element) {
  switch (element) {
    case 2:
      swap_words<uint16_t>(data, count, [](uint16_t word) { return __builtin_bswap16(word); });
      break;
    case 4:
      swap_words<uint32_t>(data, count, [](uint32_t word) { return __builtin_bswap32(word); });
      break;
    case 8:
      swap_words<uint64_t>(data, count, [](uint64_t word) { return __builtin_bswap64(word); });
      break;
    default:
      break;
  }
}

}  // namespace varve::fs
