// What an armed schedule remembers: of each file, of each rule, and of writes that no fsync has made safe yet.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "faults/effect.h"
#include "faults/schedule.h"
#include "faults/structure.h"
#include "fs/intervals.h"
#include "index/keys.h"

namespace varve::faults {

using Clock = std::chrono::steady_clock;

/// The content of each byte before its last write, where that is known.
class Previous {
 public:
  /// Bytes from `offset` are about to be overwritten; they are `old`.
  void remember(uint64_t offset, std::vector<std::byte> old);
  /// Lays what is remembered over `data`, which stands at `offset`; the changed bytes.
  std::map<uint64_t, std::byte> differences(uint64_t offset, std::span<const std::byte> data) const;

 private:
  void forget(uint64_t begin, uint64_t end);
  std::map<uint64_t, std::vector<std::byte>> pieces_;
};

struct StuckPage {
  uint64_t offset = 0;
  std::vector<std::byte> content;
};

/// A write that comes once more after `left` later ones.
struct HeldWrite {
  uint64_t offset = 0;
  std::vector<std::byte> data;
  uint64_t left = 0;
  size_t rule = 0;
};

struct PageWear {
  uint64_t reads = 0;  ///< of its erase block since armed; kept at the block's first page
  Clock::time_point written;
};

/// What a path is to the schedule, and how often things happened to it. Stays with the path when a file moves, so that
/// replay finds its operations.
struct PathCounts {
  explicit PathCounts(std::vector<uint32_t> rules) : rules(std::move(rules)), matches(this->rules.size()) {}
  std::array<std::atomic<uint64_t>, kOps> operations{};
  const std::vector<uint32_t> rules;           ///< of this seam whose glob the path matches, in the schedule's order
  std::vector<std::atomic<uint64_t>> matches;  ///< operations that the rule of the same place matched
};

/// A torn run of writes that goes on.
struct TornRun {
  uint64_t left = 0, at = 0;
  uint64_t lost = 0, kept = 0;  ///< writes of it that are lost and persist for certain, if what persists is drawn
};

/// A file under an armed schedule. The mutex is held while an operation on it is decided and done.
struct FileState {
  std::mutex mutex;
  std::string path;  ///< from the mount's root, or from the store's
  FileKind kind = FileKind::none;
  std::shared_ptr<PathCounts> counts;
  Clock::time_point seen;  ///< when the schedule was armed
  Previous previous;
  fs::IntervalSet bad_sectors;
  fs::IntervalSet going_bad;  ///< under the write in progress
  int bad_code = 5;
  std::vector<StuckPage> stuck;
  std::vector<HeldWrite> held;
  std::unordered_map<uint64_t, PageWear> wear;  ///< by offset of the page or erase block
  std::map<size_t, TornRun> runs;               ///< by rule
  std::shared_ptr<const StructureMap> map;
  bool map_outdated = false;                      ///< the file was written since
  std::map<uint64_t, index::PackHeader> records;  ///< of a pack: where payloads start
};

struct RuleState {
  std::atomic<uint64_t> matched{0};
  std::atomic<uint64_t> injected{0};
  std::atomic<uint64_t> bytes{0};  ///< enospc_at: written so far
};

/// A write (or a truncation) that a power cut may undo.
struct UnsyncedWrite {
  std::string path;
  uint64_t offset = 0;
  std::vector<std::byte> old, now;
  uint64_t old_size = 0, new_size = 0;
};

/// Of one seam. Thread-safe.
class UnsyncedLog {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  void add(UnsyncedWrite write);
  /// The file's writes are on the disk. False: the power went before they were.
  bool forget(const std::string& path);
  /// A file, or a folder with what is in it, has another path.
  void renamed(const std::string& from, const std::string& to);
  /// The oldest were let go because they were too many bytes.
  bool overflowed() const { return overflowed_; }
  /// The power goes; `for_good`: nothing is synced any more.
  std::vector<UnsyncedWrite> take(bool for_good);

 private:
  std::mutex mutex_;
  std::deque<UnsyncedWrite> writes_;
  uint64_t bytes_ = 0;
  bool closed_ = false;
  std::atomic<bool> overflowed_{false};
};

}  // namespace varve::faults
