// What each bound promises, checked without the codec's means.
#include "tests/codec/arrays.h"

namespace varve::codec::testing {

namespace {

__extension__ typedef __float128 Quad;  // NOLINT(modernize-use-using): __extension__ takes no using

Quad size_of(Quad value) { return value < 0 ? -value : value; }

/// An element: its bits and, if it is finite, its value.
struct Element {
  uint64_t bits = 0;
  bool finite = true;
  bool negative = false;
  Quad value = 0;
};

/// A float of `exponent_bits` and `mantissa` bits, from the definition of IEEE 754.
Element float_of(uint64_t bits, int exponent_bits, int mantissa) {
  Element out{bits, true, (bits >> (exponent_bits + mantissa) & 1U) != 0, 0};
  const int exponent = static_cast<int>(bits >> mantissa & ((uint64_t{1} << exponent_bits) - 1));
  const int least = 2 - (1 << (exponent_bits - 1));
  uint64_t steps = bits & ((uint64_t{1} << mantissa) - 1);
  out.finite = exponent != (1 << exponent_bits) - 1;
  steps |= exponent > 0 ? uint64_t{1} << mantissa : 0;
  const double size = std::ldexp(static_cast<double>(steps), (exponent > 0 ? exponent - 1 : 0) + least - mantissa);
  out.value = out.negative ? -size : size;
  return out;
}

template <typename T>
Element integer_of(const Bytes& data, size_t i) {
  const T value = element<T>(data, i);
  Element out{0, true, value < 0, static_cast<Quad>(value)};
  std::memcpy(&out.bits, &value, sizeof value);
  return out;
}

Element element_at(DType type, const Bytes& data, size_t i) {
  switch (type) {
    case DType::u8:
      return integer_of<uint8_t>(data, i);
    case DType::i8:
      return integer_of<int8_t>(data, i);
    case DType::u16:
      return integer_of<uint16_t>(data, i);
    case DType::i16:
      return integer_of<int16_t>(data, i);
    case DType::u32:
      return integer_of<uint32_t>(data, i);
    case DType::i32:
      return integer_of<int32_t>(data, i);
    case DType::u64:
      return integer_of<uint64_t>(data, i);
    case DType::i64:
      return integer_of<int64_t>(data, i);
    case DType::f16:
      return float_of(element<uint16_t>(data, i), 5, 10);
    case DType::bf16:
      return float_of(element<uint16_t>(data, i), 8, 7);
    case DType::f32:
      return float_of(element<uint32_t>(data, i), 8, 23);
    default:
      return float_of(element<uint64_t>(data, i), 11, 52);
  }
}

/// x rounded to a whole number of steps of the last bit kept, ties to even.
double rounded(DType type, double x, int kept_bits) {
  const int least = type == DType::f16 ? -14 : type == DType::f64 ? -1022 : -126;
  if (x == 0) {
    return x;
  }
  const int step = std::max(std::ilogb(x), least) - kept_bits;
  return std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);
}

bool is_fill(const Array& array, uint64_t bits) {
  const auto& fills = array.spec.fill_values;
  return std::find(fills.begin(), fills.end(), bits) != fills.end();
}

struct Range {
  Quad low = 0;
  Quad high = 0;
  uint64_t counted = 0;
};

Range range_of(const Array& array) {
  Range range;
  for (size_t i = 0; i < array.count(); ++i) {
    const Element x = element_at(array.spec.dtype, array.data, i);
    if (x.finite && !is_fill(array, x.bits)) {
      range.low = range.counted == 0 || x.value < range.low ? x.value : range.low;
      range.high = range.counted == 0 || x.value > range.high ? x.value : range.high;
      ++range.counted;
    }
  }
  return range;
}

/// What no element moves by, as far as it is one number. A little more than the range's part: that is rounded.
Quad limit_of(const Bound& bound, const Range& range) {
  constexpr Quad kInfinite = std::numeric_limits<double>::infinity();
  const Quad spread = (range.high - range.low) * (1 + Quad(0x1p-50));
  switch (bound.mode) {
    case BoundMode::lossless:
      return 0;
    case BoundMode::absolute:
      return bound.value;
    case BoundMode::relative:
      return bound.value * spread;
    case BoundMode::absolute_and_relative:
      return bound.value < bound.second * spread ? Quad(bound.value) : bound.second * spread;
    default:
      return kInfinite;
  }
}

bool may_become(const Array& array, const Element& x, const Element& y, Quad limit) {
  const Bound& bound = array.spec.bound;
  // Of f32 and f64 by value none is kept from becoming a missing value by chance.
  const bool is_plain = array.spec.dtype == DType::f32 || array.spec.dtype == DType::f64;
  const auto is_minus_zero = [](const Element& e) { return e.finite && e.value == 0 && e.negative; };
  if (x.bits == y.bits || bound.mode == BoundMode::lossless) {
    return x.bits == y.bits;
  }
  if (!x.finite || is_minus_zero(x) || is_fill(array, x.bits) || !y.finite || is_minus_zero(y) ||
      (!is_plain && is_fill(array, y.bits)) || size_of(x.value - y.value) > limit) {
    return false;
  }
  if (bound.mode == BoundMode::pointwise || bound.mode == BoundMode::bits) {
    if (x.value == 0 || y.value == 0 || x.negative != y.negative) {
      return false;
    }
  }
  if (bound.mode == BoundMode::pointwise) {
    return size_of(x.value - y.value) <= size_of(x.value) * bound.value;
  }
  if (bound.mode == BoundMode::bits) {
    // On the grid of what has so few bits, and nothing there is nearer. (With no bits kept, ties have no even side.)
    const auto nearest = [&](const Element& e) {
      return Quad(rounded(array.spec.dtype, static_cast<double>(e.value), static_cast<int>(bound.value)));
    };
    return nearest(y) == y.value && size_of(x.value - y.value) <= size_of(x.value - nearest(x));
  }
  return true;
}

}  // namespace

std::string violation(const Array& array, const Bytes& decoded, double absolute_bound) {
  Quad limit = limit_of(array.spec.bound, range_of(array));
  limit = limit < absolute_bound ? limit : Quad(absolute_bound);
  for (size_t i = 0; i < array.count(); ++i) {
    const Element x = element_at(array.spec.dtype, array.data, i);
    const Element y = element_at(array.spec.dtype, decoded, i);
    if (!may_become(array, x, y, limit)) {
      return fmt::format("element {}: {} ({:#x}) came back as {} ({:#x}), no more than {} allowed", i,
                         static_cast<double>(x.value), x.bits, static_cast<double>(y.value), y.bits,
                         static_cast<double>(limit));
    }
  }
  return "";
}

std::vector<uint64_t> missing_values(const Array& array) {
  std::vector<uint64_t> missing = array.spec.fill_values;
  std::vector<double> values;
  for (size_t i = 0; i < array.count(); ++i) {
    const Element x = element_at(array.spec.dtype, array.data, i);
    if (x.finite && !is_fill(array, x.bits)) {
      values.push_back(static_cast<double>(x.value));
    }
  }
  std::sort(values.begin(), values.end());
  if (values.size() < 3) {
    return missing;
  }
  const auto after = std::upper_bound(values.begin(), values.end(), values.front());
  const auto before = std::lower_bound(values.begin(), values.end(), values.back());
  const auto often = [&](ptrdiff_t count) { return count > static_cast<ptrdiff_t>(values.size() / 50); };
  const bool low = after != values.end() && often(after - values.begin());
  const bool high = before != values.begin() && often(values.end() - before);
  const double least = low ? *after : values.front();
  const double most = high ? *std::prev(before) : values.back();
  for (size_t i = 0; i < array.count(); ++i) {
    const Element x = element_at(array.spec.dtype, array.data, i);
    const auto value = static_cast<double>(x.value);
    const bool hidden = (low && value == values.front() && least - value > values.back() - least) ||
                        (low && value == values.front() && high && least - value > most - least) ||
                        (high && value == values.back() && value - most > most - values.front()) ||
                        (high && value == values.back() && low && value - most > most - least);
    if (x.finite && hidden && std::find(missing.begin(), missing.end(), x.bits) == missing.end()) {
      missing.push_back(x.bits);
    }
  }
  return missing;
}

double largest_error(const Array& array, const Bytes& seen, const std::vector<uint64_t>& missing) {
  const auto is_missing = [&](const Element& e) {
    return !e.finite || std::find(missing.begin(), missing.end(), e.bits) != missing.end();
  };
  Quad most = 0;
  for (size_t i = 0; i < array.count(); ++i) {
    const Element x = element_at(array.spec.dtype, array.data, i);
    const Element y = element_at(array.spec.dtype, seen, i);
    if (x.bits != y.bits && !is_missing(x) && !is_missing(y)) {
      const Quad error = size_of(x.value - y.value);
      most = error > most ? error : most;
    }
  }
  return static_cast<double>(most);
}

double psnr_of(const Array& array, const Bytes& decoded) {
  double squares = 0;
  const Range range = range_of(array);
  for (size_t i = 0; i < array.count(); ++i) {
    const Element x = element_at(array.spec.dtype, array.data, i);
    if (x.finite && !is_fill(array, x.bits)) {
      const auto error = static_cast<double>(element_at(array.spec.dtype, decoded, i).value - x.value);
      squares += error * error;
    }
  }
  return 20 * std::log10(static_cast<double>(range.high - range.low)) -
         10 * std::log10(squares / static_cast<double>(range.counted));
}

}  // namespace varve::codec::testing
