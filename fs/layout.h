// What a sealed file consists of: arrays with their codecs, opaque bytes, holes, and exact patches over them.
//
// The bytes that belong to no array element (headers, padding of edge chunks, everything of an unrecognised file), in
// file order, are the *bytes stream*: region 0, cut into records of kStreamChunk bytes. A file range is mapped by its
// extents, which cover the file without gaps; patches, in file order, form the *patch stream* and win over extents.
//
// The chunks of an array may be filtered (chunk_filters.h): then an extent is a chunk as the file has it, its elements
// and padding are those before the filters, and no patch lies over it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec.h"
#include "fs/chunk_grid.h"
#include "fs/intervals.h"

namespace varve::fs {

/// The level, in the index, of a second copy of a tile's coarse record: without it nothing of the tile can be read. It
/// is written behind the tile's other records, where it is not small (such lie in the tree) and takes little.
inline constexpr uint8_t kCoarseCopyLevel = codec::kCoarseLevel + 1;

inline constexpr uint64_t kStreamChunk = 128 << 10;

struct ArrayEntry {
  ArrayRegion region;
  codec::Bound bound;  ///< as the policy chose it
  std::string why;     ///< why the policy chose it, for people
  std::string codec;   ///< ArrayCodec::header()
  /// Of its level views, against what was written; nothing: the layout is older than they are.
  std::optional<codec::LevelErrors> errors;
  double least = 0, greatest = 0;  ///< beside `errors`: of the elements when the array was last planned; see CodecInfo
};

struct Extent {
  enum class Kind : uint8_t { stream, array, hole };
  uint64_t offset = 0, length = 0;  ///< in the file, bytes
  Kind kind = Kind::stream;
  uint32_t array = 0;   ///< array extents: index into Layout::arrays
  uint64_t chunk = 0;   ///< array extents: which chunk of the array
  uint64_t stream = 0;  ///< position in the bytes stream; of an array extent: of its chunk's padding
  bool operator==(const Extent&) const = default;
};

struct Patch {
  uint64_t offset = 0, length = 0;  ///< in the file
  uint64_t stream = 0;              ///< position in the patch stream
};

struct Layout {
  uint64_t size = 0;
  std::string format;    ///< "bytes", "npy", "hdf5", ...
  std::string note;      ///< what a person should know: why a recogniser gave up, ...
  std::string deflater;  ///< where arrays are deflated in the file: the library that gave its bytes again
  std::vector<ArrayEntry> arrays;
  IntervalSet holes;    ///< wholly unwritten ranges outside arrays
  IntervalSet patched;  ///< ranges that the patch stream holds

  // Derived by build_extents():
  std::vector<Extent> extents;
  std::vector<Patch> patches;
  uint64_t stream_size = 0;
  uint64_t patch_size = 0;

  /// Fills the derived members and leaves no hole inside an array. EINVAL when arrays overlap or leave the file.
  Status build_extents();
  /// The extent that holds `offset` (< size).
  const Extent& extent_at(uint64_t offset) const;

  std::string serialise() const;
  static Result<Layout> parse(std::string_view text);
};

}  // namespace varve::fs
