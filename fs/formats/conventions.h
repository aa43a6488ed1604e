// Which variables are coordinates, bounds or packed, by the conventions of CF (https://cfconventions.org) and of HDF5
// dimension scales, so that an inherited bound leaves them alone; and which missing values they declare.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codec/types.h"

namespace varve::fs {

/// The attributes of one variable.
class VariableAttributes {
 public:
  virtual ~VariableAttributes() = default;
  virtual bool has(const char* name) const = 0;
  /// The value when it is one string.
  virtual std::optional<std::string> text(const char* name) const = 0;
};

/// Reads the attributes of one variable after another; answers once all were seen. Not thread-safe.
class Conventions {
 public:
  /// `name`: "/group/variable". `line`: it has one axis at most. `coordinate`: the format itself says that it is one.
  void look_at(const std::string& name, const VariableAttributes& attributes, bool line, bool coordinate);

  /// "coordinate", "bounds variable", "cell measure", "grid mapping", "packed", or "" for a plain variable.
  std::string reason(const std::string& name) const;

 private:
  struct Mention {
    std::string group;  ///< of the variable that mentions
    std::string name;   ///< as written
    std::string_view reason;
  };
  void mention(const std::string& group, std::string_view list, std::string_view reason);
  std::string resolve(const std::string& group, const std::string& name) const;

  std::set<std::string> variables_;
  std::map<std::string, std::string_view> own_;  ///< by what the variable says of itself
  std::vector<Mention> mentions_;
  mutable std::map<std::string, std::string_view> mentioned_;
  mutable bool resolved_ = false;
};

/// An array declares so many missing values at most.
inline constexpr size_t kMostFillValues = 8;

/// Appends a bit pattern to an array's fill values: each once, kMostFillValues at most.
void add_fill_value(std::vector<uint64_t>& values, uint64_t pattern);

/// The bit pattern that a program writes which converts the number to the type. Nothing: it is no such number, or the
/// type is a float of 16 bits.
std::optional<uint64_t> pattern_of_number(long double number, codec::DType type);

}  // namespace varve::fs
