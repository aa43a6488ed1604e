// Reads everything that a store's files consist of and holds it against its checksums: what a drive has changed is
// found while there may still be a copy elsewhere. What the store itself keeps twice is written anew from the copy that
// is whole; nothing else is written.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "index/index.h"

namespace varve::fs {

/// One damaged place.
struct ScrubDamage {
  std::string path;    ///< from the store's root, with a leading slash; a directory where its rows cannot be read
  std::string part;    ///< "array /density, level 0, brick 5", "bytes 131072 to 262143 outside arrays", ...
  std::string reason;  ///< what is wrong, and what to do
};

struct ScrubState {
  enum class Phase : uint8_t { never, running, done, stopped };
  Phase phase = Phase::never;
  uint64_t files = 0, records = 0, bytes = 0;  ///< looked at so far; records that files share count once
  uint64_t total_bytes = 0;                    ///< about as many there are
  uint64_t damaged_records = 0;                ///< that cannot be read
  uint64_t repaired_records = 0;               ///< written anew from a copy
  uint64_t weak_records = 0;                   ///< could be, but the store cannot be written
  double seconds = 0;
  std::vector<ScrubDamage> damage;  ///< at most kMostDamage
  static constexpr size_t kMostDamage = 10'000;

  std::string json() const;
};

/// One run at a time: begin(), then read_all() in any thread. stop() and state() may be called from others meanwhile.
class Scrub {
 public:
  explicit Scrub(index::Index& index) : index_(index) {}

  /// From here on state() is of a new run. `rate`: bytes a second at most; 0: as fast as it goes.
  void begin(uint64_t rate);
  /// Returns when all is read, or soon after stop().
  void read_all();
  void stop() { stopping_ = true; }
  ScrubState state() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct ObjectDamage {
    std::string part, reason;
  };
  void walk();
  Status visit_directory(index::InodeNumber number, const std::string& path,
                         std::vector<std::pair<index::InodeNumber, std::string>>& waiting);
  void visit_file(const index::Inode& inode, const std::string& path);
  std::vector<ObjectDamage> visit_object(index::ObjectId object);
  bool restore(index::ObjectId object, const index::RecordKey& key, const std::string& part, const std::string& reason);
  bool count_record(uint64_t bytes);
  void report(const std::string& path, const std::string& part, const std::string& reason);

  index::Index& index_;
  std::atomic<bool> stopping_{false};
  uint64_t rate_ = 0;
  Clock::time_point start_;
  std::unordered_map<index::ObjectId, std::vector<ObjectDamage>> seen_;  ///< objects, for the files that share them
  mutable std::mutex mutex_;
  ScrubState state_;
};

/// A scrub in a thread of its own, which the destructor ends. Thread-safe.
class BackgroundScrub {
 public:
  explicit BackgroundScrub(index::Index& index) : scrub_(index) {}
  ~BackgroundScrub() { stop(); }
  BackgroundScrub(const BackgroundScrub&) = delete;
  BackgroundScrub& operator=(const BackgroundScrub&) = delete;

  /// "start", "start BYTES_A_SECOND" or "stop". EINVAL: anything else; EBUSY: one is running.
  Status command(const std::string& text);
  ScrubState state() const { return scrub_.state(); }
  void stop();

 private:
  Scrub scrub_;
  std::mutex mutex_;  ///< guards what follows
  std::thread thread_;
};

}  // namespace varve::fs
