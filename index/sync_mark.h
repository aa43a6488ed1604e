// What the tree's log was known to hold, kept beside it: a log that a drive damaged ends early when it is replayed,
// exactly as one does whose last writes never reached the disk. The marks tell the two apart.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "index/device.h"

namespace varve::index {

/// Two numbers: of the last change that a sync returned for, and of the last that was written at all, which holds while
/// the machine runs (a process that dies takes nothing with it). Thread-safe. The marks are not synced, so that a power
/// cut may bring back older ones, which promise less. One that cannot be written stays as it is: less is found out
/// then, nothing is lost.
class SyncMark {
 public:
  /// Files PATH-synced and PATH-written.
  SyncMark(std::shared_ptr<Device> device, const std::string& path);

  /// The sequence number of the last change that must be there; none: not known.
  std::optional<uint64_t> promised() const;
  /// The machine's present run; 0: not known.
  uint64_t run() const { return boot_; }
  /// Was the last change before this opening written in this run of the machine? Then nothing of it was lost since, as
  /// long as the drive is whole.
  bool written_in_this_run() const { return boot_ != 0 && read(written_, boot_).has_value(); }
  void synced(uint64_t sequence);
  void written(uint64_t sequence);
  /// The changes above `sequence` are given up.
  void reset(uint64_t sequence);

 private:
  struct Mark {
    std::string path;
    std::unique_ptr<DeviceFile> file;
    uint64_t raised = 0;
  };
  std::optional<uint64_t> read(const Mark& mark, uint64_t life) const;
  void write(Mark& mark, uint64_t sequence, uint64_t life);

  std::shared_ptr<Device> device_;
  uint64_t boot_;  ///< of the machine's present run; 0: not known
  std::mutex mutex_;
  Mark synced_, written_;
};

}  // namespace varve::index
