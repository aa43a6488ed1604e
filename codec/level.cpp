#include "codec/level.h"

namespace varve::codec {

namespace {

/// Before and after a row, its end points are repeated.
void pad_bytes(uint8_t* row, size_t m) {
  row[-1] = row[0];
  row[m] = row[m - 1];
  row[m + 1] = row[m - 1];
}

}  // namespace

template <typename W>
Plane<W> PlaneMemory<W>::reserve(const Dims& dims, bool special, const std::array<size_t, 3>& before,
                                 const std::array<size_t, 3>& after) {
  constexpr size_t kAlign = 64 / sizeof(W);  // points before the first of a row, so that it lies well
  std::array<size_t, 3> n{};
  Plane<W> plane;
  for (size_t axis = 0; axis < 3; ++axis) {
    n.at(axis) = before.at(axis) + dims.n.at(axis) + after.at(axis);
    plane.first.at(axis) = -static_cast<ptrdiff_t>(before.at(axis));
    plane.last.at(axis) = static_cast<ptrdiff_t>(dims.n.at(axis) + after.at(axis));
  }
  const size_t pitch = (n[2] + 4 + kAlign - 1) / kAlign * kAlign;
  plane.strides.row = static_cast<ptrdiff_t>(pitch);
  plane.strides.slab = static_cast<ptrdiff_t>(n[1] * pitch);
  plane.strides.item = static_cast<ptrdiff_t>(n[0] * n[1] * pitch);
  const size_t size = kAlign + dims.batch * n[0] * n[1] * pitch + 2 * kSlackBytes;
  const size_t origin = kAlign + (before[0] * n[1] + before[1]) * pitch;
  plane.value = value_.reserve(size) + origin;
  plane.activity = activity_.reserve(size) + origin;
  plane.special = special ? special_.reserve(size) + origin : nullptr;
  return plane;
}

template <typename W>
Level<W>::Level(const Dims& full, const Plane<W>& even, Interpolation interpolation, LevelMemory<W>& memory)
    : full_(full), interpolation_(interpolation), memory_(memory) {
  planes_[0] = even;
  dims_[0] = class_dims(full, 0);
  for (const uint8_t c : kClassOrder) {
    dims_[c] = class_dims(full, c);
    if (dims_[c].count() > 0) {
      planes_[c] = memory.classes[c].reserve(dims_[c], even.special != nullptr);
    }
  }
  memory.scratch.reserve(4 * (full.n[2] + kSlackBytes));
  if (interpolation == Interpolation::none) {
    memory.zeros.resize(std::max(memory.zeros.size(), full.n[2] + 2 * kSlackBytes));
  }
}

template <typename W>
void Level<W>::describe(unsigned c, ClassJob<W>& job) const {
  const Dims& dims = dims_[c];
  job.shape = {dims.batch, dims.n[0], dims.n[1], dims.n[2]};
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (is_odd(c, axis)) {
      const Plane<W>& from = planes_[c ^ (4U >> axis)];
      job.source[axis] = {from.value, from.strides, from.first.at(axis), from.last.at(axis)};
    } else {
      job.source[axis] = {};
    }
  }
  if (interpolation_ == Interpolation::none) {
    // All rows from one row of zeros along x, with as many points as can be asked for.
    job.source[0] = job.source[1] = {};
    job.source[2] = {memory_.zeros.data() + kSlackBytes, {}, -2, static_cast<ptrdiff_t>(dims.n[2]) + 3};
    job.has_left = true;
  } else if (is_odd(c, 2)) {
    const auto m = static_cast<ptrdiff_t>(dims.n[2]);
    job.one_sided = m >= job.source[2].last;
    job.has_left = m - 2 >= job.source[2].first;
  }
  job.interpolation = interpolation_;
  job.pads = !is_odd(c, 2);
  job.value = planes_[c].value;
  job.strides = planes_[c].strides;
  job.scratch = memory_.scratch.data();
}

template <typename W>
void Level<W>::contexts(unsigned c, uint8_t* out) const {
  const Dims& dims = dims_[c];
  ContextJob job;
  job.shape = {dims.batch, dims.n[0], dims.n[1], dims.n[2]};
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (is_odd(c, axis)) {
      const Plane<W>& from = planes_[c ^ (4U >> axis)];
      job.activity[axis] = {from.activity, from.strides, from.first.at(axis), from.last.at(axis)};
      job.special[axis] = {from.special, from.strides, from.first.at(axis), from.last.at(axis)};
    }
  }
  job.has_special = near_special(c);
  job.contexts = out;
  kernels().contexts(job);
}

template <typename W>
bool Level<W>::near_special(unsigned c) const {
  bool any = false;
  for (unsigned axis = 0; axis < 3; ++axis) {
    any = any || (is_odd(c, axis) && planes_[c ^ (4U >> axis)].any_special);
  }
  return any;
}

template <typename W>
void Level<W>::mark(unsigned c, const uint8_t* tokens, const Thresholds& thresholds) {
  Plane<W>& plane = planes_[c];
  const Dims& dims = dims_[c];
  const auto all = static_cast<size_t>(plane.strides.item) * dims.batch + 2;
  plane.any_special =
      plane.special != nullptr && tokens != nullptr && std::memchr(tokens, kTokenSpecial, dims.count()) != nullptr;
  if (plane.special != nullptr && !plane.any_special) {
    std::memset(plane.special - 1, 0, all);
  }
  if (tokens == nullptr) {
    std::memset(plane.activity - 1, 0, all);
    return;
  }
  kernels().mark({{dims.batch, dims.n[0], dims.n[1], dims.n[2]},
                  tokens,
                  thresholds.data(),
                  plane.activity,
                  plane.any_special ? plane.special : nullptr,
                  plane.strides});
}

template <typename W>
void Level<W>::mark_elements(unsigned c, const uint8_t* special) {
  mark(c, nullptr, {});
  Plane<W>& plane = planes_[c];
  const size_t m = dims_[c].n[2];
  plane.any_special = plane.special != nullptr && std::memchr(special, 1, dims_[c].count()) != nullptr;
  if (!plane.any_special) {
    return;
  }
  for_each_row(dims_[c], [&](size_t item, size_t z, size_t y) {
    uint8_t* row = plane.special + plane.strides.at(item, z, y);
    std::copy(special, special + m, row);
    pad_bytes(row, m);
    special += m;
  });
}

template <typename W>
bool Level<W>::any_special() const {
  bool any = planes_[0].any_special;
  for (const uint8_t c : kClassOrder) {
    any = any || (dims_[c].count() > 0 && planes_[c].any_special);
  }
  return any;
}

template <typename W>
void Level<W>::assemble(Plane<W>& out) const {
  const Kernels& set = kernels();
  const size_t m = full_.n[2];
  out.any_special = any_special();
  if (out.special != nullptr && !out.any_special) {
    std::memset(out.special - 1, 0, static_cast<size_t>(out.strides.item) * full_.batch + 2);
  }
  for_each_row(full_, [&](size_t item, size_t z, size_t y) {
    const unsigned c = static_cast<unsigned>((z & 1U) << 2 | (y & 1U) << 1);
    const Plane<W>& even = planes_[c];
    const Plane<W>& odd = planes_[c | 1U];
    const ptrdiff_t p = even.strides.at(item, z / 2, y / 2);
    const ptrdiff_t q = odd.strides.at(item, z / 2, y / 2);
    const ptrdiff_t to = out.strides.at(item, z, y);
    typed<W>(set).interleave(even.value + p, odd.value + q, m, out.value + to);
    typed<W>(set).pad_row(out.value + to, m);
    set.interleave8(even.activity + p, odd.activity + q, m, out.activity + to);
    pad_bytes(out.activity + to, m);
    if (out.any_special) {
      set.interleave8(even.special + p, odd.special + q, m, out.special + to);
      pad_bytes(out.special + to, m);
    }
  });
}

template <typename W>
void Level<W>::assemble_values(const Plane<W>& out) const {
  const size_t m = full_.n[2];
  for_each_row(full_, [&](size_t item, size_t z, size_t y) {
    const unsigned c = static_cast<unsigned>((z & 1U) << 2 | (y & 1U) << 1);
    const Plane<W>& even = planes_[c];
    const Plane<W>& odd = planes_[c | 1U];
    W* const to = out.value + out.strides.at(item, z, y);
    typed<W>(kernels()).interleave(even.value + even.strides.at(item, z / 2, y / 2),
                                   odd.value + odd.strides.at(item, z / 2, y / 2), m, to);
    typed<W>(kernels()).pad_row(to, m);
  });
}

template <typename W>
void pad_rows(const Plane<W>& plane, const Dims& dims) {
  for_each_row(dims, [&](size_t item, size_t z, size_t y) {
    const ptrdiff_t at = plane.strides.at(item, z, y);
    typed<W>(kernels()).pad_row(plane.value + at, dims.n[2]);
    pad_bytes(plane.activity + at, dims.n[2]);
    if (plane.special != nullptr) {
      pad_bytes(plane.special + at, dims.n[2]);
    }
  });
}

#define VARVE_LEVEL(W)           \
  template class PlaneMemory<W>; \
  template class Level<W>;       \
  template void pad_rows(const Plane<W>&, const Dims&);
VARVE_LEVEL(float)
VARVE_LEVEL(double)
VARVE_LEVEL(int32_t)
VARVE_LEVEL(int64_t)
#undef VARVE_LEVEL

}  // namespace varve::codec
