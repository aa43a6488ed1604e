// varve scrub: everything stored is read and held against its checksums.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "fs/log.h"
#include "fs/scrub.h"
#include "tools/commands.h"
#include "tools/mount_options.h"
#include "tools/mount_point.h"
#include "tools/report.h"
#include "tools/store_place.h"

namespace varve::tools {
namespace {

using nlohmann::json;

struct ScrubArguments {
  std::string path;
  std::string rate = "0";
  bool json = false;
};

volatile std::sig_atomic_t interrupted = 0;

/// Redraws what a scrub says of itself until `state` says that it has ended.
json follow(const std::string& what, const std::function<Result<json>()>& state, const std::function<void()>& stop) {
  std::unique_ptr<Progress> bar;
  uint64_t shown = 0;
  for (;;) {
    const auto now = state();
    if (!now.ok()) {
      return {{"error", now.error().text}};
    }
    if (now->value("state", "") != "running") {
      return *now;
    }
    if (!bar) {
      bar = std::make_unique<Progress>(what, now->value("total_bytes", uint64_t{0}));
    }
    const uint64_t bytes = now->value("bytes", uint64_t{0});
    bar->advance(bytes - std::min(shown, bytes));
    shown = bytes;
    if (interrupted != 0) {
      stop();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Result<json> parse_state(const std::string& text) {
  json state = json::parse(text, nullptr, false);
  if (!state.is_object()) {
    return Error{EIO, "the mount's .varve/scrub does not say what a scrub says; is its program another version?"};
  }
  return state;
}

Status tell(const std::string& file, const std::string& word) {
  return write_control_file(file, word, "scrubs are for the mount's owner and root", [&](int code) {
    return Error{code, code == EBUSY ? "a scrub of this mount is running already; .varve/scrub says how far it is"
                                     : fmt::format("{}: {}", file, std::generic_category().message(code))};
  });
}

Result<json> scrub_mount(const MountedPath& place, uint64_t rate) {
  const std::string file = place.control("scrub");
  VARVE_TRY(tell(file, fmt::format("start {}", rate)));
  return follow(
      fmt::format("scrubbing {}", place.mountpoint),
      [&]() -> Result<json> {
        VARVE_ASSIGN(const std::string text, read_text(file));
        return parse_state(text);
      },
      [&] { static_cast<void>(tell(file, "stop")); });
}

Result<json> scrub_store(const std::string& path, uint64_t rate) {
  index::IndexOptions options;
  options.read_only = true;
  VARVE_ASSIGN(const auto index, index::Index::open(path, options));
  fs::Scrub scrub(*index);
  scrub.begin(rate);
  std::thread work([&] { scrub.read_all(); });
  json state = follow(
      fmt::format("scrubbing {}", path), [&]() -> Result<json> { return json::parse(scrub.state().json()); },
      [&] { scrub.stop(); });
  work.join();
  return state;
}

int exit_status(const json& state) {
  const bool whole = state.value("damage", json::array()).empty() && state.value("weak_records", uint64_t{0}) == 0;
  return whole ? kDone : kNo;
}

int print_report(const json& state) {
  const json damage = state.value("damage", json::array());
  for (const json& one : damage) {
    fmt::print("{}: {}: {}\n", one.value("path", ""), one.value("part", ""), one.value("reason", ""));
  }
  if (const auto repaired = state.value("repaired_records", uint64_t{0}); repaired > 0) {
    fmt::print("{} damaged records were written anew from their copies\n", repaired);
  }
  if (const auto weak = state.value("weak_records", uint64_t{0}); weak > 0) {
    fmt::print(
        "{} damaged records can be read from their copies alone: scrub the mounted directory, which writes them "
        "anew\n",
        weak);
  }
  const auto bytes = state.value("bytes", uint64_t{0});
  const double seconds = std::max(state.value("seconds", 0.0), 1e-9);
  fmt::print("{} files, {} records, {} read in {:.1f} s ({}/s): {}\n", state.value("files", uint64_t{0}),
             state.value("records", uint64_t{0}), human_size(bytes), seconds,
             human_size(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)),
             damage.empty() ? std::string("no damage")
                            : fmt::format("{} damaged records, {} places in files",
                                          state.value("damaged_records", uint64_t{0}), damage.size()));
  return exit_status(state);
}

int scrub(const ScrubArguments& arguments) {
  const auto rate = parse_size(arguments.rate);
  if (!rate.ok()) {
    return fail(rate.error());
  }
  fs::set_log_level(fs::LogLevel::warning);
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });
  const auto place = find_mount(arguments.path);
  Result<json> state = json();
  if (place.ok()) {
    state = scrub_mount(*place, *rate);
  } else if (is_store(arguments.path)) {
    fs::set_log_file("/dev/null");  // the report says it all
    state = scrub_store(arguments.path, *rate);
  } else {
    return fail({ENOENT, fmt::format("{} is neither a store nor in a mount: name one of them", arguments.path)});
  }
  if (!state.ok()) {
    return fail(state.error().code == EBUSY && !place.ok()
                    ? Error{EBUSY, state.error().text + "; of a mounted store, scrub the mounted directory"}
                    : state.error());
  }
  if (state->contains("error")) {
    return fail({EIO, state->value("error", "")});
  }
  if (arguments.json) {
    fmt::print("{}\n", state->dump(2));
  }
  const int result = arguments.json ? exit_status(*state) : print_report(*state);
  return state->value("state", "") == "stopped"
             ? fail({EINTR, "stopped before all was read; start again to read the rest"})
             : result;
}

}  // namespace

void add_scrub(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ScrubArguments>();
  CLI::App* command =
      app.add_subcommand("scrub", "Read everything stored and hold it against its checksums; name what is damaged");
  command->footer(
      "Examples:\n"
      "  varve scrub ~/store                    a store that is not mounted\n"
      "  varve scrub --rate 100M ~/data         a mount, while others use it\n"
      "  cat ~/data/.varve/scrub                how far it is, in JSON\n"
      "Exit status: 0 all is whole; 1 something is damaged; 2 wrong use, an error, or interrupted.");
  command->add_option("PATH", arguments->path, "A store, or any path in a mount (all of it is read)")->required();
  command->add_option("--rate", arguments->rate, "Read so many bytes a second at most: 50M, 1G; 0: as fast as it goes");
  command->add_flag("--json", arguments->json, "The report in JSON");
  command->callback([arguments, &status] { status = scrub(*arguments); });
}

}  // namespace varve::tools
