// Arrays <-> records. Pure: no I/O, no global state; the same input gives the same bytes on every machine.
//
// An array is cut into tiles, a tile into bricks (see FORMAT.md). `ArrayCodec` is what all tiles of one array share:
// geometry, bound, predictor choice, entropy tables. It is made once for an array by plan(), is stored as header()
// beside the array's records, and is made again from there by parse().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "codec/types.h"

namespace varve::codec {

namespace cuda {
class SharedDevice;
}

/// Runs work(0) ... work(count - 1), on any threads, and returns when all are done.
using Parallel = std::function<void(size_t count, const std::function<void(size_t)>& work)>;

/// What the caller knows of an array before it is encoded.
struct ArraySpec {
  DType dtype = DType::u8;
  Extents shape;  ///< C order, slowest first; give a Fortran-order array with its shape reversed
  Bound bound;
  /// Bit patterns (host byte order, zero-extended) of declared missing values: they come back bit for bit and do not
  /// count in the range of a relative bound.
  std::vector<uint64_t> fill_values;
  /// All elements, C order, host byte order, where they are in memory: saves reading them. May be empty.
  std::span<const std::byte> elements = {};
  /// Whether encode_array() is to measure, too: see EncodedArray::errors.
  bool measure = false;
  /// For what takes long of planning: `read` is then called from its threads. Empty: one after the other.
  Parallel parallel = {};
};

/// Copies the elements of `box` into `out`: C order, host byte order, element_count(box.shape) elements.
using ReadBox = std::function<Status(const Box& box, std::byte* out)>;

struct Record {
  RecordId id;
  Bytes data;
};

/// The decoded coarse grid of one tile (levels 3 and up), which all bricks of the tile need. Opaque; cacheable.
struct CoarseGrid {
  Bytes data;
};

/// Facts for `varve stat`.
struct CodecInfo {
  Bound bound;                ///< as asked for
  double absolute_bound = 0;  ///< what each element keeps (pwrel and bits: the largest); 0: lossless
  bool bound_exceeds_range = false;
  double min = 0, max = 0;  ///< over finite, non-fill elements; meaningful if absolute_bound was derived or is > 0
  std::string method;       ///< e.g. "interp zyx cubic", for people
  std::string mapping;      ///< what is quantized: "values", "orders" (relative steps), "rounded" values; else empty
  std::string why;  ///< after plan() alone: why the bound is not applied or not as asked for, as a sentence's end
};

/// For each level: no element that is a number and not missing, both as it was written and as decode_brick() gives it
/// with this level as `finest`, differs by more. 0 for the level: as decoded. Never less than for a finer one. As a
/// rule a bound, not the greatest difference itself; infinite where none is known.
struct LevelErrors {
  std::array<double, kCoarseLevel + 1> most{};
  /// Over more elements.
  void merge(const LevelErrors& other);
  bool operator==(const LevelErrors&) const = default;
};

/// Asks for the errors of a tile.
struct Measurement {
  std::vector<uint64_t> missing;  ///< as ArraySpec::fill_values
  LevelErrors errors;             ///< is set
};

struct EncodedArray;

/// Immutable; every const member may be called from any number of threads at once.
class ArrayCodec {
 public:
  /// Reads the array once or twice through `read` (in pieces of bounded size) to find its range, the axes worth
  /// predicting along, and the entropy tables. Errors: EINVAL (rank over 32, element count over 2^62, bad dtype), or
  /// what `read` returned.
  static Result<ArrayCodec> plan(const ArraySpec& spec, const ReadBox& read);

  /// plan() and encode_tile() of every tile at once, in less time than one after the other; for arrays of at most
  /// kEncodeWhole elements. Errors: as plan(), and EINVAL for a larger array.
  static constexpr uint64_t kEncodeWhole = uint64_t{1} << 22;
  static Result<EncodedArray> encode_array(const ArraySpec& spec, const ReadBox& read);

  /// Restores a codec from header(). Never trusts its input: EBADMSG with a sentence if it is not well-formed.
  static Result<ArrayCodec> parse(std::span<const std::byte> header);

  /// The same codec (bound, tables, choices) for an array that grew or shrank along its slowest axis, or nothing when
  /// its records for unchanged whole tiles would not stay valid. Tile and brick numbers of unchanged tiles stay.
  std::optional<ArrayCodec> resized(const Extents& shape) const;

  Bytes header() const;
  DType dtype() const;
  const Extents& shape() const;
  CodecInfo info() const;

  uint64_t tile_count() const;
  Box tile_box(uint64_t tile) const;
  uint64_t brick_count() const;
  Box brick_box(uint64_t brick) const;
  uint64_t tile_of(uint64_t brick) const;
  std::vector<uint64_t> bricks_of(uint64_t tile) const;
  /// Numbers of the bricks that hold elements of `box`, ascending.
  std::vector<uint64_t> bricks_in(const Box& box) const;

  /// For each axis: of how many indices in a row the points of levels >= `level` have one, counted from a brick's start
  /// (which has one). 1 along axes that no prediction crosses, and everywhere in arrays too small for levels.
  Extents level_steps(uint8_t level) const;
  /// How many points of levels >= `level` a brick has along each axis: every level_steps(level)-th from its start.
  Extents level_shape(uint64_t brick, uint8_t level) const;

  /// Encodes one tile. `data`: the elements of tile_box(tile), C order, host byte order. The result holds a coarse
  /// record and three records for each brick, in key order (coarse first, then level 2, 1, 0; brick ascending); a
  /// record may be empty of points and is then left out. `exact` stores this tile losslessly whatever the bound is.
  /// What the records decode to keeps the bound for every element: checked here. With `measure`, what coarse views of
  /// the tile differ by is found as well. With `device`, that encodes the tile if it can, to the same result.
  Result<std::vector<Record>> encode_tile(uint64_t tile, const std::byte* data, bool exact = false,
                                          Measurement* measure = nullptr, cuda::SharedDevice* device = nullptr) const;

  /// Decodes a tile's coarse record (empty when encode_tile made none). Never trusts its input: EBADMSG.
  Result<CoarseGrid> decode_coarse(uint64_t tile, std::span<const std::byte> record) const;

  /// Decodes one brick into `out` (elements of brick_box(brick), C order, host byte order). levels[k] is the record of
  /// level k, or nothing when encode_tile made none. Points of levels below `finest` are interpolated (`finest` = 0:
  /// the stored values; those levels' records are not looked at). Never trusts its input: EBADMSG.
  Status decode_brick(uint64_t brick, const CoarseGrid& coarse,
                      const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t finest,
                      std::byte* out) const;
  /// The same to where the brick lies in a larger array: `out` has the elements of `box`, of which the brick's box must
  /// be a part (else EINVAL); others are left as they are.
  Status decode_brick_into(uint64_t brick, const CoarseGrid& coarse,
                           const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t finest,
                           const Box& box, std::byte* out) const;

  /// Decodes the points of levels >= `level` of a brick alone, which are as decode_brick gives them. `out`:
  /// elements of level_shape(brick, level), C order, host byte order. Records of levels below are not looked at. Never
  /// trusts its input: EBADMSG.
  Status decode_points(uint64_t brick, const CoarseGrid& coarse,
                       const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t level,
                       std::byte* out) const;

  /// The finest level whose records decode_brick(..., finest) and decode_points(..., finest) look at: 0 where points are
  /// differences from those before them, which makes views as exact as the array.
  uint8_t finest_read(uint8_t finest) const;
  /// The ids of the records that decode_brick(brick, ..., finest) and its coarse grid can need, coarse first. Some may
  /// not exist.
  std::vector<RecordId> records_of(uint64_t brick, uint8_t finest = 0) const;

 private:
  struct State;
  explicit ArrayCodec(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  Status measure_tile(uint64_t tile, const std::byte* data, const std::vector<Record>& records,
                      Measurement& measure) const;
  std::shared_ptr<const State> state_;
};

struct EncodedArray {
  ArrayCodec codec;
  std::vector<std::vector<Record>> tiles;  ///< as encode_tile() gives them
  std::vector<LevelErrors> errors;         ///< of each tile, if the spec asked for them
};

/// Opaque bytes: Zstandard, or stored as they are when that is no larger. Worst case: input + 16 bytes.
Bytes encode_bytes(std::span<const std::byte> data);
/// `size`: what the caller knows the decoded size to be. EBADMSG when the record says otherwise.
Status decode_bytes(std::span<const std::byte> record, std::span<std::byte> out);

}  // namespace varve::codec
