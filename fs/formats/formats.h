// The table of formats that recognise() walks. A format is a pair of files in this folder and a line in formats.cpp.
#pragma once

#include <span>

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// A file that may be of some format.
struct Candidate {
  std::string_view name;             ///< last path component
  std::span<const std::byte> start;  ///< the first 512 bytes, or all of a shorter file
  FileView& file;
  const std::optional<RawHint>& hint;

  /// Whether `magic` stands at `offset`, within `start`.
  bool has(size_t offset, std::string_view magic) const;
};

struct Format {
  std::string_view name;  ///< what Recognised::format becomes
  /// Cheap, and safe in the daemon: name, `start`, a few bytes more. False: `recognise` would find nothing.
  bool (*may_be)(const Candidate& candidate);
  /// In the worker only. Nothing: not this format after all. An error ends the search.
  Result<std::optional<Recognised>> (*recognise)(const Candidate& candidate);
};

/// In the order in which they are tried: magic numbers first, names last.
std::span<const Format> formats();

}  // namespace varve::fs
