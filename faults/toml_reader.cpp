#include "faults/toml_reader.h"

#include <algorithm>

#include "fs/policy.h"
#include "fs/toml_text.h"

namespace varve::faults {
namespace {

using fs::shown;

Error problem_at(std::string_view file, size_t line, std::string_view what, int code = EINVAL) {
  return {code, fmt::format("{}, line {}: {}", file, line, what)};
}

std::string hint(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view near = nearest(word, known);
  return near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near);
}

}  // namespace

Result<toml::table> parse_toml(std::string_view text, std::string_view file) {
  return fs::parse_toml(text, file, {"[[fault]]", "model = \"bit_flip\"", ""});
}

Status check_keys(const toml::table& table, std::span<const std::string_view> known, std::string_view where,
                  std::string_view file) {
  for (const auto& [key, node] : table) {
    if (std::ranges::find(known, key.str()) == known.end()) {
      return problem_at(file, key.source().begin.line,
                        fmt::format("'{}' means nothing {}{}. Known here: {}", shown(key.str()), where,
                                    hint(key.str(), known), fmt::join(known, ", ")));
    }
  }
  return {};
}

Error TableReader::error_at(size_t line, std::string_view what) const { return problem_at(file_, line, what); }

Error TableReader::wrong(std::string_view key, std::string_view what) const {
  const toml::node* node = table_.get(key);
  return error_at(node != nullptr ? node->source().begin.line : line(), fmt::format("'{}' {}", key, what));
}

Error TableReader::lacking(std::string_view key, std::string_view what) const {
  Error error = wrong(key, what);
  error.code = ENODATA;
  return error;
}

Error TableReader::not_one_of(std::string_view key, std::string_view value,
                              std::span<const std::string_view> names) const {
  return wrong(
      key, fmt::format("cannot be \"{}\"{}: give one of {}", shown(value), hint(value, names), fmt::join(names, ", ")));
}

Status TableReader::text(std::string_view key, std::string& value) const {
  if (const toml::node* node = table_.get(key)) {
    const auto found = node->value<std::string>();
    if (!node->is_string() || !found) {
      return wrong(key, "must be a string in quotes");
    }
    value = *found;
  }
  return {};
}

Status TableReader::truth(std::string_view key, bool& value) const {
  if (const toml::node* node = table_.get(key)) {
    if (!node->is_boolean()) {
      return wrong(key, "must be true or false");
    }
    value = node->value<bool>().value_or(false);
  }
  return {};
}

Status TableReader::number(std::string_view key, double& value, double least, double most) const {
  if (const toml::node* node = table_.get(key)) {
    const auto found = node->value<double>();
    if (!node->is_number() || !found || !(*found >= least && *found <= most)) {
      return wrong(key, fmt::format("must be a number from {} to {}", least, most));
    }
    value = *found;
  }
  return {};
}

Status TableReader::glob(std::string_view key, std::string& value) const {
  VARVE_TRY(text(key, value));
  const Status good = fs::check_glob(value);
  if (!good.ok()) {
    return wrong(key, good.error().text);
  }
  return has(key) && value.empty() ? Status(wrong(key, "is empty, which matches nothing: leave it out for all"))
                                   : Status();
}

Status TableReader::path_glob(std::string_view key, std::string& value) const {
  VARVE_TRY(glob(key, value));
  for (std::string_view rest = value; has(key);) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, end);
    if (part.empty() || part == "." || part == "..") {
      return wrong(key, fmt::format("cannot be \"{}\", which matches nothing: paths are from the root of the mount (or "
                                    "the store), such as \"runs/a.h5\" or \"**/*.h5\", without a '/' at either end, "
                                    "\".\" or \"..\"",
                                    shown(value)));
    }
    if (end == rest.size()) {
      break;
    }
    rest.remove_prefix(end + 1);
  }
  return {};
}

}  // namespace varve::faults
