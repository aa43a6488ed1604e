// A campaign's outputs: what can be compared, how, and the verdict on a run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <system_error>

#include "fs/policy.h"
#include "tools/campaign_work.h"
#include "tools/comparison.h"

namespace varve::tools {
namespace {

namespace files = std::filesystem;
using namespace std::chrono_literals;

enum class Same : uint8_t { yes, no, unreadable, late };

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
                     const std::string& folder, std::chrono::milliseconds limit, double* seconds = nullptr) {
  Program program{rule.compare, folder, folder + "/compare", folder + "/compare"};
  for (std::string& word : program.words) {
    word = word == "{golden}" ? golden : word == "{found}" ? found : word;
  }
  VARVE_ASSIGN(const Ending ended, tools::run(program, limit));
  if (seconds != nullptr) {
    *seconds = std::max(*seconds, ended.seconds);
  }
  if (ended.timed_out) {
    return Same::late;
  }
  const bool clear = ended.signal == 0 && ended.status < 2;
  return !clear ? Same::unreadable : ended.status == 0 ? Same::yes : Same::no;
}

}  // namespace

/// A program that finds the golden run unlike itself would call every run silent or detected. EINVAL.
Status CampaignRunner::check_compare(Golden& golden, const Work& work, const std::string& output) const {
  const OutputRule* rule = campaign_.rule_for(output);
  if (rule == nullptr || rule->ignore || rule->compare.empty()) {
    return {};
  }
  const bool printed = output == "stdout" || output == "analysis";
  const std::string path = golden.folder + (printed ? "/" : "/files/") + output;
  if (kind_of(path) != Kind::content) {
    return {};
  }
  const auto same = compare(*rule, path, path, work.folder, 1h, &golden.compare_seconds);
  if (same.ok() && *same == Same::yes) {
    return {};
  }
  return Error{EINVAL,
               fmt::format("[[output]] \"{}\": 'compare' does not find {} of the golden run equal to itself: {}. "
                           "It must end with 0 for outputs that are the same, with 1 for others",
                           rule->path, output,
                           same.ok() && *same == Same::late ? "it did not end within an hour"
                           : same.ok()                      ? fmt::format("its exit status is {}; it printed: {}",
                                                     *same == Same::no ? "1" : "neither 0 nor 1",
                                                                          last_line(text_of(work.folder + "/compare")))
                                                            : same.error().text)};
}

/// There is something to compare, and each [[output]] is a part of it: else all runs would be benign. EINVAL.
Status CampaignRunner::check_outputs(Golden& golden, const Work& work) const {
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
  const Kind wanted_kind = kind_of(wanted);
  const Kind kind = kind_of(found);
  if (printed && wanted_kind == Kind::missing) {
    return std::nullopt;  // there is no analysis
  }
  if (kind == Kind::missing || kind == Kind::unreadable || (kind != wanted_kind && wanted_kind == Kind::content)) {
    result.detail = output + (kind == Kind::missing      ? " is missing"
                              : kind == Kind::unreadable ? " cannot be read"
                              : kind == Kind::link       ? " is a link that leads to no file"
                                                         : " is no regular file");
    return Outcome::detected;
  }
  if (wanted_kind != Kind::content) {
    const bool same = kind == wanted_kind &&
                      (kind == Kind::link ? link_text(found, work.root) == link_text(wanted, golden.folder + "/files")
                                          : files::status(found).type() == files::status(wanted).type());
    result.detail = same ? "" : output + " differs";
    return same ? std::nullopt : std::optional(Outcome::silent);
  }
  Same same = same_bytes(wanted, found);
  if (same == Same::no && rule != nullptr && !rule->compare.empty()) {
    const auto judged = compare(*rule, wanted, found, work.folder, campaign_.limit_after(golden.compare_seconds));
    same = judged.ok() ? *judged : Same::unreadable;
  }
  if (same == Same::yes) {
    return std::nullopt;
  }
  result.detail = output + (same == Same::no     ? " differs"
                            : same == Same::late ? " could not be compared within the time limit"
                                                 : " cannot be read");
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

}  // namespace varve::tools
