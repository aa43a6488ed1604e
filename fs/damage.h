// What programs were given of a file in place of damaged elements: the extended attribute user.varve.damage.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "codec/box.h"

namespace varve::fs {

/// Stored under this name too, as it is shown.
inline constexpr std::string_view kDamageAttribute = "user.varve.damage";

/// A brick whose levels below `finest` were interpolated, as the record of the next finer one is damaged.
struct DegradedBrick {
  std::string array;
  uint64_t brick = 0;
  uint8_t finest = 0;
  codec::Box box;    ///< its elements
  std::string when;  ///< first: RFC 3339, UTC
};

/// Those of one file. Holds a limited number; how many more there were is not known then.
class DegradedBricks {
 public:
  /// False: it is known already, or there is no room for it.
  bool add(DegradedBrick brick);
  /// The finest level from which on nothing that was given of the array was interpolated: 0 where none of its bricks is
  /// here; the coarsest where some may be missing.
  uint8_t finest_of(std::string_view array) const;

  bool empty() const { return bricks.empty() && !more; }
  /// A JSON object on each line: array, brick, box ([first, past the last] of each axis), levels, when; at last, where
  /// there are more than fit into an extended attribute, {"more": true}.
  std::string text() const;
  /// What text() gave. Lines that make no sense are left out.
  static DegradedBricks parse(std::string_view text);

  std::vector<DegradedBrick> bricks;
  bool more = false;  ///< there were others
};

/// A node's, with a lock of its own, since it grows while the file is read.
struct DamageList {
  std::mutex mutex;
  bool loaded = false;  ///< from the index
  DegradedBricks list;
};

}  // namespace varve::fs
