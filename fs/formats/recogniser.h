// Recognisers: the bytes of a file -> the arrays inside it. They parse untrusted input and run in a worker process
// (formats/worker.h); they must not crash, but if one does, only the worker dies.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/types.h"

namespace varve::fs {

/// A file to look at. Not thread-safe.
class FileView {
 public:
  virtual ~FileView() = default;
  virtual uint64_t size() const = 0;
  /// Fills `out` from `offset`, fewer bytes only at the end of the file; the result is the number read.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> out) = 0;
};

/// A chunk of an array's chunk grid, where its elements lie in the file.
struct ChunkPlace {
  uint64_t chunk = 0;   ///< number in the chunk grid, C order over the grid
  uint64_t offset = 0;  ///< file offset of its first byte
  bool operator==(const ChunkPlace&) const = default;
};

/// What a program did to the bytes of each chunk before it wrote them, as HDF5's filters do.
struct ChunkFilter {
  enum class Kind : uint8_t {
    shuffle,     ///< first bytes of all elements, then the second ones, ...; `parameter`: bytes of an element
    fletcher32,  ///< a checksum of 4 bytes is appended
    deflate,     ///< zlib; `parameter`: the level
  };
  Kind kind = Kind::shuffle;
  uint32_t parameter = 0;
  bool operator==(const ChunkFilter&) const = default;
};

/// How a filtered chunk lies in the file.
struct StoredChunk {
  uint64_t length = 0;   ///< bytes
  uint32_t skipped = 0;  ///< bit i: filter i was not applied to it
  uint64_t sum = 0;      ///< XXH3 of the bytes; deflated ones of sealed arrays alone (see chunk_filters.h)
  bool operator==(const StoredChunk&) const = default;
};

/// An array inside a file: element type, shape, and where its elements are. The grid of chunks covers the shape; each
/// chunk lies contiguously in the file with chunk_shape elements in C order, also at the upper edges, where the
/// elements outside the shape are padding (kept bit for bit, as bytes). A contiguous array is one chunk of its own
/// shape. Where there are filters, a chunk's bytes in the file are what they make of these elements.
struct ArrayRegion {
  std::string name;  ///< "/group/dataset"; "" for a file that is one array
  codec::DType dtype = codec::DType::u8;
  bool big_endian = false;
  bool fortran_order = false;  ///< for people: `shape` is already reversed, so that the last axis is contiguous
  codec::Extents shape;
  codec::Extents chunk_shape;
  std::vector<ChunkPlace> chunks;     ///< by `chunk`, ascending; absent chunks are not stored in the file
  std::vector<ChunkFilter> filters;   ///< in the order in which they were applied; deflate once
  std::vector<StoredChunk> stored;    ///< beside `chunks`; empty where there are no filters
  std::vector<uint64_t> fill_values;  ///< bit patterns, host byte order, zero-extended
  /// Why an inherited bound must not touch it ("coordinate", "packed", "checksummed", "bounds variable", ...); empty:
  /// it may. A rule that names the dataset overrides all but "checksummed" and "deflated".
  std::string keep_exact;
  bool operator==(const ArrayRegion&) const = default;
};

struct Recognised {
  std::string format;  ///< "npy", "hdf5", ...: recognise() takes it from the table (formats.h)
  std::vector<ArrayRegion> arrays;
};

/// How to read a raw file of numbers, from a policy rule or from metadata beside the file; see ArrayRegion.
struct RawHint {
  codec::DType dtype = codec::DType::f32;
  bool big_endian = false;
  codec::Extents shape;  ///< C order
  bool fortran_order = false;
  std::vector<uint64_t> fill_values = {};
  std::string keep_exact = {};
  bool operator==(const RawHint&) const = default;
};

/// Runs the recognisers in turn. `name`: the file's last path component (raw dimensions can be in it). Nothing: no
/// format claims it. Arrays in the result are checked: inside the file, not overlapping, rank <= 32, shapes consistent.
/// An error means that a recogniser claimed the file but could not make sense of it; the text says why.
Result<std::optional<Recognised>> recognise(std::string_view name, FileView& file, const std::optional<RawHint>& hint);

/// Cheap and safe in the daemon itself: could recognise() find anything? Looks at the name and a few magic bytes.
bool worth_recognising(std::string_view name, FileView& file, const std::optional<RawHint>& hint);

/// The result of recognise() as bytes and back, for the worker's pipe. deserialise trusts nothing: EBADMSG.
std::vector<std::byte> serialise(const Recognised& recognised);
Result<Recognised> deserialise(std::span<const std::byte> bytes);

}  // namespace varve::fs
