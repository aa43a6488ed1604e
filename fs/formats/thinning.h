// Which points coarse images keep.
#pragma once

#include <algorithm>

#include "fs/formats/file_image.h"

namespace varve::fs {

/// Axes of fewer points stay whole: components, species, a few time steps.
inline constexpr uint64_t kShortestThinned = 16;

/// Every 2^shift-th point of an axis of `extent`, or all of them where it is short or no second one would be left.
inline SliceAxis thinned(uint64_t extent, unsigned shift) {
  const uint64_t step = uint64_t{1} << shift;
  if (extent < kShortestThinned || extent <= step) {
    return {0, 1, extent};
  }
  return {0, static_cast<int64_t>(step), (extent - 1) / step + 1};
}

}  // namespace varve::fs
