// What was written to a file and is not sealed yet: raw bytes, in memory while they are few, else in a sparse file of
// the store, over the sealed content they replace (if any).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fs/checked_file.h"
#include "fs/intervals.h"
#include "index/device.h"
#include "index/schema.h"

namespace varve::fs {

/// What Staging::note() holds.
struct StagingNote {
  uint64_t id = 0;  ///< names the staging file
  index::ObjectId base = 0;
  uint64_t base_limit = 0, size = 0;
  bool in_file = false;
  std::string data;  ///< without a file: what is staged
  IntervalSet dirty;

  /// Was there something that must be found in the staging file? Else one that is missing is an empty one.
  bool needs_file() const { return in_file && (!dirty.empty() || (base == 0 && size > 0)); }

  /// EIO when it is malformed.
  static Result<StagingNote> parse(std::string_view text);
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

  /// Data reaches the disk. Afterwards note() is what the caller must store, durably, to find it again. Staging in
  /// memory keeps its data in the note itself.
  Status sync();
  std::string note() const;
  /// A note that there is a staging file, before sync(): after a power cut its data may be anything, and what it was
  /// written over must not suffer. What is staged over nothing is found again after a kill.
  std::string note_of_file() const;
  /// Is there a file, so that a note must exist for it?
  bool in_file() const { return file_ != nullptr; }

  /// Of a note that sync() made true, or of note_of_file(). The file's size may exceed what was noted; a smaller one is
  /// of a truncation that came later.
  static Result<std::unique_ptr<Staging>> restore(index::Device& device, const std::string& directory,
                                                  std::string_view note);

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
  Status restore_file(bool needed);
  std::string path() const;

  index::Device& device_;
  const std::string directory_;
  const uint64_t id_;
  const index::ObjectId base_;
  const uint64_t base_size_;  ///< as sealed
  uint64_t base_limit_;
  uint64_t size_ = 0;
  IntervalSet dirty_;
  std::vector<std::byte> memory_;
  std::unique_ptr<CheckedFile> file_;
  bool name_synced_ = false;
};

}  // namespace varve::fs
