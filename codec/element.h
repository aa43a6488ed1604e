// Elements of every type as values to work with. Work types: float for f32, double for f64, int32_t for types of one
// and two bytes (f16 and bf16 by an order-preserving map to integers), int64_t for integers of four and eight bytes;
// but int32_t for i32 that nothing predicts, whose residuals cannot overflow.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "codec/types.h"

namespace varve::codec {

template <typename W>
inline constexpr bool kIsReal = std::is_floating_point_v<W>;

/// The unsigned integer as wide as W.
template <typename W>
using BitsOf = std::conditional_t<sizeof(W) == 4, uint32_t, uint64_t>;

/// f16 and bf16 bits <-> integers in the order of the values. Any 16 bits map; the map is one to one.
constexpr int32_t half_to_order(uint16_t bits) {
  const int32_t magnitude = bits & 0x7fff;
  return magnitude == bits ? magnitude : -magnitude - 1;
}
constexpr uint16_t order_to_half(int32_t order) {
  return static_cast<uint16_t>(order < 0 ? (-(order + 1)) | 0x8000 : order);
}

/// Float bits <-> unsigned integers in the order of the values.
template <typename U>
constexpr U bits_to_order(U bits) {
  constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
  return (bits & kSign) != 0 ? static_cast<U>(~bits) : static_cast<U>(bits | kSign);
}
template <typename U>
constexpr U order_to_bits(U order) {
  constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
  return (order & kSign) != 0 ? static_cast<U>(order ^ kSign) : static_cast<U>(~order);
}

/// What is known of a type: width in bits, and the range that interpolated values are clamped to.
template <typename W>
struct ElementRange {
  unsigned width = 0;
  bool is_signed = false;
  W low = 0;
  W high = 0;
};

template <typename W>
ElementRange<W> range_of(DType type) {
  using L32 = std::numeric_limits<int32_t>;
  if constexpr (kIsReal<W>) {
    return {8 * sizeof(W), true, std::numeric_limits<W>::lowest(), std::numeric_limits<W>::max()};
  } else if constexpr (sizeof(W) == 4) {
    switch (type) {
      case DType::u8:
        return {8, false, 0, 255};
      case DType::i8:
        return {8, true, -128, 127};
      case DType::u16:
        return {16, false, 0, 65535};
      case DType::f16:
        return {16, true, -0x7bff - 1, 0x7bff};  // the largest finite values
      case DType::bf16:
        return {16, true, -0x7f7f - 1, 0x7f7f};
      case DType::i32:
        return {32, true, L32::min(), L32::max()};
      default:
        return {16, true, -32768, 32767};
    }
  } else {
    switch (type) {
      case DType::u32:
        return {32, false, 0, std::numeric_limits<uint32_t>::max()};
      case DType::i32:
        return {32, true, L32::min(), L32::max()};
      default:
        return {64, true, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    }
  }
}

/// Calls f with a value of the work type of `type`.
template <typename F>
auto with_work_type(DType type, F&& f) {
  switch (type) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::u32:
    case DType::i32:
    case DType::u64:
    case DType::i64:
      return f(int64_t{});
    default:
      return f(int32_t{});
  }
}

template <typename E>
E load_as(const std::byte* p) {
  E value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <typename W, typename E, typename Map>
void load_each(const std::byte* p, size_t stride, size_t m, W* out, Map map) {
  for (size_t i = 0; i < m; ++i) {
    out[i] = map(load_as<E>(p + i * stride * sizeof(E)));
  }
}

/// out[i] = element i * stride of p.
template <typename W>
void load_row(DType type, const std::byte* p, size_t stride, size_t m, W* out) {
  const auto plain = [](auto value) { return static_cast<W>(value); };
  if constexpr (kIsReal<W>) {
    load_each<W, W>(p, stride, m, out, [](W value) { return value; });
  } else if constexpr (sizeof(W) == 4) {
    switch (type) {
      case DType::u8:
        return load_each<W, uint8_t>(p, stride, m, out, plain);
      case DType::i8:
        return load_each<W, int8_t>(p, stride, m, out, plain);
      case DType::u16:
        return load_each<W, uint16_t>(p, stride, m, out, plain);
      case DType::f16:
      case DType::bf16:
        return load_each<W, uint16_t>(p, stride, m, out, half_to_order);
      case DType::i32:
        return load_each<W, int32_t>(p, stride, m, out, plain);
      default:
        return load_each<W, int16_t>(p, stride, m, out, plain);
    }
  } else {
    switch (type) {
      case DType::u32:
        return load_each<W, uint32_t>(p, stride, m, out, plain);
      case DType::i32:
        return load_each<W, int32_t>(p, stride, m, out, plain);
      default:
        return load_each<W, int64_t>(p, stride, m, out, plain);
    }
  }
}

template <typename E, typename W, typename Map>
void store_each(const W* v, size_t m, std::byte* p, size_t stride, Map map) {
  for (size_t i = 0; i < m; ++i) {
    const E value = map(v[i]);
    std::memcpy(p + i * stride * sizeof(E), &value, sizeof value);
  }
}

/// Copies elements of `size` bytes, `from_step` and `to_step` elements apart.
inline void copy_elements(const std::byte* from, size_t from_step, size_t count, size_t size, std::byte* to,
                          size_t to_step) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, count * size);
    return;
  }
  const auto each = [&](auto element) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&element, from + i * from_step * sizeof element, sizeof element);
      std::memcpy(to + i * to_step * sizeof element, &element, sizeof element);
    }
  };
  switch (size) {
    case 1:
      return each(uint8_t{});
    case 2:
      return each(uint16_t{});
    case 4:
      return each(uint32_t{});
    default:
      return each(uint64_t{});
  }
}

/// The inverse of load_row; v holds values of the type's range.
template <typename W>
void store_row(DType type, const W* v, size_t m, std::byte* p, size_t stride) {
  if constexpr (kIsReal<W>) {
    store_each<W>(v, m, p, stride, [](W value) { return value; });
  } else if constexpr (sizeof(W) == 4) {
    if (type == DType::u8 || type == DType::i8) {
      store_each<uint8_t>(v, m, p, stride, [](W value) { return static_cast<uint8_t>(value); });
    } else if (type == DType::f16 || type == DType::bf16) {
      store_each<uint16_t>(v, m, p, stride, order_to_half);
    } else if (type == DType::i32) {
      store_each<int32_t>(v, m, p, stride, [](W value) { return value; });
    } else {
      store_each<uint16_t>(v, m, p, stride, [](W value) { return static_cast<uint16_t>(value); });
    }
  } else {
    if (type == DType::u32 || type == DType::i32) {
      store_each<uint32_t>(v, m, p, stride, [](W value) { return static_cast<uint32_t>(value); });
    } else {
      store_each<int64_t>(v, m, p, stride, [](W value) { return value; });
    }
  }
}

/// The bit pattern of one element, zero-extended, as a work value; bits above the type's width are ignored.
template <typename W>
W from_bits(DType type, uint64_t bits) {
  std::byte raw[8];  // NOLINT(modernize-avoid-c-arrays)
  std::memcpy(raw, &bits, sizeof raw);
  W value{};
  load_row<W>(type, raw, 1, 1, &value);
  return value;
}

template <typename W>
bool same_bits(W a, W b) {
  return std::bit_cast<BitsOf<W>>(a) == std::bit_cast<BitsOf<W>>(b);
}

}  // namespace varve::codec
