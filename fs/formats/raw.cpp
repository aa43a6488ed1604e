#include "fs/formats/raw.h"

#include <fmt/format.h>

#include <charconv>

#include "fs/formats/check.h"

namespace varve::fs {

namespace {

ArrayRegion region_of(const RawHint& hint) {
  ArrayRegion array;
  array.dtype = hint.dtype;
  array.big_endian = hint.big_endian && codec::element_size(hint.dtype) > 1;
  array.shape = hint.shape;
  array.chunk_shape = hint.shape;
  array.chunks = {{0, 0}};
  array.fortran_order = hint.fortran_order;
  array.fill_values = hint.fill_values;
  array.keep_exact = hint.keep_exact;
  return array;
}

}  // namespace

std::optional<RawHint> raw_hint_of_name(std::string_view name) {
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) {
    return std::nullopt;
  }
  auto dtype = codec::parse_dtype(name.substr(dot + 1));
  std::string_view stem = name.substr(0, dot);
  size_t separator = stem.find_last_of("_-.");
  if (!dtype.ok() || separator == std::string_view::npos) {
    return std::nullopt;
  }
  RawHint hint;
  hint.dtype = *dtype;
  std::string_view rest = stem.substr(separator + 1);
  while (true) {
    uint64_t extent = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (error != std::errc{} || extent == 0) {
      return std::nullopt;
    }
    hint.shape.push_back(extent);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.empty()) {
      break;
    }
    if (rest.front() != 'x' || hint.shape.size() == codec::kMaxRank) {
      return std::nullopt;
    }
    rest.remove_prefix(1);
  }
  return hint;
}

Result<std::optional<Recognised>> recognise_raw(std::string_view name, FileView& file,
                                                const std::optional<RawHint>& hint) {
  auto declared = hint ? hint : raw_hint_of_name(name);
  if (!declared || file.size() == 0) {
    return std::optional<Recognised>();
  }
  ArrayRegion array = region_of(*declared);
  if (chunk_bytes(array) == file.size() && check_array(array).ok()) {
    return std::optional(Recognised{{}, {std::move(array)}});
  }
  if (!hint) {
    return std::optional<Recognised>();
  }
  auto bytes = chunk_bytes(array);
  return Error{EINVAL, fmt::format("the policy declares {} to be {} of shape [{}], which is {} bytes, but the file has "
                                   "{}; it is kept as bytes. Correct the rule's raw.dtype or raw.shape",
                                   name, codec::name_of(hint->dtype), fmt::join(hint->shape, ", "),
                                   bytes ? std::to_string(*bytes) : "far too many", file.size())};
}

}  // namespace varve::fs
