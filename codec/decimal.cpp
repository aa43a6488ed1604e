#include "codec/decimal.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/float_integers.h"
#include "codec/lossless.h"
#include "codec/scan.h"

namespace varve::codec {

namespace {

constexpr uint64_t kPieceElements = uint64_t{1} << 20;
constexpr size_t kLook = 512;             ///< elements that tell whether a closer look is worth while
constexpr uint64_t kLeastElements = 256;  ///< fewer are not worth a longer header
constexpr size_t kEscapesOfLook = 4;

constexpr std::array<double, kMostDigits + 1> kPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                         1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/// Beyond, integers would be finer than the floats themselves.
template <typename Float>
constexpr double kMost = sizeof(Float) == 4 ? 0x1p23 : 0x1p50;

template <typename Float>
Float value_of(double whole, double power) {
  return static_cast<Float>(whole / power);
}

/// Integers of a row and whether all of them stand for their elements. `x` may not be aligned.
template <typename Float>
bool convert_row(const std::byte* x, size_t count, double power, IntegerOf<Float>* out, uint8_t* fits) {
  using Bits = BitsOf<Float>;
  unsigned all = 1;
  for (size_t i = 0; i < count; ++i) {
    Float value;
    std::memcpy(&value, x + i * sizeof value, sizeof value);
    const double scaled = double{value} * power;
    const double whole = (scaled + kRounding) - kRounding;
    const bool small = std::fabs(whole) <= kMost<Float>;
    const double kept = small ? whole : 0.0;
    out[i] = static_cast<IntegerOf<Float>>(kept);
    const bool good = small & (std::bit_cast<Bits>(value_of<Float>(kept + 0.0, power)) == std::bit_cast<Bits>(value));
    fits[i] = good ? 1 : 0;
    all &= fits[i];
  }
  return all != 0;
}

/// Calls miss(i) for elements that do not fit, until it returns false. Integers of a part at a time go to put(at, row,
/// count).
template <typename Float, typename Miss, typename Put>
bool convert(const std::byte* x, size_t count, double power, const Miss& miss, const Put& put) {
  std::array<IntegerOf<Float>, kConvertedTogether> row;
  std::array<uint8_t, kConvertedTogether> fits;
  for (size_t at = 0; at < count; at += kConvertedTogether) {
    const size_t n = std::min(kConvertedTogether, count - at);
    if (!convert_row<Float>(x + at * sizeof(Float), n, power, row.data(), fits.data())) {
      for (size_t i = 0; i < n; ++i) {
        if (fits[i] == 0 && !miss(at + i, row[i])) {
          return false;
        }
      }
    }
    put(at, row.data(), n);
  }
  return true;
}

/// Adds a bit pattern that is new. False: there are too many.
bool add_escape(std::vector<uint64_t>& escapes, uint64_t bits) {
  if (escape_of(escapes, bits).has_value()) {
    return true;
  }
  if (escapes.size() >= kMostEscapes) {
    return false;
  }
  escapes.push_back(bits);
  return true;
}

/// Looks for the fewest digits.
template <typename Float>
class Finder {
 public:
  explicit Finder(const ArraySpec& spec) {
    for (const uint64_t fill : spec.fill_values) {
      add_escape(fills_, fill & ~uint64_t{0} >> (64 - 8 * sizeof(Float)));
    }
  }
  /// Goes on from `digits` to the first number of digits that some elements in a row need.
  bool look(unsigned digits, const std::byte* x, size_t count) {
    const size_t some = std::min(count, kLook);
    const std::byte* const middle = x + (count - some) / 2 * sizeof(Float);
    for (; digits <= kMostDigits; ++digits) {
      decimal_ = {digits, fills_};
      if (add(middle, some) && decimal_.escapes.size() <= fills_.size() + kEscapesOfLook) {
        decimal_.escapes = fills_;
        return true;
      }
    }
    return false;
  }
  /// Whether all elements fit, or are escapes that are new or known.
  bool add(const std::byte* x, size_t count) {
    const auto miss = [&](size_t i, auto) { return add_escape(decimal_.escapes, bits_at<Float>(x, i)); };
    return convert<Float>(x, count, kPowers.at(decimal_.digits), miss, [](size_t, auto*, size_t) {});
  }
  const Decimal& found() const { return decimal_; }

 private:
  std::vector<uint64_t> fills_;
  Decimal decimal_;
};

template <typename Float>
Result<std::optional<Decimal>> find(const ArraySpec& spec, const ReadBox& read) {
  Finder<Float> finder(spec);
  if (!spec.elements.empty()) {
    const std::byte* const all = spec.elements.data();
    const size_t count = spec.elements.size() / sizeof(Float);
    for (unsigned digits = 0; finder.look(digits, all, count); digits = finder.found().digits + 1) {
      if (finder.add(all, count)) {
        return std::optional<Decimal>(finder.found());
      }
    }
    return std::optional<Decimal>();
  }
  bool fits = true;
  bool first = true;
  Bytes data;
  for (const Box& box : pieces_of(spec.shape, kPieceElements)) {
    const uint64_t count = element_count(box.shape);
    data.resize(count * sizeof(Float));
    VARVE_TRY(read(box, data.data()));
    fits = (!first || finder.look(0, data.data(), count)) && finder.add(data.data(), count);
    first = false;
    if (!fits) {
      break;
    }
  }
  return fits ? std::optional<Decimal>(finder.found()) : std::nullopt;
}

template <typename Float>
bool to_integers_of(const Decimal& decimal, const std::byte* floats, size_t count, std::byte* out) {
  const auto miss = [&](size_t i, auto& integer) {
    const auto escape = escape_of(decimal.escapes, bits_at<Float>(floats, i));
    integer = escape_integer<Float>(escape.value_or(0));
    return escape.has_value();
  };
  return convert<Float>(floats, count, kPowers.at(decimal.digits), miss, [&](size_t at, const auto* row, size_t n) {
    std::memcpy(out + at * sizeof(Float), row, n * sizeof(Float));
  });
}

template <typename Float>
void to_floats_of(const Decimal& decimal, std::byte* elements, size_t count) {
  using Integer = IntegerOf<Float>;
  const double power = kPowers.at(decimal.digits);
  std::array<Integer, kConvertedTogether> row;
  std::array<Float, kConvertedTogether> value;
  for (size_t at = 0; at < count; at += kConvertedTogether) {
    const size_t n = std::min(kConvertedTogether, count - at);
    std::byte* const to = elements + at * sizeof(Float);
    std::memcpy(row.data(), to, n * sizeof(Float));
    bool escaped = false;
    for (size_t i = 0; i < n; ++i) {
      value[i] = value_of<Float>(static_cast<double>(row[i]), power);
      escaped |= row[i] < escape_integer<Float>(kMostEscapes);
    }
    for (size_t i = 0; i < n && escaped; ++i) {
      if (row[i] < escape_integer<Float>(decimal.escapes.size())) {
        const auto bits = static_cast<BitsOf<Float>>(decimal.escapes[escape_number(row[i])]);
        value[i] = std::bit_cast<Float>(bits);
      }
    }
    std::memcpy(to, value.data(), n * sizeof(Float));
  }
}

}  // namespace

bool has_decimals(DType type) { return type == DType::f32 || type == DType::f64; }
DType integers_of(DType type) { return type == DType::f32 ? DType::i32 : DType::i64; }
DType floats_of(DType type) { return type == DType::i32 ? DType::f32 : DType::f64; }

Result<std::optional<Decimal>> find_decimal(const ArraySpec& spec, const ReadBox& read) {
  if (!has_decimals(spec.dtype) || element_count(spec.shape) < kLeastElements ||
      is_constant(spec.elements, element_size(spec.dtype))) {
    return std::optional<Decimal>();
  }
  return spec.dtype == DType::f32 ? find<float>(spec, read) : find<double>(spec, read);
}

bool to_integers(DType type, const Decimal& decimal, const std::byte* floats, size_t count, std::byte* out) {
  return type == DType::f32 ? to_integers_of<float>(decimal, floats, count, out)
                            : to_integers_of<double>(decimal, floats, count, out);
}

void to_floats(DType type, const Decimal& decimal, std::byte* elements, size_t count) {
  if (type == DType::f32) {
    to_floats_of<float>(decimal, elements, count);
  } else {
    to_floats_of<double>(decimal, elements, count);
  }
}

uint64_t escape_bits(DType type, size_t escape) {
  return type == DType::f32 ? std::bit_cast<uint32_t>(escape_integer<float>(escape))
                            : std::bit_cast<uint64_t>(escape_integer<double>(escape));
}

}  // namespace varve::codec
