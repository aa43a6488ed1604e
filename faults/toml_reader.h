// Reading TOML with errors for people: each says which file, which line, what is wrong there and what to write instead.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "codec/result.h"
#include "faults/words.h"

namespace varve::faults {

/// Errors: EINVAL; ENODATA where more text at the end could make it right.
Result<toml::table> parse_toml(std::string_view text, std::string_view file);

/// Every key is one of `known`; else EINVAL with the nearest of them. `where`: "for bit_flip".
Status check_keys(const toml::table& table, std::span<const std::string_view> known, std::string_view where,
                  std::string_view file);

/// Reads one table. A key that is not there leaves the value as it is. `file` is what errors name.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string_view file) : table_(table), file_(file) {}

  const toml::table& table() const { return table_; }
  std::string_view file() const { return file_; }
  size_t line() const { return table_.source().begin.line; }
  bool has(std::string_view key) const { return table_.contains(key); }
  /// "FILE, line N: 'key' what"
  Error wrong(std::string_view key, std::string_view what) const;
  /// The same where a key that comes later may still make it right: ENODATA.
  Error lacking(std::string_view key, std::string_view what) const;
  Error error_at(size_t line, std::string_view what) const;

  Status text(std::string_view key, std::string& value) const;
  Status truth(std::string_view key, bool& value) const;
  Status number(std::string_view key, double& value, double least, double most) const;
  Status glob(std::string_view key, std::string& value) const;
  /// A glob over paths from a root: no '/' in front, no empty, "." or ".." component.
  Status path_glob(std::string_view key, std::string& value) const;
  /// "cannot be "x": give one of a, b, c (did you mean "a"?)"
  Error not_one_of(std::string_view key, std::string_view value, std::span<const std::string_view> names) const;

  template <typename Integer>
  Status whole(std::string_view key, Integer& value, int64_t least, int64_t most = INT64_MAX) const {
    if (const toml::node* node = table_.get(key)) {
      const auto found = node->is_integer() ? node->value<int64_t>() : std::nullopt;
      if (!found || *found < least || *found > most) {
        return wrong(key, most == INT64_MAX && least > INT64_MIN
                              ? fmt::format("must be a whole number of at least {}", least)
                              : fmt::format("must be a whole number from {} to {}", least, most));
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
        return not_one_of(key, name, names);
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

 private:
  const toml::table& table_;
  const std::string_view file_;
};

}  // namespace varve::faults
