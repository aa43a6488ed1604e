#include "codec/types.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace varve::codec {

namespace {

struct TypeName {
  DType type;
  size_t size;
  std::string_view name;
  std::string_view long_name;
};

constexpr std::array<TypeName, 11> kTypes = {{{DType::u8, 1, "u8", "uint8"},
                                              {DType::i8, 1, "i8", "int8"},
                                              {DType::u16, 2, "u16", "uint16"},
                                              {DType::i16, 2, "i16", "int16"},
                                              {DType::u32, 4, "u32", "uint32"},
                                              {DType::i32, 4, "i32", "int32"},
                                              {DType::u64, 8, "u64", "uint64"},
                                              {DType::i64, 8, "i64", "int64"},
                                              {DType::f16, 2, "f16", "float16"},
                                              {DType::f32, 4, "f32", "float32"},
                                              {DType::f64, 8, "f64", "float64"}}};

const TypeName* find_type(DType type) {
  const auto number = static_cast<size_t>(type);
  return number >= 1 && number <= kTypes.size() ? &kTypes.at(number - 1) : nullptr;
}

}  // namespace

size_t element_size(DType type) {
  const TypeName* found = find_type(type);
  return found != nullptr ? found->size : 0;
}

bool is_float(DType type) { return type == DType::f16 || type == DType::f32 || type == DType::f64; }

std::string_view name_of(DType type) {
  const TypeName* found = find_type(type);
  return found != nullptr ? found->name : "unknown";
}

Result<DType> parse_dtype(std::string_view name) {
  for (const TypeName& entry : kTypes) {
    if (name == entry.name || name == entry.long_name) {
      return entry.type;
    }
  }
  return Error{EINVAL, fmt::format("element type '{}' is not known; use one of u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 "
                                   "f64 (or uint8, int8, ... float64)",
                                   name)};
}

Result<Bound> parse_bound(std::string_view text) {
  constexpr std::string_view kAccepted =
      "accepted are 'lossless', 'abs:V' and 'rel:V' with a finite V >= 0, as in rel:1e-3";
  if (text == "lossless") {
    return Bound{};
  }
  Bound bound;
  if (text.starts_with("abs:")) {
    bound.mode = BoundMode::absolute;
  } else if (text.starts_with("rel:")) {
    bound.mode = BoundMode::relative;
  } else {
    return Error{EINVAL, fmt::format("error bound '{}' is not understood; {}", text, kAccepted)};
  }
  const std::string_view number = text.substr(4);
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), bound.value);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || number.empty()) {
    return Error{EINVAL, fmt::format("error bound '{}': '{}' is not a number in range; {}", text, number, kAccepted)};
  }
  if (!std::isfinite(bound.value) || bound.value < 0) {
    return Error{EINVAL, fmt::format("error bound '{}' must be finite and not negative; {}", text, kAccepted)};
  }
  if (bound.value == 0) {
    return Bound{};
  }
  return bound;
}

std::string to_string(const Bound& bound) {
  if (bound.mode == BoundMode::lossless) {
    return "lossless";
  }
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), bound.value);
  return (bound.mode == BoundMode::absolute ? "abs:" : "rel:") + std::string(buffer.data(), end.ptr);
}

uint64_t element_count(const Extents& shape) {
  uint64_t count = 1;
  for (const uint64_t extent : shape) {
    count *= extent;
  }
  return count;
}

}  // namespace varve::codec
