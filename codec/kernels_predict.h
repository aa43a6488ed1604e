// Predictions of the points of a class from those around them, row by row. See kernels_vectors.h on how it is compiled;
// FORMAT.md, "Prediction", has the arithmetic in words.
#pragma once

#include "codec/kernels.h"
#include "codec/kernels_vectors.h"

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

template <typename T>
constexpr Weight<T> kQuinticNear = static_cast<Weight<T>>(kQuinticNearWeight);
template <typename T>
constexpr Weight<T> kQuinticFar = static_cast<Weight<T>>(kQuinticFarWeight);
template <typename T>
constexpr Weight<T> kQuinticOuter = static_cast<Weight<T>>(kQuinticOuterWeight);

/// A missing point by quadratic extrapolation from the three next to it.
template <typename T>
const T* extrapolate(const T* one, const T* two, const T* three, size_t count, T* out) {
  for (size_t i = 0; i < count; i += kLanes<T>) {
    const Vec<T> x = load<T>(one + i);
    const Vec<T> y = load<T>(two + i);
    const Vec<T> z = load<T>(three + i);
    if constexpr (std::is_floating_point_v<T>) {
      store<T>(out + i, extrapolated<T>(x, y, z));
    } else {
      store<T>(out + i, plus<T>(times<T>(minus<T>(x, y), 3), z));
    }
  }
  return out;
}

template <typename T>
void pad_row_of(T* row, size_t m) {
  const auto beyond = [](T one, T two, T three) {
    if constexpr (std::is_floating_point_v<T>) {
      return extrapolated<T>(one, two, three);
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
    return weighted<T>(load<T>(t.e + i), a, b, c, d, load<T>(t.f + i), t.near, t.far, t.outer);
  } else if constexpr (std::is_floating_point_v<T>) {
    return weighted<T>(a, b, c, d, t.near, t.far);
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
    return finite_or_zero<T>(axes_mean<T>(v));
  } else {
    return v;
  }
}
template <typename T>
inline Vec<T> mean_of(Vec<T> v, Vec<T> w) {
  if constexpr (std::is_floating_point_v<T>) {
    return finite_or_zero<T>(axes_mean<T>(v, w));
  } else {
    return plus<T>(v, minus<T>(w, v) >> 1);
  }
}
template <typename T>
inline Vec<T> mean_of(Vec<T> v, Vec<T> w, Vec<T> u) {
  if constexpr (std::is_floating_point_v<T>) {
    return finite_or_zero<T>(axes_mean<T>(v, w, u));
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
      return weighted_one_sided<T>(b, a);
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

}  // namespace
}  // namespace varve::codec
