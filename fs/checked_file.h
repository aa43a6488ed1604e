// A staging file whose blocks are held against checksums, and in which nothing that a note promises is overwritten: a
// block that was noted is written to another place when it changes. So a note and the file agree after a kill and after
// a power cut, and a drive that loses, tears, misplaces or changes a write is found out before anything is sealed.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "fs/intervals.h"
#include "index/device.h"

namespace varve::fs {

/// Not thread-safe, but concurrent read() and seek() calls are fine. Members without a comment do as those of
/// DeviceFile. What was not written reads as zeros, beyond the end of the file too.
class CheckedFile {
 public:
  static constexpr uint64_t kBlock = 4096;  ///< bytes that one checksum is of
  static constexpr uint64_t kGroup = 128;   ///< blocks that one row speaks of

  /// An empty file, whatever `file` holds. `name`: for messages.
  CheckedFile(std::unique_ptr<index::DeviceFile> file, std::string name);

  /// EIO: the drive does not give back what was written; a sentence names the file and the bytes.
  Status read(uint64_t offset, std::span<std::byte> out) const;
  /// EIO also where a block that `data` covers in part cannot be read back: its rest could not be told any more. After
  /// an error each block is as it was or as it should be.
  Status write(uint64_t offset, std::span<const std::byte> data);
  Status truncate(uint64_t size);
  Status punch(uint64_t offset, uint64_t length);
  Status reserve(uint64_t offset, uint64_t length);
  /// After one that failed, the next one writes everything again: the system tells of a lost write once.
  Status sync();
  uint64_t size() const { return size_; }
  Result<uint64_t> allocated() const { return file_->allocated(); }
  /// By what was written, in whole blocks.
  Result<uint64_t> seek(uint64_t offset, bool data) const;

  // What a later start needs, in rows: where the blocks of a group lie, and their checksums.

  /// Groups whose rows differ from those that were promised last, and (synced) from those that a sync promised last.
  const std::set<uint64_t>& changed(bool synced) const { return synced ? unsynced_groups_ : unnoted_groups_; }
  /// The row of a group; empty: no block of it was written.
  std::string row(uint64_t group) const;
  /// The rows as they are now are about to be stored: none of their blocks is overwritten from here on.
  void promise();
  /// They are stored. `synced`: on the disk, after a sync() of this file, and no other rows are in force.
  void promised(bool synced);
  /// Of a row that was stored. A second one for a group takes the place of the first, whose blocks are kept. EIO: it
  /// is malformed.
  Status load(uint64_t group, std::string_view row);
  /// The file as it lies there is the content, `size` bytes of it: of a store before rows.
  Status adopt(uint64_t size);
  /// Of load(): sets the size.
  void set_size(uint64_t size) { size_ = size; }

 private:
  struct Entry {
    uint64_t sum = 0;   ///< 0: nothing was written
    uint32_t slot = 0;  ///< which block of the device's file
    bool promised = false;
    bool synced = false;
  };
  using Group = std::array<Entry, kGroup>;
  using Block = std::array<std::byte, kBlock>;
  struct Change;

  const Entry* find(uint64_t block) const;
  Group& change_group(uint64_t number);
  void set(Entry& here, Entry now);
  void drop(uint64_t first, uint64_t end);
  Status place(std::vector<Change>& changes);
  Status write_block(uint64_t block, const Block& bytes);
  void look_again(const Change& change);
  Status check(uint64_t block, const Entry& entry, std::span<const std::byte> bytes) const;
  Status read_block(uint64_t block, Block& out) const;
  Status write_again();

  std::unique_ptr<index::DeviceFile> file_;
  std::string name_;
  uint64_t size_ = 0;
  std::map<uint64_t, std::unique_ptr<Group>> groups_;
  IntervalSet free_;                                     ///< slots
  IntervalSet held_;                                     ///< slots that stored rows may still speak of
  std::set<uint64_t> unnoted_groups_, unsynced_groups_;  ///< see changed()
  bool sync_failed_ = false;
};

}  // namespace varve::fs
