// A schedule in force: decides, for each operation, what happens to it.
#pragma once

#include <condition_variable>
#include <set>
#include <shared_mutex>

#include "faults/journal.h"
#include "faults/models.h"

namespace varve::faults {

/// An operation as it comes.
struct Asked {
  Seam seam = Seam::app;
  Op op = Op::read;
  int pid = 0;
  uint64_t offset = 0, length = 0;
  std::span<const std::byte> data;  ///< written or read
  uint64_t index = 0;
};

/// What was decided: the effect, and whose it is.
struct Verdict {
  Effect effect;
  std::string rule;
  Model model = Model::count;
  std::string where;
};

/// Thread-safe.
class Armed {
 public:
  Armed(Schedule schedule, fs::RecogniserPool& recognisers);
  Armed(Replay replay, std::string text, fs::RecogniserPool& recognisers);

  const Schedule& schedule() const { return schedule_; }
  bool replays() const { return replays_; }
  unsigned seams() const { return seams_; }
  uint64_t injections() const { return injections_; }
  uint64_t replay_left() const;

  std::shared_ptr<FileState> file(Seam seam, const std::string& path);
  void renamed(Seam seam, const std::string& from, const std::string& to);
  void removed(Seam seam, const std::string& path);
  UnsyncedLog& unsynced(Seam seam) { return unsynced_[static_cast<size_t>(seam)]; }

  /// The file's lock is held. Counts the operation for every rule that it matches; the first that acts wins.
  Result<Verdict> decide(FileState& file, Medium* medium, const Asked& asked);
  /// Before a write of `length` bytes: keeps in mind what it replaces.
  Status remember(FileState& file, Medium& medium, Seam seam, uint64_t offset, uint64_t length, UnsyncedWrite& write);
  /// After it: `stored` is what was written.
  void written(FileState& file, Seam seam, uint64_t offset, std::span<const std::byte> stored, UnsyncedWrite write);
  /// Held writes that are due now, with their rules; the `newest` last ones do not count down yet. `all`: the file is
  /// being closed.
  std::vector<std::pair<Rest, size_t>> due(FileState& file, size_t newest, bool all);
  bool tracks_unsynced(Seam seam) const { return tracks_unsynced_[static_cast<size_t>(seam)]; }

  void mark(const std::string& name);
  /// JSON; `matched_only`: without those that no operation matched.
  std::string status_rules(bool matched_only = false) const;
  const Rule& rule(size_t number) const { return schedule_.rules[number]; }
  RuleState& rule_state(size_t number) { return *rule_states_[number]; }
  void count_injection() { ++injections_; }
  void count_misplaced() { ++misplaced_; }
  /// Of a replay: injections that met other bytes than the journal's did.
  uint64_t misplaced() const { return misplaced_; }

  /// Waits; disarming ends it early.
  void sleep(uint64_t microseconds);
  void stop();

 private:
  struct Look;
  std::vector<uint32_t> rules_for(Seam seam, const std::string& path) const;
  std::shared_ptr<PathCounts> counts_of(Seam seam, const std::string& path);
  bool matches(Look& look, size_t number);
  std::vector<Aim> aims_of(const Look& look, const Rule& rule);
  void update_map(const Look& look);
  bool in_window(const Rule& rule) const;
  bool fires(const Look& look, size_t number, uint64_t in_file, Draw& draw);
  std::optional<Verdict> lasting(const Look& look);
  void add_stuck(const Look& look, Verdict& verdict);
  Effect fill_disk(const Rule& rule, RuleState& state, uint64_t length);
  void count_wear(const Look& look);
  Verdict from_replay(const Look& look);
  void settle(size_t number, Effect& effect);

  Schedule schedule_;
  fs::RecogniserPool& recognisers_;
  bool replays_ = false;
  unsigned seams_ = 0;
  const Clock::time_point start_ = Clock::now();
  std::vector<std::unique_ptr<RuleState>> rule_states_;
  std::array<bool, 2> tracks_unsynced_{}, tracks_previous_{};
  /// Rules by what their path is: one name, or a glob. Of each seam, in the schedule's order.
  std::array<std::unordered_map<std::string, std::vector<uint32_t>>, 2> named_;
  std::array<std::vector<uint32_t>, 2> globs_;
  std::array<std::vector<uint32_t>, 2> wearing_;  ///< rules of read_disturb and retention
  std::atomic<uint64_t> injections_{0};
  std::atomic<uint64_t> misplaced_{0};
  std::array<UnsyncedLog, 2> unsynced_;
  std::array<std::atomic<int>, 2> dead_{};       ///< errno; 0: alive
  std::array<std::atomic<size_t>, 2> killer_{};  ///< the rule that did it

  mutable std::mutex mutex_;  ///< guards what follows
  std::array<std::map<std::string, std::shared_ptr<FileState>>, 2> files_;
  std::array<std::map<std::string, std::shared_ptr<PathCounts>>, 2> counts_;
  std::set<std::string> marks_;
  Replay replay_;
  bool stopped_ = false;
  std::condition_variable wake_;
};

}  // namespace varve::faults
