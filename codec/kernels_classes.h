// The kernels that work on the classes of a level: quantization, exact residuals and their inverses.
#pragma once

#include "codec/kernels_predict.h"
#include "codec/tokens.h"

namespace varve::codec {
namespace {

/// Tokens of any codes: kTokenZero + u, or that of a wide one.
template <typename T>
inline UVec<T> tokens_of(UVec<T> u, bool any_wide) {
  UVec<T> token = u + kTokenZero;
  if (!any_wide) {
    return token;
  }
  // The bit length by a conversion to the real of the same width: without the bit after the leading one, rounding
  // cannot carry into the next power.
  using R = std::conditional_t<sizeof(T) == 4, float, double>;
  const UVec<T> lead = u & ~(u >> 1);
  const Vec<R> real = __builtin_convertvector(lead, Vec<R>);
  constexpr unsigned kMantissa = sizeof(T) == 4 ? 23 : 52;
  constexpr unsigned kBias = sizeof(T) == 4 ? 126 : 1022;
  const UVec<T> length = (reinterpret_cast<UVec<T>>(real) >> kMantissa) - kBias;
  const UVec<T> shift = (length - 2) & (8 * sizeof(T) - 1);
  const UVec<T> wide = length * 2 + (kFirstWideToken - 14) + ((u >> shift) & 1);
  return u < kDirectCodes ? token : wide;
}

/// Writes tokens and what belongs to them for one vector of points; returns nothing lost. `exact`, `wide`: masks.
template <typename T>
inline void put_lists(EncodeJob<T>& job, UVec<T> u, uint32_t exact, uint32_t wide, size_t position) {
  for (; exact != 0; exact &= exact - 1) {
    job.exact[job.exact_count++] = static_cast<uint32_t>(position) + static_cast<uint32_t>(__builtin_ctz(exact));
  }
  if (wide != 0) {
    BitsOf<T>* const to = job.wide + job.wide_count;
    job.wide_count += static_cast<size_t>(__builtin_popcount(wide));
#if VARVE_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4) {
      u = reinterpret_cast<UVec<T>>(
          _mm512_maskz_compress_epi32(static_cast<__mmask16>(wide), reinterpret_cast<__m512i>(u)));
    } else {
      u = reinterpret_cast<UVec<T>>(
          _mm512_maskz_compress_epi64(static_cast<__mmask8>(wide), reinterpret_cast<__m512i>(u)));
    }
    std::memcpy(to, &u, sizeof u);
#else
    alignas(64) BitsOf<T> held[kLanes<T>];  // NOLINT(modernize-avoid-c-arrays)
    std::memcpy(held, &u, sizeof held);
    size_t at = 0;
    for (size_t i = 0; i < kLanes<T>; ++i) {
      to[at] = held[i];
      at += wide >> i & 1U;
    }
#endif
  }
}

template <typename T>
inline UVec<T> load_tokens(const uint8_t* tokens) {
  typename Lanes<T>::Bytes bytes;
  std::memcpy(&bytes, tokens, sizeof bytes);
  return __builtin_convertvector(bytes, UVec<T>);
}

template <typename T>
inline void put_tokens(uint8_t* out, UVec<T> token) {
  const auto bytes = __builtin_convertvector(token, typename Lanes<T>::Bytes);
  std::memcpy(out, &bytes, sizeof bytes);
}

template <typename T>
inline SVec<T> equals_special(const EncodeJob<T>& job, UVec<T> bits) {
  SVec<T> found{};
  for (size_t k = 0; k < job.specials; ++k) {
    found |= bits == bits_of<T>(spread<T>(job.special[k]));
  }
  return found;
}

/// Elements lie in rows that may be far apart: asks for the ones after the next.
template <typename T>
inline void fetch_ahead(const EncodeJob<T>& job, const T* x_row) {
  constexpr ptrdiff_t kRowsAhead = 3;
  const T* ahead = x_row + kRowsAhead * job.x_strides.row;
  for (size_t i = 0; i < 2 * job.shape.count; i += 64 / sizeof(T)) {
    __builtin_prefetch(ahead + i);
  }
}

/// Linear quantization, checked: `bound` is not above the bound asked for, and the rounded difference must be *below*
/// it. Rounding is monotone, so |x - r| >= bound would give a rounded difference >= bound: what passes keeps the bound.
template <typename T, bool kSix>
void encode_codes_of(EncodeJob<T>& job) {
  using L = Lanes<T>;
  using Unsigned = typename L::Unsigned;
  constexpr Unsigned kSign = Unsigned{1} << (8 * sizeof(T) - 1);
  const size_t m = job.shape.count;
  const T* const x_end = job.x_end;
  const T reciprocal = job.reciprocal;
  const T quantum = job.quantum;
  const T bound = job.bound;
  const bool has_specials = job.specials > 0;
  Vec<T> reach{};
  size_t position = 0;
  for_rows<T, kSix>(
      job, [&](const auto& predict, size_t item, size_t slab, size_t y) __attribute__((always_inline)) {
        const T* x_row = job.x + job.item_offset[item] + job.x_strides.at(0, slab, y);
        T* value = job.value + job.strides.at(item, slab, y);
        fetch_ahead(job, x_row);
        for (size_t i = 0; i < m; i += kLanes<T>) {
          const Vec<T> x = load_every_second<T>(x_row + 2 * i, m - i, x_end);
          const Vec<T> p = predict(i);
          const auto [scaled, shifted, near] = quantized<T>(x, p, quantum, reciprocal);
          Vec<T> r = near;
          const UVec<T> k = bits_of<T>(shifted) - bits_of<T>(spread<T>(L::kMagic));  // any bits where it is too large
          const UVec<T> u = zigzag_of<T>(k);
          const UVec<T> bits = bits_of<T>(x);
          const SVec<T> good = (magnitude<T>(scaled) < L::kLimit) & (magnitude<T>(x - r) < bound) & (bits != kSign);
          const SVec<T> plain = good & (u < kDirectCodes);
          const size_t left = m - i;
          const uint32_t used = first_lanes_mask<T>(left);
          if (!has_specials && (mask_of<T>(plain) & used) == used) {
            store<T>(value + i, r);
            put_tokens<T>(job.tokens + position + i, u + kTokenZero);
            continue;
          }
          const SVec<T> special = equals_special<T>(job, bits);
          const SVec<T> exact = ~good & ~special;
          const uint32_t wide = mask_of<T>(good & ~plain & ~special) & used;
          const Vec<T> kept = magnitude<T>(x) <= L::kMax ? x : p;
          raise<T>(reach, exact ? magnitude<T>(kept - p) : Vec<T>{}, left);
          r = good ? r : kept;
          store<T>(value + i, special ? p : r);
          UVec<T> token = tokens_of<T>(u, wide != 0);
          token = exact ? UVec<T>{} + kTokenExact : token;
          token = special ? UVec<T>{} + kTokenSpecial : token;
          put_tokens<T>(job.tokens + position + i, token);
          put_lists<T>(job, u, mask_of<T>(exact) & used, wide, position + i);
        }
        if (job.pads) {
          pad_row_of(value, m);
        }
        position += m;
      });
  job.reach = largest_lane<T>(reach);
}

template <typename T>
void encode_codes(EncodeJob<T>& job) {
  job.interpolation == Interpolation::quintic ? encode_codes_of<T, true>(job) : encode_codes_of<T, false>(job);
}

/// Bits of reals <-> unsigned integers in the order of the values.
template <typename T>
inline UVec<T> to_order(UVec<T> bits) {
  using Unsigned = typename Lanes<T>::Unsigned;
  constexpr Unsigned kSign = Unsigned{1} << (8 * sizeof(T) - 1);
  const UVec<T> negative = reinterpret_cast<UVec<T>>(reinterpret_cast<SVec<T>>(bits) >> (8 * sizeof(T) - 1));
  return bits ^ (negative | kSign);
}
template <typename T>
inline UVec<T> from_order(UVec<T> order) {
  using Unsigned = typename Lanes<T>::Unsigned;
  constexpr Unsigned kSign = Unsigned{1} << (8 * sizeof(T) - 1);
  const UVec<T> positive = reinterpret_cast<UVec<T>>(reinterpret_cast<SVec<T>>(order) >> (8 * sizeof(T) - 1));
  return order ^ (~positive | kSign);
}

template <typename T>
inline UVec<T> residual_of(Vec<T> x, Vec<T> p, unsigned unused) {
  SVec<T> d;
  if constexpr (std::is_floating_point_v<T>) {
    d = reinterpret_cast<SVec<T>>(to_order<T>(bits_of<T>(x)) - to_order<T>(bits_of<T>(p)));
  } else {
    d = minus<T>(x, p);
    d = reinterpret_cast<SVec<T>>(bits_of<T>(d) << unused) >> static_cast<int>(unused);
  }
  return zigzag_of<T>(reinterpret_cast<UVec<T>>(d));
}

template <typename T, bool kSix, bool kMeasure>
void encode_residuals_of(EncodeJob<T>& job) {
  const size_t m = job.shape.count;
  Vec<T> reach{};
  size_t position = 0;
  for_rows<T, kSix>(
      job, [&](const auto& predict, size_t item, size_t slab, size_t y) __attribute__((always_inline)) {
        const T* x_row = job.x + job.item_offset[item] + job.x_strides.at(0, slab, y);
        T* value = job.value + job.strides.at(item, slab, y);
        fetch_ahead(job, x_row);
        Vec<T> row_reach{};
        for (size_t i = 0; i < m; i += kLanes<T>) {
          const Vec<T> x = load_every_second<T>(x_row + 2 * i, m - i, job.x_end);
          const Vec<T> p = predict(i);
          const UVec<T> u = residual_of<T>(x, p, job.width.unused);
          const SVec<T> special = equals_special<T>(job, bits_of<T>(x));
          SVec<T> exact{};
          if constexpr (std::is_floating_point_v<T>) {
            exact = ~(magnitude<T>(x) <= Lanes<T>::kMax) & ~special;
          }
          store<T>(value + i, special | exact ? p : x);
          const size_t left = m - i;
          if constexpr (kMeasure) {
            raise<T>(row_reach, special | exact ? Vec<T>{} : distance<T>(x, p), left);
          }
          const uint32_t used = first_lanes_mask<T>(left);
          const uint32_t wide = mask_of<T>((u >= kDirectCodes) & ~special & ~exact) & used;
          UVec<T> token = tokens_of<T>(u, wide != 0);
          token = exact ? UVec<T>{} + kTokenExact : token;
          put_tokens<T>(job.tokens + position + i, special ? UVec<T>{} + kTokenSpecial : token);
          put_lists<T>(job, u, mask_of<T>(exact) & used, wide, position + i);
        }
        if (job.pads) {
          pad_row_of(value, m);
        }
        if constexpr (kMeasure) {
          raise<T>(reach, row_reach, kLanes<T>);
        }
        position += m;
      });
  job.reach = largest_lane<T>(reach);
}

/// Quintic interpolation: records of elements in an array of codes.
template <typename T, bool kMeasure>
void encode_residuals_as(EncodeJob<T>& job) {
  if constexpr (std::is_floating_point_v<T>) {
    if (job.interpolation == Interpolation::quintic) {
      return encode_residuals_of<T, true, kMeasure>(job);
    }
  }
  encode_residuals_of<T, false, kMeasure>(job);
}
template <typename T>
void encode_residuals(EncodeJob<T>& job) {
  job.measure ? encode_residuals_as<T, true>(job) : encode_residuals_as<T, false>(job);
}

template <typename T>
BitsOf<T> largest_code(const BitsOf<T>* codes, size_t count) {
  BitsOf<T> most = 0;
  for (size_t i = 0; i < count; ++i) {
    most = codes[i] > most ? codes[i] : most;
  }
  return most;
}

template <typename T>
T largest_difference(const CompareJob<T>& job) {
  const ClassShape& shape = job.shape;
  Vec<T> most{};
  for (size_t item = 0; item < shape.items; ++item) {
    for (size_t slab = 0; slab < shape.slabs; ++slab) {
      for (size_t y = 0; y < shape.rows; ++y) {
        const T* a = job.a + job.a_strides.at(item, slab, y);
        const T* b = job.b == nullptr ? nullptr : job.b + job.b_strides.at(item, slab, y);
        for (size_t i = 0; i < shape.count; i += kLanes<T>) {
          const Vec<T> d = distance<T>(load<T>(a + i), b == nullptr ? Vec<T>{} : load<T>(b + i));
          raise<T>(most, d, shape.count - i);
        }
      }
    }
  }
  return largest_lane<T>(most);
}

/// A residual undone, or a code's value.
template <typename T, bool kCodes>
inline Vec<T> undo(Vec<T> p, UVec<T> u, T quantum, IntegerWidth width) {
  const SVec<T> v = reinterpret_cast<SVec<T>>(of_zigzag<T>(u));
  if constexpr (kCodes) {
    return dequantized<T>(p, quantum, __builtin_convertvector(v, Vec<T>));
  } else if constexpr (std::is_floating_point_v<T>) {
    return reinterpret_cast<Vec<T>>(from_order<T>(to_order<T>(bits_of<T>(p)) + reinterpret_cast<UVec<T>>(v)));
  } else {
    const UVec<T> sum = (bits_of<T>(p) + reinterpret_cast<UVec<T>>(v)) << width.unused;
    return width.is_signed ? reinterpret_cast<Vec<T>>(reinterpret_cast<SVec<T>>(sum) >> static_cast<int>(width.unused))
                           : reinterpret_cast<Vec<T>>(sum >> width.unused);
  }
}

/// Values of the points of a vector whose tokens are kTokenExact or kTokenSpecial.
template <typename T>
inline const T* put_odd(const uint8_t* tokens, uint32_t odd, Vec<T> p, const T* exact, T* value) {
  alignas(64) T held[kLanes<T>];  // NOLINT(modernize-avoid-c-arrays)
  store<T>(held, p);
  for (; odd != 0; odd &= odd - 1) {
    const auto lane = static_cast<size_t>(__builtin_ctz(odd));
    value[lane] = held[lane];
    if (tokens[lane] == kTokenExact) {
      const T element = *exact++;
      if constexpr (std::is_floating_point_v<T>) {
        value[lane] = __builtin_fabs(element) <= Lanes<T>::kMax ? element : held[lane];
      } else {
        value[lane] = element;
      }
    }
  }
  return exact;
}

/// Puts the next codes of `wide` into the lanes of `u` that `lanes` has.
template <typename T>
inline UVec<T> put_wide(UVec<T> u, uint32_t lanes, const BitsOf<T>*& wide) {
  const BitsOf<T>* next = wide;
  wide += __builtin_popcount(lanes);
#if VARVE_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<UVec<T>>(
        _mm512_mask_expandloadu_epi32(reinterpret_cast<__m512i>(u), static_cast<__mmask16>(lanes), next));
  } else {
    return reinterpret_cast<UVec<T>>(
        _mm512_mask_expandloadu_epi64(reinterpret_cast<__m512i>(u), static_cast<__mmask8>(lanes), next));
  }
#else
  alignas(64) BitsOf<T> held[kLanes<T>];  // NOLINT(modernize-avoid-c-arrays)
  std::memcpy(held, &u, sizeof held);
  for (; lanes != 0; lanes &= lanes - 1) {
    held[__builtin_ctz(lanes)] = *next++;
  }
  std::memcpy(&u, held, sizeof held);
  return u;
#endif
}

template <typename T, bool kCodes, bool kSix>
void decode_rows(const DecodeJob<T>& job) {
  const size_t m = job.shape.count;
  const uint8_t* tokens = job.tokens;
  const BitsOf<T>* wide = job.wide;
  const T* exact = job.exact;
  const T quantum = job.quantum;
  const IntegerWidth width = job.width;
  for_rows<T, kSix>(
      job, [&](const auto& predict, size_t item, size_t slab, size_t y) __attribute__((always_inline)) {
        T* value = job.value + job.strides.at(item, slab, y);
        for (size_t i = 0; i < m; i += kLanes<T>) {
          const Vec<T> p = predict(i);
          if (tokens == nullptr) {
            store<T>(value + i, kCodes ? p + spread<T>(0) : p);
            continue;
          }
          const UVec<T> token = load_tokens<T>(tokens + i);
          UVec<T> u = token - kTokenZero;
          const size_t left = m - i;
          const uint32_t used = first_lanes_mask<T>(left);
          const uint32_t other = mask_of<T>(reinterpret_cast<SVec<T>>(u >= kDirectCodes)) & used;
          if (other == 0) {
            store<T>(value + i, undo<T, kCodes>(p, u, quantum, width));
            continue;
          }
          const uint32_t odd = mask_of<T>(reinterpret_cast<SVec<T>>(token < kTokenZero)) & used;
          u = put_wide<T>(u, other & ~odd, wide);
          store<T>(value + i, undo<T, kCodes>(p, u, quantum, width));
          exact = put_odd<T>(tokens + i, odd, p, exact, value + i);
        }
        tokens += tokens == nullptr ? 0 : m;
        if (job.pads) {
          pad_row_of(value, m);
        }
      });
}

template <typename T>
void decode_codes(const DecodeJob<T>& job) {
  job.interpolation == Interpolation::quintic ? decode_rows<T, true, true>(job) : decode_rows<T, true, false>(job);
}
template <typename T>
void decode_residuals(const DecodeJob<T>& job) {
  decode_rows<T, false, false>(job);
}

}  // namespace
}  // namespace varve::codec
