// Inode numbers of the virtual files under .varve/: the view in the top bits, the real inode (or a number that the view
// itself gives) below.
#pragma once

#include <optional>

#include "index/schema.h"

namespace varve::fs {

using index::InodeNumber;

enum class View : uint64_t {
  none = 0,
  fixed = 1,    ///< .varve itself, the files in it, and the folders that hold a view for each level
  stat = 2,     ///< .varve/stat/...: a description, in JSON, of each real file
  control = 3,  ///< the folder of FileSystemOptions::control (0) and its files (from 1)
  exact = 4,    ///< .varve/exact/...: real files, if bit-exact
  level = 8,    ///< and the next kLevels - 1: .varve/level/K/...
  coarse = 16,  ///< and the next kCoarseViews - 1: .varve/coarse/K/...
  bound = 64,   ///< and the next kBoundViews - 1: .varve/bound/V/..., one for each V in use
  region = 256  ///< and the next kRegionViews - 1: .varve/region/SPEC/..., one for each SPEC in use
};
inline constexpr unsigned kViewShift = 48;
inline constexpr uint64_t kRealInodeMask = (uint64_t{1} << kViewShift) - 1;
inline constexpr uint8_t kLevels = 4;
inline constexpr uint8_t kCoarseViews = 10;
inline constexpr uint64_t kBoundViews = 256 - 64;
inline constexpr uint64_t kRegionViews = 65536 - 256;

constexpr View view_of(InodeNumber inode) { return static_cast<View>(inode >> kViewShift); }
constexpr InodeNumber real_inode(InodeNumber inode) { return inode & kRealInodeMask; }
constexpr InodeNumber view_inode(View view, InodeNumber below) {
  return (static_cast<uint64_t>(view) << kViewShift) | below;
}

constexpr View level_view(uint8_t level) { return static_cast<View>(static_cast<uint64_t>(View::level) + level); }

/// The K of a view .varve/level/K.
constexpr std::optional<uint8_t> level_of(View view) {
  const uint64_t number = static_cast<uint64_t>(view) - static_cast<uint64_t>(View::level);
  return number < kLevels ? std::optional(static_cast<uint8_t>(number)) : std::nullopt;
}

constexpr View coarse_view(uint8_t level) { return static_cast<View>(static_cast<uint64_t>(View::coarse) + level); }

/// The K of a view .varve/coarse/K.
constexpr std::optional<uint8_t> coarseness_of(View view) {
  const uint64_t number = static_cast<uint64_t>(view) - static_cast<uint64_t>(View::coarse);
  return number < kCoarseViews ? std::optional(static_cast<uint8_t>(number)) : std::nullopt;
}

constexpr bool is_bound(View view) { return view >= View::bound && view < View::region; }
constexpr bool is_region(View view) { return view >= View::region; }

/// Files are images (view_images.h): made of the real ones, and of another size.
constexpr bool has_images(View view) { return is_region(view) || coarseness_of(view).has_value(); }

/// A read-only copy of the real tree: its directories and symbolic links as they are, its files seen another way.
constexpr bool is_mirror(View view) {
  return view == View::exact || level_of(view).has_value() || is_bound(view) || has_images(view);
}

}  // namespace varve::fs
