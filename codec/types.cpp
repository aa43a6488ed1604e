#include "codec/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace varve::codec {

namespace {

struct TypeName {
  DType type;
  size_t size;
  unsigned mantissa;  ///< bits; 0: an integer
  std::string_view name;
  std::string_view long_name;
};

constexpr std::array<TypeName, 12> kTypes = {{{DType::u8, 1, 0, "u8", "uint8"},
                                              {DType::i8, 1, 0, "i8", "int8"},
                                              {DType::u16, 2, 0, "u16", "uint16"},
                                              {DType::i16, 2, 0, "i16", "int16"},
                                              {DType::u32, 4, 0, "u32", "uint32"},
                                              {DType::i32, 4, 0, "i32", "int32"},
                                              {DType::u64, 8, 0, "u64", "uint64"},
                                              {DType::i64, 8, 0, "i64", "int64"},
                                              {DType::f16, 2, 10, "f16", "float16"},
                                              {DType::f32, 4, 23, "f32", "float32"},
                                              {DType::f64, 8, 52, "f64", "float64"},
                                              {DType::bf16, 2, 7, "bf16", "bfloat16"}}};

const TypeName* find_type(DType type) {
  const auto number = static_cast<size_t>(type);
  return number >= 1 && number <= kTypes.size() ? &kTypes.at(number - 1) : nullptr;
}

constexpr std::string_view kAccepted =
    "accepted are lossless, abs:V, rel:V, pwrel:V, abs:V+rel:V (V >= 0), psnr:DB (above 0), ratio:R (1 or more) and "
    "bits:B (0 to 52), as in rel:1e-3";

struct ModeName {
  BoundMode mode;
  std::string_view prefix;
};

constexpr std::array<ModeName, 6> kModes = {{{BoundMode::absolute, "abs:"},
                                             {BoundMode::relative, "rel:"},
                                             {BoundMode::pointwise, "pwrel:"},
                                             {BoundMode::psnr, "psnr:"},
                                             {BoundMode::ratio, "ratio:"},
                                             {BoundMode::bits, "bits:"}}};

Error bad_bound(std::string_view text, std::string_view what) {
  return {EINVAL, fmt::format("error bound '{}' {}; {}", text, what, kAccepted)};
}

/// One mode and its number; `text`: the whole bound, for messages.
Result<Bound> parse_part(std::string_view part, std::string_view text) {
  const auto* const found =
      std::find_if(kModes.begin(), kModes.end(), [&](const ModeName& each) { return part.starts_with(each.prefix); });
  if (found == kModes.end()) {
    return bad_bound(text, "is not understood");
  }
  const std::string_view number = part.substr(found->prefix.size());
  Bound bound{found->mode};
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), bound.value);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) {
    return bad_bound(text, fmt::format("has '{}' where a number in range must be", number));
  }
  if (!std::isfinite(bound.value) || std::signbit(bound.value)) {
    return bad_bound(text, "must be finite and not negative");
  }
  if (bound.mode == BoundMode::psnr && bound.value == 0) {
    return bad_bound(text, "asks for nothing: a PSNR is above 0 dB");
  }
  if (bound.mode == BoundMode::ratio && bound.value < 1) {
    return bad_bound(text, "would make the array larger: a ratio is 1 or more");
  }
  if (bound.mode == BoundMode::bits && (bound.value > kMostKeptBits || bound.value != std::floor(bound.value))) {
    return bad_bound(text, "must be a whole number of mantissa bits");
  }
  return bound;
}

std::string text_of(double value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

}  // namespace

size_t element_size(DType type) {
  const TypeName* found = find_type(type);
  return found != nullptr ? found->size : 0;
}

unsigned mantissa_bits(DType type) {
  const TypeName* found = find_type(type);
  return found != nullptr ? found->mantissa : 0;
}

bool is_float(DType type) { return mantissa_bits(type) > 0; }

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
                                   "f64 bf16 (or uint8, int8, ... bfloat16)",
                                   name)};
}

Result<Bound> parse_bound(std::string_view text) {
  if (text == "lossless") {
    return Bound{};
  }
  const size_t plus = std::min(text.find("+rel:"), text.find("+abs:"));
  VARVE_ASSIGN(Bound bound, parse_part(text.substr(0, plus), text));
  if (plus != std::string_view::npos) {
    VARVE_ASSIGN(Bound other, parse_part(text.substr(plus + 1), text));
    if (bound.mode == BoundMode::relative) {
      std::swap(bound, other);
    }
    if (bound.mode != BoundMode::absolute || other.mode != BoundMode::relative) {
      return bad_bound(text, "joins what cannot be joined");
    }
    return bound.value == 0 || other.value == 0 ? Bound{}
                                                : Bound{BoundMode::absolute_and_relative, bound.value, other.value};
  }
  // bits:0 is a bound: it keeps signs and exponents.
  return bound.value == 0 && bound.mode != BoundMode::bits ? Bound{} : bound;
}

std::string to_string(const Bound& bound) {
  if (bound.mode == BoundMode::absolute_and_relative) {
    return "abs:" + text_of(bound.value) + "+rel:" + text_of(bound.second);
  }
  for (const ModeName& each : kModes) {
    if (each.mode == bound.mode) {
      return std::string(each.prefix) + text_of(bound.value);
    }
  }
  return "lossless";
}

std::optional<double> limit_of(const Bound& bound, double range) {
  switch (bound.mode) {
    case BoundMode::lossless:
      return 0;
    case BoundMode::absolute:
      return bound.value;
    case BoundMode::relative:
      return bound.value * range;
    case BoundMode::absolute_and_relative:
      return std::min(bound.value, bound.second * range);
    default:
      return std::nullopt;
  }
}

uint64_t element_count(const Extents& shape) {
  uint64_t count = 1;
  for (const uint64_t extent : shape) {
    count *= extent;
  }
  return count;
}

}  // namespace varve::codec
