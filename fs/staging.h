// What was written to a file and is not sealed yet: raw bytes, in memory while they are few, else in a file of the
// store, over the sealed content they replace (if any).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fs/checked_file.h"
#include "fs/intervals.h"
#include "index/device.h"
#include "index/index.h"

namespace varve::fs {

/// What a note of staged data says.
struct StagingNote {
  enum class Place : uint8_t {
    memory,
    bytes,   ///< a file that holds the bytes where they belong; of stores of version 1
    blocks,  ///< a CheckedFile; its rows are notes of their own
  };
  uint64_t id = 0;  ///< names the staging file
  index::ObjectId base = 0;
  uint64_t base_limit = 0, size = 0;
  Place place = Place::memory;
  uint64_t run = 0;  ///< 0: what it says was synced; else it holds in this run of the machine alone (blocks)
  std::string data;  ///< in memory: what is staged
  IntervalSet dirty;

  bool in_file() const { return place != Place::memory; }
  /// Was there something that must be found in the staging file? Else one that is missing is an empty one.
  bool needs_file() const { return in_file() && (!dirty.empty() || (base == 0 && size > 0)); }

  /// EIO when it is malformed.
  static Result<StagingNote> parse(std::string_view text);
};

/// A note about some blocks of a staging file.
struct BlockRow {
  uint64_t group = 0;
  bool synced = false;
  std::string row;
};

/// The name of a staging file in its directory.
std::string staging_file_name(uint64_t id);

/// Not thread-safe: the file's lock guards it; concurrent read() calls are fine.
class Staging {
 public:
  static constexpr uint64_t kMemoryLimit = 64 << 10;

  /// `base`: the sealed object below (0: none), of which the first `base_limit` bytes show through where nothing was
  /// written. `id`: names the staging file, never used before.
  Staging(index::Device& device, std::string directory, uint64_t id, index::ObjectId base, uint64_t base_limit);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  Status write(uint64_t offset, std::span<const std::byte> data);
  /// The staged bytes of [offset, offset + out.size()); zeros where none are.
  Status read(uint64_t offset, std::span<std::byte> out);
  /// The file's logical size becomes `size`: what lies beyond is forgotten, what is new reads as zeros.
  Status truncate(uint64_t size);
  /// The range reads as zeros.
  Status punch(uint64_t offset, uint64_t length);
  Status reserve(uint64_t offset, uint64_t length);

  /// Data reaches the disk. Afterwards put_notes() is what the caller must store, durably, to find it again. Staging in
  /// memory keeps its data in the note itself.
  Status sync();
  /// Adds to a batch what a later start needs to find what is staged as it is now. `run`: 0 after sync(); else the
  /// machine's run, within which this holds without one (in a file alone). notes_put() after the commit; if that fails,
  /// they may be stored or not.
  void put_notes(index::Batch& batch, index::InodeNumber inode, uint64_t run);
  void notes_put(uint64_t run);
  /// Adds to a batch that all notes of it go.
  void erase_notes(index::Batch& batch, index::InodeNumber inode) const;
  bool in_file() const { return file_ != nullptr; }
  /// Bytes in blocks that no note speaks of yet, about.
  uint64_t unnoted() const;

  /// Of notes: `rows` has those of its file, synced ones first.
  static Result<std::unique_ptr<Staging>> restore(index::Device& device, const std::string& directory,
                                                  const StagingNote& note, std::span<const BlockRow> rows);

  /// Removes the staging file, if there is one; afterwards only destruction is allowed.
  void discard();

  index::ObjectId base() const { return base_; }
  uint64_t base_limit() const { return base_limit_; }
  uint64_t size() const { return size_; }
  /// Ranges that were written (or punched) over the base.
  const IntervalSet& dirty() const { return dirty_; }
  Result<uint64_t> allocated();
  /// As CheckedFile::seek, over the staged bytes alone.
  Result<uint64_t> seek(uint64_t offset, bool data);
  uint64_t id() const { return id_; }

 private:
  Status spill();
  Status restore_file(const StagingNote& note, std::span<const BlockRow> rows);
  std::string note(uint64_t run) const;
  std::string path() const;

  index::Device& device_;
  const std::string directory_;
  const uint64_t id_;
  const index::ObjectId base_;
  uint64_t base_limit_;
  uint64_t size_ = 0;
  IntervalSet dirty_;
  std::vector<std::byte> memory_;
  std::unique_ptr<CheckedFile> file_;
  bool name_synced_ = false;
  // What the index may have: notes, and rows of groups of the file.
  bool noted_ = false, unsynced_noted_ = false;
  std::set<uint64_t> rows_, unsynced_rows_;
};

}  // namespace varve::fs
