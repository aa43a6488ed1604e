// What happens to one operation. Models decide it, the journal records it, replay repeats it, and one function carries
// it out for all of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "faults/medium.h"
#include "faults/words.h"

namespace varve::faults {

/// A stretch of the operation's bytes that is not what it should be. Offsets are the file's.
struct Edit {
  enum class From : uint8_t {
    bytes,  ///< `bytes` stands there
    old,    ///< what stood there before the write
    fill,   ///< `fill` throughout
  };
  uint64_t offset = 0;
  uint64_t length = 0;
  From from = From::bytes;
  uint8_t fill = 0;
  std::vector<std::byte> bytes;
  std::vector<std::byte> was;  ///< what should stand there: kMostNoted bytes at most, for the journal
  std::optional<std::vector<std::byte>> expected;  ///< of a replay: `was` in the journal
  /// It was made for other bytes: the program, or what it started with, is not the same.
  bool is_misplaced() const { return expected && *expected != was; }
};
inline constexpr size_t kMostNoted = 4096;

/// Stored bytes that change besides the operation's own: lost or late writes.
struct Rest {
  std::string path;
  uint64_t offset = 0;
  std::vector<std::byte> bytes;
  std::vector<std::byte> was;         ///< as in Edit
  std::optional<uint64_t> size_then;  ///< the file ends here afterwards
};

/// How the operation ends for whoever asked.
enum class Ending : uint8_t { normal, kill_caller_before, kill_caller_after, crash_before, crash_after };
inline constexpr std::array<std::string_view, 5> kEndingNames = {"normal", "kill_caller_before", "kill_caller_after",
                                                                 "crash_before", "crash_after"};

struct Effect {
  std::vector<Edit> edits;
  std::vector<Rest> rest;  ///< carried out after the operation itself
  bool grows = false;      ///< bytes past the end that did not persist read as zeros, and the file ends after them
  bool skipped = false;    ///< acknowledged, not passed on (fsync)
  int64_t moved = 0;       ///< done so many bytes further on
  std::optional<uint64_t> count;  ///< bytes reported; a write stores no more than these
  int error = 0;
  uint64_t delay = 0;  ///< microseconds, before anything else
  Ending ending = Ending::normal;
  std::string note;  ///< for people

  bool any() const {
    return !edits.empty() || !rest.empty() || skipped || moved != 0 || count || error != 0 || delay != 0 ||
           ending != Ending::normal;
  }
};

/// Bytes that stand one after another become one edit. `changes`: offset -> byte.
std::vector<Edit> edits_of(const std::map<uint64_t, std::byte>& changes);

/// The write that is done in place of `data` at `offset`. Fills each edit's `was`.
struct Stored {
  uint64_t offset = 0;
  std::vector<std::byte> data;
};
Result<Stored> stored_instead(Effect& effect, uint64_t offset, std::span<const std::byte> data, Medium& file);

/// Changes what was read into `data`, which stands at `offset`. Fills `was`.
void change_read(Effect& effect, uint64_t offset, std::span<std::byte> data);

/// Changes what is stored: a close's edits.
Status change_stored(Effect& effect, Medium& file);

/// The effect as JSON, and back; EBADMSG if it is none.
std::string to_json(const Effect& effect);
Result<Effect> effect_from_json(std::string_view text);

}  // namespace varve::faults
