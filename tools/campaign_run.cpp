// One run of a campaign: a fresh store, a mount, the inputs, the program under one fault, and the verdict.
#include <fmt/format.h>
#include <sys/xattr.h>

#include <fstream>

#include "tools/campaign_work.h"

namespace varve::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kDeathLimit = 5s;

}  // namespace

CampaignRunner::CampaignRunner(const Campaign& campaign, std::string results, std::string scratch,
                               const std::atomic<bool>& stop)
    : campaign_(campaign),
      results_(std::move(results)),
      scratch_(std::move(scratch)),
      stop_(stop),
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
Status CampaignRunner::execute(const Golden& golden, Work& work, const std::string& schedule,
                               std::chrono::milliseconds limit) {
  VARVE_TRY(work.tell("arm", schedule));
  const Program program{campaign_.command, work.root, work.folder + "/stdout", work.folder + "/stderr"};
  VARVE_ASSIGN(Child child, Child::start(program));
  work.ending = child.wait(limit, &stop_);
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
  return work.ending->timed_out ? Status() : analyse(work, campaign_.limit_after(golden.analysis_seconds));
}

Status CampaignRunner::analyse(Work& work, std::chrono::milliseconds limit, double* seconds) const {
  if (campaign_.analysis.empty()) {
    return {};
  }
  const Program analysis{campaign_.analysis, work.root, work.folder + "/analysis", work.folder + "/analysis.errors"};
  VARVE_ASSIGN(const Ending after, run_word("analysis", analysis, limit, stop_));
  if (seconds != nullptr) {
    *seconds = after.seconds;
  }
  std::ofstream(work.folder + "/analysis", std::ios::app)
      << fmt::format("(exit status {}, signal {})\n", after.status, after.signal);
  return {};
}

Result<RunResult> CampaignRunner::run(const Golden& golden, const CampaignFault& fault, uint64_t run) {
  const uint64_t matches = golden.matches.at(fault.name);
  RunResult result{fault.name, fault.model, fault.seam, run, 0, campaign_.seed_of(fault, run)};
  faults::Draw draw(campaign_.seed, faults::hash_of(fault.name), run);
  result.nth = 1 + draw.below(matches);
  Work work(fmt::format("{}/{}-{}", keep_ ? results_ + "/kept" : scratch_, fault.name, run));
  work.keep = keep_;
  VARVE_TRY(prepare(work));
  const Status done =
      execute(golden, work, campaign_.schedule(fault, result.nth, run), campaign_.limit_of_program(golden.seconds));
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
