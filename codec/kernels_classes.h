// The kernels that work on the classes of a level: prediction, quantization, exact residuals and their inverses,
// contexts. See kernels_vectors.h on how it is compiled; FORMAT.md, "Prediction", has the arithmetic in words.
#pragma once

#include "codec/kernels.h"
#include "codec/kernels_vectors.h"
#include "codec/tokens.h"

namespace varve::codec {
namespace {

template <typename T>
using Weight = std::conditional_t<std::is_floating_point_v<T>, T, int>;

/// One axis of a row: (b + c) * near - (a + d) * far, with quintic interpolation + (e + f) * outer, is 16 times its
/// prediction. In order the points are e, a, b, c, d, f.
template <typename T>
struct Term {
  const T* a = nullptr;
  const T* b = nullptr;
  const T* c = nullptr;
  const T* d = nullptr;
  Weight<T> near = 9;
  Weight<T> far = 1;
  const T* e = nullptr;
  const T* f = nullptr;
  Weight<T> outer = 0;
};

/// Of six points: Deslauriers and Dubuc, Constr. Approx. 5 (1989): 150, 25 and 3 of 256.
template <typename T>
constexpr Weight<T> kQuinticNear = static_cast<Weight<T>>(9.375);
template <typename T>
constexpr Weight<T> kQuinticFar = static_cast<Weight<T>>(1.5625);
template <typename T>
constexpr Weight<T> kQuinticOuter = static_cast<Weight<T>>(0.1875);

/// A missing point by quadratic extrapolation from the three next to it.
template <typename T>
const T* extrapolate(const T* one, const T* two, const T* three, size_t count, T* out) {
  for (size_t i = 0; i < count; i += kLanes<T>) {
    store<T>(out + i, plus<T>(times<T>(minus<T>(load<T>(one + i), load<T>(two + i)), 3), load<T>(three + i)));
  }
  return out;
}

template <typename T>
void pad_row_of(T* row, size_t m) {
  const auto beyond = [](T one, T two, T three) {
    if constexpr (std::is_floating_point_v<T>) {
      return (one - two) * T(3) + three;
    } else {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>((static_cast<U>(one) - static_cast<U>(two)) * U{3} + static_cast<U>(three));
    }
  };
  row[-1] = m >= 3 ? beyond(row[0], row[1], row[2]) : row[0];
  const T after = m >= 3 ? beyond(row[m - 1], row[m - 2], row[m - 3]) : row[m - 1];
  row[-2] = row[-1];
  row[m] = after;
  row[m + 1] = after;
}

/// The term of axis z or y at `index`, whose nearest lower point is in row `b`; `step`: from one row to the next.
template <typename T>
__attribute__((noinline)) Term<T> cubic_term_of(const ClassJob<T>& job, const Source<const T>& source, const T* b,
                                                ptrdiff_t index, ptrdiff_t step, T* scratch) {
  const size_t m = job.shape.count;
  const bool has_a = index - 1 >= source.first;
  if (index + 1 >= source.last) {  // one-sided: 24 b - 8 a, or 16 b
    return has_a ? Term<T>{b - step, b, b, b - step, 12, 4} : Term<T>{b, b, b, b, 8, 0};
  }
  if (job.interpolation == Interpolation::linear) {
    return {b, b, b + step, b, 8, 0};
  }
  const bool has_d = index + 2 < source.last;
  Term<T> t{b - step, b, b + step, b + 2 * step, 9, 1};
  if (!has_a) {
    t.a = has_d ? extrapolate(b, t.c, t.d, m, scratch) : b;
  }
  if (!has_d) {
    t.d = has_a ? extrapolate(t.c, b, t.a, m, scratch) : t.c;
  }
  return t;
}

/// The same for quintic interpolation (kSix), which takes fewer points where six are not there, and the others.
template <typename T, bool kSix>
__attribute__((always_inline)) inline Term<T> term_of(const ClassJob<T>& job, const Source<const T>& source, const T* b,
                                                      ptrdiff_t index, ptrdiff_t step, T* scratch) {
  if constexpr (kSix) {
    if (index - 2 >= source.first && index + 3 < source.last) {
      return {b - step,        b, b + step, b + 2 * step, kQuinticNear<T>, kQuinticFar<T>, b - 2 * step, b + 3 * step,
              kQuinticOuter<T>};
    }
  } else if (job.interpolation == Interpolation::cubic && index - 1 >= source.first && index + 2 < source.last) {
    return {b - step, b, b + step, b + 2 * step, 9, 1};
  }
  Term<T> term = cubic_term_of(job, source, b, index, step, scratch);
  term.e = term.f = b;
  return term;
}

/// kSix: the term has six points.
template <typename T, bool kSix>
inline Vec<T> axis_value(const Term<T>& t, size_t i) {
  const Vec<T> b = load<T>(t.b + i);
  const Vec<T> c = load<T>(t.c + i);
  const Vec<T> a = load<T>(t.a + i);
  const Vec<T> d = load<T>(t.d + i);
  if constexpr (kSix) {
    return ((b + c) * t.near - (a + d) * t.far) + (load<T>(t.e + i) + load<T>(t.f + i)) * t.outer;
  } else if constexpr (std::is_floating_point_v<T>) {
    return (b + c) * t.near - (a + d) * t.far;
  } else {
    // b + (near (c - b) - far ((a - b) + (d - b)) + (weights' excess over 16) ... + 8) >> 4, all relative to b.
    const Vec<T> inner = times<T>(minus<T>(c, b), t.near);
    const Vec<T> outer = times<T>(plus<T>(minus<T>(a, b), minus<T>(d, b)), t.far);
    return plus<T>(b, plus<T>(minus<T>(inner, outer), spread<T>(8)) >> 4);
  }
}

/// Everything that predicts a row.
template <typename T>
struct RowTerms {
  Term<T> across[2];        // NOLINT(modernize-avoid-c-arrays): z and y
  const T* line = nullptr;  ///< the row of sources along x
};

template <typename T>
inline Vec<T> mean_of(Vec<T> v) {
  if constexpr (std::is_floating_point_v<T>) {
    return finite_or_zero<T>(v * T(0.0625));
  } else {
    return v;
  }
}
template <typename T>
inline Vec<T> mean_of(Vec<T> v, Vec<T> w) {
  if constexpr (std::is_floating_point_v<T>) {
    return finite_or_zero<T>((v + w) * T(0.03125));
  } else {
    return plus<T>(v, minus<T>(w, v) >> 1);
  }
}
template <typename T>
inline Vec<T> mean_of(Vec<T> v, Vec<T> w, Vec<T> u) {
  if constexpr (std::is_floating_point_v<T>) {
    return finite_or_zero<T>(((v + w) + u) * Lanes<T>::kThird);
  } else {
    return plus<T>(v, times<T>(plus<T>(minus<T>(w, v), minus<T>(u, v)), 341) >> 10);
  }
}

/// The last point of rows that have nothing after it along x: in which vector it is, and what differs there.
template <typename T>
struct LastPoint {
  explicit LastPoint(const ClassJob<T>& job) {
    if (job.one_sided) {
      const size_t last = job.shape.count - 1;
      vector = last / kLanes<T> * kLanes<T>;
      is = lane_numbers<T>() == static_cast<typename Lanes<T>::Signed>(last - vector);
      if constexpr (std::is_floating_point_v<T>) {
        scale[0] = is ? spread<T>(T(0.0625)) : spread<T>(T(0.03125));
        scale[1] = is ? spread<T>(T(0.03125)) : spread<T>(Lanes<T>::kThird);
      }
    }
  }
  size_t vector = SIZE_MAX;
  SVec<T> is{};
  Vec<T> scale[2]{};  // NOLINT(modernize-avoid-c-arrays): of one other axis, of two
};

/// Predictions of points [i, i + lanes) of a row.
template <typename T, unsigned kAcross, bool kLine, bool kSix>
struct Predict {
  const RowTerms<T>& terms;
  const ClassJob<T>& job;
  const LastPoint<T>& last;

  Vec<T> operator()(size_t i) const {
    if constexpr (!kLine) {
      return across(i);
    } else {
      const Vec<T> v = axis_value<T, kSix>(line_term(), i);
      return i == last.vector ? with_last(i, v) : all(i, v);
    }
  }

 private:
  Term<T> line_term() const {
    const T* at = terms.line;
    if constexpr (kSix) {
      return {at - 1, at, at + 1, at + 2, kQuinticNear<T>, kQuinticFar<T>, at - 2, at + 3, kQuinticOuter<T>};
    }
    const bool linear = job.interpolation == Interpolation::linear;
    return {at - 1, at, at + 1, at + 2, static_cast<Weight<T>>(linear ? 8 : 9), static_cast<Weight<T>>(linear ? 0 : 1)};
  }
  Vec<T> value(unsigned axis, size_t i) const { return axis_value<T, kSix>(terms.across[axis], i); }
  Vec<T> across(size_t i) const {
    if constexpr (kAcross == 2) {
      return mean_of<T>(value(0, i), value(1, i));
    } else {
      return mean_of<T>(value(0, i));
    }
  }
  Vec<T> all(size_t i, Vec<T> v) const {
    if constexpr (kAcross == 2) {
      return mean_of<T>(value(0, i), value(1, i), v);
    } else if constexpr (kAcross == 1) {
      return mean_of<T>(value(0, i), v);
    } else {
      return mean_of<T>(v);
    }
  }
  /// The last point of the row has nothing after it: the other axes alone, or one-sided.
  Vec<T> with_last(size_t i, Vec<T> v) const {
    if constexpr (kAcross == 0) {
      const T* b = terms.line + job.shape.count - 1;
      const T one = job.has_left ? one_sided(b[0], b[-1]) : one_sided(b[0], b[0]);
      return mean_of<T>(last.is ? Vec<T>{} + one : v);  // 0 is added as below, where v is left out
    } else if constexpr (!std::is_floating_point_v<T>) {
      return last.is ? across(i) : all(i, v);
    } else {
      Vec<T> sum = value(0, i);
      if constexpr (kAcross == 2) {
        sum = sum + value(1, i);
      }
      return finite_or_zero<T>((sum + (last.is ? Vec<T>{} : v)) * last.scale[kAcross - 1]);
    }
  }
  static T one_sided(T b, T a) {
    if constexpr (std::is_floating_point_v<T>) {
      return b * T(24) - a * T(8);
    } else {
      using U = std::make_unsigned_t<T>;
      const auto change = static_cast<T>((static_cast<U>(b) - static_cast<U>(a)) * U{8} + U{8});
      return static_cast<T>(static_cast<U>(b) + static_cast<U>(change >> 4));
    }
  }
};

/// Calls row(predict, item, slab, y) for each row of a class that is odd along kZ, kY, kX. Used axes: those with points
/// on both sides, or if there are none the last odd one.
template <typename T, bool kZ, bool kY, bool kX, bool kSix, typename Row>
inline void walk_rows(const ClassJob<T>& job, const Row& row) {
  const ClassShape shape = job.shape;
  const auto rows = static_cast<ptrdiff_t>(shape.rows);
  const Source<const T> z = job.source[0];
  const Source<const T> y = job.source[1];
  const LastPoint<T> last(job);
  for (size_t item = 0; item < shape.items; ++item) {
    for (size_t slab = 0; slab < shape.slabs; ++slab) {
      const auto z_at = static_cast<ptrdiff_t>(slab);
      const bool use_z = kZ && (z_at + 1 < z.last || (!kX && !kY));
      const T* z_row = kZ ? z.at + z.strides.at(item, slab, 0) : nullptr;
      const T* y_row = kY ? y.at + y.strides.at(item, slab, 0) : nullptr;
      const T* x_row = kX ? job.source[2].at + job.source[2].strides.at(item, slab, 0) : nullptr;
      for (ptrdiff_t at = 0; at < rows; ++at) {
        RowTerms<T> terms;
        terms.line = x_row;
        unsigned count = 0;
        if (use_z) {
          terms.across[count++] = term_of<T, kSix>(job, z, z_row, z_at, z.strides.slab, job.scratch);
        }
        if (kY && (at + 1 < y.last || (!kX && count == 0))) {
          T* const scratch = job.scratch + shape.count + kSlackBytes / sizeof(T);
          terms.across[count++] = term_of<T, kSix>(job, y, y_row, at, y.strides.row, scratch);
        }
        const auto index = static_cast<size_t>(at);
        if (kZ && kY && count == 2) {
          row(Predict<T, 2, kX, kSix>{terms, job, last}, item, slab, index);
        } else if ((kZ || kY) && count >= 1) {
          row(Predict<T, 1, kX, kSix>{terms, job, last}, item, slab, index);
        } else if constexpr (kX) {
          row(Predict<T, 0, true, kSix>{terms, job, last}, item, slab, index);
        }
        z_row += kZ ? z.strides.row : 0;
        y_row += kY ? y.strides.row : 0;
        x_row += kX ? job.source[2].strides.row : 0;
      }
    }
  }
}

/// kSix: with quintic interpolation.
template <typename T, bool kSix, typename Row>
inline void for_rows(const ClassJob<T>& job, const Row& row) {
  const unsigned odd = (job.source[0].at != nullptr ? 4U : 0U) | (job.source[1].at != nullptr ? 2U : 0U) |
                       (job.source[2].at != nullptr ? 1U : 0U);
  switch (odd) {
    case 1:
      return walk_rows<T, false, false, true, kSix>(job, row);
    case 2:
      return walk_rows<T, false, true, false, kSix>(job, row);
    case 3:
      return walk_rows<T, false, true, true, kSix>(job, row);
    case 4:
      return walk_rows<T, true, false, false, kSix>(job, row);
    case 5:
      return walk_rows<T, true, false, true, kSix>(job, row);
    case 6:
      return walk_rows<T, true, true, false, kSix>(job, row);
    default:
      return walk_rows<T, true, true, true, kSix>(job, row);
  }
}

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
    alignas(64) typename Lanes<T>::Unsigned held[kLanes<T>];  // NOLINT(modernize-avoid-c-arrays)
    std::memcpy(held, &u, sizeof held);
    for (size_t i = 0; i < kLanes<T>; ++i) {
      job.wide[job.wide_count] = held[i];
      job.wide_count += wide >> i & 1U;
    }
  }
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
  size_t position = 0;
  for_rows<T, kSix>(
      job, [&](const auto& predict, size_t item, size_t slab, size_t y) __attribute__((always_inline)) {
        const T* x_row = job.x + job.item_offset[item] + job.x_strides.at(0, slab, y);
        T* value = job.value + job.strides.at(item, slab, y);
        fetch_ahead(job, x_row);
        for (size_t i = 0; i < m; i += kLanes<T>) {
          const Vec<T> x = load_every_second<T>(x_row + 2 * i, m - i, x_end);
          const Vec<T> p = predict(i);
          const Vec<T> scaled = (x - p) * reciprocal;
          const Vec<T> shifted = scaled + L::kMagic;
          const Vec<T> rounded = shifted - L::kMagic;
          Vec<T> r = p + quantum * rounded;
          const UVec<T> k = bits_of<T>(shifted) - bits_of<T>(spread<T>(L::kMagic));  // any bits where it is too large
          UVec<T> u = (k << 1) ^ reinterpret_cast<UVec<T>>(reinterpret_cast<SVec<T>>(k) >> (8 * sizeof(T) - 1));
          const UVec<T> bits = bits_of<T>(x);
          const SVec<T> good = (magnitude<T>(scaled) < L::kLimit) & (magnitude<T>(x - r) < bound) & (bits != kSign);
          const SVec<T> plain = good & (u < kDirectCodes);
          const size_t left = m - i;
          const uint32_t used =
              left >= kLanes<T> ? static_cast<uint32_t>((uint64_t{1} << kLanes<T>)-1) : (1U << left) - 1;
          if (!has_specials && (mask_of<T>(plain) & used) == used) {
            store<T>(value + i, r);
            put_tokens<T>(job.tokens + position + i, u + kTokenZero);
            continue;
          }
          const SVec<T> special = equals_special<T>(job, bits);
          const SVec<T> exact = ~good & ~special;
          const uint32_t wide = mask_of<T>(good & ~plain & ~special) & used;
          const Vec<T> kept = magnitude<T>(x) <= L::kMax ? x : p;
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
  return reinterpret_cast<UVec<T>>(d << 1) ^ reinterpret_cast<UVec<T>>(d >> (8 * sizeof(T) - 1));
}

template <typename T, bool kSix>
void encode_residuals_of(EncodeJob<T>& job) {
  const size_t m = job.shape.count;
  size_t position = 0;
  for_rows<T, kSix>(
      job, [&](const auto& predict, size_t item, size_t slab, size_t y) __attribute__((always_inline)) {
        const T* x_row = job.x + job.item_offset[item] + job.x_strides.at(0, slab, y);
        T* value = job.value + job.strides.at(item, slab, y);
        fetch_ahead(job, x_row);
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
          const uint32_t used =
              left >= kLanes<T> ? static_cast<uint32_t>((uint64_t{1} << kLanes<T>)-1) : (1U << left) - 1;
          const uint32_t wide = mask_of<T>((u >= kDirectCodes) & ~special & ~exact) & used;
          UVec<T> token = tokens_of<T>(u, wide != 0);
          token = exact ? UVec<T>{} + kTokenExact : token;
          put_tokens<T>(job.tokens + position + i, special ? UVec<T>{} + kTokenSpecial : token);
          put_lists<T>(job, u, mask_of<T>(exact) & used, wide, position + i);
        }
        if (job.pads) {
          pad_row_of(value, m);
        }
        position += m;
      });
}

/// Quintic interpolation: records of elements in an array of codes.
template <typename T>
void encode_residuals(EncodeJob<T>& job) {
  if constexpr (std::is_floating_point_v<T>) {
    if (job.interpolation == Interpolation::quintic) {
      return encode_residuals_of<T, true>(job);
    }
  }
  encode_residuals_of<T, false>(job);
}

/// A residual undone, or a code's value.
template <typename T, bool kCodes>
inline Vec<T> undo(Vec<T> p, UVec<T> u, T quantum, IntegerWidth width) {
  const SVec<T> v = reinterpret_cast<SVec<T>>((u >> 1) ^ (UVec<T>{} - (u & 1)));
  if constexpr (kCodes) {
    return p + quantum * __builtin_convertvector(v, Vec<T>);
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
          typename Lanes<T>::Bytes bytes;
          std::memcpy(&bytes, tokens + i, sizeof bytes);
          const UVec<T> token = __builtin_convertvector(bytes, UVec<T>);
          UVec<T> u = token - kTokenZero;
          const size_t left = m - i;
          const uint32_t used =
              left >= kLanes<T> ? static_cast<uint32_t>((uint64_t{1} << kLanes<T>)-1) : (1U << left) - 1;
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
