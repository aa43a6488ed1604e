// The campaign's TOML file.
#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <regex>
#include <sstream>

#include "faults/random.h"
#include "faults/schedule.h"
#include "fs/policy.h"
#include "tools/campaign.h"
#include "tools/mount_point.h"

namespace varve::tools {
namespace {

/// A rule that only counts takes files past the kernel's cache: what programs read then comes from the store.
constexpr std::string_view kUncached = "[[fault]]\nname = \"(uncached)\"\nmodel = \"count\"\noperation = \"open\"\n";

Error error_at(const toml::node& node, std::string_view what) {
  return {EINVAL, fmt::format("campaign, line {}: {}", node.source().begin.line, what)};
}

Status read_text(const toml::table& table, std::string_view key, std::string& out) {
  const toml::node* node = table.get(key);
  if (node == nullptr) {
    return {};
  }
  const auto value = node->value_exact<std::string>();
  if (!value) {
    return error_at(*node, fmt::format("'{}' must be a string in quotes", key));
  }
  out = *value;
  return {};
}

Status read_words(const toml::table& table, std::string_view key, std::vector<std::string>& out) {
  const toml::node* node = table.get(key);
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
    return error_at(*node, fmt::format("'{}' must be a list of words: [\"program\", \"argument\"]", key));
  }
  return {};
}

Status read_whole(const toml::table& table, std::string_view key, uint64_t least, uint64_t& out) {
  const toml::node* node = table.get(key);
  if (node == nullptr) {
    return {};
  }
  const auto value = node->value_exact<int64_t>();
  if (!value || *value < static_cast<int64_t>(least)) {
    return error_at(*node, fmt::format("'{}' must be a whole number from {}", key, least));
  }
  out = static_cast<uint64_t>(*value);
  return {};
}

template <size_t N>
Status check_known(const toml::table& table, const std::array<std::string_view, N>& known) {
  for (const auto& [key, node] : table) {
    if (std::ranges::find(known, key.str()) == known.end()) {
      return error_at(node, fmt::format("'{}' means nothing here", key.str()));
    }
  }
  return {};
}

Status read_outputs(const toml::table& table, Campaign& campaign) {
  const toml::array* list = table["output"].as_array();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const toml::table* item = (*list)[i].as_table();
    if (item == nullptr) {
      return error_at((*list)[i], "an output is a table: [[output]]");
    }
    constexpr std::array<std::string_view, 3> kKnown = {"path", "compare", "ignore"};
    VARVE_TRY(check_known(*item, kKnown));
    OutputRule rule;
    VARVE_TRY(read_text(*item, "path", rule.path));
    const Status good = fs::check_glob(rule.path);
    if (rule.path.empty() || !good.ok()) {
      return error_at(*item, "an [[output]] needs a 'path', a glob from the mount's root");
    }
    VARVE_TRY(read_words(*item, "compare", rule.compare));
    rule.ignore = (*item)["ignore"].value_or(false);
    campaign.outputs.push_back(std::move(rule));
  }
  return {};
}

Status read_faults(const toml::table& table, Campaign& campaign) {
  const toml::array* list = table["fault"].as_array();
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const toml::table* item = (*list)[i].as_table();
    if (item == nullptr) {
      return error_at((*list)[i], "a fault is a table: [[fault]]");
    }
    for (const std::string_view key : {"nth", "every", "probability", "limit", "after"}) {
      if (item->contains(key)) {
        return error_at(*item, fmt::format("'{}' is for the campaign to choose: each run has one fault", key));
      }
    }
    CampaignFault fault;
    fault.model = (*item)["model"].value_or(std::string());
    fault.seam = (*item)["seam"].value_or(std::string("app"));
    fault.name = (*item)["name"].value_or(fmt::format("{}-{}", fault.model, i + 1));
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (fault.name.find_first_not_of(kPlain) != std::string::npos) {
      return error_at(*item, "a fault's name is made of letters, digits, '_', '.' and '-': files are named after it");
    }
    toml::table body = *item;
    body.insert_or_assign("name", fault.name);
    std::ostringstream text;
    text << toml::toml_formatter(body);
    fault.rule = text.str() + "\n";
    if (const auto parsed = faults::Schedule::parse(campaign.schedule(fault, 1, 0)); !parsed.ok()) {
      return error_at(*item, fmt::format("in this fault: {}", parsed.error().text));
    }
    campaign.faults.push_back(std::move(fault));
  }
  return campaign.faults.empty() ? Status(Error{EINVAL, "campaign: no [[fault]]"}) : Status();
}

Status read_top(const toml::table& table, Campaign& campaign) {
  constexpr std::array<std::string_view, 12> kKnown = {"name",  "command",    "analysis", "inputs",
                                                       "bound", "detect",     "output",   "fault",
                                                       "runs",  "time_limit", "seed",     "restart"};
  VARVE_TRY(check_known(table, kKnown));
  VARVE_TRY(read_text(table, "name", campaign.name));
  VARVE_TRY(read_words(table, "command", campaign.command));
  VARVE_TRY(read_words(table, "analysis", campaign.analysis));
  VARVE_TRY(read_text(table, "inputs", campaign.inputs));
  VARVE_TRY(read_text(table, "bound", campaign.bound));
  VARVE_TRY(read_text(table, "detect", campaign.detect));
  VARVE_TRY(read_whole(table, "runs", 1, campaign.runs));
  VARVE_TRY(read_whole(table, "seed", 0, campaign.seed));
  campaign.restart = table["restart"].value_or(false);
  campaign.time_limit = table["time_limit"].value_or(0.0);
  if (campaign.command.empty()) {
    return Error{EINVAL, "campaign: no 'command', the program to run and its arguments"};
  }
  try {
    static_cast<void>(std::regex(campaign.detect));
  } catch (const std::regex_error&) {
    return Error{EINVAL, fmt::format("campaign: 'detect' is not a regular expression: {}", campaign.detect)};
  }
  VARVE_TRY(read_outputs(table, campaign));
  return read_faults(table, campaign);
}

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
  toml::table table;
  try {
    table = toml::parse(campaign.text);
  } catch (const toml::parse_error& problem) {
    return Error{EINVAL, fmt::format("campaign, line {}: {}", problem.source().begin.line, problem.description())};
  }
  VARVE_TRY(read_top(table, campaign));
  if (!campaign.inputs.empty() && campaign.inputs[0] != '/') {
    campaign.inputs = campaign.folder + "/" + campaign.inputs;
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

const OutputRule* Campaign::rule_for(const std::string& output) const {
  const auto rule =
      std::ranges::find_if(outputs, [&](const OutputRule& one) { return fs::glob_match(one.path, output); });
  return rule == outputs.end() ? nullptr : &*rule;
}

}  // namespace varve::tools
