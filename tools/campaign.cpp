// A campaign from beginning to end: golden run, threads, resumption, progress.
#include "tools/campaign.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>

#include "tools/campaign_folders.h"
#include "tools/campaign_work.h"
#include "tools/mount_point.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

std::atomic<bool> interrupted{false};
void on_interrupt(int /*signal*/) { interrupted = true; }

struct Task {
  const CampaignFault* fault = nullptr;
  uint64_t run = 0;
};

/// Runs of all faults in turn, so that an interrupted campaign has something of each.
std::vector<Task> tasks_left(const Campaign& campaign, const std::vector<RunResult>& done) {
  std::set<std::pair<std::string, uint64_t>> known;
  for (const RunResult& result : done) {
    known.emplace(result.fault, result.run);
  }
  std::vector<Task> tasks;
  for (uint64_t run = 0; run < campaign.runs; ++run) {
    for (const CampaignFault& fault : campaign.faults) {
      if (!known.contains({fault.name, run})) {
        tasks.push_back({&fault, run});
      }
    }
  }
  return tasks;
}

/// Results as they come: into the CSV, and a line for people.
class Ledger {
 public:
  Ledger(const std::string& results, std::vector<RunResult> done, size_t total)
      : path_(results + "/runs.csv"),
        changes_path_(results + "/changes.csv"),
        results_(std::move(done)),
        before_(results_.size()),
        total_(total),
        start_(std::chrono::steady_clock::now()) {
    open(csv_, path_, csv_header());
    open(changes_, changes_path_, changes_header());
  }
  void add(RunResult result) {
    const std::lock_guard lock(mutex_);
    changes_ << changes_lines(result) << std::flush;  // first: a run without a row in runs.csv is done again
    if (changes_.good()) {
      csv_ << csv_line(result) << std::flush;
    }
    if (!changes_.good() || !csv_.good()) {
      failure_ = failure_ ? failure_ : unwritten(changes_.good() ? path_ : changes_path_).error();
      return;
    }
    results_.push_back(std::move(result));
    show();
  }
  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_ = std::move(error);
    }
  }
  bool failed() {
    const std::lock_guard lock(mutex_);
    return failure_.has_value();
  }
  std::vector<RunResult> results() const { return results_; }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  /// To add lines to a table that may be new, or cut in the middle of a line.
  static void open(std::ofstream& table, const std::string& path, const std::string& header) {
    std::ifstream old(path, std::ios::ate);
    const bool fresh = !old.is_open();
    bool cut = false;
    if (!fresh && old.tellg() > 0) {
      old.seekg(-1, std::ios::end);
      cut = old.get() != '\n';
    }
    table.open(path, std::ios::app);
    table << (fresh ? header : cut ? "\n" : "");
  }
  void show() {
    if (isatty(STDERR_FILENO) == 0) {
      return;
    }
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const auto fresh = static_cast<double>(results_.size() - before_);
    const double left = passed / fresh * static_cast<double>(total_ - std::min(total_, results_.size()));
    std::array<size_t, kOutcomeNames.size()> counts{};
    for (const RunResult& result : results_) {
      ++counts[static_cast<size_t>(result.outcome)];
    }
    std::string line;
    for (size_t i = 0; i < counts.size(); ++i) {
      line += counts[i] > 0 ? fmt::format(" {} {}", kOutcomeNames[i], counts[i]) : "";
    }
    fmt::print(stderr, "\r\x1b[K{} of {} runs;{}; {:.0f} min {:02.0f} s left", results_.size(), total_, line,
               std::floor(left / 60), std::fmod(left, 60));
    if (results_.size() == total_) {
      fmt::print(stderr, "\n");
    }
  }

  std::mutex mutex_;
  const std::string path_, changes_path_;
  std::vector<RunResult> results_;
  const size_t before_, total_;
  const std::chrono::steady_clock::time_point start_;
  std::ofstream csv_, changes_;
  std::optional<Error> failure_;
};

void run_tasks(CampaignRunner& runner, const Golden& golden, const std::vector<Task>& tasks, unsigned workers,
               Ledger& ledger) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < tasks.size() && !interrupted && !ledger.failed(); i = next++) {
      auto result = runner.run(golden, *tasks[i].fault, tasks[i].run);
      if (interrupted) {
        return;  // the run was cut off
      }
      if (result.ok()) {
        ledger.add(*std::move(result));
      } else {
        ledger.fail(result.error());
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < workers; ++i) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

Status run_one(CampaignRunner& runner, const Golden& golden, const Campaign& campaign, const CampaignOptions& options,
               const std::string& results) {
  const size_t colon = options.only.rfind(':');
  const std::string name = options.only.substr(0, colon);
  uint64_t run = 0;
  const std::string number = colon == std::string::npos ? "" : options.only.substr(colon + 1);
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), run);
  const auto fault = std::ranges::find_if(campaign.faults, [&](const CampaignFault& one) { return one.name == name; });
  const bool whole = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size();
  if (number.empty() || !whole || fault == campaign.faults.end()) {
    return Error{EINVAL, fmt::format("--only \"{}\" names no run: give FAULT:NUMBER as in the report", options.only)};
  }
  if (run >= campaign.runs) {
    return Error{EINVAL, fmt::format("--only \"{}\" names no run: {} has the runs 0 to {}", options.only, name,
                                     campaign.runs - 1)};
  }
  runner.keep_all();
  VARVE_ASSIGN(const RunResult result, runner.run(golden, *fault, run));
  fmt::print("{}{}", csv_header(), csv_line(result));
  fmt::print("store, log and what the program printed are in {}/kept/{}-{}\n", results, name, run);
  return {};
}

void print_summary(const Campaign& campaign, const std::vector<RunResult>& results, const std::string& folder) {
  fmt::print("{:<28} {:>6}", "fault", "runs");
  for (size_t i = 0; i < kShownOutcomes; ++i) {
    fmt::print(" {:>24}", kOutcomeNames[i]);
  }
  fmt::print("\n");
  for (const auto& [name, counts] : outcomes_by_fault(campaign, results)) {
    const uint64_t total = counted(counts);
    fmt::print("{:<28} {:>6}", name, total);
    for (size_t i = 0; i < kShownOutcomes; ++i) {
      const Share share{counts[i], total};
      const auto [low, high] = share.interval();
      fmt::print(
          " {:>24}",
          total == 0 ? "-" : fmt::format("{:.1f}% ({:>5.1f} to {:>5.1f})", 100 * share.rate(), 100 * low, 100 * high));
    }
    fmt::print("\n");
  }
  const auto missed = std::ranges::count(results, Outcome::none, &RunResult::outcome);
  if (missed > 0) {
    fmt::print("{} of {} runs had no operation of the drawn number, so no fault, and are not counted\n", missed,
               results.size());
  }
  fmt::print("{0}/report.html, {0}/runs.csv, {0}/rates.png, {0}/sensitivity.png\n", folder);
}

/// A word as a POSIX shell reads it back.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

/// The command of this campaign, for a shell in any folder.
std::string command_of(const CampaignOptions& options, const std::string& file, const std::string& results) {
  std::error_code problem;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", problem).string();
  program = problem ? "varve" : program;
  std::string command =
      fmt::format("{} faults campaign {} --results {}", shell_word(program), shell_word(file), shell_word(results));
  command += options.scratch.empty() ? "" : " --scratch " + shell_word(options.scratch);
  return command + (options.runs == 0 ? "" : fmt::format(" --runs {}", options.runs));
}

}  // namespace

Status unwritten(const std::string& path) {
  std::error_code problem;
  const auto space = std::filesystem::space(std::filesystem::path(path).parent_path(), problem);
  constexpr uint64_t kFull = 4096;
  const bool full = !problem && space.available < kFull;
  return Error{full ? ENOSPC : EIO,
               fmt::format("cannot write {}: {}; what is in that folder stays, and the same command goes on from it",
                           path, full ? "the disk is full" : "the disk refuses it")};
}

Status write_result(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good() ? Status() : unwritten(path);
}

Status run_campaign(const CampaignOptions& options) {
  VARVE_ASSIGN(Campaign campaign, Campaign::read(options.path));
  campaign.runs = options.runs != 0 ? options.runs : campaign.runs;
  VARVE_ASSIGN(const std::string file, absolute_path(options.path));
  std::string results = options.results;
  if (results.empty()) {
    results = std::filesystem::path(file).replace_extension("").string() + ".results";
  }
  VARVE_ASSIGN(results, absolute_path(results));
  ResultsFolder folder(results);
  VARVE_TRY(folder.take());
  ScratchFolder scratch(options.scratch);
  VARVE_TRY(scratch.take());
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  CampaignRunner runner(campaign, results, scratch.path(), interrupted);
  VARVE_ASSIGN(const Golden golden, find_golden(campaign, options.path, results, runner));
  VARVE_TRY(folder.prepare());
  if (!options.only.empty()) {
    return run_one(runner, golden, campaign, options, results);
  }
  std::vector<RunResult> done = parse_csv(text_of(results + "/runs.csv"));
  add_changes(text_of(results + "/changes.csv"), done);
  const std::vector<Task> tasks = tasks_left(campaign, done);
  Ledger ledger(results, done, done.size() + tasks.size());
  const unsigned workers = options.workers != 0 ? options.workers : std::max(1U, std::thread::hardware_concurrency());
  run_tasks(runner, golden, tasks, workers, ledger);
  const std::vector<RunResult> all = ledger.results();
  Status reported =
      write_result(results + "/report.html", html_report(campaign, golden, all, command_of(options, file, results)));
  if (reported.ok()) {
    reported = write_plots(campaign, all, results);
  }
  print_summary(campaign, all, results);
  if (ledger.failure()) {
    return *ledger.failure();
  }
  VARVE_TRY(reported);
  return interrupted ? Status(Error{EINTR, "interrupted; the same command goes on from here"}) : Status();
}

}  // namespace varve::tools
