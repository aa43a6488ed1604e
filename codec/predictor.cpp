#include "codec/predictor.h"

namespace varve::codec {

void ContextMap::fill_special() {
  for (unsigned axes = 1; axes <= 3; ++axes) {
    for (unsigned s = 0; s <= 18; ++s) {
      const unsigned full = 6 * axes;
      special_[axes - 1][s] = static_cast<uint8_t>(kPlainContexts + (s >= full ? 2 : s * 2 > full ? 1 : 0));
    }
  }
}

void ContextMap::row(unsigned axes, const uint16_t* sums, size_t m, uint8_t* out) const {
  unsigned all = 0;
  for (size_t i = 0; i < m; ++i) {
    all |= sums[i];
  }
  const auto& plain = plain_[axes - 1];
  if (all == 0) {
    std::fill(out, out + m, plain[0]);
  } else if (all < kSpecialActivity) {
    for (size_t i = 0; i < m; ++i) {
      out[i] = plain[sums[i]];
    }
  } else {
    for (size_t i = 0; i < m; ++i) {
      out[i] = sums[i] < kSpecialActivity ? plain[sums[i]] : special_[axes - 1][sums[i] / kSpecialActivity];
    }
  }
}

ContextMap ContextMap::for_codes() {
  // Context k >= 1 begins where the mean magnitude m has (1 + 4 m)^2 >= 2^(k - 1): two steps an octave. `scaled` is
  // 36 m, hence (9 + scaled)^2 >= 81 * 2^(k - 1).
  ContextMap map;
  for (unsigned axes = 1; axes <= 3; ++axes) {
    for (unsigned sum = 0; sum < kSpecialActivity; ++sum) {
      const uint64_t scaled = uint64_t{sum} * (6 / axes);
      const uint64_t square = (9 + scaled) * (9 + scaled);
      unsigned context = 0;
      while (scaled > 0 && context + 1 < kPlainContexts && square >= uint64_t{81} << context) {
        ++context;
      }
      map.plain_[axes - 1][sum] = static_cast<uint8_t>(context);
    }
  }
  map.fill_special();
  return map;
}

ContextMap ContextMap::for_residuals(unsigned base) {
  ContextMap map;
  for (unsigned axes = 1; axes <= 3; ++axes) {
    for (unsigned sum = 0; sum < kSpecialActivity; ++sum) {
      const unsigned bits = sum * (6 / axes) / 36;
      const unsigned context = bits > base ? std::min(bits - base, kPlainContexts - 1) : 0;
      map.plain_[axes - 1][sum] = static_cast<uint8_t>(context);
    }
  }
  map.fill_special();
  return map;
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
    for (size_t i = 0; i < m; ++i) {
      sums[i] = static_cast<uint16_t>(sums[i] + a[i] + 2 * (row[i] + c[i]) + d[i]);
    }
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
  for (size_t i = first; i < last; ++i) {
    const Activity* p = row + i;
    sums[i] = static_cast<uint16_t>(sums[i] + p[-1] + 2 * (p[0] + p[1]) + p[2]);
  }
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
void LevelStep<W>::axis_row(const Taps& taps, const W* b, ptrdiff_t step, size_t m, W* out) const {
  // Taps of weight zero may lie outside of the array: point them at b, whose value times zero adds nothing.
  const W* a = taps.a != 0 ? b - step : b;
  const W* c = taps.c != 0 ? b + step : b;
  const W* d = taps.d != 0 ? b + 2 * step : b;
  const Taps t = taps;
  for (size_t i = 0; i < m; ++i) {
    out[i] = axis_value(t, a[i], b[i], c[i], d[i]);
  }
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
  std::array<const W*, 3> rows{};
  unsigned count = 0;
  for (unsigned axis = 0; axis < 2; ++axis) {
    if (!odd(c, axis)) {
      continue;
    }
    const Plane<W>& source = planes_[c ^ (4U >> axis)];
    const auto has = neighbours(source, axis, index[axis]);
    if (has.c) {
      W* row = memory_.row[count].data();
      axis_row(taps_for(has.a, has.c, has.d, cubic_), source.value + source.at(batch, z, y),
               static_cast<ptrdiff_t>(source.stride[axis]), m, row);
      rows[count++] = row;
    }
  }
  if (!odd(c, 2)) {
    combine(rows, count, 0, m, out);
    if (count == 0) {
      for (size_t i = 0; i < m; ++i) {
        out[i] = predict_point(c, batch, {z, y, i});
      }
    }
    return;
  }
  const Plane<W>& source = planes_[c ^ 1U];
  const size_t two_sided = std::min(m, source.end[2] > 1 ? static_cast<size_t>(source.end[2] - 1) : 0);
  W* row = memory_.row[count].data();
  line_row(source, source.value + source.at(batch, z, y), two_sided, row);
  rows[count] = row;
  combine(rows, count + 1, 0, two_sided, out);
  combine(rows, count, two_sided, m, out);
  for (size_t i = two_sided; i < m && count == 0; ++i) {
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
  axis_row(taps_for(true, true, true, cubic_), b + first, 1, last - first, out + first);
  for (size_t i = last; i < count; ++i) {
    edge(i);
  }
}

/// out[i] = the mean of `count` rows (0 to 3) for begin <= i < end.
template <typename W>
void LevelStep<W>::combine(const std::array<const W*, 3>& rows, unsigned count, size_t begin, size_t end, W* out) {
  if (count == 1) {
    for (size_t i = begin; i < end; ++i) {
      out[i] = finite_or_zero(mean_of(rows[0][i]));
    }
  } else if (count == 2) {
    for (size_t i = begin; i < end; ++i) {
      out[i] = finite_or_zero(mean_of(rows[0][i], rows[1][i]));
    }
  } else if (count == 3) {
    for (size_t i = begin; i < end; ++i) {
      out[i] = finite_or_zero(mean_of(rows[0][i], rows[1][i], rows[2][i]));
    }
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
        for (unsigned x = 0; x < 2; ++x) {
          const Plane<W>& from = planes_[c | x];
          const ptrdiff_t row = from.at(batch, z / 2, y / 2);
          const size_t m = x == 0 ? (n[2] + 1) / 2 : n[2] / 2;
          for (size_t i = 0; i < m; ++i) {
            value[out + 2 * i + x] = from.value[row + static_cast<ptrdiff_t>(i)];
            activity[out + 2 * i + x] = from.activity[row + static_cast<ptrdiff_t>(i)];
          }
        }
      }
    }
  }
}

template class LevelStep<float>;
template class LevelStep<double>;
template class LevelStep<int32_t>;
template class LevelStep<int64_t>;

}  // namespace varve::codec
