// Keys of the notes that the file system keeps in the index: one of each kind for an inode at most.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "index/schema.h"

namespace varve::fs {

inline constexpr std::string_view kStagingNotes = "staging/";  ///< what is written and not sealed: StagingNote
/// What a daemon that was killed in this run of the machine had written and not synced: StagingNote.
inline constexpr std::string_view kUnsyncedNotes = "unsynced/";
/// Rows of CheckedFile: where the blocks of a staging file lie, and their checksums.
inline constexpr std::string_view kBlockNotes = "blocks/";
inline constexpr std::string_view kUnsyncedBlockNotes = "unsynced-blocks/";
inline constexpr std::string_view kOrphanNotes = "orphan/";  ///< removed while it was open: empty

inline std::string staging_note(index::InodeNumber inode) { return fmt::format("{}{:016x}", kStagingNotes, inode); }
inline std::string unsynced_note(index::InodeNumber inode) { return fmt::format("{}{:016x}", kUnsyncedNotes, inode); }
/// The beginning of the keys of the rows of one staging file.
inline std::string block_notes(bool synced, uint64_t id) {
  return fmt::format("{}{:016x}/", synced ? kBlockNotes : kUnsyncedBlockNotes, id);
}
inline std::string block_note(bool synced, uint64_t id, uint64_t group) {
  return fmt::format("{}{:016x}", block_notes(synced, id), group);
}
inline std::string orphan_note(index::InodeNumber inode) { return fmt::format("{}{:016x}", kOrphanNotes, inode); }

/// The number in "PREFIX/000000000000001f", or nothing.
inline std::optional<index::InodeNumber> number_in(std::string_view key, std::string_view prefix) {
  const std::string digits(key.substr(prefix.size()));
  char* end = nullptr;
  const index::InodeNumber number = std::strtoull(digits.c_str(), &end, 16);
  return digits.size() == 16 && *end == '\0' ? std::optional(number) : std::nullopt;
}

}  // namespace varve::fs
