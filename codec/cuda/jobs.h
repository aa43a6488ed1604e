// What kernels are told: plain structs, made by the host, copied to the device or passed by value. Counts and places
// within a tile fit 32 bits (a tile has at most 2^24 points); places in arrays and lists have 64.
#pragma once

#include "codec/cuda/target.h"
#include "codec/element.h"
#include "codec/kernels.h"
#include "codec/record.h"
#include "codec/tokens.h"

namespace varve::codec::cuda {

inline constexpr unsigned kThreads = 128;  ///< of every block
inline constexpr unsigned kQuanta = 5;     ///< levels from this one on have the last quantum
/// The axis of differences where it is a batch axis; below it: z, y, x; above it: there are none.
inline constexpr unsigned kBatchAxis = 3;
inline constexpr unsigned kNoAxis = 4;

/// A grid of points: a tile's coarse ones or a brick's.
struct GridShape {
  uint32_t batch;
  Array<uint32_t, 3> n;  ///< z, y, x
};

/// What is the same for all records of an array.
template <typename W>
struct ArrayTerms {
  using Bits = BitsOf<W>;
  Array<W, kQuanta> quantum;     ///< by level
  Array<W, kQuanta> reciprocal;  ///< encoders alone, as the next
  W bound;
  Interpolation interpolation;
  uint8_t coarse_shift;
  uint8_t finest;  ///< points of levels below it are interpolated
  Array<uint8_t, kMaxActivity> activity_thresholds;
  Array<uint8_t, kPlainContexts - 1> sum_thresholds;  ///< for one axis
  Global<const uint8_t> table_of;                     ///< by context
  Global<const uint32_t> decode;                      ///< see RansTables
  Global<const uint32_t> encode;
  uint32_t special_count;
  Global<const Bits> specials;
  unsigned difference_axis;            ///< 0 to 2, kBatchAxis or kNoAxis
  Array<uint64_t, 3> stride;           ///< of the array that elements lie in: z, y, x
  Global<const uint64_t> item_offset;  ///< where a batch item's elements begin, see BoxJob
};

/// A record taken apart: where its parts begin in memory that all records share.
struct DeviceRecord {
  Method method;
  uint8_t lanes;
  bool has_special_indices;
  uint32_t raw_size;  ///< bytes
  uint32_t element_count;
  uint32_t special_count;
  uint32_t escape_count;
  uint32_t word_count;  ///< without the states, which are two words each and come first
  uint64_t raw;         ///< in `bytes`, as the next two
  uint64_t special;
  uint64_t escape;
  uint64_t elements;  ///< in `elements`: exact ones, or all of a record of elements
  uint64_t words;     ///< in `words`
};

/// What records lie in.
template <typename W>
struct RecordMemory {
  Global<const DeviceRecord> records;
  Global<const uint8_t> bytes;
  Global<const BitsOf<W>> elements;
  Global<const uint16_t> words;
};

/// Where a tile or brick is.
struct BoxJob {
  GridShape grid;              ///< of its points at the finest level that it has records of
  uint32_t difference_extent;  ///< where differences go along a batch axis: indices along it,
  uint32_t items_between;      ///< and batch items from one to the next
  uint64_t base;               ///< the first element's place in the array,
  uint64_t item_offset;        ///< and where in the list the offsets of batch items from it begin
  uint64_t points;             ///< a tile: where its coarse points begin
  Array<uint32_t, 3> record;   ///< numbers of its records: a tile: [0]; a brick: by level. kNoRecord: there is none
  uint32_t tile;               ///< a brick: number of its tile among the jobs
  Array<uint32_t, 3> origin;   ///< a brick: its first coarse point within its tile's
  uint8_t top;                 ///< a tile: the level of its anchors
};
inline constexpr uint32_t kNoRecord = ~uint32_t{0};

/// Values, activities and marks of the points of a grid, in C order: what predictions and contexts are made from.
template <typename W>
struct Planes {
  GridShape grid;
  Global<W> value;
  Global<uint8_t> activity;
  Global<uint8_t> mark;
};

/// The coarse points of all tiles.
template <typename W>
struct CoarseMemory {
  Global<W> value;
  Global<uint8_t> activity;
  Global<uint8_t> mark;
  Global<BitsOf<W>> element;  ///< what points decode to
};

/// A record while it is encoded, for each block: room for the most that `points` points can need, a multiple of 32.
template <typename W>
struct StreamMemory {
  uint64_t points;
  Global<uint8_t> tokens;     ///< in coding order, flags of groups among them: see stream_room()
  Global<uint8_t> contexts;   ///< of all contexts of an array
  Global<uint32_t> segments;  ///< where each segment ends: see kMostSegments
  Global<uint32_t> raw;       ///< raw bits
  Global<BitsOf<W>> exact;
  Global<uint8_t> special;
  Global<uint8_t> escapes;
  Global<uint16_t> words;
};
inline constexpr unsigned kMostSegments = 512;  ///< two for each of seven classes of up to 24 levels, and the anchors
/// Tokens of a record of so many points: there is one flag for a group, and every class can have a group of its own.
VARVE_HOST_DEVICE constexpr uint64_t stream_room(uint64_t points) { return points + points / 32 + kMostSegments; }

/// Records that are done. Of each there is room for what its elements take and a byte, so that all fit: none is larger.
/// Those of elements are stored; the host packs them.
template <typename W>
struct RecordOutput {
  Global<DeviceRecord> records;
  Global<uint32_t> encoded;  ///< by record: 1 if it is done; at first 0. Others are the CPU's: see Outcome::unknown
  Global<uint8_t> bytes;
  Global<BitsOf<W>> elements;
  Global<uint16_t> words;
  Global<unsigned long long> used;  ///< of bytes, elements and words
};

/// What an encoder measures of a brick for the errors of its views: the bits of magnitudes, and zig-zag codes.
template <typename W>
struct BrickMeasures {
  using Bits = BitsOf<W>;
  Bits coarsest_3;                ///< level 2: what view 3 differs by
  Bits coarser_3;                 ///< level 1: view 3
  Bits coarser_2;                 ///< level 1: view 2
  Array<Bits, 2> known;           ///< by level: the greatest of the points above it
  Array<Array<Bits, 8>, 2> code;  ///< by level and class: the greatest code
  Array<Array<Bits, 8>, 2> off;   ///< and the most that an exact element differs from its prediction
};

/// Memory for the work on one class, for each block: `points` is what the largest class has, rounded up to groups.
template <typename W>
struct ClassMemory {
  uint64_t points;
  Global<uint8_t> contexts;
  Global<uint8_t> tokens;
  Global<BitsOf<W>> codes;
  Global<uint8_t> flags;    ///< one for each group, as the next three
  Global<uint8_t> silent;   ///< whether a group's contexts are all 0
  Global<uint32_t> rank;    ///< of a silent group among such
  Global<uint32_t> active;  ///< numbers of the groups whose tokens are coded
};

/// The same for the points of one brick.
template <typename W>
struct BrickMemory {
  uint64_t points;
  Global<W> value;
  Global<uint8_t> activity;
  Global<uint8_t> mark;
  Global<W> view;  ///< values of a view; null: nobody asks for its errors
};

}  // namespace varve::codec::cuda
