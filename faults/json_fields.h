// Fields of JSON objects, for journals. What is wrong is thrown as std::invalid_argument with a sentence for people,
// and caught where a line is parsed.
#pragma once

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "faults/words.h"

namespace varve::faults {

template <typename T>
T field(const nlohmann::ordered_json& in, const char* key) {
  try {
    return in.at(key).get<T>();
  } catch (const nlohmann::ordered_json::exception&) {
    throw std::invalid_argument(fmt::format("'{}' {}", key, in.contains(key) ? "is of the wrong kind" : "is missing"));
  }
}
template <typename T>
T field(const nlohmann::ordered_json& in, const char* key, T otherwise) {
  return in.contains(key) ? field<T>(in, key) : std::move(otherwise);
}
template <typename Enum, size_t N>
Enum field(const nlohmann::ordered_json& in, const char* key, const std::array<std::string_view, N>& names) {
  const auto name = field<std::string>(in, key);
  const auto found = find_in<Enum>(names, name);
  if (!found) {
    throw std::invalid_argument(fmt::format("'{}' cannot be \"{}\"", key, name));
  }
  return *found;
}

}  // namespace varve::faults
