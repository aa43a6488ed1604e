// A staging file that remembers a checksum of each of its blocks in memory, from what was to be written, and holds what
// it reads against it: a drive that loses, tears, misplaces or changes a write is found out before anything is sealed.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "index/device.h"

namespace varve::fs {

/// Not thread-safe, but concurrent read() and seek() calls are fine. Members without a comment do as those of
/// DeviceFile. What was not written reads as zeros, beyond the end of the file too.
class CheckedFile {
 public:
  static constexpr uint64_t kBlock = 4096;  ///< bytes that one checksum is of

  /// `name`: for messages. Blocks of the first `unknown_below` bytes that lie there already are taken as they are until
  /// they are overwritten.
  CheckedFile(std::unique_ptr<index::DeviceFile> file, std::string name, uint64_t unknown_below);

  /// EIO: the drive does not give back what was written; a sentence names the file and the block.
  Status read(uint64_t offset, std::span<std::byte> out) const;
  /// EIO also where a block that `data` covers in part cannot be read back: its rest could not be told any more.
  Status write(uint64_t offset, std::span<const std::byte> data);
  Status truncate(uint64_t size);
  Status punch(uint64_t offset, uint64_t length);
  Status reserve(uint64_t offset, uint64_t length) { return file_->reserve(offset, length); }
  Status sync() { return file_->sync(); }
  Result<uint64_t> size() const { return file_->size(); }
  Result<uint64_t> allocated() const { return file_->allocated(); }
  /// By what was written, in whole blocks, where all of it is known.
  Result<uint64_t> seek(uint64_t offset, bool data) const;

 private:
  static constexpr uint64_t kGroup = 512;  ///< blocks whose checksums lie together
  using Sums = std::array<uint64_t, kGroup>;
  using Block = std::array<std::byte, kBlock>;

  uint64_t sum(uint64_t block) const;
  void set_sum(uint64_t block, uint64_t sum);
  void clear_sums(uint64_t first, uint64_t end);
  void forget(uint64_t first, uint64_t end);
  Status check(uint64_t block, std::span<const std::byte, kBlock> bytes) const;
  Status read_block(uint64_t block, Block& out) const;
  Status read_whole(uint64_t block, std::span<std::byte> out) const;
  /// `change` applied to what `block` holds: the checksum that it has afterwards.
  template <typename Change>
  Result<uint64_t> changed_sum(uint64_t block, Change&& change) const;

  std::unique_ptr<index::DeviceFile> file_;
  std::string name_;
  uint64_t unknown_below_;                          ///< blocks under this one without a checksum may hold anything
  std::map<uint64_t, std::unique_ptr<Sums>> sums_;  ///< by block / kGroup; 0: never written
};

}  // namespace varve::fs
