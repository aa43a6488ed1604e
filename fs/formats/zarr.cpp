#include "fs/formats/zarr.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fs/formats/check.h"
#include "fs/formats/conventions.h"
#include "fs/formats/npy.h"

namespace varve::fs {

namespace {

using nlohmann::json;

/// Null: it is none. What is nested deeper than metadata are is left out, so that copies do not run out of stack.
json parsed(const std::string& text) {
  constexpr int kDeepest = 16;
  const auto shallow = [](int depth, json::parse_event_t /*event*/, json& /*value*/) { return depth <= kDeepest; };
  json value = json::parse(text, shallow, false);
  return value.is_object() ? value : json();
}

const json& member(const json& object, const char* name) {
  static const json kNone;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? kNone : *found;
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : ""; }

class JsonAttributes : public VariableAttributes {
 public:
  explicit JsonAttributes(const json& attributes) : attributes_(attributes) {}
  bool has(const char* name) const override { return !member(attributes_, name).is_null(); }
  std::optional<std::string> text(const char* name) const override {
    const json& value = member(attributes_, name);
    return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
  }

 private:
  const json& attributes_;
};

/// What both versions say of an array.
struct Description {
  std::string type;  ///< NumPy's
  json chunks, fill, attributes;
  bool fortran_order = false;
  std::string first_dimension;
};

std::optional<Description> version_2(const ZarrMetadata& metadata) {
  const json array = parsed(metadata.zarray);
  const json& filters = member(array, "filters");
  if (member(array, "zarr_format") != 2 || !member(array, "compressor").is_null() ||
      !(filters.is_null() || filters == json::array())) {
    return std::nullopt;
  }
  Description found{text_of(member(array, "dtype")), member(array, "chunks"),       member(array, "fill_value"),
                    parsed(metadata.zattrs),         member(array, "order") == "F", {}};
  const json& dimensions = member(found.attributes, "_ARRAY_DIMENSIONS");
  found.first_dimension = dimensions.is_array() && !dimensions.empty() ? text_of(dimensions.front()) : "";
  return found;
}

/// "float32" in the order of bytes that the only codec names.
std::string numpy_type_of(const std::string& type, const json& codecs) {
  const auto dtype = type == "bool" ? Result<codec::DType>(codec::DType::u8) : codec::parse_dtype(type);
  if (!dtype.ok() || !codecs.is_array() || codecs.size() != 1 || member(codecs.front(), "name") != "bytes") {
    return "";
  }
  const std::string endian = text_of(member(member(codecs.front(), "configuration"), "endian"));
  const size_t size = codec::element_size(*dtype);
  if (size > 1 && endian != "little" && endian != "big") {
    return "";
  }
  const std::string_view name = codec::name_of(*dtype);
  return *dtype == codec::DType::bf16
             ? ""
             : std::string(size > 1 && endian == "big" ? ">" : "<") + name.front() + std::to_string(size);
}

std::optional<Description> version_3(const ZarrMetadata& metadata) {
  const json array = parsed(metadata.zarr_json);
  const json& grid = member(array, "chunk_grid");
  if (member(array, "zarr_format") != 3 || member(array, "node_type") != "array" || member(grid, "name") != "regular") {
    return std::nullopt;
  }
  Description found{numpy_type_of(text_of(member(array, "data_type")), member(array, "codecs")),
                    member(member(grid, "configuration"), "chunk_shape"),
                    member(array, "fill_value"),
                    member(array, "attributes"),
                    false,
                    {}};
  const json& dimensions = member(array, "dimension_names");
  found.first_dimension = dimensions.is_array() && !dimensions.empty() ? text_of(dimensions.front()) : "";
  return found;
}

void add_number(const json& value, codec::DType type, std::vector<uint64_t>& values) {
  std::optional<uint64_t> pattern;
  if (value.is_number_unsigned()) {
    pattern = pattern_of_number(value.get<uint64_t>(), type);
  } else if (value.is_number_integer()) {
    pattern = pattern_of_number(value.get<int64_t>(), type);
  } else if (value.is_number_float()) {
    pattern = pattern_of_number(value.get<double>(), type);
  }
  if (pattern) {
    add_fill_value(values, *pattern);
  }
}

}  // namespace

bool may_be_zarr_chunk(std::string_view name) {
  constexpr std::string_view kUnfinished = ".partial";
  if (name.ends_with(kUnfinished)) {
    name.remove_suffix(kUnfinished.size());
    name = name.substr(0, name.rfind('.'));
  }
  if (name.starts_with('c')) {
    name.remove_prefix(1);
    if (name.empty()) {
      return true;
    }
    if (name.front() != '.') {
      return false;
    }
    name.remove_prefix(1);
  }
  return !name.empty() && name.front() != '.' && name.back() != '.' &&
         name.find_first_not_of("0123456789.") == std::string_view::npos && name.find("..") == std::string_view::npos;
}

std::optional<RawHint> zarr_hint(const ZarrMetadata& metadata, uint64_t bytes) {
  const auto found = metadata.zarray.empty() ? version_3(metadata) : version_2(metadata);
  if (!found || !found->chunks.is_array() || found->chunks.size() > codec::kMaxRank) {
    return std::nullopt;
  }
  NpyHeader header{found->type, found->fortran_order, {}, 0};
  for (const json& extent : found->chunks) {
    header.shape.push_back(extent.is_number_unsigned() ? extent.get<uint64_t>() : 0);
  }
  const auto array = npy_array(header, bytes);
  if (!array.ok() || !*array || chunk_bytes((*array)->region) != bytes) {
    return std::nullopt;
  }
  const ArrayRegion& region = (*array)->region;
  RawHint hint{region.dtype, region.big_endian, region.shape};
  hint.fortran_order = region.fortran_order;
  hint.keep_exact = region.keep_exact;
  Conventions conventions;
  const bool own = found->first_dimension == metadata.directory && !metadata.directory.empty();
  conventions.look_at("/array", JsonAttributes(found->attributes), header.shape.size() <= 1, own);
  hint.keep_exact = hint.keep_exact.empty() ? conventions.reason("/array") : hint.keep_exact;
  // 0 is what chunks are filled with where nobody chose; it says nothing about missing values.
  if (found->fill != 0) {
    add_number(found->fill, hint.dtype, hint.fill_values);
  }
  for (const char* name : {"_FillValue", "missing_value"}) {
    add_number(member(found->attributes, name), hint.dtype, hint.fill_values);
  }
  return hint;
}

}  // namespace varve::fs
