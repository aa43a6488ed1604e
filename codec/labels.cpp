#include "codec/labels.h"

#include <algorithm>
#include <cstring>

namespace varve::codec {

namespace {

/// The nearest multiple of `step` below `extent`; of two as near, the lower.
uint64_t nearest_sample(uint64_t i, uint64_t step, uint64_t extent) {
  const uint64_t above = (i + step / 2 - (step > 1 ? 1 : 0)) / step * step;
  return above < extent ? above : i / step * step;
}

}  // namespace

void repeat_samples(const Extents& shape, const Extents& steps, size_t size, std::byte* data) {
  const size_t rank = shape.size();
  if (rank == 0 || std::all_of(steps.begin(), steps.end(), [](uint64_t step) { return step == 1; })) {
    return;
  }
  const uint64_t row = shape[rank - 1];
  const uint64_t rows = element_count(shape) / row;
  Extents index(rank - 1, 0);
  // Rows of samples first, from which the others are then copied.
  for (const bool samples : {true, false}) {
    std::fill(index.begin(), index.end(), 0);
    for (uint64_t i = 0; i < rows; ++i) {
      uint64_t source = 0;
      for (size_t axis = 0; axis + 1 < rank; ++axis) {
        source = source * shape[axis] + nearest_sample(index[axis], steps[axis], shape[axis]);
      }
      std::byte* to = data + i * row * size;
      if (samples && source == i) {
        for (uint64_t x = 0; x < row; ++x) {
          std::memmove(to + x * size, to + nearest_sample(x, steps[rank - 1], row) * size, size);
        }
      } else if (!samples && source != i) {
        std::memcpy(to, data + source * row * size, row * size);
      }
      for (size_t axis = rank - 1; axis-- > 0;) {
        if (++index[axis] < shape[axis]) {
          break;
        }
        index[axis] = 0;
      }
    }
  }
}

}  // namespace varve::codec
