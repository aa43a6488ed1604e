// varve faults campaign: many runs of a program, each under one fault, and what became of its results.
//   campaign_plan.cpp     the TOML file                  campaign_run.cpp      one run on a mount of its own
//   campaign.cpp          threads, resumption            campaign_outputs.cpp  comparison, verdict
//   campaign_golden.cpp   the run without a fault        campaign_report.cpp   statistics, CSV, HTML
//   campaign_work.cpp     a run's store and mount        campaign_plots.cpp    PNG
//   campaign_changes.cpp  which bytes were hit          campaign_record.cpp   the golden run of an earlier start
//   campaign_folders.h    results, scratch
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/result.h"
#include "faults/random.h"
#include "faults/structure.h"
#include "fs/formats/worker.h"

namespace varve::tools {

/// How an output is held against the golden run's.
struct OutputRule {
  std::string path;  ///< glob from the mount's root; "stdout" and "analysis" are what programs printed
  bool ignore = false;
  std::vector<std::string> compare;  ///< a program: 0 the same, 1 different, else unreadable; empty: byte for byte
};

/// One kind of fault; every run has one instance of it.
struct CampaignFault {
  std::string name, model, seam;
  std::string rule;        ///< the body of a [[fault]] without a trigger, TOML
  std::string operations;  ///< the line 'operation = [...]' of such a body
};

/// How a mount ends before its store is mounted again.
enum class Restart : uint8_t {
  no,       ///< it goes on
  kill,     ///< kill -9, without the fault
  unmount,  ///< as by `varve umount`, under the fault: what an unmount writes is hit too
};

/// Of each fault.
inline constexpr uint64_t kMostRuns = 10'000'000;

struct Campaign {
  std::string name;
  std::string folder;                 ///< of the campaign's file: relative paths start there
  std::vector<std::string> command;   ///< runs in the mount's root, under the fault
  std::vector<std::string> analysis;  ///< runs afterwards, without faults; may be empty
  std::string inputs;                 ///< a folder whose content is copied into the mount before; may be empty
  std::string bound;                  ///< of the mount's root; empty: lossless
  Restart restart = Restart::no;      ///< before results are read, the store is mounted again
  std::string detect;                 ///< a regular expression: printed by the program, it found the fault itself
  std::vector<OutputRule> outputs;    ///< the first that matches; none at all: every file, byte for byte
  std::vector<CampaignFault> faults;
  uint64_t runs = 1000;  ///< of each fault
  uint64_t seed = 1;
  double time_limit = 0;  ///< seconds; 0: ten times the golden run and five more
  std::string text;

  /// EINVAL with the line.
  static Result<Campaign> read(const std::string& path);
  /// The schedule of a run: the fault strikes at the nth matching operation.
  std::string schedule(const CampaignFault& fault, uint64_t nth, uint64_t run) const;
  uint64_t seed_of(const CampaignFault& fault, uint64_t run) const;
  /// Of the program, which took so many seconds in the golden run; of that run itself, without them.
  std::chrono::milliseconds limit_of_program(std::optional<double> seconds = {}) const;
  /// Of what looks at a run's results, and took so many seconds in the golden run.
  std::chrono::milliseconds limit_after(double seconds) const;
  const OutputRule* rule_for(const std::string& output) const;
};

enum class Outcome : uint8_t { benign, detected, silent, crash, hang, none };
/// none: no operation of that number came (thread timing), so there was no fault; not counted.
inline constexpr std::array<std::string_view, 6> kOutcomeNames = {"benign", "detected", "silent",
                                                                  "crash",  "hang",     "none"};

/// Of an outcome in tables and plots: all but none.
inline constexpr size_t kShownOutcomes = 5;
inline constexpr std::array<std::string_view, kShownOutcomes> kOutcomeColours = {"#9fc5a0", "#6d9dc5", "#c94f4f",
                                                                                 "#d9a441", "#8d7aa8"};

std::string_view name_in_outcomes(Outcome outcome);

/// Bytes that a run's faults changed (or kept from being written or read), within one region of a file.
struct Change {
  std::string path, region;
  uint64_t offset = 0, length = 0;
};

struct RunResult {
  std::string fault, model, seam;
  uint64_t run = 0, nth = 0;
  uint64_t seed = 0;  ///< of the schedule
  Outcome outcome = Outcome::none;
  int status = 0, signal = 0;
  double seconds = 0;
  std::string operation = {}, path = {},
              region = {};          ///< of the injection; region: "raw_data of /density", "pack", ...
  uint64_t offset = 0, length = 0;  ///< of the bytes that changed first, in the file
  uint64_t bytes_changed = 0;
  std::string detail = {};
  std::vector<Change> changes = {};  ///< of all its injections; none: known from an older table without them
};

/// Counts and the Wilson score interval of a share, 95%.
struct Share {
  uint64_t count = 0, total = 0;
  double rate() const { return total == 0 ? 0 : static_cast<double>(count) / static_cast<double>(total); }
  std::pair<double, double> interval() const;
};

/// Runs by outcome.
using Counts = std::array<uint64_t, kOutcomeNames.size()>;
/// All but none.
uint64_t counted(const Counts& counts);

/// What the golden run showed.
struct Golden {
  std::string folder;  ///< its files, "stdout" and "analysis" beside them
  double seconds = 0;
  double analysis_seconds = 0, compare_seconds = 0;  ///< that the analysis took, and the slowest comparator
  std::map<std::string, uint64_t> matches;           ///< operations that each fault could strike, by fault
};

/// Runs on mounts below `scratch`. Thread-safe.
class CampaignRunner {
 public:
  /// `stop`: becomes true when all is to end soon: EINTR.
  CampaignRunner(const Campaign& campaign, std::string results, std::string scratch, const std::atomic<bool>& stop);

  Result<Golden> golden();
  Result<RunResult> run(const Golden& golden, const CampaignFault& fault, uint64_t run);
  /// Runs leave their store, log and outputs under results/kept/.
  void keep_all() { keep_ = true; }

 private:
  struct Work;
  Status prepare(Work& work);
  Result<std::optional<uint64_t>> count_matches(Work& work, const CampaignFault& fault) const;
  Result<uint64_t> profile(Work& work, const CampaignFault& fault);
  Status check_outputs(Golden& golden, const Work& work) const;
  Status check_repeats(const Golden& golden, Work& work);
  Status check_compare(Golden& golden, const Work& work, const std::string& output) const;
  static Error nothing_matches(const Work& work, const CampaignFault& fault);
  Status analyse(Work& work, std::chrono::milliseconds limit, double* seconds = nullptr) const;
  Status execute(const Golden& golden, Work& work, const std::string& schedule, std::chrono::milliseconds limit);
  void note_injection(const Golden& golden, const Work& work, RunResult& result);
  Outcome judge(const Golden& golden, Work& work, RunResult& result);
  std::optional<Outcome> judge_output(const Golden& golden, Work& work, const std::string& output, RunResult& result);
  std::shared_ptr<const faults::StructureMap> map_of(const Golden& golden, const std::string& path);
  void add_regions(const Golden& golden, uint64_t begin, uint64_t end, const std::string& path, RunResult& result);

  const Campaign& campaign_;
  const std::string results_, scratch_;
  const std::atomic<bool>& stop_;
  bool keep_ = false;
  fs::RecogniserPool recognisers_;
  std::mutex mutex_;  ///< guards what follows
  std::map<std::string, std::shared_ptr<const faults::StructureMap>> maps_;
};

// campaign_record.cpp
/// The golden run that `results` has, or a new one. `path`: of the campaign's file, for errors. EEXIST: the folder
/// holds runs of another campaign, or from before a file changed that this one's runs depend on: a program or a path
/// that its commands name, or an input.
Result<Golden> find_golden(const Campaign& campaign, const std::string& path, const std::string& results,
                           CampaignRunner& runner);

// campaign_changes.cpp
std::string changes_header();
/// A row for each stretch.
std::string changes_lines(const RunResult& result);
/// Gives results their changes from such a table.
void add_changes(std::string_view text, std::vector<RunResult>& results);

// campaign_report.cpp
/// Quoted, if it must be.
std::string csv_field(std::string_view text);
std::vector<std::string> csv_fields(std::string_view line);
/// 0 if it is none.
uint64_t csv_number(const std::string& text);
std::string csv_header();
std::string csv_line(const RunResult& result);
/// By fault, in the campaign's order.
std::vector<std::pair<std::string, Counts>> outcomes_by_fault(const Campaign& campaign,
                                                              const std::vector<RunResult>& results);
/// Where in a file runs changed bytes: from its first byte to the last one changed, in `bins.size()` equal parts. A run
/// counts in each part of which it changed a byte.
struct FileMap {
  std::string path;
  uint64_t end = 1;  ///< past the last byte changed
  uint64_t runs = 0;
  std::vector<Counts> bins;
};
/// Of the files that the runs at the app seam hit, most often hit first, at most `most`.
std::vector<FileMap> file_maps(const std::vector<RunResult>& results, size_t bins, size_t most);
/// Lines that are not whole are left out.
std::vector<RunResult> parse_csv(std::string_view text);
/// `command`: of the campaign, for a shell; with --only and a run behind it, it repeats that.
std::string html_report(const Campaign& campaign, const Golden& golden, const std::vector<RunResult>& results,
                        const std::string& command);

// campaign_plots.cpp
/// Into `folder`: rates.png (shares with intervals by fault) and its numbers in rates.csv, sensitivity.png (outcomes
/// over the bytes of the files that were hit; not without runs at the app seam) and its numbers in sensitivity.csv.
Status write_plots(const Campaign& campaign, const std::vector<RunResult>& results, const std::string& folder);

// campaign.cpp
/// ENOSPC or EIO with a sentence: a result could not be written.
Status unwritten(const std::string& path);
Status write_result(const std::string& path, const std::string& text);
struct CampaignOptions {
  std::string path;     ///< of the campaign's file
  std::string results;  ///< folder; empty: beside the file, without its extension
  std::string scratch;  ///< where stores and mounts are made; empty: TMPDIR or /tmp
  std::string only;     ///< "FAULT:RUN": repeats one run, and keeps what it left
  unsigned workers = 0;
  uint64_t runs = 0;  ///< 0: as the file says
};
Status run_campaign(const CampaignOptions& options);

}  // namespace varve::tools
