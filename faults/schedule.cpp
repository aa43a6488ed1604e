#include "faults/schedule.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "faults/schedule_keys.h"
#include "faults/structure.h"
#include "faults/toml_reader.h"
#include "fs/policy.h"

namespace varve::faults {
namespace {

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
      return in.not_one_of(key, name, names);
    }
    set.set(static_cast<size_t>(*found));
  }
  return {};
}

/// Each can come at the rule's seam, and the model can act on it.
Status check_operations(const TableReader& in, const Rule& rule) {
  std::vector<std::string_view> possible;
  for (size_t op = 0; op < kOps; ++op) {
    if (comes_at(rule.seam, static_cast<Op>(op)) && acts_on(rule.model, static_cast<Op>(op))) {
      possible.push_back(kOpNames[op]);
    }
  }
  for (size_t op = 0; op < kOps; ++op) {
    if (!rule.target.operations.test(op)) {
      continue;
    }
    if (!acts_on(rule.model, static_cast<Op>(op))) {
      return in.wrong("operation", fmt::format("cannot be \"{}\" for {}: give one of {}", kOpNames[op],
                                               name_of(rule.model), fmt::join(possible, ", ")));
    }
    if (!comes_at(rule.seam, static_cast<Op>(op))) {
      return in.wrong("operation",
                      fmt::format("cannot be \"{}\" at the seam \"{}\", where it never comes: give one of {}",
                                  kOpNames[op], name_of(rule.seam), fmt::join(possible, ", ")));
    }
  }
  return {};
}

/// Region, dataset and structure; together they can mean something.
Status read_meaning(const TableReader& in, Target& target) {
  constexpr std::array<std::string_view, 2> kRegions = {"bytes", "array"};
  VARVE_TRY(in.text("region", target.region));
  if (in.has("region") && std::ranges::find(kRegions, target.region) == kRegions.end()) {
    return in.not_one_of("region", target.region, kRegions);
  }
  VARVE_TRY(in.glob("dataset", target.dataset));
  VARVE_TRY(in.glob("structure", target.structure));
  const bool raw = target.structure.empty() || fs::glob_match(target.structure, "raw_data");
  if (!target.structure.empty()) {
    const std::vector<std::string_view> names(structure_names().begin(), structure_names().end());
    if (std::ranges::none_of(names, [&](std::string_view name) { return fs::glob_match(target.structure, name); })) {
      return in.not_one_of("structure", target.structure, names);
    }
  }
  if (target.region == "bytes" && !target.dataset.empty()) {
    return in.wrong("region", "cannot be \"bytes\" beside 'dataset': a dataset's bytes are an array's");
  }
  if (!raw && (target.region == "array" || !target.dataset.empty())) {
    return in.wrong("structure",
                    "must be \"raw_data\" beside 'dataset' or region = \"array\": other structures hold no "
                    "elements");
  }
  return {};
}

/// All kinds but "none", which no file of the store is.
Status read_kinds(const TableReader& in, Target& target) {
  VARVE_TRY((read_set<FileKind>(in, "kind", kFileKindNames, target.kinds)));
  if (target.kinds.test(static_cast<size_t>(FileKind::none))) {
    return in.not_one_of("kind", "none", std::span(kFileKindNames).subspan(1));
  }
  return {};
}

/// What is aimed at in elements and records, once all keys are known.
Status check_aim(const TableReader& in, const Rule& rule) {
  const Target& target = rule.target;
  const bool records = target.level || target.brick || target.object;
  // A `seam`, a `dataset` or an `element` may stand further down in a text that is still being written.
  if (rule.seam == Seam::app && (target.kinds.any() || records)) {
    return in.lacking("seam", "must be \"device\" where kind, level, brick or object is given");
  }
  if (rule.seam == Seam::device && (rule.needs_structure() || target.pid || !target.process.empty())) {
    return in.wrong("seam", "must be \"app\" where region, dataset, structure, process or pid is given");
  }
  if (records && target.kinds.any() && !target.kinds.test(static_cast<size_t>(FileKind::pack))) {
    return in.wrong("kind", "must have \"pack\" in it where level, brick or object is given: records lie in packs");
  }
  const std::string_view key = target.byte ? "byte" : "bits";
  if (!rule.needs_structure() && !target.element && rule.aims_at_bits()) {
    return in.lacking(key, "needs to know the elements: give 'dataset', or 'element'");
  }
  if (target.element && rule.aims_at_bits() && !rule.bits_of(*target.element)) {
    return in.wrong(key, fmt::format("aims at bits that no element of type {} has", codec::name_of(*target.element)));
  }
  return {};
}

Status read_target(const TableReader& in, Rule& rule) {
  Target& target = rule.target;
  VARVE_TRY((read_set<Op>(in, "operation", kOpNames, target.operations)));
  if (target.operations.none()) {
    target.operations.set(static_cast<size_t>(default_operation(rule.model)));
  }
  VARVE_TRY(check_operations(in, rule));
  VARVE_TRY(in.path_glob("path", target.path));
  VARVE_TRY(read_ranges(in.table(), in, target));
  VARVE_TRY(in.glob("process", target.process));
  VARVE_TRY(in.whole("pid", target.pid, 1));
  VARVE_TRY(read_meaning(in, target));
  VARVE_TRY(read_kinds(in, target));
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
  return check_aim(in, rule);
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
  if (in.has("probability") && trigger.probability == 0) {
    return in.wrong("probability", "cannot be 0: the fault would never come");
  }
  VARVE_TRY(in.number("after", trigger.after, 0, 1e9));
  for (const auto& [key, name] : {std::pair("from_mark", &trigger.from_mark), std::pair("to_mark", &trigger.to_mark)}) {
    VARVE_TRY(in.text(key, *name));
    if (const Status good = check_mark(*name); in.has(key) && !good.ok()) {
      return in.wrong(key, fmt::format("is no mark: {}", good.error().text));
    }
  }
  VARVE_TRY(in.whole("limit", trigger.limit, 1));
  constexpr std::array<std::string_view, 2> kPer = {"mount", "file"};  // what 'nth' and 'every' count over
  VARVE_TRY(in.word("per", kPer, trigger.count_per_file));
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
      constexpr std::array<std::string_view, 14> kUsual = {"EIO",    "ENOSPC", "EDQUOT",    "EROFS",  "EACCES",
                                                           "ENOENT", "EINTR",  "EAGAIN",    "ENODEV", "ENOMEM",
                                                           "EMFILE", "ESTALE", "ETIMEDOUT", "EBADMSG"};
      const std::string_view near = nearest(name, kUsual);
      return in.wrong("errno", fmt::format("cannot be \"{}\"{}: no errno of Linux has that name; usual ones are {} "
                                           "(errno(3))",
                                           name, near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                           fmt::join(kUsual, ", ")));
    }
    parameters.codes.push_back(*code);
  }
  VARVE_TRY(in.list("weights", parameters.weights, "a number"));
  const bool positive = std::ranges::all_of(parameters.weights, [](double weight) { return weight > 0; });
  if (!parameters.weights.empty() && (parameters.weights.size() != parameters.codes.size() || !positive)) {
    return in.lacking("weights", "must be one positive number for each errno");
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
  constexpr std::array<std::string_view, 3> kRests = {"old", "zeros", "fill"};
  uint8_t rest = 0;
  VARVE_TRY(in.word("rest", kRests, rest));
  out.rest_old = rest == 0;
  VARVE_TRY(in.truth("grows", out.grows));
  VARVE_TRY(in.list("kept", out.kept, "a fraction between 0 and 1"));
  if (std::ranges::any_of(out.kept, [](double part) { return !(part >= 0 && part < 1); })) {
    return in.wrong("kept", "must be fractions from 0 to below 1, such as [0.375, 0.875]");
  }
  VARVE_TRY(in.word("cut", kCutNames, out.cut));
  VARVE_TRY(in.whole("parts", out.parts, 2, 1 << 20));
  std::vector<int64_t> persist;
  VARVE_TRY(in.list("persist", persist, "a number of a part, from 0"));
  VARVE_TRY(in.whole("run", out.run, 1, 1 << 20));
  const auto parts = static_cast<int64_t>(out.run > 1 ? out.run : out.parts);
  for (const int64_t part : persist) {
    if (part < 0 || part >= parts) {
      return in.lacking("persist", fmt::format("cannot be {}: of {} {} the numbers are 0 to {}", part, parts,
                                               out.run > 1 ? "writes of a run" : "parts", parts - 1));
    }
    out.persist.push_back(static_cast<uint64_t>(part));
  }
  VARVE_TRY(in.whole("distance", out.distance, INT64_MIN));
  if (in.has("distance") && out.distance == 0) {
    return in.wrong("distance", "cannot be 0: that is where the operation goes anyway");
  }
  VARVE_TRY(in.whole("window", out.window, 1, 1 << 20));
  constexpr std::array<std::string_view, 2> kLost = {"all", "random"};
  VARVE_TRY(in.word("lost", kLost, out.random_subset));
  VARVE_TRY(in.truth("any_order", out.any_order));
  if (in.has("then")) {
    out.then = Aftermath::go_on;
    VARVE_TRY(in.word("then", kAftermathNames, *out.then));
  }
  VARVE_TRY(in.truth("before", out.before));
  VARVE_TRY(read_codes(in, out));
  VARVE_TRY(in.number("milliseconds", out.milliseconds, 0, 1e9));
  VARVE_TRY(in.number("most_milliseconds", out.most_milliseconds, 0, 1e9));
  if (in.has("most_milliseconds") && out.most_milliseconds < out.milliseconds) {
    return in.lacking("most_milliseconds", "must not be below 'milliseconds'");
  }
  VARVE_TRY(in.word("distribution", kSpreadNames, out.spread));
  VARVE_TRY(in.whole("bytes", out.bytes, model == Model::enospc_at ? 0 : 1));
  VARVE_TRY(in.number("base_rate", out.base_rate, 0, 1));
  VARVE_TRY(in.number("growth", out.growth, 0, 1));
  VARVE_TRY(in.number("speed", out.speed, 0, 1e12));
  VARVE_TRY(in.whole("corrected", out.corrected, 0, 32768));
  return {};
}

/// Before any key is looked at: the model's name may be what is misspelt. `known`: the model's, once there is one.
Status check_rule_keys(const TableReader& in, std::vector<std::string_view> known, std::string_view where) {
  for (const std::string_view key : {"seed", "page_cache"}) {
    if (in.has(key)) {
      return in.wrong(key, "stands at the top of the schedule, before the first [[fault]]: here it would be a fault's");
    }
  }
  if (known.empty()) {
    std::set<std::string_view> all;
    for (size_t model = 0; model < kModelNames.size(); ++model) {
      const auto keys = keys_of(static_cast<Model>(model));
      all.insert(keys.begin(), keys.end());
    }
    known.assign(all.begin(), all.end());
  }
  return check_keys(in.table(), known, where, in.file());
}

}  // namespace

std::optional<std::pair<uint64_t, uint64_t>> Rule::bits_of(codec::DType element) const {
  const uint64_t all = 8 * codec::element_size(element);
  uint64_t first = 0;
  uint64_t last = all;
  if (parameters.bits != BitClass::any) {
    if (!codec::is_float(element)) {
      return std::nullopt;
    }
    const uint64_t mantissa = codec::mantissa_bits(element);
    first = parameters.bits == BitClass::sign ? all - 1 : parameters.bits == BitClass::exponent ? mantissa : 0;
    last = parameters.bits == BitClass::sign ? all : parameters.bits == BitClass::exponent ? all - 1 : mantissa;
  }
  if (target.byte) {
    first = std::max(first, 8 * uint64_t{*target.byte});
    last = std::min(last, 8 * uint64_t{*target.byte} + 8);
  }
  return first < last ? std::optional(std::pair(first, last)) : std::nullopt;
}

Result<Rule> read_rule(const TableReader& in, size_t number) {
  Rule rule;
  rule.line = in.line();
  if (!in.has("model")) {
    VARVE_TRY(check_rule_keys(in, {}, "in a fault"));
    return Error{ENODATA, in.error_at(rule.line, fmt::format("a [[fault]] needs a 'model': one of {}",
                                                             fmt::join(kModelNames, ", ")))
                              .text};
  }
  VARVE_TRY(in.word("model", kModelNames, rule.model));
  VARVE_TRY(check_rule_keys(in, keys_of(rule.model), fmt::format("for {}", name_of(rule.model))));
  rule.name = fmt::format("{}-{}", name_of(rule.model), number);
  VARVE_TRY(in.text("name", rule.name));
  VARVE_TRY(in.word("seam", kSeamNames, rule.seam));
  if (rule.model == Model::kill_caller && rule.seam == Seam::device) {
    return in.wrong("seam",
                    "must be \"app\" for kill_caller: at the device no program calls; \"crash\" kills the daemon");
  }
  VARVE_TRY(read_parameters(in, rule.model, rule.parameters));
  VARVE_TRY(read_target(in, rule));
  VARVE_TRY(read_trigger(in, rule.trigger));
  if (rule.model == Model::enospc_at && !rule.parameters.bytes) {
    return in.lacking("bytes", "is missing: how many bytes may be written before the disk is full");
  }
  return rule;
}

namespace {

Status read_rules(const toml::array& faults, const TableReader& top, std::vector<Rule>& rules) {
  if (faults.size() > Schedule::kMostRules) {
    return top.error_at(faults[Schedule::kMostRules].source().begin.line,
                        fmt::format("a schedule has at most {} faults, this one has {}: one fault can name many files "
                                    "by a glob, ranges, or operations by a list in 'nth'",
                                    Schedule::kMostRules, faults.size()));
  }
  std::set<std::string> names;
  for (const toml::node& item : faults) {
    const toml::table* fault = item.as_table();
    if (fault == nullptr) {
      return top.error_at(item.source().begin.line, "a fault is a table: [[fault]]");
    }
    VARVE_ASSIGN(Rule rule, read_rule(TableReader(*fault, top.file()), rules.size() + 1));
    if (!names.insert(rule.name).second) {
      return top.error_at(rule.line, fmt::format("two faults have the name \"{}\": give each its own", rule.name));
    }
    rules.push_back(std::move(rule));
  }
  return {};
}

/// As parse(), but ENODATA where more text at the end could make it right.
Result<Schedule> parse_so_far(std::string_view text, std::string_view file) {
  Schedule schedule;
  schedule.text = text;
  VARVE_ASSIGN(const toml::table table, parse_toml(text, file));
  constexpr std::array<std::string_view, 3> kKnown = {"seed", "page_cache", "fault"};
  VARVE_TRY(check_keys(table, kKnown, "at the top of a schedule", file));
  const TableReader in(table, file);
  schedule.seed_given = in.has("seed");
  VARVE_TRY(in.whole("seed", schedule.seed, 0));
  if (!schedule.seed_given) {
    std::random_device source;
    schedule.seed = ((uint64_t{source()} << 32) | source()) >> 1;  // fits TOML's integers
  }
  // "bypass": programs' reads and writes come as they are made.
  constexpr std::array<std::string_view, 2> kCaches = {"kernel", "bypass"};
  VARVE_TRY(in.word("page_cache", kCaches, schedule.bypass_page_cache));
  const toml::node* faults = table.get("fault");
  if (faults != nullptr && !faults->is_array()) {
    return in.wrong("fault", "must be in two brackets on each side: [[fault]]");
  }
  if (faults == nullptr || faults->as_array()->empty()) {
    return Error{ENODATA,
                 in.error_at(1, "no fault: write [[fault]], then model = \"bit_flip\" and so on below it").text};
  }
  VARVE_TRY(read_rules(*faults->as_array(), in, schedule.rules));
  return schedule;
}

}  // namespace

Result<Schedule> Schedule::parse(std::string_view text, std::string_view file) {
  auto schedule = parse_so_far(text, file);
  return schedule.ok() ? std::move(schedule) : Result<Schedule>(Error{EINVAL, schedule.error().text});
}

Status Schedule::check_start(std::string_view text) {
  const auto schedule = parse_so_far(text, "schedule");
  return schedule.ok() || schedule.error().code == ENODATA ? Status() : Status(schedule.error());
}

Status check_mark(std::string_view name) {
  constexpr size_t kLongest = 255;
  const bool visible =
      std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != 127; });
  if (name.empty() || name.size() > kLongest || !visible) {
    return Error{EINVAL, fmt::format("a mark is one word of 1 to {} bytes without spaces, such as \"step_2\"{}",
                                     kLongest, name.empty() ? ", and this one is empty" : "")};
  }
  return {};
}

}  // namespace varve::faults
