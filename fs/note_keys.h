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
inline constexpr std::string_view kOrphanNotes = "orphan/";    ///< removed while it was open: empty

inline std::string staging_note(index::InodeNumber inode) { return fmt::format("{}{:016x}", kStagingNotes, inode); }
inline std::string orphan_note(index::InodeNumber inode) { return fmt::format("{}{:016x}", kOrphanNotes, inode); }

/// The number in "PREFIX/000000000000001f", or nothing.
inline std::optional<index::InodeNumber> number_in(std::string_view key, std::string_view prefix) {
  const std::string digits(key.substr(prefix.size()));
  char* end = nullptr;
  const index::InodeNumber number = std::strtoull(digits.c_str(), &end, 16);
  return digits.size() == 16 && *end == '\0' ? std::optional(number) : std::nullopt;
}

}  // namespace varve::fs
