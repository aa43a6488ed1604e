// The elements of an array whose chunks a program filtered, while its file is sealed: in a scratch file, where they lie
// as those of an unfiltered array do.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "fs/gather.h"
#include "fs/staging.h"
#include "fs/thread_pool.h"

namespace varve::fs {

/// Thread-safe but for keep_exact_chunks(), which comes first. Holds a few chunks in memory at a time.
class UnfilteredArray {
 public:
  /// `read`: of the file; must outlive this. The scratch file is removed with this.
  UnfilteredArray(const ArrayRegion& filtered, const ReadContent& read, std::unique_ptr<Staging> scratch);
  ~UnfilteredArray() { scratch_->discard(); }
  UnfilteredArray(const UnfilteredArray&) = delete;
  UnfilteredArray& operator=(const UnfilteredArray&) = delete;

  /// Says of a chunk that was sealed as it is now how it lay there; null: it is to be tried.
  using Known = std::function<const StoredChunk*(size_t index)>;
  /// Undoes and redoes the filters of each chunk; those that do not come back exactly are taken out of `filtered`, of
  /// the others deflated ones get their sums. EINVAL: of too few.
  Status keep_exact_chunks(ThreadPool& pool, const Known& known, ArrayRegion& filtered);

  /// Like the filtered one, without filters: its chunks lie in what read() reads.
  const ArrayRegion& region() const { return region_; }
  Status read(uint64_t offset, std::span<std::byte> out);

 private:
  enum class Slot : uint8_t { to_fill, filled, left_out };
  Status try_chunk(size_t index, uint64_t& sum);
  Status put(size_t slot, std::span<const std::byte> elements);
  Status fill(size_t slot);

  const ArrayRegion filtered_;
  const ReadContent& read_;
  const std::unique_ptr<Staging> scratch_;
  ArrayRegion region_;
  const uint64_t bytes_, stride_;  ///< of a chunk, and from one to the next in the scratch file
  std::shared_mutex scratch_mutex_;
  std::array<std::mutex, 64> filling_;    ///< each of some slots
  std::vector<std::atomic<Slot>> slots_;  ///< one for each of filtered_.chunks
};

/// As gather_box() of the file (gather.h). `unfiltered`: null, or what has the elements of `region`.
Status gather_box(const ArrayRegion& region, UnfilteredArray* unfiltered, const ReadContent& read,
                  const codec::Box& box, std::byte* out);

}  // namespace varve::fs
