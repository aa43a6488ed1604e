#include "fs/formats/conventions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace varve::fs {

namespace {

constexpr std::string_view kCoordinate = "coordinate";
constexpr size_t kMostMentions = 100000;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Units that only coordinates have.
bool is_coordinate_unit(const std::string& units) {
  return is_one_of(units, {"degrees_north", "degree_north", "degrees_N", "degree_N", "degreesN", "degreeN",
                           "degrees_east", "degree_east", "degrees_E", "degree_E", "degreesE", "degreeE"}) ||
         units.find(" since ") != std::string::npos;
}

bool is_coordinate_name(const std::string& standard_name) {
  return is_one_of(standard_name,
                   {"latitude", "longitude", "time", "grid_latitude", "grid_longitude", "projection_x_coordinate",
                    "projection_y_coordinate", "forecast_reference_time", "forecast_period"});
}

/// `positive` alone does not do: fluxes on grids have it too, for the direction they count in.
bool says_it_is_a_coordinate(const VariableAttributes& attributes, bool line) {
  if (attributes.text("CLASS").value_or("") == "DIMENSION_SCALE" || attributes.has("axis") ||
      (attributes.has("positive") && line)) {
    return true;
  }
  return is_coordinate_unit(attributes.text("units").value_or("")) ||
         is_coordinate_name(attributes.text("standard_name").value_or(""));
}

struct ListAttribute {
  const char* name;
  std::string_view reason;
};

constexpr std::array<ListAttribute, 8> kLists{{{"coordinates", kCoordinate},
                                               {"node_coordinates", kCoordinate},
                                               {"edge_coordinates", kCoordinate},
                                               {"face_coordinates", kCoordinate},
                                               {"bounds", "bounds variable"},
                                               {"climatology", "bounds variable"},
                                               {"cell_measures", "cell measure"},
                                               {"grid_mapping", "grid mapping"}}};

std::string group_of(const std::string& name) { return name.substr(0, name.rfind('/')); }

template <typename Integer>
std::optional<uint64_t> integer_pattern(long double number) {
  const bool fits = number >= static_cast<long double>(std::numeric_limits<Integer>::min()) &&
                    number <= static_cast<long double>(std::numeric_limits<Integer>::max()) &&
                    std::trunc(number) == number;
  return fits ? std::optional<uint64_t>(static_cast<std::make_unsigned_t<Integer>>(static_cast<Integer>(number)))
              : std::nullopt;
}

}  // namespace

void Conventions::look_at(const std::string& name, const VariableAttributes& attributes, bool line, bool coordinate) {
  variables_.insert(name);
  resolved_ = false;
  for (const ListAttribute& list : kLists) {
    auto text = attributes.text(list.name);
    if (text) {
      mention(group_of(name), *text, list.reason);
    }
  }
  if (coordinate || says_it_is_a_coordinate(attributes, line)) {
    own_[name] = kCoordinate;
  } else if (attributes.has("scale_factor") || attributes.has("add_offset")) {
    own_[name] = "packed";
  }
}

void Conventions::mention(const std::string& group, std::string_view list, std::string_view reason) {
  constexpr std::string_view kSpace = " \t\r\n,";
  while (mentions_.size() < kMostMentions) {
    size_t begin = list.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) {
      return;
    }
    size_t end = std::min(list.find_first_of(kSpace, begin), list.size());
    std::string_view word = list.substr(begin, end - begin);
    list.remove_prefix(end);
    bool is_key = word.ends_with(':');  // "area: cell_area"; "crs: x y" names the mapping itself
    if (is_key && reason == "grid mapping") {
      word.remove_suffix(1);
    } else if (is_key) {
      continue;
    }
    mentions_.push_back({group, std::string(word), reason});
  }
}

std::string Conventions::resolve(const std::string& group, const std::string& name) const {
  if (name.starts_with('/')) {
    return name;
  }
  for (std::string at = group;; at = group_of(at)) {  // the group itself, then the groups around it, as netCDF looks
    std::string full = at + "/" + name;
    if (variables_.contains(full)) {
      return full;
    }
    if (at.empty()) {
      return {};
    }
  }
}

std::string Conventions::reason(const std::string& name) const {
  if (!resolved_) {
    mentioned_.clear();
    for (const Mention& mention : mentions_) {
      mentioned_.emplace(resolve(mention.group, mention.name), mention.reason);
    }
    resolved_ = true;
  }
  if (auto own = own_.find(name); own != own_.end()) {
    return std::string(own->second);
  }
  auto found = mentioned_.find(name);
  return found == mentioned_.end() ? std::string() : std::string(found->second);
}

void add_fill_value(std::vector<uint64_t>& values, uint64_t pattern) {
  if (values.size() < kMostFillValues && std::find(values.begin(), values.end(), pattern) == values.end()) {
    values.push_back(pattern);
  }
}

std::optional<uint64_t> pattern_of_number(long double number, codec::DType type) {
  using codec::DType;
  switch (type) {
    case DType::u8:
      return integer_pattern<uint8_t>(number);
    case DType::i8:
      return integer_pattern<int8_t>(number);
    case DType::u16:
      return integer_pattern<uint16_t>(number);
    case DType::i16:
      return integer_pattern<int16_t>(number);
    case DType::u32:
      return integer_pattern<uint32_t>(number);
    case DType::i32:
      return integer_pattern<int32_t>(number);
    case DType::u64:
      return integer_pattern<uint64_t>(number);
    case DType::i64:
      return integer_pattern<int64_t>(number);
    case DType::f32:
      return std::abs(number) <= std::numeric_limits<float>::max()
                 ? std::optional<uint64_t>(std::bit_cast<uint32_t>(static_cast<float>(number)))
                 : std::nullopt;
    case DType::f64:
      return std::bit_cast<uint64_t>(static_cast<double>(number));
    default:
      return std::nullopt;
  }
}

}  // namespace varve::fs
