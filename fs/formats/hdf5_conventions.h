// Which datasets are coordinates, bounds or packed, by the conventions of HDF5 dimension scales and CF
// (https://cfconventions.org), so that an inherited bound leaves them alone.
#pragma once

#include <hdf5.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace varve::fs {

/// Reads the attributes of one dataset after another; answers once all were seen. Not thread-safe.
class Hdf5Conventions {
 public:
  void look_at(hid_t dataset, const std::string& name);

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

  std::set<std::string> datasets_;
  std::map<std::string, std::string_view> own_;  ///< by what the dataset says of itself
  std::vector<Mention> mentions_;
  mutable std::map<std::string, std::string_view> mentioned_;
  mutable bool resolved_ = false;
};

}  // namespace varve::fs
