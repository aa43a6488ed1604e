// varve faults: arms, disarms and watches the fault layer of a mount.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "faults/control.h"
#include "faults/journal.h"
#include "faults/schedule.h"
#include "fs/fuse_mount_table.h"
#include "index/store_directory.h"
#include "tools/campaign.h"
#include "tools/commands.h"
#include "tools/mount_point.h"
#include "tools/report.h"
#include "tools/store_place.h"

namespace varve::tools {
namespace {

/// A mount's folder of control files: "/mnt/.varve/faults/".
Result<std::string> control_folder(const std::string& path) {
  VARVE_ASSIGN(const MountedPath place, find_mount(path));
  return place.control("faults/");
}

/// The sentence of a command that the mount refused.
Error refused(const std::string& folder, const std::string& command, int code) {
  std::string why = std::generic_category().message(code);
  if (const auto text = read_text(folder + "status"); text.ok()) {
    const auto status = nlohmann::json::parse(*text, nullptr, false);
    if (status.is_object() && !status.value("refused", "").empty()) {
      why = status.value("refused", "");
    }
  }
  return {code, fmt::format("the mount refused to {}: {}", command, why)};
}

/// In effect when this returns.
Status tell(const std::string& directory, const std::string& command, std::string text) {
  const char* key = std::getenv(faults::Control::kKeyVariable);
  text = faults::Control::with_key(key != nullptr && command != "mark" ? key : "", text);
  VARVE_ASSIGN(const std::string folder, control_folder(directory));
  return write_control_file(folder + command, text, "only root and the owner of the mount's root may",
                            [&](int code) { return refused(folder, command, code); });
}

/// The process that serves `directory`, found without asking it; 0: not found.
pid_t daemon_at(const std::string& directory) {
  std::error_code problem;
  const std::string path = std::filesystem::absolute(directory, problem).lexically_normal().string();
  std::optional<fs::MountEntry> found;
  for (fs::MountEntry& entry : fs::mount_table()) {
    if (entry.type == fs::kMountType && (is_inside(path, entry.mountpoint) || path == entry.mountpoint + "/")) {
      found = std::move(entry);
    }
  }
  return found ? index::StoreLock::writer(found->source).value_or(0) : 0;
}

/// Through the control file; if that is not taken, since operations that are late hold the daemon up, by a signal.
int disarm(const std::string& directory) {
  constexpr int kPatience = 3000;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return finish(tell(directory, "disarm", "disarm\n"));
  }
  const pid_t child = fork();
  if (child == 0) {
    _exit(finish(tell(directory, "disarm", "disarm\n")));
  }
  ::close(ends[1]);
  pollfd ended{.fd = ends[0], .events = POLLIN, .revents = 0};  // its end is closed with the child
  if (child > 0 && poll(&ended, 1, kPatience) == 0) {
    if (const pid_t daemon = daemon_at(directory); daemon > 0) {
      ::kill(daemon, SIGUSR2);
    }
  }
  ::close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    return fail(Error{EIO, "cannot start a process, or it was killed: try again"});
  }
  return WEXITSTATUS(status);
}

Status arm(const std::string& directory, const std::string& file) {
  VARVE_ASSIGN(const std::string text, read_text(file));
  VARVE_ASSIGN(const faults::Schedule schedule, faults::Schedule::parse(text, file));  // the sentence comes from here
  if (schedule.seed_given) {
    return tell(directory, "arm", text);
  }
  VARVE_TRY(tell(directory, "arm", fmt::format("seed = {}\n{}", schedule.seed, text)));
  fmt::print("seed = {}\n", schedule.seed);  // so that the run can be repeated
  return {};
}

Status show(const std::string& directory, const std::string& file) {
  VARVE_ASSIGN(const std::string folder, control_folder(directory));
  VARVE_ASSIGN(const std::string text, read_text(folder + file));
  fmt::print("{}", text);
  return {};
}

Status replay(const std::string& directory, const std::string& file) {
  VARVE_ASSIGN(const std::string text, read_text(file));
  if (text.empty()) {  // nothing would be written, and so nothing refused
    return Error{EBADMSG, fmt::format("{} is empty: give what `varve faults journal` printed", file)};
  }
  const auto journal = faults::parse_journal(text, file);
  return journal.ok() ? tell(directory, "replay", std::string(faults::last_arming(text))) : Status(journal.error());
}

struct Words {
  std::string directory, text;
};

template <typename Action>
CLI::App* add(CLI::App& parent, int& status, const char* name, const char* meaning, const char* second, Action action) {
  auto words = std::make_shared<Words>();
  CLI::App* command = parent.add_subcommand(name, meaning);
  command->add_option("DIR", words->directory, "The mount, or anything in it")->required();
  if (second != nullptr) {
    command->add_option(second, words->text)->required();
  }
  command->callback([words, action, &status] { status = finish(action(words->directory, words->text)); });
  return command;
}

void add_campaign(CLI::App& parent, int& status) {
  auto options = std::make_shared<CampaignOptions>();
  CLI::App* command =
      parent.add_subcommand("campaign", "Run a program many times, each under one fault, and count outcomes");
  command->footer(
      "Example of FILE:\n"
      "  command = [\"sh\", \"-c\", \"simulate > log && analyse out.h5 > result.txt\"]   # runs in the mount's root\n"
      "  runs = 1000                          # of each fault; each at an operation drawn anew\n"
      "  [[output]]\n"
      "  path = \"result.txt\"\n"
      "  [[fault]]\n"
      "  model = \"bit_flip\"\n"
      "  path = \"*.h5\"\n"
      "Interrupted, the same command goes on where it was. docs/FAULTS.md has the rest.");
  command->add_option("FILE", options->path, "The campaign, TOML")->required();
  command->add_option("--results", options->results,
                      "Folder for the table and the report; default: NAME.results beside NAME.toml");
  command->add_option("--scratch", options->scratch, "Folder for stores and mounts; default TMPDIR or /tmp");
  command->add_option("--workers", options->workers, "Runs at a time, at most 1,024; 0: one a core")
      ->check(CLI::Range(0U, 1024U));
  command->add_option("--runs", options->runs, "Runs of each fault, instead of what the file says")
      ->check(CLI::Range(uint64_t{1}, kMostRuns).description("a whole number from 1 to 10000000"));
  command->add_option("--only", options->only,
                      "Repeat one run, FAULT:NUMBER (numbers count from 0), and keep what it leaves");
  command->callback([options, &status] { status = finish(run_campaign(*options)); });
}

}  // namespace

void add_faults(CLI::App& app, int& status) {
  CLI::App* faults =
      app.add_subcommand("faults", "Corrupt on purpose what a mount reads and writes; see docs/FAULTS.md");
  faults->require_subcommand(1);
  faults->footer(
      "Examples:\n"
      "  printf '[[fault]]\\nmodel = \"bit_flip\"\\npath = \"*.h5\"\\nnth = 3\\n' > one-flip.toml\n"
      "  varve faults arm ~/data one-flip.toml       the third write to an HDF5 file flips a bit\n"
      "  varve faults journal ~/data > flips.jsonl   what was done, exactly\n"
      "  varve faults replay ~/data flips.jsonl      the same once more\n"
      "  varve faults disarm ~/data\n"
      "A command returns once it is in effect.");
  add(*faults, status, "arm", "Put a schedule of faults in force", "FILE", arm);
  auto mount = std::make_shared<std::string>();
  CLI::App* disarming = faults->add_subcommand("disarm", "No faults from now on");
  disarming->add_option("DIR", *mount, "The mount, or anything in it")->required();
  disarming->callback([mount, &status] { status = disarm(*mount); });
  add(*faults, status, "status", "What is armed and what it has done, as JSON", nullptr,
      [](const auto& directory, const auto&) { return show(directory, "status"); });
  add(*faults, status, "journal", "Every injection since the last arming, as JSON lines", nullptr,
      [](const auto& directory, const auto&) { return show(directory, "journal"); })
      ->alias("log");
  add(*faults, status, "replay", "Do to the same operations what a journal says", "JOURNAL", replay);
  add_campaign(*faults, status);
  add(*faults, status, "mark", "Say where a program is, for from_mark and to_mark", "NAME",
      [](const auto& directory, const auto& name) {
        const Status good = faults::check_mark(name);
        return good.ok() ? tell(directory, "mark", name) : good;
      });
}

}  // namespace varve::tools
