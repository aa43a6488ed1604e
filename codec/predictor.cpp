#include "codec/predictor.h"

namespace varve::codec {

namespace {

/// Row operations in work type W: kernels for reals, plain loops for integers.
template <typename W>
void axis_row(const AxisTerm<W>& t, size_t count, W* out) {
  if constexpr (std::is_same_v<W, float>) {
    kernels().f32.axis(t, count, out);
  } else if constexpr (std::is_same_v<W, double>) {
    kernels().f64.axis(t, count, out);
  } else {
    const Taps taps{t.wa, t.wb, t.wc, t.wd};
    for (size_t i = 0; i < count; ++i) {
      out[i] = axis_value(taps, t.a[i], t.b[i], t.c[i], t.d[i]);
    }
  }
}

template <typename W>
void mean_row(const AxisTerm<W>* term, unsigned terms, const W* line, size_t count, W* out) {
  if constexpr (std::is_same_v<W, float>) {
    kernels().f32.predict(term, terms, line, count, out);
  } else if constexpr (std::is_same_v<W, double>) {
    kernels().f64.predict(term, terms, line, count, out);
  } else {
    const auto value = [&](unsigned k, size_t i) {
      const AxisTerm<W>& t = term[k];
      return axis_value(Taps{t.wa, t.wb, t.wc, t.wd}, t.a[i], t.b[i], t.c[i], t.d[i]);
    };
    for (size_t i = 0; i < count; ++i) {
      if (terms == 0) {
        out[i] = line[i];
      } else if (terms == 1) {
        out[i] = line == nullptr ? value(0, i) : mean_of(value(0, i), line[i]);
      } else {
        out[i] = line == nullptr ? mean_of(value(0, i), value(1, i)) : mean_of(value(0, i), value(1, i), line[i]);
      }
    }
  }
}

template <typename T>
void interleave(const T* even, const T* odd, size_t count, T* out) {
  if constexpr (std::is_same_v<T, float>) {
    kernels().f32.interleave(even, odd, count, reinterpret_cast<std::byte*>(out));
  } else if constexpr (std::is_same_v<T, double>) {
    kernels().f64.interleave(even, odd, count, reinterpret_cast<std::byte*>(out));
  } else if constexpr (std::is_same_v<T, uint16_t>) {
    kernels().interleave16(even, odd, count, out);
  } else {
    for (size_t i = 0; i < count; ++i) {
      out[i] = i % 2 == 0 ? even[i / 2] : odd[i / 2];
    }
  }
}

}  // namespace

/// `context_of(sum, axes)` rises with the sum.
template <typename ContextOf>
ContextMap ContextMap::make(ContextOf context_of) {
  ContextMap map;
  for (unsigned axes = 1; axes <= 3; ++axes) {
    auto& threshold = map.threshold_.at(axes - 1);
    threshold.fill(kNever);
    unsigned reached = 0;
    for (unsigned sum = 0; sum < kSpecialActivity; ++sum) {
      for (const unsigned context = context_of(sum, axes); reached < context; ++reached) {
        threshold.at(reached) = static_cast<int16_t>(sum);
      }
    }
    for (unsigned s = 0; s <= 18; ++s) {
      const unsigned full = 6 * axes;
      map.special_[axes - 1][s] = static_cast<uint8_t>(kPlainContexts + (s >= full ? 2 : s * 2 > full ? 1 : 0));
    }
  }
  return map;
}

void ContextMap::row(unsigned axes, const uint16_t* sums, size_t m, uint8_t* out) const {
  const Kernels& set = kernels();
  const auto& threshold = threshold_.at(axes - 1);
  const unsigned all = set.any(sums, m);
  if (all == 0) {
    // A sum of 0 may belong to a context above 0: where short residuals are the rule.
    const auto reached = std::count(threshold.begin(), threshold.end(), int16_t{0});
    std::fill(out, out + m, static_cast<uint8_t>(reached));
  } else if (all < kSpecialActivity) {
    set.contexts(threshold.data(), sums, m, out);
  } else {
    for (size_t i = 0; i < m; ++i) {
      if (sums[i] < kSpecialActivity) {
        set.contexts(threshold.data(), sums + i, 1, out + i);
      } else {
        out[i] = special_[axes - 1][sums[i] / kSpecialActivity];
      }
    }
  }
}

ContextMap ContextMap::for_codes() {
  // Context k >= 1 begins where the mean magnitude m has (1 + 4 m)^2 >= 2^(k - 1): two steps an octave. `scaled` is
  // 36 m, hence (9 + scaled)^2 >= 81 * 2^(k - 1).
  static const ContextMap made = make([](unsigned sum, unsigned axes) {
    const uint64_t scaled = uint64_t{sum} * (6 / axes);
    const uint64_t square = (9 + scaled) * (9 + scaled);
    unsigned context = 0;
    while (scaled > 0 && context + 1 < kPlainContexts && square >= uint64_t{81} << context) {
      ++context;
    }
    return context;
  });
  return made;
}

ContextMap ContextMap::for_residuals(unsigned base) {
  return make([&](unsigned sum, unsigned axes) {
    const unsigned bits = sum * (6 / axes) / 36;
    return bits > base ? std::min(bits - base, kPlainContexts - 1) : 0;
  });
}

template <typename W>
void LevelStep<W>::add_activity(const Plane<W>& source, unsigned axis, size_t batch, const std::array<size_t, 3>& index,
                                size_t m, uint16_t* sums) const {
  const Activity* row = source.activity + source.at(batch, index[0], index[1]);
  if (axis != 2) {
    const auto has = neighbours(source, axis, index[axis]);
    const auto step = static_cast<ptrdiff_t>(source.stride[axis]);
    const Activity* a = has.a ? row - step : row;
    const Activity* c = has.c ? row + step : row;
    const Activity* d = has.d ? row + 2 * step : c;
    kernels().add_activity(a, row, c, d, m, sums);
    return;
  }
  const auto one = [&](size_t i) {
    const auto has = neighbours(source, 2, i);
    const Activity* p = row + i;
    const unsigned b = p[0];
    const unsigned c = has.c ? p[1] : b;
    sums[i] = static_cast<uint16_t>(sums[i] + (has.a ? p[-1] : b) + 2 * (b + c) + (has.d ? p[2] : c));
  };
  const size_t first = source.begin[2] < 0 ? 0 : 1;
  const size_t last = std::max(first, std::min(m, source.end[2] > 2 ? static_cast<size_t>(source.end[2] - 2) : 0));
  for (size_t i = 0; i < std::min(first, m); ++i) {
    one(i);
  }
  const Activity* p = row + first;
  kernels().add_activity(p - 1, p, p + 1, p + 2, last - first, sums + first);
  for (size_t i = last; i < m; ++i) {
    one(i);
  }
}

template <typename W>
void LevelStep<W>::contexts(unsigned c, const ContextMap& map, uint8_t* out) const {
  const Dims dims = class_dims(c);
  const size_t m = dims.n[2];
  uint16_t* sums = memory_.sums.reserve(m);
  const unsigned axes = axes_of(c);
  for (size_t batch = 0; batch < dims.batch; ++batch) {
    for (size_t z = 0; z < dims.n[0]; ++z) {
      for (size_t y = 0; y < dims.n[1]; ++y) {
        std::fill(sums, sums + m, uint16_t{0});
        for (unsigned axis = 0; axis < 3; ++axis) {
          if (odd(c, axis)) {
            add_activity(planes_[c ^ (4U >> axis)], axis, batch, {z, y, 0}, m, sums);
          }
        }
        map.row(axes, sums, m, out);
        out += m;
      }
    }
  }
}

template <typename W>
AxisTerm<W> LevelStep<W>::term_for(const Taps& taps, const W* b, ptrdiff_t step) {
  // Taps of weight zero may lie outside of the array: point them at b, whose value times zero adds nothing.
  return {taps.a != 0 ? b - step : b,
          b,
          taps.c != 0 ? b + step : b,
          taps.d != 0 ? b + 2 * step : b,
          taps.a,
          taps.b,
          taps.c,
          taps.d};
}

template <typename W>
W LevelStep<W>::predict_point(unsigned c, size_t batch, const std::array<size_t, 3>& index) const {
  std::array<W, 3> two_sided{};
  std::array<W, 3> one_sided{};
  unsigned two = 0;
  unsigned one = 0;
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (!odd(c, axis)) {
      continue;
    }
    const Plane<W>& source = planes_[c ^ (4U >> axis)];
    const auto has = neighbours(source, axis, index[axis]);
    const Taps taps = taps_for(has.a, has.c, has.d, cubic_);
    const W* b = source.value + source.at(batch, index[0], index[1]) + index[2];
    const auto step = static_cast<ptrdiff_t>(source.stride[axis]);
    const W value =
        axis_value(taps, taps.a != 0 ? b[-step] : *b, *b, taps.c != 0 ? b[step] : *b, taps.d != 0 ? b[2 * step] : *b);
    if (has.c) {
      two_sided[two++] = value;
    } else {
      one_sided[one++] = value;
    }
  }
  const auto& use = two > 0 ? two_sided : one_sided;
  const unsigned count = two > 0 ? two : one;
  const W mean = count == 1 ? mean_of(use[0]) : count == 2 ? mean_of(use[0], use[1]) : mean_of(use[0], use[1], use[2]);
  return finite_or_zero(mean);
}

template <typename W>
void LevelStep<W>::predict_row(unsigned c, size_t batch, size_t z, size_t y, W* out) const {
  const size_t m = class_dims(c).n[2];
  const std::array<size_t, 3> index = {z, y, 0};
  std::array<AxisTerm<W>, 2> terms{};
  unsigned count = 0;
  for (unsigned axis = 0; axis < 2; ++axis) {
    if (!odd(c, axis)) {
      continue;
    }
    const Plane<W>& source = planes_[c ^ (4U >> axis)];
    const auto has = neighbours(source, axis, index[axis]);
    if (has.c) {
      terms.at(count++) = term_for(taps_for(has.a, has.c, has.d, cubic_), source.value + source.at(batch, z, y),
                                   static_cast<ptrdiff_t>(source.stride[axis]));
    }
  }
  size_t done = 0;  // points with something two-sided along x
  if (odd(c, 2)) {
    const Plane<W>& source = planes_[c ^ 1U];
    done = std::min(m, source.end[2] > 1 ? static_cast<size_t>(source.end[2] - 1) : 0);
    W* line = memory_.row.data();
    line_row(source, source.value + source.at(batch, z, y), done, line);
    mean_row(terms.data(), count, line, done, out);
  } else if (count > 0) {
    mean_row<W>(terms.data(), count, nullptr, m, out);
    return;
  }
  for (size_t i = done; i < m; ++i) {
    out[i] = predict_point(c, batch, {z, y, i});
  }
}

/// Axis values along x of the first `count` points of a row, all two-sided.
template <typename W>
void LevelStep<W>::line_row(const Plane<W>& source, const W* b, size_t count, W* out) const {
  const auto edge = [&](size_t i) {
    const auto has = neighbours(source, 2, i);
    const Taps taps = taps_for(has.a, has.c, has.d, cubic_);
    const W* p = b + i;
    out[i] = axis_value(taps, taps.a != 0 ? p[-1] : *p, *p, p[1], taps.d != 0 ? p[2] : *p);
  };
  const size_t first = std::min<size_t>(count, source.begin[2] < 0 ? 0 : 1);
  const size_t last = std::max(first, std::min(count, source.end[2] > 2 ? static_cast<size_t>(source.end[2] - 2) : 0));
  for (size_t i = 0; i < first; ++i) {
    edge(i);
  }
  axis_row(term_for(taps_for(true, true, true, cubic_), b + first, 1), last - first, out + first);
  for (size_t i = last; i < count; ++i) {
    edge(i);
  }
}

template <typename W>
void LevelStep<W>::assemble(W* value, Activity* activity) const {
  const auto& n = full_.n;
  for (size_t batch = 0; batch < full_.batch; ++batch) {
    for (size_t z = 0; z < n[0]; ++z) {
      for (size_t y = 0; y < n[1]; ++y) {
        const size_t out = ((batch * n[0] + z) * n[1] + y) * n[2];
        const unsigned c = static_cast<unsigned>((z & 1U) << 2 | (y & 1U) << 1);
        const Plane<W>& even = planes_[c];
        const Plane<W>& odd = planes_[c | 1U];
        const ptrdiff_t p = even.at(batch, z / 2, y / 2);
        const ptrdiff_t q = odd.at(batch, z / 2, y / 2);
        interleave(even.value + p, odd.value + q, n[2], value + out);
        interleave(even.activity + p, odd.activity + q, n[2], activity + out);
      }
    }
  }
}

template class LevelStep<float>;
template class LevelStep<double>;
template class LevelStep<int32_t>;
template class LevelStep<int64_t>;

}  // namespace varve::codec
