// The run without a fault: how often each fault could strike, and what the program leaves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tools/campaign_work.h"

namespace varve::tools {
namespace {

namespace files = std::filesystem;
using namespace std::chrono_literals;

constexpr uint64_t kNever = INT64_MAX;  // an `nth` that does not come

}  // namespace

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
  const Program program{campaign_.command, work.root, work.folder + "/stdout", work.folder + "/stderr"};
  VARVE_ASSIGN(const Ending ending, run_word("command", program, campaign_.limit_of_program(), stop_));
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

/// A program that gives something else each time would make every run silent. EINVAL.
Status CampaignRunner::check_repeats(const Golden& golden, Work& work) {
  VARVE_TRY(analyse(work, campaign_.limit_after(golden.analysis_seconds)));
  RunResult result;
  if (judge(golden, work, result) == Outcome::benign) {
    return {};
  }
  return Error{EINVAL,
               fmt::format("two runs without any fault do not give the same: {}. Make the program repeat itself "
                           "(fix its seeds, leave out times), or say by [[output]] what to compare, and how",
                           result.detail)};
}

Result<Golden> CampaignRunner::golden() {
  Golden golden;
  golden.folder = results_ + "/golden";
  for (const CampaignFault& fault : campaign_.faults) {
    Work work(scratch_ + "/golden");
    VARVE_ASSIGN(golden.matches[fault.name], profile(work, fault));
    if (golden.matches.size() > 1) {
      VARVE_TRY(check_repeats(golden, work));
      continue;
    }
    golden.seconds = work.ending->seconds;
    VARVE_TRY(analyse(work, 1h, &golden.analysis_seconds));
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
  if (campaign_.faults.size() == 1) {
    Work work(scratch_ + "/golden");
    VARVE_ASSIGN(const uint64_t matches, profile(work, campaign_.faults[0]));
    static_cast<void>(matches);  // threads may make a few more or less
    VARVE_TRY(check_repeats(golden, work));
  }
  return golden;
}

}  // namespace varve::tools
