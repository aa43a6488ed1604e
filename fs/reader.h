// Sealed content -> bytes: range -> extents -> bricks -> records -> decode -> copy.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "fs/brick_cache.h"
#include "fs/layout.h"
#include "fs/thread_pool.h"
#include "index/index.h"

namespace varve::fs {

/// One sealed object, opened: its layout and its arrays' codecs. Immutable.
struct Sealed {
  index::ObjectId object = 0;
  Layout layout;
  std::vector<codec::ArrayCodec> codecs;  ///< one for each of layout.arrays

  static Result<std::shared_ptr<const Sealed>> load(index::Index& index, index::ObjectId object);
  /// May what decodes to other bytes than were once written be in it?
  bool lossy() const;
  /// From a layout whose extents are built.
  static Result<std::shared_ptr<const Sealed>> make(index::ObjectId object, Layout layout);
};

/// Records read from the store, and their bytes.
struct ReadCount {
  std::atomic<uint64_t> records{0}, bytes{0};
};
/// Levels 0 to 3, then what lies outside arrays.
inline constexpr uint8_t kReadKinds = codec::kCoarseLevel + 2;
using ReadCounts = std::array<ReadCount, kReadKinds>;

/// In place of a level: nothing of arrays is read, but for patches their elements are zeros.
inline constexpr uint8_t kNoElements = 255;

/// Which level of its arrays a view shows: levels below are interpolated.
class ViewLevels {
 public:
  /// Of all arrays; or kNoElements.
  ViewLevels(uint8_t all = 0) : all_(all) {}  // NOLINT(google-explicit-constructor): a level is the same for all
  /// Of each array of a layout; outlives this.
  explicit ViewLevels(std::span<const uint8_t> each) : each_(each) {}
  uint8_t of(uint32_t array) const { return each_.empty() ? all_ : each_[array]; }

 private:
  uint8_t all_ = 0;
  std::span<const uint8_t> each_;
};

/// What becomes of elements whose record is damaged. Thread-safe.
class DamageHandler {
 public:
  virtual ~DamageHandler() = default;
  /// May elements of this array be interpolated where their records are damaged?
  virtual bool may_interpolate(const Sealed& sealed, uint32_t array) = 0;
  /// Levels below `finest` of a brick were interpolated, because of `reason`.
  virtual void interpolated(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t finest,
                            const Error& reason) = 0;
};

/// Thread-safe. Decodes no more than the bricks a range touches.
class Reader {
 public:
  Reader(index::Index& index, BrickCache& cache, ThreadPool& pool) : index_(index), cache_(cache), pool_(pool) {}

  /// Fills `out` with the file's bytes from `offset`; the range must lie inside the file. Levels that are not shown are
  /// interpolated, see ArrayCodec::decode_brick; of integers, which may be labels, points there are copies of the
  /// nearest ones that are not. The same is done with levels that are damaged, and those below, where `damage` allows
  /// it; else, and without it, that is EIO.
  Status read(const Sealed& sealed, uint64_t offset, std::span<std::byte> out, const ViewLevels& levels = {},
              DamageHandler* damage = nullptr);

  /// The points of levels >= `level` (kCoarseLevel at most) of a brick, see ArrayCodec::decode_points, in the file's
  /// byte order.
  Result<BrickData> points(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t level,
                           DamageHandler* damage = nullptr);
  /// All elements of a brick, levels below `finest` interpolated as read() does it, in the file's byte order.
  Result<BrickData> brick(const Sealed& sealed, uint32_t array, uint64_t number, uint8_t finest,
                          DamageHandler* damage = nullptr);

  /// What was read since this was made.
  const ReadCounts& reads() const { return reads_; }

 private:
  /// A brick's records of levels 0, 1 and 2, as far as there are such.
  struct LevelRecords {
    std::array<codec::Bytes, codec::kCoarseLevel> stored;
    std::array<std::optional<std::span<const std::byte>>, codec::kCoarseLevel> levels;
  };
  /// How elements are shown.
  struct Showing {
    uint8_t finest = 0;
    DamageHandler* damage = nullptr;
  };
  Result<BrickData> whole_points(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t level);
  Result<BrickData> whole_brick(const Sealed& sealed, uint32_t array, uint64_t number, uint8_t finest);
  std::optional<uint8_t> finest_whole(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t finest);
  Result<BrickData> degraded_brick(const Sealed& sealed, uint32_t array, uint64_t number, const Showing& showing,
                                   const Error& reason);
  Result<LevelRecords> level_records(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t finest);
  Result<codec::Bytes> record(const Sealed& sealed, const index::RecordKey& key);
  /// From its copy, if the tile's coarse record is damaged and has one.
  Result<codec::Bytes> coarse_record(const Sealed& sealed, uint32_t array, uint64_t tile);
  Status read_extent(const Sealed& sealed, const Extent& extent, uint64_t skip, std::span<std::byte> out,
                     const Showing& showing);
  Result<BrickData> filtered_chunk(const Sealed& sealed, const Extent& extent, Showing showing);
  Result<codec::Bytes> make_filtered(const Sealed& sealed, const Extent& extent, const Showing& showing);
  Status read_elements(const Sealed& sealed, const Extent& extent, uint64_t first, std::span<std::byte> out,
                       const Showing& showing);
  Status read_padding(const Sealed& sealed, const Extent& extent, const ChunkGeometry& geometry, const codec::Box& box,
                      uint64_t first, std::byte* out);
  Status read_box(const Sealed& sealed, uint32_t array, const codec::Box& part, const codec::Box& target,
                  std::byte* out, const Showing& showing);
  Status read_stream(const Sealed& sealed, uint32_t region, uint64_t offset, std::span<std::byte> out);
  Status apply_patches(const Sealed& sealed, uint64_t offset, std::span<std::byte> out);
  Result<BrickData> coarse_grid(const Sealed& sealed, uint32_t array, uint64_t tile);

  index::Index& index_;
  BrickCache& cache_;
  ThreadPool& pool_;
  ReadCounts reads_;
};

}  // namespace varve::fs
