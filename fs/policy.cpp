#include "fs/policy.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <numeric>

#include "fs/formats/check.h"
#include "fs/toml_text.h"

namespace varve::fs {

namespace {

constexpr uint64_t kShortestLine = 4096;    // elements of a 1-D array that a general bound may touch
constexpr uint64_t kSmallestArray = 10000;  // bytes, likewise
constexpr std::string_view kRuleKeys[] = {"path", "dataset", "bound", "integers", "raw", "on_damage"};
constexpr std::string_view kRawKeys[] = {"dtype", "shape", "big_endian"};
constexpr std::string_view kTopKeys[] = {"on_damage", "rule"};
constexpr std::string_view kBoundOfFloats = "bound";  // in a stored file policy
constexpr std::string_view kBoundOfAll = "bound-integers";

Error at_line(size_t line, std::string_view what) {
  return Error{EINVAL, fmt::format("policy.toml, line {}: {}", line, what)};
}

size_t line_of(const toml::node& node) { return node.source().begin.line; }

/// Levenshtein's distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

Status check_keys(const toml::table& table, std::span<const std::string_view> known, std::string_view where) {
  for (const auto& [key, node] : table) {
    std::string_view name = key.str();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      auto nearest = *std::min_element(known.begin(), known.end(), [&](std::string_view a, std::string_view b) {
        return distance(name, a) < distance(name, b);
      });
      return at_line(key.source().begin.line, fmt::format("unknown key '{}' {}; did you mean '{}'? Known: {}", name,
                                                          where, nearest, fmt::join(known, ", ")));
    }
  }
  return {};
}

Result<std::string> get_text(const toml::node& node, std::string_view key) {
  auto value = node.value<std::string>();
  if (!node.is_string() || !value) {
    return at_line(line_of(node), fmt::format("'{}' must be a string in quotes", key));
  }
  return *value;
}

Result<std::string> get_glob(const toml::node& node, std::string_view key) {
  VARVE_ASSIGN(std::string pattern, get_text(node, key));
  auto status = check_glob(pattern);
  if (!status.ok()) {
    return at_line(line_of(node), status.error().text);
  }
  return pattern;
}

Result<codec::Extents> get_shape(const toml::node& node) {
  const toml::array* list = node.as_array();
  codec::Extents shape;
  bool positive = list != nullptr && !list->empty() && list->size() <= codec::kMaxRank;
  for (size_t i = 0; positive && i < list->size(); ++i) {
    auto extent = list->get(i)->is_integer() ? list->get(i)->value<int64_t>() : std::nullopt;
    positive = extent.value_or(0) > 0;
    shape.push_back(positive ? static_cast<uint64_t>(*extent) : 0);
  }
  if (!positive || !checked_product(shape)) {
    return at_line(line_of(node),
                   "'shape' must be a list of 1 to 32 whole numbers above 0, slowest axis first, such as "
                   "[256, 384, 384]");
  }
  return shape;
}

Result<bool> get_bool(const toml::node& node, std::string_view key) {
  if (!node.is_boolean()) {
    return at_line(line_of(node), fmt::format("'{}' must be true or false", key));
  }
  return node.value<bool>().value_or(false);
}

Result<RawHint> get_raw(const toml::node& node) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    return at_line(line_of(node), "'raw' must be a table such as {dtype = \"f32\", shape = [256, 384, 384]}");
  }
  VARVE_TRY(check_keys(*table, kRawKeys, "in 'raw'"));
  const toml::node* dtype = table->get("dtype");
  const toml::node* shape = table->get("shape");
  if (dtype == nullptr || shape == nullptr) {
    return at_line(line_of(node), "'raw' needs both dtype and shape");
  }
  RawHint hint;
  VARVE_ASSIGN(std::string name, get_text(*dtype, "dtype"));
  auto parsed = codec::parse_dtype(name);
  if (!parsed.ok()) {
    return at_line(line_of(*dtype), parsed.error().text);
  }
  hint.dtype = *parsed;
  VARVE_ASSIGN(hint.shape, get_shape(*shape));
  if (const toml::node* order = table->get("big_endian")) {
    VARVE_ASSIGN(hint.big_endian, get_bool(*order, "big_endian"));
  }
  return hint;
}

Result<OnDamage> get_on_damage(const toml::node& node) {
  VARVE_ASSIGN(const std::string word, get_text(node, "on_damage"));
  if (word != "eio" && word != "degrade") {
    return at_line(line_of(node), fmt::format("'on_damage' is \"eio\" (reads of damaged elements fail) or \"degrade\" "
                                              "(they are interpolated from coarser levels), not \"{}\"",
                                              word));
  }
  return word == "eio" ? OnDamage::eio : OnDamage::degrade;
}

Result<PolicyRule> get_rule(const toml::table& table) {
  VARVE_TRY(check_keys(table, kRuleKeys, "in [[rule]]"));
  PolicyRule rule;
  rule.line = line_of(table);
  rule.path = "**";
  if (const toml::node* node = table.get("path")) {
    VARVE_ASSIGN(rule.path, get_glob(*node, "path"));
    if (rule.path.empty() || rule.path.starts_with('/')) {
      return at_line(line_of(*node), "'path' counts from the mount's root and has no leading '/', such as \"run1/**\"");
    }
  }
  if (const toml::node* node = table.get("dataset")) {
    VARVE_ASSIGN(rule.dataset, get_glob(*node, "dataset"));
  }
  if (const toml::node* node = table.get("bound")) {
    VARVE_ASSIGN(std::string text, get_text(*node, "bound"));
    auto bound = codec::parse_bound(text);
    if (!bound.ok()) {
      return at_line(line_of(*node), bound.error().text);
    }
    rule.bound = *bound;
  }
  if (const toml::node* node = table.get("integers")) {
    VARVE_ASSIGN(rule.integers, get_bool(*node, "integers"));
    if (!rule.bound) {
      return at_line(line_of(*node), "'integers' says that a bound applies to integers too: give the rule a 'bound'");
    }
  }
  if (const toml::node* node = table.get("raw")) {
    VARVE_ASSIGN(rule.raw, get_raw(*node));
  }
  if (const toml::node* node = table.get("on_damage")) {
    VARVE_ASSIGN(rule.on_damage, get_on_damage(*node));
  }
  if (!rule.bound && !rule.raw && !rule.on_damage) {
    return at_line(rule.line,
                   "this rule does nothing: give it a 'bound' (\"abs:0.5\", \"rel:1e-3\", \"lossless\", ...), "
                   "'raw', 'on_damage', or several of them");
  }
  return rule;
}

Result<std::vector<PolicyRule>> get_rules(const toml::table& root) {
  std::vector<PolicyRule> rules;
  const toml::node* node = root.get("rule");
  if (node == nullptr) {
    return rules;
  }
  const toml::array* list = node->as_array();
  bool tables =
      list != nullptr && std::all_of(list->begin(), list->end(), [](const auto& each) { return each.is_table(); });
  if (!tables) {
    return at_line(line_of(*node), "rules are written under [[rule]], with two brackets");
  }
  for (const toml::node& each : *list) {
    VARVE_ASSIGN(PolicyRule rule, get_rule(*each.as_table()));
    rules.push_back(std::move(rule));
  }
  return rules;
}

/// Whether the glob says more than "anything".
bool names_a_dataset(std::string_view pattern) { return pattern.find_first_not_of("*/") != std::string_view::npos; }

/// Whether the glob's last component is a name. A bracket makes it a wildcard, quoted or not.
bool names_exactly(std::string_view pattern) {
  const std::string_view last = pattern.substr(pattern.rfind('/') + 1);
  return !last.empty() && last.find_first_of("*?[") == std::string_view::npos;
}

std::string title(const ArrayRegion& array) { return array.name.empty() ? "the array" : array.name; }

/// Why a general bound must not touch this array; empty: it may.
std::string protection(const ArrayRegion& array) {
  if (!array.keep_exact.empty()) {
    return fmt::format("it is kept exact ({})", array.keep_exact);
  }
  uint64_t elements = checked_product(array.shape).value_or(0);
  // A trailing axis of 2 can be the two parts of complex numbers.
  const bool pairs = array.shape.size() == 2 && array.shape[1] == 2;
  if (array.shape.size() <= 1 ? elements < kShortestLine : pairs && elements < 2 * kShortestLine) {
    return fmt::format("1-D arrays of under {} elements are kept exact", kShortestLine);
  }
  if (elements < kSmallestArray / codec::element_size(array.dtype)) {
    return fmt::format("arrays of under {} bytes are kept exact", kSmallestArray);
  }
  return {};
}

}  // namespace

codec::Bound FilePolicy::bound_for(const ArrayRegion& array, std::string* why) const {
  auto decide = [&](codec::Bound bound, std::string text) {
    if (why != nullptr) {
      *why = std::move(text);
    }
    return bound;
  };
  const codec::Bound lossless;
  auto choice = std::find_if(choices.begin(), choices.end(), [&](const Choice& each) {
    return each.dataset.empty() || dataset_match(each.dataset, array.name);
  });
  if (choice == choices.end()) {
    return decide(lossless, fmt::format("{} is lossless: no bound is set for it", title(array)));
  }
  std::string source =
      choice->dataset.empty() ? "the bound of its path" : fmt::format("the rule for dataset \"{}\"", choice->dataset);
  if (choice->bound.mode == codec::BoundMode::lossless) {
    return decide(lossless, fmt::format("{} is lossless: {} says so", title(array), source));
  }
  if (array.keep_exact == "checksummed") {
    return decide(lossless,
                  fmt::format("{} is lossless: it carries its own checksum, which no bound may break", title(array)));
  }
  if (array.keep_exact == "deflated") {
    return decide(lossless, fmt::format("{} is lossless: its file has it deflated, and other values would take another "
                                        "number of bytes there",
                                        title(array)));
  }
  if (!codec::is_float(array.dtype)) {
    if (!choice->integers && !names_exactly(choice->dataset)) {
      return decide(lossless, fmt::format("{} is lossless: it holds integers ({}), which a bound touches only where a "
                                          "rule has the dataset's very name or 'integers = true'",
                                          title(array), codec::name_of(array.dtype)));
    }
    if (choice->bound.mode == codec::BoundMode::bits) {
      return decide(lossless, fmt::format("{} is lossless: {} keeps bits of a mantissa, and integers ({}) have none",
                                          title(array), codec::to_string(choice->bound), codec::name_of(array.dtype)));
    }
  }
  std::string reason = names_a_dataset(choice->dataset) ? "" : protection(array);
  if (!reason.empty()) {
    return decide(lossless, fmt::format("{} is lossless: {}; a rule that names the dataset overrides this",
                                        title(array), reason));
  }
  return decide(choice->bound, fmt::format("{} has {}, by {}", title(array), codec::to_string(choice->bound), source));
}

std::string FilePolicy::serialise() const {
  std::string text;
  for (const Choice& choice : choices) {
    text += fmt::format("{} {} {}\n", choice.integers ? kBoundOfAll : kBoundOfFloats, codec::to_string(choice.bound),
                        choice.dataset);
  }
  if (raw) {
    text += fmt::format("raw {} {} {}\n", codec::name_of(raw->dtype), raw->big_endian ? "big" : "little",
                        fmt::join(raw->shape, "x"));
  }
  return text;
}

namespace {

Error bad_line(std::string_view line) {
  return Error{EBADMSG, fmt::format("a stored file policy has the line \"{}\", which says nothing", line)};
}

/// Cuts off and returns what stands before `separator`; all of it when there is none.
std::string_view cut(std::string_view& rest, char separator) {
  size_t at = rest.find(separator);
  std::string_view head = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
  return head;
}

/// Whether a character beyond ASCII stands outside of quotes and comments.
bool has_stray_unicode(std::string_view line) {
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (quote != 0) {
      i += quote == '"' && c == '\\' ? 1 : 0;
      quote = c == quote ? '\0' : quote;
    } else if (c == '#') {
      return false;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return true;
    }
  }
  return false;
}

/// What the TOML library's parser must not see, since it takes the absence for granted: control characters, which TOML
/// does not allow either, characters beyond ASCII where only keys and numbers can be, and table headers whose name does
/// not start as a name.
Status check_text(std::string_view toml) {
  constexpr std::string_view kNameStart = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-\"'";
  for (size_t number = 1; !toml.empty(); ++number) {
    std::string_view line = cut(toml, '\n');
    for (char c : line) {
      auto code = static_cast<unsigned char>(c);
      if ((code < 0x20 && c != '\t' && c != '\r') || code == 0x7f) {
        return at_line(number, fmt::format("the control character \\x{:02x} is not allowed; remove it", code));
      }
    }
    if (has_stray_unicode(line)) {
      return at_line(number, "a character beyond ASCII outside of quotes; put the text in \"...\" on one line");
    }
    size_t bracket = line.find_first_not_of(" \t");
    if (bracket == std::string_view::npos || line[bracket] != '[') {
      continue;
    }
    line.remove_prefix(bracket + (line.substr(bracket).starts_with("[[") ? 2 : 1));
    size_t start = line.find_first_not_of(" \t");
    if (start == std::string_view::npos || kNameStart.find(line[start]) == std::string_view::npos) {
      return at_line(number, "a line that starts with '[' must be the header of a rule, [[rule]]");
    }
  }
  return {};
}

Result<RawHint> parse_raw_line(std::string_view line, std::string_view rest) {
  RawHint hint;
  auto dtype = codec::parse_dtype(cut(rest, ' '));
  std::string_view order = cut(rest, ' ');
  if (!dtype.ok() || (order != "big" && order != "little")) {
    return bad_line(line);
  }
  hint.dtype = *dtype;
  hint.big_endian = order == "big";
  while (!rest.empty()) {
    std::string_view digits = cut(rest, 'x');
    uint64_t extent = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), extent);
    if (error != std::errc{} || end != digits.data() + digits.size() || extent == 0 ||
        hint.shape.size() == codec::kMaxRank) {
      return bad_line(line);
    }
    hint.shape.push_back(extent);
  }
  if (hint.shape.empty() || !checked_product(hint.shape)) {
    return bad_line(line);
  }
  return hint;
}

}  // namespace

Result<FilePolicy> FilePolicy::parse(std::string_view text) {
  FilePolicy policy;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    std::string_view rest = line;
    std::string_view kind = cut(rest, ' ');
    if (kind == kBoundOfFloats || kind == kBoundOfAll) {
      auto bound = codec::parse_bound(cut(rest, ' '));
      if (!bound.ok() || !check_glob(rest).ok()) {
        return bad_line(line);
      }
      policy.choices.push_back({std::string(rest), *bound, kind == kBoundOfAll});
    } else if (kind == "raw" && !policy.raw) {
      VARVE_ASSIGN(policy.raw, parse_raw_line(line, rest));
    } else {
      return bad_line(line);
    }
  }
  return policy;
}

Result<Policy> Policy::parse(std::string_view toml) {
  VARVE_TRY(check_text(toml));
  auto root = parse_toml(toml, "policy.toml", {"[[rule]]", "bound = \"rel:1e-3\"", "this is no TOML: "});
  if (!root.ok()) {
    return Error{EINVAL, root.error().text};
  }
  Policy policy;
  VARVE_TRY(check_keys(*root, kTopKeys, "at the top"));
  if (const toml::node* node = root->get("on_damage")) {
    VARVE_ASSIGN(policy.on_damage_, get_on_damage(*node));
  }
  VARVE_ASSIGN(policy.rules_, get_rules(*root));
  return policy;
}

OnDamage Policy::on_damage(std::string_view path, std::string_view dataset) const {
  for (const bool named : {true, false}) {
    for (const PolicyRule& rule : rules_) {
      if (rule.on_damage && rule.dataset.empty() != named && glob_match(rule.path, path) &&
          (!named || dataset_match(rule.dataset, dataset))) {
        return *rule.on_damage;
      }
    }
  }
  return on_damage_;
}

bool Policy::may_degrade() const {
  return on_damage_ == OnDamage::degrade ||
         std::ranges::any_of(rules_, [](const PolicyRule& rule) { return rule.on_damage == OnDamage::degrade; });
}

FilePolicy Policy::for_file(std::string_view path, const std::optional<codec::Bound>& inherited) const {
  FilePolicy policy;
  std::vector<FilePolicy::Choice> general;
  for (const PolicyRule& rule : rules_) {
    if (!glob_match(rule.path, path)) {
      continue;
    }
    if (rule.raw && !policy.raw) {
      policy.raw = rule.raw;
    }
    if (rule.bound) {
      (rule.dataset.empty() ? general : policy.choices).push_back({rule.dataset, *rule.bound, rule.integers});
    }
  }
  if (inherited) {
    policy.choices.push_back({"", *inherited});
  }
  policy.choices.insert(policy.choices.end(), general.begin(), general.end());
  return policy;
}

}  // namespace varve::fs
