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
