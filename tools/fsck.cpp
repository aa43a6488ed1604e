// varve fsck: does a store's index agree with itself, and with its packs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fs/check_layouts.h"
#include "tools/commands.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

using index::Finding;

struct Arguments {
  std::string store;
  bool repair = false, as_json = false, verbose = false;
};

std::string_view name_of(Finding::State state) {
  switch (state) {
    case Finding::State::harmless:
      return "harmless";
    case Finding::State::left:
      return "left";
    case Finding::State::repairable:
      return "repairable";
    case Finding::State::repaired:
      return "repaired";
  }
  return "left";
}

void print(const Finding& finding) {
  std::string_view introduction;
  switch (finding.state) {
    case Finding::State::harmless:
      fmt::print("  {}: {} ({})\n", finding.where, finding.what, finding.remedy);
      return;
    case Finding::State::left:
      break;
    case Finding::State::repairable:
      introduction = "--repair ";
      break;
    case Finding::State::repaired:
      introduction = "repaired: ";
      break;
  }
  fmt::print("{}: {}; {}{}\n", finding.where, finding.what, introduction, finding.remedy);
}

struct Tally {
  uint64_t repaired = 0, repairable = 0, left = 0, harmless = 0;

  void add(Finding::State state) {
    repaired += state == Finding::State::repaired ? 1 : 0;
    repairable += state == Finding::State::repairable ? 1 : 0;
    left += state == Finding::State::left ? 1 : 0;
    harmless += state == Finding::State::harmless ? 1 : 0;
  }
  uint64_t problems() const { return repaired + repairable + left; }
};

std::string summary(const std::string& store, const index::CheckCounts& counts, const Tally& tally) {
  std::string text =
      fmt::format("{}: {} files, {} directories, {} objects, {} records, {} packs of {}: ", store, counts.files,
                  counts.directories, counts.objects, counts.records, counts.packs, human_size(counts.pack_bytes));
  if (tally.problems() == 0) {
    return text + "clean";
  }
  text += fmt::format("{} problem{}", tally.problems(), tally.problems() == 1 ? "" : "s");
  if (tally.repaired > 0) {
    text += fmt::format(", {} repaired", tally.repaired);
  }
  if (tally.repairable > 0) {
    text += fmt::format(", {} that --repair puts right", tally.repairable);
  }
  return text + (tally.left > 0 ? fmt::format(", {} that cannot be repaired", tally.left) : std::string());
}

int run(const Arguments& arguments) {
  Tally tally;
  nlohmann::json findings = nlohmann::json::array();
  const auto report = [&](const Finding& finding) {
    tally.add(finding.state);
    if (arguments.as_json) {
      findings.push_back({{"state", name_of(finding.state)},
                          {"kind", finding.kind},
                          {"where", finding.where},
                          {"what", finding.what},
                          {"remedy", finding.remedy}});
    } else if (finding.state != Finding::State::harmless || arguments.verbose) {
      print(finding);
    }
  };
  const auto store = index::StoreCheck::open(arguments.store, arguments.repair, report);
  if (!store.ok()) {
    return fail(store.error());
  }
  if (const Status checked = fs::check_store(**store); !checked.ok()) {
    return fail(checked.error());
  }
  const index::CheckCounts counts = (*store)->counts();
  const bool clean = tally.left + tally.repairable == 0;
  if (arguments.as_json) {
    const nlohmann::json all = {{"store", (*store)->path()},         {"clean", clean},
                                {"findings", std::move(findings)},   {"repaired", tally.repaired},
                                {"repairable", tally.repairable},    {"left", tally.left},
                                {"harmless", tally.harmless},        {"files", counts.files},
                                {"directories", counts.directories}, {"objects", counts.objects},
                                {"records", counts.records},         {"packs", counts.packs},
                                {"pack_bytes", counts.pack_bytes}};
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}\n", summary((*store)->path(), counts, tally));
  }
  return clean ? kDone : kNo;
}

}  // namespace

void add_fsck(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("fsck", "Check that a store that is not mounted agrees with itself");
  command->footer(
      "Directories, inodes, objects, layouts, records, packs and staged data are held against each other, both ways; "
      "of\n"
      "records, the headers are read (varve scrub reads the rest). Without --repair nothing is written.\n"
      "Examples:\n"
      "  varve fsck ~/store\n"
      "  varve fsck --repair ~/store           put right what has one right answer; see docs/RELIABILITY.md\n"
      "Exit status: 0 clean, or all repaired; 1 problems are left; 2 wrong use or an error.");
  command->add_option("STORE", arguments->store, "The store's directory")->required();
  command->add_flag("--repair", arguments->repair, "Put right what has one right answer");
  command->add_flag("--json", arguments->as_json, "For programs: one object");
  command->add_flag("-v,--verbose", arguments->verbose, "Also what the next mount deals with by itself");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace varve::tools
