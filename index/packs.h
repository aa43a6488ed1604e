// Pack files: append-only files of records too large for the tree, and what is known of each: size, live bytes, pins.
// Thread-safe. All bytes go through the Device.
//
// A pin keeps a pack from being removed: append() leaves one on the pack for each record, and whoever appended takes
// it away with unpin() once the record counts as live bytes or has been given up.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "codec/result.h"
#include "index/device.h"
#include "index/keys.h"
#include "index/sync_group.h"

namespace varve::index {

/// An open pack.
struct Pack {
  uint32_t number = 0;
  std::string path;
  std::unique_ptr<DeviceFile> file;
  SyncGroup syncs;
  std::atomic<uint64_t> known_size{0};  ///< bytes that the file had when last asked
  std::atomic<uint64_t> used{0};        ///< tick of the last use
};

struct PackFacts {
  uint64_t size = 0;
  uint64_t live = 0;  ///< bytes, headers included, once for each record of the tree that points here
  uint64_t pins = 0;
  bool damaged = false;  ///< the collector could not read a live record; do not try again
};

class Packs {
 public:
  /// Finds the packs in `directory`. `limit`: bytes after which an append goes to a new pack.
  static Result<std::unique_ptr<Packs>> open(std::shared_ptr<Device> device, std::string directory, uint64_t limit);

  struct Appended {
    std::shared_ptr<Pack> pack;
    uint64_t offset = 0;  ///< of the header
    uint64_t stamp = 0;   ///< for sync()
  };
  /// Writes header and payload at the end of the current pack. Space is reserved under a lock, written outside it.
  Result<Appended> append(const Identity& origin, std::span<const std::byte> payload, uint64_t checksum);
  /// What was appended to `pack` before `stamp` was taken is on the disk.
  Status sync(Pack& pack, uint64_t stamp);

  /// The payload, after every check that there is. ENOENT: the pack does not exist (it may have been collected: ask
  /// the tree again). EIO: a sentence names the pack, the offset and what is wrong.
  Result<std::vector<std::byte>> read(const RecordValue& record);
  /// Those of read()'s checks that need the header alone.
  Status check(const RecordValue& record);

  void pin(uint32_t pack);
  void unpin(uint32_t pack, uint64_t pins);
  uint64_t live(uint32_t pack);
  void set_live(uint32_t pack, uint64_t live);
  void clear_live();  ///< before all counts are set again
  void mark_damaged(uint32_t pack);
  std::map<uint32_t, PackFacts> facts();

  /// Ends appending to the current pack if less than half of it lives, so that it may be collected.
  void retire_wasteful();
  bool is_current(uint32_t pack);
  /// Unlinks the pack if nothing lives in it, nobody pins it and it is not being written. Returns bytes freed.
  Result<uint64_t> remove_dead(uint32_t pack);
  Status sync_directory();

  /// Numbers below this may have been used. The caller stores it and calls skip_to() at the next open.
  uint32_t next_number();
  void skip_to(uint32_t number);

 private:
  Packs(std::shared_ptr<Device> device, std::string directory, uint64_t limit);
  std::string path_of(uint32_t number) const;
  Result<std::shared_ptr<Pack>> open_pack(uint32_t number, Device::Mode mode);
  Result<std::shared_ptr<Pack>> opened(uint32_t number);
  Status check_header(Pack& pack, const RecordValue& record);
  Status choose_current(uint64_t bytes);
  void remember(const std::shared_ptr<Pack>& pack);

  std::shared_ptr<Device> device_;
  std::string directory_;
  uint64_t limit_;

  std::mutex mutex_;  // guards what follows
  std::map<uint32_t, PackFacts> facts_;
  std::map<uint32_t, std::shared_ptr<Pack>> open_;
  std::shared_ptr<Pack> current_;
  uint64_t current_end_ = 0;
  uint32_t next_number_ = 1;
  bool tried_last_ = false;
  std::atomic<uint64_t> tick_{0};
};

}  // namespace varve::index
