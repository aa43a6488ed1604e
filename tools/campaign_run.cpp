// One run of a campaign: a fresh store, a mount, the inputs, the program under one fault, and the verdict.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <system_error>
#include <thread>

#include "faults/control.h"
#include "fs/fuse_mount_table.h"
#include "fs/policy.h"
#include "tools/campaign.h"
#include "tools/comparison.h"
#include "tools/mount_point.h"
#include "tools/process.h"

namespace varve::tools {
namespace {

namespace files = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kStartLimit = 60s;
constexpr auto kStopLimit = 120s;
constexpr std::chrono::milliseconds kDeathLimit = 5s;
constexpr std::string_view kGoodEnd = "(exit status 0, signal 0)\n";
constexpr uint64_t kNever = INT64_MAX;  // an `nth` that does not come: for the golden run

Error system_error_of(std::string_view what, const std::error_code& code) {
  return {code.value() != 0 ? code.value() : EIO, fmt::format("{}: {}", what, code.message())};
}

std::string new_key() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}{:08x}", source(), source(), source());
}

/// Writes a control file: in effect when this returns.
Status write_control(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good() ? Status() : Status(Error{EIO, fmt::format("{} was refused: see the mount's log", path)});
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string last_line(std::string_view text) {
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

/// Regular files below a folder, by relative path; .varve is none of them.
Result<std::vector<std::string>> files_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code problem;
  for (files::recursive_directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    if (it->is_regular_file(problem)) {
      found.push_back(it->path().lexically_relative(folder).string());
    }
  }
  std::ranges::sort(found);
  return problem ? Result<std::vector<std::string>>(system_error_of("cannot list " + folder, problem)) : found;
}

Status copy_tree(const std::string& from, const std::string& to) {
  std::error_code problem;
  files::copy(from, to, files::copy_options::recursive | files::copy_options::overwrite_existing, problem);
  if (problem && (problem.value() == EIO || problem.value() == ENOSPC)) {  // the library calls a full disk EIO
    return unwritten(to);
  }
  return problem ? Status(system_error_of(fmt::format("cannot copy {} to {}", from, to), problem)) : Status();
}

/// Runs the program that `key` of the campaign's file names.
Result<Ending> run_word(std::string_view key, const Program& program, std::chrono::milliseconds limit) {
  auto ended = tools::run(program, limit);
  return ended.ok()
             ? std::move(ended)
             : Error{ended.error().code, fmt::format("'{}': {}; programs are looked for in PATH, or by a path from "
                                                     "the mount's root or with {{here}}",
                                                     key, ended.error().text)};
}

enum class Same : uint8_t { yes, no, unreadable };

Same same_bytes(const std::string& golden, const std::string& found) {
  const auto left = PlainFile::open(golden);
  const auto right = PlainFile::open(found);
  if (!left.ok() || !right.ok()) {
    return Same::unreadable;
  }
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::byte> a(kPiece);
  std::vector<std::byte> b(kPiece);
  bool same = (*left)->size() == (*right)->size();
  for (uint64_t at = 0; at < (*right)->size(); at += kPiece) {  // to the end: it must be readable, too
    const auto got = (*right)->read(at, b);
    const auto wanted = (*left)->read(at, a);
    if (!got.ok() || !wanted.ok()) {
      return Same::unreadable;
    }
    same = same && *got == *wanted && std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(*got), b.begin());
  }
  return same ? Same::yes : Same::no;
}

/// By the rule's program. `folder`: where it runs; what it prints goes into "compare" there.
/// An error: it cannot be started.
Result<Same> compare(const OutputRule& rule, const std::string& golden, const std::string& found,
                     const std::string& folder) {
  Program program{rule.compare, folder, folder + "/compare", folder + "/compare"};
  for (std::string& word : program.words) {
    word = word == "{golden}" ? golden : word == "{found}" ? found : word;
  }
  VARVE_ASSIGN(const Ending ended, tools::run(program, 10min));
  const bool clear = !ended.timed_out && ended.signal == 0 && ended.status < 2;
  return !clear ? Same::unreadable : ended.status == 0 ? Same::yes : Same::no;
}

}  // namespace

/// What a run has on the disk. Taken away at the end.
struct CampaignRunner::Work {
  std::string folder, store, root, log;
  const std::string key = new_key();  ///< without it nobody else can arm this mount
  bool keep = false;
  std::optional<Child> daemon;
  std::optional<Ending> ending;  ///< of the program
  std::string journal;
  bool daemon_died = false;

  explicit Work(const std::string& place)
      : folder(place), store(place + "/store"), root(place + "/mnt"), log(place + "/log") {
    std::error_code ignored;
    files::remove_all(folder, ignored);
    files::create_directories(root, ignored);
  }
  ~Work() {
    if (keep) {
      if (daemon) {
        static_cast<void>(stop());
      }
      return;
    }
    if (daemon) {  // nobody needs the store any more
      daemon->kill();
    }
    static_cast<void>(fs::unmount(root, true));  // a daemon that did not answer may have left a mount
    std::error_code ignored;
    files::remove_all(folder, ignored);
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  std::string journal_file() const { return store + "/faults.jsonl"; }
  std::string control(const std::string& name) const { return root + "/.varve/" + name; }
  /// To a control file of the fault layer: in effect when this returns.
  Status tell(const std::string& command, const std::string& text) const {
    return write_control(control("faults/" + command), faults::Control::with_key(key, text));
  }

  Status mount() {
    VARVE_ASSIGN(Child child, Child::start({{"/proc/self/exe", "mount", "-f", "--workers", "1", store, root},
                                            "",
                                            log,
                                            log,
                                            fmt::format("{}={}", faults::Control::kKeyVariable, key)}));
    daemon.emplace(std::move(child));
    const auto deadline = std::chrono::steady_clock::now() + kStartLimit;
    const std::string pid = fmt::format("{}\n", daemon->pid());
    while (text_of(control("pid")) != pid) {
      if (daemon->wait(0ms) || std::chrono::steady_clock::now() > deadline) {
        daemon.reset();
        return Error{EIO, fmt::format("cannot mount: {}", last_line(text_of(log)))};
      }
      std::this_thread::sleep_for(5ms);
    }
    return {};
  }

  /// Ends a fault that holds programs up; if that cannot be done, the daemon.
  void let_go() {
    constexpr auto kPatience = 10s;
    journal = text_of(control("faults/journal"));
    auto disarm = Child::start({{"/proc/self/exe", "faults", "disarm", root},
                                "",
                                log,
                                log,
                                fmt::format("{}={}", faults::Control::kKeyVariable, key)});
    if (!disarm.ok() || !disarm->wait(kPatience)) {
      daemon->kill();
      daemon_died = true;
    }
  }

  /// Unmounts, and waits until the daemon has ended. Nothing: it did not, and was killed.
  std::optional<Ending> stop() {
    static_cast<void>(fs::unmount(root, true));  // where that fails, nobody unmounts, and the daemon does not end
    auto ended = daemon->wait(kStopLimit);
    if (!ended) {
      daemon->kill();
    }
    return ended;
  }

  /// Takes the place of a daemon that ended.
  Status mount_again() {
    static_cast<void>(fs::unmount(root, true));
    daemon.reset();
    return mount();
  }
};

CampaignRunner::CampaignRunner(const Campaign& campaign, std::string results, std::string scratch)
    : campaign_(campaign),
      results_(std::move(results)),
      scratch_(std::move(scratch)),
      recognisers_(fs::WorkerOptions()) {}

Status CampaignRunner::prepare(Work& work) {
  VARVE_TRY(work.mount());
  if (!campaign_.bound.empty() &&
      ::setxattr(work.root.c_str(), "user.varve.bound", campaign_.bound.data(), campaign_.bound.size(), 0) != 0) {
    return Error{errno, fmt::format("'bound' is refused: {}", campaign_.bound)};
  }
  if (!campaign_.inputs.empty()) {
    VARVE_TRY(copy_tree(campaign_.inputs, work.root));
  }
  const std::string synced = text_of(work.control("sync"));
  return synced == "ok\n" ? Status() : Status(Error{EIO, "the inputs cannot be stored: see " + work.log});
}

/// Arms, runs the program, disarms, runs the analysis.
Status CampaignRunner::execute(Work& work, const std::string& schedule, std::chrono::milliseconds limit,
                               const std::atomic<bool>* stop) {
  VARVE_TRY(work.tell("arm", schedule));
  const Program program{campaign_.command, work.root, work.folder + "/stdout", work.folder + "/stderr"};
  VARVE_ASSIGN(Child child, Child::start(program));
  work.ending = child.wait(limit, stop);
  if (!work.ending) {
    work.let_go();  // or the program could not be ended: it waits for the mount
    work.ending = child.kill();
    work.ending->timed_out = true;
  } else if (text_of(work.control("sync")).empty()) {   // sealing is still under the fault
    static_cast<void>(work.daemon->wait(kDeathLimit));  // it answers nothing: it is dying, which takes a while
  }
  work.daemon_died = work.daemon_died || work.daemon->wait(0ms).has_value();
  if (work.daemon_died) {
    work.journal = text_of(work.journal_file());
    VARVE_TRY(work.mount_again());
  } else if (campaign_.restart == Restart::unmount && !work.ending->timed_out) {
    const auto ended = work.stop();
    work.journal = text_of(work.journal_file());
    work.ending->timed_out = !ended;
    work.daemon_died = ended && ended->signal != 0;
    VARVE_TRY(work.mount_again());
  } else {
    work.journal = work.journal.empty() ? text_of(work.control("faults/journal")) : work.journal;
    VARVE_TRY(work.tell("disarm", "now\n"));
    if (campaign_.restart != Restart::no) {
      work.daemon->kill();
      VARVE_TRY(work.mount_again());
    }
  }
  return work.ending->timed_out ? Status() : analyse(work);
}

/// Ends the golden run. How many operations matched the fault; nothing: the mount does not tell.
Result<std::optional<uint64_t>> CampaignRunner::count_matches(Work& work, const CampaignFault& fault) const {
  nlohmann::json told;
  if (campaign_.restart == Restart::unmount) {
    static_cast<void>(work.stop());
    told = nlohmann::json::parse(last_line(text_of(work.journal_file())), nullptr, false);
    VARVE_TRY(work.mount_again());
  } else {
    told = nlohmann::json::parse(text_of(work.control("faults/status")), nullptr, false);
    VARVE_TRY(work.tell("disarm", "now\n"));
  }
  const auto rules = told.is_object() ? told.find("faults") : told.end();
  if (rules == told.end()) {
    return std::optional<uint64_t>();
  }
  const auto rule = std::ranges::find_if(*rules, [&](const auto& one) { return one.value("name", "") == fault.name; });
  return std::optional<uint64_t>(rule == rules->end() ? 0 : rule->value("matched", uint64_t{0}));
}

/// How often the fault could strike: it is armed as in a run, but its turn never comes. EINVAL: not once.
Result<uint64_t> CampaignRunner::profile(Work& work, const CampaignFault& fault) {
  VARVE_TRY(prepare(work));
  VARVE_TRY(work.tell("arm", campaign_.schedule(fault, kNever, 0)));
  const auto limit = campaign_.time_limit > 0
                         ? std::chrono::milliseconds(static_cast<int64_t>(1e3 * campaign_.time_limit))
                         : std::chrono::milliseconds(24h);
  const Program program{campaign_.command, work.root, work.folder + "/stdout", work.folder + "/stderr"};
  VARVE_ASSIGN(const Ending ending, run_word("command", program, limit));
  if (ending.timed_out || ending.signal != 0 || ending.status != 0) {
    return Error{EINVAL,
                 fmt::format("without any fault the program ended with status {}, signal {}{}: {}", ending.status,
                             ending.signal, ending.timed_out ? ", after its time" : "", text_of(program.errors))};
  }
  work.ending = ending;
  static_cast<void>(text_of(work.control("sync")));
  VARVE_ASSIGN(const auto matched, count_matches(work, fault));
  if (!matched) {
    return Error{EIO, fmt::format("the mount does not tell what it counted; its log ends with: {}",
                                  last_line(text_of(work.log)))};
  }
  return *matched > 0 ? Result<uint64_t>(*matched) : Result<uint64_t>(nothing_matches(work, fault));
}

/// The run without faults had no operation for it: what it asks for, and what there was.
Error CampaignRunner::nothing_matches(const Work& work, const CampaignFault& fault) {
  constexpr size_t kShown = 10;
  auto left = files_in(work.root);
  std::vector<std::string> files = left.ok() ? *std::move(left) : std::vector<std::string>();
  const size_t more = files.size() - std::min(files.size(), kShown);
  const bool by_meaning = std::ranges::any_of(std::array{"region =", "dataset =", "structure ="}, [&](const char* key) {
    return fault.rule.find(key) != std::string::npos;
  });
  files.resize(files.size() - more);
  return {EINVAL,
          fmt::format("fault \"{}\": the run without faults had no operation that matches its target, so that "
                      "there is nothing to run. The target is, at the seam \"{}\":\n{}{}The run left these files: "
                      "{}{}. Change the fault's path, operation or other keys{}",
                      fault.name, fault.seam, fault.rule,
                      fault.rule.find("operation =") == std::string::npos ? fault.operations : "",
                      files.empty() ? "none" : fmt::format("{}", fmt::join(files, ", ")),
                      more > 0 ? fmt::format(" and {} more", more) : "",
                      by_meaning ? ". A file that is being written has no arrays and structures yet: aim at them with "
                                   "operation = \"close\" or \"read\", or by 'offset'"
                                 : "")};
}

Status CampaignRunner::analyse(Work& work) {
  if (campaign_.analysis.empty()) {
    return {};
  }
  const Program analysis{campaign_.analysis, work.root, work.folder + "/analysis", work.folder + "/analysis.errors"};
  VARVE_ASSIGN(const Ending after, run_word("analysis", analysis, std::chrono::milliseconds(1h)));
  std::ofstream(work.folder + "/analysis", std::ios::app)
      << fmt::format("(exit status {}, signal {})\n", after.status, after.signal);
  return {};
}

/// A program that finds the golden run unlike itself would call every run silent or detected. EINVAL.
Status CampaignRunner::check_compare(const Golden& golden, const Work& work, const std::string& output) const {
  const OutputRule* rule = campaign_.rule_for(output);
  if (rule == nullptr || rule->ignore || rule->compare.empty()) {
    return {};
  }
  const bool printed = output == "stdout" || output == "analysis";
  const std::string path = golden.folder + (printed ? "/" : "/files/") + output;
  const auto same = compare(*rule, path, path, work.folder);
  if (same.ok() && *same == Same::yes) {
    return {};
  }
  return Error{EINVAL,
               fmt::format("[[output]] \"{}\": 'compare' does not find {} of the golden run equal to itself: {}. "
                           "It must end with 0 for outputs that are the same, with 1 for others",
                           rule->path, output,
                           same.ok() ? fmt::format("its exit status is {}; it printed: {}",
                                                   *same == Same::no ? "1" : "neither 0 nor 1",
                                                   last_line(text_of(work.folder + "/compare")))
                                     : same.error().text)};
}

/// There is something to compare, and each [[output]] is a part of it: else all runs would be benign. EINVAL.
Status CampaignRunner::check_outputs(const Golden& golden, const Work& work) const {
  VARVE_ASSIGN(std::vector<std::string> outputs, files_in(golden.folder + "/files"));
  const std::string left = outputs.empty() ? "no file" : fmt::format("{}", fmt::join(outputs, ", "));
  if (outputs.empty() && campaign_.outputs.empty()) {
    return Error{EINVAL,
                 "the run without faults left no file, so there is nothing to compare: name what it prints, by "
                 "[[output]] and path = \"stdout\""};
  }
  outputs.insert(outputs.end(), {"stdout"});
  if (!campaign_.analysis.empty()) {
    outputs.emplace_back("analysis");
  }
  for (const OutputRule& rule : campaign_.outputs) {
    if (std::ranges::none_of(outputs, [&](const std::string& name) { return fs::glob_match(rule.path, name); })) {
      return Error{EINVAL, fmt::format("[[output]] \"{}\": the run without faults left nothing of that name, but {}{}",
                                       rule.path, left, campaign_.analysis.empty() ? "" : ", and the analysis")};
    }
  }
  for (const std::string& output : outputs) {
    VARVE_TRY(check_compare(golden, work, output));
  }
  return {};
}

Result<Golden> CampaignRunner::golden() {
  Golden golden;
  golden.folder = results_ + "/golden";
  for (const CampaignFault& fault : campaign_.faults) {
    Work work(scratch_ + "/golden");
    VARVE_ASSIGN(golden.matches[fault.name], profile(work, fault));
    if (golden.matches.size() > 1) {
      continue;
    }
    golden.seconds = work.ending->seconds;
    VARVE_TRY(analyse(work));
    const std::string analysed = text_of(work.folder + "/analysis");
    if (!campaign_.analysis.empty() && !analysed.ends_with(kGoodEnd)) {
      return Error{EINVAL, fmt::format("without any fault the analysis fails: {}{}", analysed,
                                       text_of(work.folder + "/analysis.errors"))};
    }
    std::error_code ignored;
    files::remove_all(golden.folder, ignored);
    files::create_directories(golden.folder, ignored);
    VARVE_TRY(copy_tree(work.root, golden.folder + "/files"));
    for (const std::string name : {"stdout", "analysis"}) {
      files::copy_file(work.folder + "/" + name, golden.folder + "/" + name, ignored);
    }
    VARVE_TRY(check_outputs(golden, work));
  }
  return golden;
}

std::string CampaignRunner::region_of(const Golden& golden, const std::string& path, uint64_t offset) {
  std::shared_ptr<const faults::StructureMap> map;
  {
    const std::lock_guard lock(mutex_);
    auto& known = maps_[path];
    if (!known) {
      const auto file = PlainFile::open(golden.folder + "/files/" + path);
      if (file.ok()) {
        known = faults::StructureMap::of(path.substr(path.rfind('/') + 1), **file, recognisers_);
      } else {
        known = std::make_shared<faults::StructureMap>();  // a file that the program removed
      }
    }
    map = known;
  }
  const faults::Segment* segment = map->at(offset);
  if (segment == nullptr) {
    return "temporary file";
  }
  return segment->name.empty() ? segment->structure : fmt::format("{} of {}", segment->structure, segment->name);
}

/// From the journal's first injection.
void CampaignRunner::note_injection(const Golden& golden, const Work& work, RunResult& result) {
  std::istringstream lines(work.journal);
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("effect")) {
      continue;
    }
    const auto& effect = entry["effect"];
    result.operation = entry.value("op", "");
    result.path = entry.value("path", "");
    result.offset = entry.value("offset", uint64_t{0});
    result.length = entry.value("length", uint64_t{0});
    for (const auto& edit : effect.value("edits", nlohmann::json::array())) {
      const auto length = edit.value("length", uint64_t{0});
      if (result.bytes_changed == 0) {
        result.offset = edit.value("offset", uint64_t{0});
        result.length = length;
      }
      result.bytes_changed += length;
    }
    result.region = result.seam == "app" ? region_of(golden, result.path, result.offset)
                                         : std::string(name_of(faults::file_kind(result.path)));
    result.outcome = Outcome::benign;
    return;
  }
}

/// Nothing: as in the golden run.
std::optional<Outcome> CampaignRunner::judge_output(const Golden& golden, Work& work, const std::string& output,
                                                    RunResult& result) {
  const OutputRule* rule = campaign_.rule_for(output);
  const bool printed = output == "stdout" || output == "analysis";
  if ((rule == nullptr && (printed || !campaign_.outputs.empty())) || (rule != nullptr && rule->ignore)) {
    return std::nullopt;
  }
  const std::string wanted = golden.folder + (printed ? "/" : "/files/") + output;
  const std::string found = (printed ? work.folder : work.root) + "/" + output;
  std::error_code ignored;
  if (printed && !files::exists(wanted, ignored)) {
    return std::nullopt;  // there is no analysis
  }
  std::error_code problem;  // none where there is no such file
  if (!files::exists(found, problem)) {
    result.detail = output + (problem ? " cannot be read" : " is missing");
    return Outcome::detected;
  }
  Same same = same_bytes(wanted, found);
  if (same == Same::no && rule != nullptr && !rule->compare.empty()) {
    const auto judged = compare(*rule, wanted, found, work.folder);
    same = judged.ok() ? *judged : Same::unreadable;
  }
  if (same == Same::yes) {
    return std::nullopt;
  }
  result.detail = output + (same == Same::no ? " differs" : " cannot be read");
  return same == Same::no ? Outcome::silent : Outcome::detected;
}

Outcome CampaignRunner::judge(const Golden& golden, Work& work, RunResult& result) {
  const Ending& ending = *work.ending;
  if (ending.timed_out) {
    return Outcome::hang;
  }
  constexpr int kShellSignal = 128;  // how shells tell of a signal
  if (ending.signal != 0 || ending.status > kShellSignal) {
    result.detail = fmt::format("signal {}", ending.signal != 0 ? ending.signal : ending.status - kShellSignal);
    return Outcome::crash;
  }
  const bool meant = work.journal.find("\"ending\":") != std::string::npos;
  if (work.daemon_died && !meant) {
    result.detail = "the daemon died";
    return Outcome::crash;
  }
  if (ending.status != 0) {
    result.detail = fmt::format("exit status {}", ending.status);
    return Outcome::detected;
  }
  if (!campaign_.detect.empty()) {
    const std::string said = text_of(work.folder + "/stdout") + text_of(work.folder + "/stderr");
    if (std::regex_search(said, std::regex(campaign_.detect))) {
      result.detail = "the program says so";
      return Outcome::detected;
    }
  }
  // An output that cannot be read tells of the fault, whatever else differs.
  auto outputs = files_in(golden.folder + "/files");
  if (!outputs.ok()) {
    return Outcome::detected;
  }
  outputs->insert(outputs->end(), {"stdout", "analysis"});
  std::optional<Outcome> verdict;
  std::string detail;
  for (const std::string& output : *outputs) {
    const auto one = judge_output(golden, work, output, result);
    if (one && (!verdict || *one == Outcome::detected)) {
      verdict = one;
      detail = result.detail;
    }
  }
  result.detail = detail;
  const std::string analysed = text_of(work.folder + "/analysis");
  if (verdict != Outcome::detected && !analysed.empty() && !analysed.ends_with(kGoodEnd)) {
    result.detail = "the analysis failed";
    return Outcome::detected;
  }
  return verdict.value_or(Outcome::benign);
}

Result<RunResult> CampaignRunner::run(const Golden& golden, const CampaignFault& fault, uint64_t run,
                                      const std::atomic<bool>* stop) {
  const uint64_t matches = golden.matches.at(fault.name);
  RunResult result{fault.name, fault.model, fault.seam, run, 0, campaign_.seed_of(fault, run)};
  faults::Draw draw(campaign_.seed, faults::hash_of(fault.name), run);
  result.nth = 1 + draw.below(matches);
  Work work(fmt::format("{}/{}-{}", keep_ ? results_ + "/kept" : scratch_, fault.name, run));
  work.keep = keep_;
  VARVE_TRY(prepare(work));
  const double seconds = campaign_.time_limit > 0 ? campaign_.time_limit : 10 * golden.seconds + 5;
  const Status done = execute(work, campaign_.schedule(fault, result.nth, run),
                              std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)), stop);
  if (!work.ending) {
    return done.error();
  }
  result.status = work.ending->status;
  result.signal = work.ending->signal;
  result.seconds = work.ending->seconds;
  note_injection(golden, work, result);
  if (result.outcome != Outcome::none) {
    VARVE_TRY(write_result(fmt::format("{}/journals/{}-{}.jsonl", results_, fault.name, run), work.journal));
    result.outcome = done.ok() || work.ending->timed_out ? judge(golden, work, result) : Outcome::detected;
    result.detail += done.ok() ? "" : done.error().text;
  }
  return result;
}

}  // namespace varve::tools
