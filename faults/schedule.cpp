#include "faults/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <random>

#include "faults/schedule_keys.h"
#include "fs/policy.h"

namespace varve::faults {
namespace {

/// Reads one table; every error names its line. A key that nobody asked for is an error at the end.
class TableReader {
 public:
  explicit TableReader(const toml::table& table) : table_(table) {}

  Error wrong(std::string_view key, std::string_view what) const {
    const toml::node* node = table_.get(key);
    return error_at(node != nullptr ? node->source().begin.line : table_.source().begin.line,
                    fmt::format("'{}' {}", key, what));
  }
  static Error error_at(size_t line, std::string_view what) {
    return {EINVAL, fmt::format("schedule, line {}: {}", line, what)};
  }
  bool has(std::string_view key) const { return table_.contains(key); }

  Status text(std::string_view key, std::string& value) const {
    if (const toml::node* node = table_.get(key)) {
      const auto found = node->value<std::string>();
      if (!node->is_string() || !found) {
        return wrong(key, "must be a string in quotes");
      }
      value = *found;
    }
    return {};
  }
  Status truth(std::string_view key, bool& value) const {
    if (const toml::node* node = table_.get(key)) {
      if (!node->is_boolean()) {
        return wrong(key, "must be true or false");
      }
      value = node->value<bool>().value_or(false);
    }
    return {};
  }
  Status number(std::string_view key, double& value, double least, double most) const {
    if (const toml::node* node = table_.get(key)) {
      const auto found = node->value<double>();
      if (!node->is_number() || !found || !(*found >= least && *found <= most)) {
        return wrong(key, fmt::format("must be a number from {} to {}", least, most));
      }
      value = *found;
    }
    return {};
  }
  template <typename Integer>
  Status whole(std::string_view key, Integer& value, int64_t least, int64_t most = INT64_MAX) const {
    if (const toml::node* node = table_.get(key)) {
      const auto found = node->is_integer() ? node->value<int64_t>() : std::nullopt;
      if (!found || *found < least || *found > most) {
        return wrong(key, fmt::format("must be a whole number from {} to {}", least, most));
      }
      value = static_cast<Integer>(*found);
    }
    return {};
  }
  template <typename Integer>
  Status whole(std::string_view key, std::optional<Integer>& value, int64_t least, int64_t most = INT64_MAX) const {
    if (has(key)) {
      Integer found{};
      VARVE_TRY(whole(key, found, least, most));
      value = found;
    }
    return {};
  }
  template <typename Enum, size_t N>
  Status word(std::string_view key, const std::array<std::string_view, N>& names, Enum& value) const {
    std::string name;
    VARVE_TRY(text(key, name));
    if (has(key)) {
      const auto found = find_in<Enum>(names, name);
      if (!found) {
        return wrong(key, fmt::format("cannot be \"{}\": give one of {}", name, fmt::join(names, ", ")));
      }
      value = *found;
    }
    return {};
  }
  /// A value or a list of values.
  template <typename T>
  Status list(std::string_view key, std::vector<T>& values, std::string_view what) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      return {};
    }
    values.clear();
    const auto add = [&](const toml::node& item) {
      const auto value = item.value_exact<T>();
      if (value) {
        values.push_back(*value);
      } else if (std::is_same_v<T, double> && item.is_integer()) {
        values.push_back(item.value<T>().value_or(T{}));
      }
      return value.has_value() || (std::is_same_v<T, double> && item.is_integer());
    };
    bool good = true;
    if (const toml::array* array = node->as_array()) {
      for (const toml::node& item : *array) {
        good = good && add(item);
      }
      good = good && !array->empty();
    } else {
      good = add(*node);
    }
    return good ? Status() : Status(wrong(key, fmt::format("must be {}, or a list of them", what)));
  }
  Status glob(std::string_view key, std::string& value) const {
    VARVE_TRY(text(key, value));
    const Status good = fs::check_glob(value);
    return good.ok() ? Status() : Status(wrong(key, good.error().text));
  }

 private:
  const toml::table& table_;
};

Status check_known(const toml::table& table, const std::vector<std::string_view>& known, std::string_view where) {
  for (const auto& [key, node] : table) {
    if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
      return TableReader::error_at(key.source().begin.line, fmt::format("'{}' means nothing {}. Known here: {}",
                                                                        key.str(), where, fmt::join(known, ", ")));
    }
  }
  return {};
}

Status read_range(const toml::array* pair, const TableReader& in, std::string_view key, std::vector<ByteRange>& out) {
  const auto at = [&](size_t i) -> std::optional<int64_t> {
    return pair != nullptr && pair->size() == 2 ? (*pair)[i].value_exact<int64_t>() : std::nullopt;
  };
  const auto begin = at(0);
  const auto end = at(1);
  if (!begin || !end || *begin < 0 || *end <= *begin) {
    return in.wrong(key, "must be [first byte, byte after the last]");
  }
  out.emplace_back(*begin, *end);
  return {};
}

Status read_ranges(const toml::table& table, const TableReader& in, Target& target) {
  if (const toml::node* node = table.get("offset")) {
    VARVE_TRY(read_range(node->as_array(), in, "offset", target.ranges));
  }
  if (const toml::node* node = table.get("ranges")) {
    const toml::array* list = node->as_array();
    if (list == nullptr || list->empty() || in.has("offset")) {
      return in.wrong("ranges", "must be a list of [first byte, byte after the last], without 'offset' beside it");
    }
    for (const toml::node& item : *list) {
      VARVE_TRY(read_range(item.as_array(), in, "ranges", target.ranges));
    }
    std::sort(target.ranges.begin(), target.ranges.end());
  }
  return {};
}

template <typename Enum, size_t N, size_t Bits>
Status read_set(const TableReader& in, std::string_view key, const std::array<std::string_view, N>& names,
                std::bitset<Bits>& set) {
  std::vector<std::string> words;
  VARVE_TRY(in.list(key, words, "a name in quotes"));
  for (const std::string& name : words) {
    const auto found = find_in<Enum>(names, name);
    if (!found) {
      return in.wrong(key, fmt::format("cannot be \"{}\": give one of {}", name, fmt::join(names, ", ")));
    }
    set.set(static_cast<size_t>(*found));
  }
  return {};
}

Status read_target(const toml::table& table, const TableReader& in, Rule& rule) {
  Target& target = rule.target;
  VARVE_TRY((read_set<Op>(in, "operation", kOpNames, target.operations)));
  if (target.operations.none()) {
    target.operations.set(static_cast<size_t>(default_operation(rule.model)));
  }
  for (size_t op = 0; op < kOps; ++op) {
    if (target.operations.test(op) && !acts_on(rule.model, static_cast<Op>(op))) {
      return in.wrong("operation", fmt::format("cannot be \"{}\" for {}", kOpNames[op], name_of(rule.model)));
    }
  }
  VARVE_TRY(in.glob("path", target.path));
  VARVE_TRY(read_ranges(table, in, target));
  VARVE_TRY(in.glob("process", target.process));
  VARVE_TRY(in.whole("pid", target.pid, 1));
  VARVE_TRY(in.text("region", target.region));
  if (!target.region.empty() && target.region != "bytes" && target.region != "array") {
    return in.wrong("region", "must be \"bytes\" or \"array\"");
  }
  VARVE_TRY(in.glob("dataset", target.dataset));
  VARVE_TRY(in.glob("structure", target.structure));
  VARVE_TRY((read_set<FileKind>(in, "kind", kFileKindNames, target.kinds)));
  VARVE_TRY(in.whole("level", target.level, 0));
  VARVE_TRY(in.whole("brick", target.brick, 0));
  VARVE_TRY(in.whole("object", target.object, 1));
  VARVE_TRY(in.whole("byte", target.byte, 0, 7));
  VARVE_TRY(in.truth("big_endian", target.big_endian));
  VARVE_TRY(in.whole("element_base", target.element_base, 0));
  std::string element;
  VARVE_TRY(in.text("element", element));
  if (!element.empty()) {
    const auto type = codec::parse_dtype(element);
    if (!type.ok()) {
      return in.wrong("element", type.error().text);
    }
    target.element = *type;
  }
  if (rule.seam == Seam::app && (target.kinds.any() || target.level || target.brick || target.object)) {
    return in.wrong("seam", "must be \"device\" where kind, level, brick or object is given");
  }
  if (rule.seam == Seam::device && (rule.needs_structure() || target.pid || !target.process.empty())) {
    return in.wrong("seam", "must be \"app\" where region, dataset, structure, process or pid is given");
  }
  if (!rule.needs_structure() && !target.element && (target.byte || rule.parameters.bits != BitClass::any)) {
    return in.wrong(target.byte ? "byte" : "bits", "needs to know the elements: give 'dataset', or 'element'");
  }
  return {};
}

Status read_trigger(const TableReader& in, Trigger& trigger) {
  std::vector<int64_t> nth;
  VARVE_TRY(in.list("nth", nth, "a whole number from 1"));
  for (const int64_t number : nth) {
    if (number < 1) {
      return in.wrong("nth", "counts from 1");
    }
    trigger.nth.push_back(static_cast<uint64_t>(number));
  }
  std::sort(trigger.nth.begin(), trigger.nth.end());
  VARVE_TRY(in.whole("every", trigger.every, 1));
  VARVE_TRY(in.number("probability", trigger.probability, 0, 1));
  VARVE_TRY(in.number("after", trigger.after, 0, 1e9));
  VARVE_TRY(in.text("from_mark", trigger.from_mark));
  VARVE_TRY(in.text("to_mark", trigger.to_mark));
  VARVE_TRY(in.whole("limit", trigger.limit, 1));
  std::string per = "mount";
  VARVE_TRY(in.text("per", per));
  if (per != "mount" && per != "file") {
    return in.wrong("per", "must be \"mount\" or \"file\": what 'nth' and 'every' count");
  }
  trigger.count_per_file = per == "file";
  if (!trigger.nth.empty() && trigger.every != 0) {
    return in.wrong("every", "cannot stand beside 'nth'");
  }
  return {};
}

Status read_codes(const TableReader& in, Parameters& parameters) {
  std::vector<std::string> names;
  VARVE_TRY(in.list("errno", names, "a name such as \"EIO\""));
  for (const std::string& name : names) {
    const auto code = errno_of(name);
    if (!code) {
      return in.wrong("errno", fmt::format("cannot be \"{}\": no errno of Linux has that name", name));
    }
    parameters.codes.push_back(*code);
  }
  VARVE_TRY(in.list("weights", parameters.weights, "a number"));
  const bool positive = std::ranges::all_of(parameters.weights, [](double weight) { return weight > 0; });
  if (!parameters.weights.empty() && (parameters.weights.size() != parameters.codes.size() || !positive)) {
    return in.wrong("weights", "must be one positive number for each errno");
  }
  return {};
}

Status read_parameters(const TableReader& in, Model model, Parameters& out) {
  VARVE_TRY(in.whole("count", out.count, 1, 1 << 20));
  VARVE_TRY(in.truth("scattered", out.scattered));
  VARVE_TRY(in.word("bits", kBitClassNames, out.bits));
  VARVE_TRY(in.whole("size", out.size, 1, int64_t{1} << 30));
  VARVE_TRY(in.whole("alignment", out.alignment, 1, int64_t{1} << 30));
  VARVE_TRY(in.whole("fill", out.fill, 0, 255));
  std::string rest = "old";
  VARVE_TRY(in.text("rest", rest));
  if (rest != "old" && rest != "fill" && rest != "zeros") {
    return in.wrong("rest", "must be \"old\", \"zeros\" or \"fill\" (the byte in 'fill')");
  }
  out.rest_old = rest == "old";
  VARVE_TRY(in.truth("grows", out.grows));
  VARVE_TRY(in.list("kept", out.kept, "a fraction between 0 and 1"));
  if (std::ranges::any_of(out.kept, [](double part) { return !(part >= 0 && part < 1); })) {
    return in.wrong("kept", "must be fractions from 0 to below 1, such as [0.375, 0.875]");
  }
  VARVE_TRY(in.word("cut", kCutNames, out.cut));
  VARVE_TRY(in.whole("parts", out.parts, 2, 1 << 20));
  std::vector<int64_t> persist;
  VARVE_TRY(in.list("persist", persist, "a number of a part, from 0"));
  for (const int64_t part : persist) {
    out.persist.push_back(static_cast<uint64_t>(std::max<int64_t>(part, 0)));
  }
  VARVE_TRY(in.whole("run", out.run, 1, 1 << 20));
  VARVE_TRY(in.whole("distance", out.distance, INT64_MIN));
  VARVE_TRY(in.whole("window", out.window, 1, 1 << 20));
  std::string lost = "all";
  VARVE_TRY(in.text("lost", lost));
  if (lost != "all" && lost != "random") {
    return in.wrong("lost", "must be \"all\" or \"random\"");
  }
  out.random_subset = lost == "random";
  VARVE_TRY(in.truth("any_order", out.any_order));
  if (in.has("then")) {
    out.then = Aftermath::go_on;
    VARVE_TRY(in.word("then", kAftermathNames, *out.then));
  }
  VARVE_TRY(in.truth("before", out.before));
  VARVE_TRY(read_codes(in, out));
  VARVE_TRY(in.number("milliseconds", out.milliseconds, 0, 1e9));
  VARVE_TRY(in.number("most_milliseconds", out.most_milliseconds, 0, 1e9));
  VARVE_TRY(in.word("distribution", kSpreadNames, out.spread));
  VARVE_TRY(in.whole("bytes", out.bytes, model == Model::enospc_at ? 0 : 1));
  VARVE_TRY(in.number("base_rate", out.base_rate, 0, 1));
  VARVE_TRY(in.number("growth", out.growth, 0, 1));
  VARVE_TRY(in.number("speed", out.speed, 0, 1e12));
  VARVE_TRY(in.whole("corrected", out.corrected, 0, 32768));
  return {};
}

Result<Rule> read_rule(const toml::table& table, size_t number) {
  const TableReader in(table);
  Rule rule;
  rule.line = table.source().begin.line;
  if (!in.has("model")) {
    return TableReader::error_at(rule.line,
                                 fmt::format("a [[fault]] needs a 'model': one of {}", fmt::join(kModelNames, ", ")));
  }
  VARVE_TRY(in.word("model", kModelNames, rule.model));
  VARVE_TRY(check_known(table, keys_of(rule.model), fmt::format("for {}", name_of(rule.model))));
  rule.name = fmt::format("{}-{}", name_of(rule.model), number);
  VARVE_TRY(in.text("name", rule.name));
  VARVE_TRY(in.word("seam", kSeamNames, rule.seam));
  VARVE_TRY(read_parameters(in, rule.model, rule.parameters));
  VARVE_TRY(read_target(table, in, rule));
  VARVE_TRY(read_trigger(in, rule.trigger));
  if (rule.model == Model::enospc_at && !rule.parameters.bytes) {
    return in.wrong("bytes", "is missing: how many bytes may be written before the disk is full");
  }
  return rule;
}

}  // namespace

Result<Schedule> Schedule::parse(std::string_view text) {
  Schedule schedule;
  schedule.text = text;
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& problem) {
    return TableReader::error_at(problem.source().begin.line, problem.description());
  }
  VARVE_TRY(check_known(table, {"seed", "page_cache", "fault"}, "at the top of a schedule"));
  const TableReader in(table);
  schedule.seed_given = in.has("seed");
  VARVE_TRY(in.whole("seed", schedule.seed, 0));
  if (!schedule.seed_given) {
    std::random_device source;
    schedule.seed = ((uint64_t{source()} << 32) | source()) >> 1;  // fits TOML's integers
  }
  std::string cache = "bypass";
  VARVE_TRY(in.text("page_cache", cache));
  if (cache != "bypass" && cache != "kernel") {
    return in.wrong("page_cache",
                    "must be \"bypass\" (programs' reads and writes come as they are made) or \"kernel\"");
  }
  schedule.bypass_page_cache = cache == "bypass";
  const toml::array* faults = table["fault"].as_array();
  if (faults == nullptr || faults->empty()) {
    return TableReader::error_at(1, "no fault: write [[fault]], then model = \"bit_flip\" and so on below it");
  }
  for (const toml::node& item : *faults) {
    const toml::table* fault = item.as_table();
    if (fault == nullptr) {
      return TableReader::error_at(item.source().begin.line, "a fault is a table: [[fault]]");
    }
    VARVE_ASSIGN(Rule rule, read_rule(*fault, schedule.rules.size() + 1));
    const bool taken = std::ranges::any_of(schedule.rules, [&](const Rule& other) { return other.name == rule.name; });
    if (taken) {
      return TableReader::error_at(rule.line, fmt::format("two faults have the name \"{}\"", rule.name));
    }
    schedule.rules.push_back(std::move(rule));
  }
  return schedule;
}

}  // namespace varve::faults
