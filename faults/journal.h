// The journal: what was done to which operation, one JSON object a line. docs/FAULTS.md lists the fields.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "faults/effect.h"
#include "faults/schedule.h"

namespace varve::faults {

struct JournalEntry {
  std::string rule;
  Model model = Model::count;
  Seam seam = Seam::app;
  Op op = Op::read;
  uint64_t index = 0;  ///< of this kind of operation on this path since the schedule was armed, from 0
  std::string path;
  uint64_t offset = 0, length = 0;
  int pid = 0;
  std::string where;  ///< structure and dataset of the first changed byte, where the rule had to know
  Effect effect;
};

/// Appends to a file that no fault touches. Thread-safe. Each line is on its way to the disk when add() returns: it
/// survives the process's death.
class Journal {
 public:
  explicit Journal(std::string path) : path_(std::move(path)) {}
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  Status begin(const Schedule& schedule);
  void add(const JournalEntry& entry);
  /// `rules`: JSON, what became of each that an operation matched.
  void end(uint64_t injections, std::string_view rules);
  /// The lines since the last begin(); its last 64 MiB.
  Result<std::string> text() const;

 private:
  Status append(const std::string& line);

  const std::string path_;
  mutable std::mutex mutex_;
  int file_ = -1;
  uint64_t start_ = 0;  ///< where the last begin() wrote
  uint64_t entries_ = 0;
};

/// What happened to whom: key_of(...) -> entries in order.
using Replay = std::multimap<std::string, JournalEntry>;
std::string key_of(Seam seam, Op op, std::string_view path, uint64_t index);
/// What a journal holds from its last `armed` line on: all that a replay looks at.
std::string_view last_arming(std::string_view journal);
/// The schedule that a journal's last `armed` line holds; "" if there is none.
std::string schedule_in(std::string_view journal);
/// EBADMSG with `file` and the line. Only what the text's last `armed` line begins counts.
Result<Replay> parse_journal(std::string_view text, std::string_view file = "journal");

}  // namespace varve::faults
