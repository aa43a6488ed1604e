// STORE/reserve: space of the store's disk that is given up when a deletion finds the disk full, so that it can be
// committed, and taken again when there is room. Until then nothing may grow.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "codec/result.h"
#include "index/device.h"

namespace varve::index {

/// Thread-safe.
class Reserve {
 public:
  /// `most`: bytes; less on a small disk. 0: none is made, and one that is there is used.
  Reserve(std::shared_ptr<Device> device, const std::string& store, uint64_t most);

  /// Looks how large the disk is; before all else.
  void measure();
  /// Bytes that are to be reserved.
  uint64_t size() const { return size_; }
  /// Those that are not: given up, or the disk had no room.
  uint64_t missing() const { return given_up_ ? wanted() : 0; }
  /// Makes the file at the store's opening. Where the disk has no room for it, check() fails; where it cannot reserve
  /// space, there is none.
  void make();
  /// Whether there was one. From then on check() fails with `why`.
  bool give_up(const Error& why);
  bool given_up() const { return given_up_; }
  /// May what is stored grow? Tries to make the reserve again, twice a second at most.
  Status check();

 private:
  enum class Made { yes, no_room, impossible };
  /// What the disk must have available: with a margin, so that what is being written meanwhile does not meet a full
  /// disk.
  uint64_t wanted() const { return size_ + size_ / 4; }
  Made try_to_make();
  void take(Made made);

  const std::shared_ptr<Device> device_;
  const std::string directory_, path_;
  const uint64_t most_;
  uint64_t size_ = 0;
  std::atomic<bool> given_up_{false};
  std::mutex mutex_;  ///< guards what follows
  Error why_;
  std::chrono::steady_clock::time_point next_try_{};
};

/// ENOSPC or EDQUOT.
bool means_full(const Status& status);

}  // namespace varve::index
