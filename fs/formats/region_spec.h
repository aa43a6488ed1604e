// What .varve/region/SPEC names: an array of a file and, like NumPy's indices, a part of it.
//
//   density[100:200,:,::2]     run:density[-1]     [..., 0]     density     density[129,::8,::8]@3
//
// The name ends at the first '['. In it ':' stands for '/', and %XX for the byte XX (%3A: a colon, %25: '%', %5B: '[').
// No name: the file's only array. No indices: all of it. An index by itself drops its axis; "..." stands for as many
// whole axes as are missing, as the end does. "@K" after the indices: elements as levels >= K give them (level/K/).
#pragma once

#include <optional>

#include "fs/formats/file_image.h"

namespace varve::fs {

struct RegionIndex {
  enum class Kind : uint8_t { slice, point, ellipsis };
  Kind kind = Kind::slice;
  std::optional<int64_t> start, stop;  ///< start: a point's index, too
  int64_t step = 1;                    ///< not 0
};

struct RegionSpec {
  std::string dataset;  ///< without a '/' at the start; "": the file's only array
  std::vector<RegionIndex> indices;
  uint8_t level = 0;  ///< levels below are interpolated

  /// EINVAL with a sentence that names the text and what would be accepted.
  static Result<RegionSpec> parse(std::string_view text);

  /// Which elements of each axis of an array of `shape`, by NumPy's rules, and whether the axis stays in the result.
  struct Part {
    std::vector<SliceAxis> axes;
    std::vector<bool> kept;
  };
  /// ENOENT: too many indices, or one that is out of range.
  Result<Part> apply(const codec::Extents& shape) const;
};

}  // namespace varve::fs
