// The campaign's TOML file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <system_error>

#include "codec/types.h"
#include "faults/random.h"
#include "faults/schedule.h"
#include "faults/schedule_keys.h"
#include "faults/toml_reader.h"
#include "fs/policy.h"
#include "tools/campaign.h"
#include "tools/mount_point.h"

namespace varve::tools {
namespace {

/// A rule that only counts takes files past the kernel's cache: what programs read then comes from the store.
constexpr std::string_view kUncached = "[[fault]]\nname = \"(uncached)\"\nmodel = \"count\"\noperation = \"open\"\n";

using faults::TableReader;

Status read_words(const TableReader& in, std::string_view key, std::vector<std::string>& out) {
  const toml::node* node = in.table().get(key);
  if (node == nullptr) {
    return {};
  }
  const toml::array* list = node->as_array();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (const auto word = (*list)[i].value_exact<std::string>()) {
      out.push_back(*word);
    }
  }
  if (list == nullptr || list->empty() || out.size() != list->size()) {
    return in.wrong(key, "must be a list of words: [\"program\", \"argument\"]");
  }
  return {};
}

/// The tables of [[key]]; none, if there are none.
Result<std::vector<const toml::table*>> tables_of(const TableReader& in, std::string_view key) {
  std::vector<const toml::table*> tables;
  const toml::node* node = in.table().get(key);
  const toml::array* list = node != nullptr ? node->as_array() : nullptr;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    tables.push_back((*list)[i].as_table());
  }
  if ((node != nullptr && list == nullptr) || std::ranges::find(tables, nullptr) != tables.end()) {
    return in.wrong(key, fmt::format("must be a table in two brackets on each side: [[{}]]", key));
  }
  return tables;
}

Status read_outputs(const TableReader& top, Campaign& campaign) {
  VARVE_ASSIGN(const auto tables, tables_of(top, "output"));
  for (const toml::table* item : tables) {
    const TableReader in(*item, top.file());
    constexpr std::array<std::string_view, 3> kKnown = {"path", "compare", "ignore"};
    VARVE_TRY(faults::check_keys(*item, kKnown, "in an output", top.file()));
    OutputRule rule;
    VARVE_TRY(in.path_glob("path", rule.path));
    if (rule.path.empty()) {
      return in.error_at(in.line(), "an [[output]] needs a 'path', a glob from the mount's root");
    }
    VARVE_TRY(read_words(in, "compare", rule.compare));
    VARVE_TRY(in.truth("ignore", rule.ignore));
    campaign.outputs.push_back(std::move(rule));
  }
  return {};
}

Status read_faults(const TableReader& top, Campaign& campaign) {
  VARVE_ASSIGN(const auto tables, tables_of(top, "fault"));
  for (const toml::table* item : tables) {
    const TableReader in(*item, top.file());
    for (const std::string_view key : {"nth", "every", "probability", "limit", "after"}) {
      if (in.has(key)) {
        return in.wrong(key, "is for the campaign to choose: each run has one fault. Leave it out");
      }
    }
    const size_t number = campaign.faults.size() + 1;
    VARVE_ASSIGN(const faults::Rule rule, faults::read_rule(in, number));
    CampaignFault fault;
    fault.model = name_of(rule.model);
    fault.seam = name_of(rule.seam);
    fault.name = rule.name;
    std::vector<std::string> operations;
    for (size_t op = 0; op < faults::kOps; ++op) {
      if (rule.target.operations.test(op)) {
        operations.push_back(fmt::format("\"{}\"", faults::kOpNames[op]));
      }
    }
    fault.operations = fmt::format("operation = [{}]\n", fmt::join(operations, ", "));
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (fault.name.empty() || fault.name.find_first_not_of(kPlain) != std::string::npos) {
      return in.wrong("name", "is made of letters, digits, '_', '.' and '-': files are named after it");
    }
    if (std::ranges::find(campaign.faults, fault.name, &CampaignFault::name) != campaign.faults.end()) {
      return in.wrong("name", fmt::format("cannot be \"{}\" twice: give each fault its own", fault.name));
    }
    toml::table body = *item;
    body.insert_or_assign("name", fault.name);
    std::ostringstream text;
    text << toml::toml_formatter(body);
    fault.rule = text.str() + "\n";
    campaign.faults.push_back(std::move(fault));
  }
  return campaign.faults.empty()
             ? Status(top.error_at(1, "no fault: write [[fault]], then model = \"bit_flip\" and so on below it"))
             : Status();
}

/// The folder of 'inputs', which must be there. EINVAL.
Status read_inputs(const TableReader& in, Campaign& campaign) {
  VARVE_TRY(in.text("inputs", campaign.inputs));
  if (campaign.inputs.empty()) {
    return {};
  }
  if (campaign.inputs[0] != '/') {
    campaign.inputs = campaign.folder + "/" + campaign.inputs;
  }
  std::error_code problem;
  if (!std::filesystem::is_directory(campaign.inputs, problem)) {
    return in.wrong("inputs",
                    fmt::format("must be a folder, whose files each run starts with: {} is {}", campaign.inputs,
                                std::filesystem::exists(campaign.inputs, problem) ? "none" : "not there"));
  }
  return {};
}

Status read_restart(const TableReader& in, Restart& restart) {
  if (const toml::node* node = in.table().get("restart")) {
    if (const auto kill = node->value_exact<bool>()) {
      restart = *kill ? Restart::kill : Restart::no;
    } else if (node->value_exact<std::string>() == "unmount") {
      restart = Restart::unmount;
    } else {
      return in.wrong("restart",
                      "must be true (kill -9 and mount again), \"unmount\" (unmount, under the fault, and "
                      "mount again) or false");
    }
  }
  return {};
}

Status read_top(const TableReader& in, Campaign& campaign) {
  constexpr std::array<std::string_view, 12> kKnown = {"name",  "command",    "analysis", "inputs",
                                                       "bound", "detect",     "output",   "fault",
                                                       "runs",  "time_limit", "seed",     "restart"};
  VARVE_TRY(faults::check_keys(in.table(), kKnown, "at the top of a campaign", in.file()));
  VARVE_TRY(in.text("name", campaign.name));
  VARVE_TRY(read_words(in, "command", campaign.command));
  VARVE_TRY(read_words(in, "analysis", campaign.analysis));
  VARVE_TRY(read_inputs(in, campaign));
  VARVE_TRY(in.text("bound", campaign.bound));
  if (const auto bound = codec::parse_bound(campaign.bound); !campaign.bound.empty() && !bound.ok()) {
    return in.wrong("bound", fmt::format("cannot be \"{}\": {}", campaign.bound, bound.error().text));
  }
  VARVE_TRY(in.text("detect", campaign.detect));
  VARVE_TRY(in.whole("runs", campaign.runs, 1, static_cast<int64_t>(kMostRuns)));
  VARVE_TRY(in.whole("seed", campaign.seed, 0));
  VARVE_TRY(read_restart(in, campaign.restart));
  VARVE_TRY(in.number("time_limit", campaign.time_limit, 0, 1e9));
  if (campaign.command.empty()) {
    return in.error_at(1, "no 'command': the program to run and its arguments, command = [\"sh\", \"-c\", \"...\"]");
  }
  try {
    static_cast<void>(std::regex(campaign.detect));
  } catch (const std::regex_error&) {
    return in.wrong("detect", fmt::format("is not a regular expression: {}", campaign.detect));
  }
  VARVE_TRY(read_outputs(in, campaign));
  return read_faults(in, campaign);
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1e3 * seconds));
}

/// For what took so many seconds in the golden run, in seconds.
double patience_after(double seconds) { return 10 * seconds + 5; }

/// {here} in commands stands for the campaign's folder.
void fill_in(std::vector<std::string>& words, std::string_view name, const std::string& value) {
  for (std::string& word : words) {
    for (size_t at = word.find(name); at != std::string::npos; at = word.find(name, at + value.size())) {
      word.replace(at, name.size(), value);
    }
  }
}

}  // namespace

Result<Campaign> Campaign::read(const std::string& path) {
  Campaign campaign;
  VARVE_ASSIGN(campaign.text, tools::read_text(path));
  VARVE_ASSIGN(const std::string absolute, absolute_path(path));
  campaign.folder = absolute.substr(0, absolute.rfind('/'));
  campaign.name = absolute.substr(absolute.rfind('/') + 1);
  auto table = faults::parse_toml(campaign.text, path);
  const Status understood = table.ok() ? read_top(TableReader(*table, path), campaign) : Status(table.error());
  if (!understood.ok()) {
    return Error{EINVAL, understood.error().text};
  }
  fill_in(campaign.command, "{here}", campaign.folder);
  fill_in(campaign.analysis, "{here}", campaign.folder);
  for (OutputRule& rule : campaign.outputs) {
    fill_in(rule.compare, "{here}", campaign.folder);
  }
  return campaign;
}

uint64_t Campaign::seed_of(const CampaignFault& fault, uint64_t run) const {
  return faults::mix(seed ^ faults::mix(run) ^ faults::hash_of(fault.name)) >> 1;
}

std::string Campaign::schedule(const CampaignFault& fault, uint64_t nth, uint64_t run) const {
  return fmt::format("seed = {}\n[[fault]]\n{}nth = {}\n{}", seed_of(fault, run), fault.rule, nth,
                     fault.seam == "device" ? kUncached : "");
}

std::chrono::milliseconds Campaign::limit_of_program(std::optional<double> seconds) const {
  constexpr auto kLongest = std::chrono::hours(24);
  return time_limit > 0 ? milliseconds_of(time_limit) : seconds ? milliseconds_of(patience_after(*seconds)) : kLongest;
}

std::chrono::milliseconds Campaign::limit_after(double seconds) const {
  return milliseconds_of(std::max(time_limit, patience_after(seconds)));
}

const OutputRule* Campaign::rule_for(const std::string& output) const {
  const auto rule =
      std::ranges::find_if(outputs, [&](const OutputRule& one) { return fs::glob_match(one.path, output); });
  return rule == outputs.end() ? nullptr : &*rule;
}

}  // namespace varve::tools
