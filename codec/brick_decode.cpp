// Decoding a tile's coarse record and a brick's levels. Nothing that is read is trusted.
#include <fmt/format.h>

#include "codec/coding.h"
#include "codec/difference.h"
#include "codec/record.h"

namespace varve::codec {

namespace {

/// An element whose bits are not those of its point's value.
struct Patch {
  uint64_t index;  ///< C order within the grid or box
  uint64_t bits;
};

/// Memory for decoding; one for each thread, kept between bricks.
template <typename W>
struct Workspace {
  LevelMemory<W> levels;
  RecordReader reader;
  Buffer<uint8_t> tokens;
  Buffer<uint8_t> summed;  ///< tokens of codes where those that were read are of differences
  Buffer<uint8_t> contexts;
  std::vector<W> exact;
  Buffer<BitsOf<W>> wide;
  CodeDifferences<W> differences;
  Buffer<uint32_t> places;
  std::vector<Patch> patches;
  Buffer<W> row;
  Buffer<uint8_t> marks;
};

template <typename W>
class Decoder {
 public:
  /// `box`: the tile or brick.
  Decoder(const Settings& settings, const Box& box)
      : coding_(settings),
        settings_(settings),
        lossy_(settings.scheme == Scheme::codes),
        thresholds_(lossy_ ? kCodeThresholds : residual_thresholds(settings.residual_base)),
        dims_(settings.geometry.dims_of(box)),
        differences_(settings, box) {
    work_.patches.clear();
  }

  /// The coarse grid; patches count its points.
  Result<Plane<W>> coarse(std::span<const std::byte> record, unsigned shift) {
    unit_ = shift;
    grid_ = coarsen(dims_, shift);
    VARVE_TRY(check_open(record, grid_.count()));
    Plane<W> plane = walk_coarse<W>(dims_, shift, coding_, work_.levels, *this);
    VARVE_TRY(work_.reader.finish());
    return plane;
  }

  /// The elements of a brick from level `last` (at most 2) up; `layout`: of its points of these levels.
  Status brick(const Plane<W>& window, const std::array<std::optional<std::span<const std::byte>>, 3>& levels,
               uint8_t finest, uint8_t last, const Layout& layout, std::byte* out) {
    grid_ = dims_;
    brick_ = true;
    BrickOp op{*this, levels, finest, last, layout, out, {}};
    walk_brick<W>(dims_, window, coding_, work_.levels, op);
    return op.status;
  }

  const std::vector<Patch>& patches() const { return work_.patches; }
  static LevelMemory<W>& memory() { return workspace().levels; }

  // What walk_coarse calls.
  void anchors(const Plane<W>& plane, const Dims& dims, unsigned level) {
    const size_t count = dims.count();
    uint8_t* tokens = work_.tokens.reserve(count + kSlackBytes);
    const Method method = work_.reader.method();
    if (method == Method::tokens) {
      work_.reader.anchor_tokens(settings_.tables, count, tokens);
    } else {
      std::fill_n(tokens, count, static_cast<uint8_t>(method == Method::zero ? kTokenZero : kTokenExact));
    }
    W before{};
    for (size_t i = 0; i < count; ++i) {
      std::array<W, 64> line{};
      std::array<W, 64> value{};
      std::fill_n(line.begin(), 16, before);
      std::array<uint8_t, kSlackBytes> token{tokens[i]};
      read_lists(token.data(), {1, {1, 1, 1}}, 0, level, i);
      DecodeJob<W> job = make_job(token.data(), level);
      job.shape = {1, 1, 1, 1};
      job.source[2] = {line.data() + 8, {}, 0, 1};
      job.one_sided = true;
      job.value = value.data() + 1;
      run(job);
      const ptrdiff_t at = plane.strides.at(i, 0, 0);
      plane.value[at] = before = value[1];
      const bool elements = has_elements(method);
      plane.activity[at] = elements ? uint8_t{0} : activity_of(token[0]);
      if (plane.special != nullptr) {
        plane.special[at] = token[0] == kTokenSpecial ? 1 : 0;
      }
    }
  }
  void level(Level<W>& step, unsigned level) {
    for (const uint8_t c : kClassOrder) {
      if (step.dims(c).count() > 0) {
        decode_class(step, level, c);
      }
    }
  }

 private:
  struct BrickOp {
    Decoder& self;
    const std::array<std::optional<std::span<const std::byte>>, 3>& levels;
    uint8_t finest, last;
    const Layout& layout;
    std::byte* out;
    Status status;
    bool level(Level<W>& step, unsigned level) {
      status = self.brick_level(step, level, levels.at(level), level < finest);
      if (status.ok() && level == last) {
        self.write_out(step, layout, out, static_cast<uint8_t>(finest - last));
      }
      return status.ok() && level > last;
    }
  };

  Status brick_level(Level<W>& step, unsigned level, const std::optional<std::span<const std::byte>>& record,
                     bool preview) {
    preview_ = preview;
    const size_t points = points_of_level(dims_, level);
    if (points == 0) {
      return {};
    }
    if (!preview) {
      if (!record.has_value()) {
        return Error{EBADMSG, fmt::format("the record of level {} of a brick is missing; restore it from a copy, or "
                                          "read a coarser level",
                                          level)};
      }
      VARVE_TRY(check_open(*record, points));
      if (has_elements(work_.reader.method())) {
        put_in_coding_order(step, level);
      }
    }
    this->level(step, level);
    return preview ? Status() : work_.reader.finish();
  }

  Status check_open(std::span<const std::byte> record, size_t points) {
    RecordReader& reader = work_.reader;
    VARVE_TRY(reader.open(record, points, coding_.size, settings_.specials.size()));
    if (settings_.tables.empty() && (reader.method() == Method::tokens || reader.method() == Method::zero)) {
      return Error{EBADMSG, "record is damaged: it needs frequency tables, and its array has none; restore it"};
    }
    return {};
  }

  /// A record has a level's elements in C order.
  void put_in_coding_order(const Level<W>& step, unsigned level) {
    const size_t size = coding_.size;
    const Dims grid = coarsen(dims_, level);
    std::vector<size_t> first;  // of each row, in elements
    size_t all = 0;
    for_each_level_row(grid, [&](const std::array<size_t, 3>&, size_t, size_t, size_t count) {
      first.push_back(all);
      all += count;
    });
    Bytes ordered(all * size);
    std::byte* to = ordered.data();
    const std::byte* const from = work_.reader.elements().data();
    for (const uint8_t c : kClassOrder) {
      const Dims& dims = step.dims(c);
      if (dims.count() == 0) {
        continue;
      }
      for_each_row(dims, [&](size_t item, size_t z, size_t y) {
        const size_t row = (item * grid.n[0] + 2 * z + (c >> 2 & 1U)) * grid.n[1] + 2 * y + (c >> 1 & 1U);
        const bool odd_only = (c & 6U) == 0;
        copy_elements(from + (first[row] + (odd_only ? 0 : c & 1U)) * size, odd_only ? 1 : 2, dims.n[2], size, to, 1);
        to += dims.n[2] * size;
      });
    }
    work_.reader.set_elements(std::move(ordered));
  }

  uint8_t activity_of(uint8_t token) const {
    if (token == kTokenExact) {
      return kMaxActivity;
    }
    return static_cast<uint8_t>(
        std::count_if(thresholds_.begin(), thresholds_.end(), [&](uint8_t threshold) { return token >= threshold; }));
  }

  DecodeJob<W> make_job(const uint8_t* tokens, unsigned level) const {
    DecodeJob<W> job;
    job.tokens = tokens;
    job.exact = work_.exact.data();
    job.wide = work_.wide.data();
    job.width = coding_.width();
    job.quantum = lossy_ ? coding_.quantum(level) : W{};
    return job;
  }

  void run(const DecodeJob<W>& job) const {
    if constexpr (kIsReal<W>) {
      if (lossy_) {
        typed<W>(kernels()).decode_codes(job);
        return;
      }
    }
    typed<W>(kernels()).decode_residuals(job);
  }

  void decode_class(Level<W>& step, unsigned level, unsigned c) {
    const Dims& dims = step.dims(c);
    uint8_t* tokens = class_tokens(step, level, c, dims.count());
    if (tokens != nullptr) {
      read_lists(tokens, dims, c, level, 0);
    }
    // Tokens of a preview tell what is special, and nothing else: as codes 0 they would cut predictions to the width of
    // integers, so that what overshoots would wrap around.
    DecodeJob<W> job = make_job(preview_ && !lossy_ ? nullptr : tokens, level);
    if (differences_ && tokens != nullptr && !preview_ && work_.reader.method() == Method::tokens) {
      uint8_t* const summed = work_.summed.reserve(dims.count() + kSlackBytes);
      std::memcpy(summed, tokens, dims.count());
      work_.differences.undo(summed, dims.count(), differences_.steps(dims), work_.wide.data());
      job.tokens = summed;
    }
    step.describe(c, job);
    run(job);
    const Method method = work_.reader.method();
    if (!preview_ && has_elements(method)) {
      uint8_t* marks = work_.contexts.reserve(dims.count() + kSlackBytes);
      std::transform(tokens, tokens + dims.count(), marks,
                     [](uint8_t token) { return static_cast<uint8_t>(token == kTokenSpecial ? 1 : 0); });
      step.mark_elements(c, marks);
    } else if (!brick_ || level > 0 || c != 7 || coding_.has_specials()) {  // nobody looks at those of the last class
      step.mark(c, tokens, thresholds_);
    }
  }

  /// The tokens of a class; null: all codes are 0.
  uint8_t* class_tokens(const Level<W>& step, unsigned level, unsigned c, size_t count) {
    RecordReader& reader = work_.reader;
    uint8_t* tokens = work_.tokens.reserve(count + kSlackBytes);
    uint8_t* contexts = work_.contexts.reserve(count + kSlackBytes);
    if (preview_) {
      if (!step.near_special(c)) {
        return nullptr;
      }
      step.contexts(c, contexts);
      std::transform(contexts, contexts + count, tokens, [](uint8_t context) {
        return static_cast<uint8_t>(context == kHoleContext + 2 ? kTokenSpecial : kTokenZero);
      });
      return tokens;
    }
    switch (reader.method()) {
      case Method::zero:
        return nullptr;
      case Method::tokens:
        step.contexts(c, contexts);
        return reader.class_tokens(settings_.tables, context_base(level, odd_axes(c)), contexts, count, tokens)
                   ? tokens
                   : nullptr;
      default:
        std::fill_n(tokens, count, uint8_t{kTokenExact});
        return tokens;
    }
  }

  /// Reads what belongs to the tokens of a class (or of anchor `item`): exact elements, wide codes, special values.
  /// Elements that are special are marked as such in `tokens`.
  void read_lists(uint8_t* tokens, const Dims& dims, unsigned c, unsigned level, size_t item) {
    work_.exact.clear();
    const size_t count = dims.count();
    // Which points are special is marked; only those that are not the first special value need more.
    const auto plain = static_cast<uint8_t>(settings_.specials.size() == 1 ? kTokenSpecial : kTokenZero);
    RecordReader& reader = work_.reader;
    const bool elements = !preview_ && reader.method() != Method::tokens;
    uint32_t* places = work_.places.reserve(count);
    if (!elements) {
      reader.read_wide<W>(tokens, count, work_.wide.reserve(count + kSlackBytes));
    }
    const size_t found = kernels().find_outside(tokens, count, plain, 0xff, places);
    for (size_t k = 0; k < found; ++k) {
      const size_t i = places[k];
      const uint8_t token = tokens[i];
      if (token == kTokenSpecial) {
        const uint8_t index = preview_ ? uint8_t{0} : reader.special();
        if (index > 0 && index < settings_.specials.size()) {
          work_.patches.push_back({index_of(i, dims, c, level, item), settings_.specials[index]});
        }
      } else if (token == kTokenExact) {
        uint64_t bits = 0;
        const std::byte* element = reader.exact();
        std::memcpy(&bits, element, coding_.size);
        W value{};
        coding_.load(element, 1, 1, &value);
        const bool special = elements && coding_.is_special(value);
        if (special ? bits != settings_.first_special() : !coding_.stores_as(value, bits)) {
          work_.patches.push_back({index_of(i, dims, c, level, item), bits});
        }
        if (special) {
          tokens[i] = kTokenSpecial;
        } else {
          work_.exact.push_back(value);
        }
      }
    }
    work_.exact.resize(work_.exact.size() + 1);
  }

  /// Where point `position` of class c of a level lies in the grid.
  uint64_t index_of(size_t position, const Dims& dims, unsigned c, unsigned level, size_t item) const {
    const unsigned shift = level - unit_;
    const size_t x = position % dims.n[2];
    const size_t y = position / dims.n[2] % dims.n[1];
    const size_t z = position / dims.n[2] / dims.n[1] % dims.n[0];
    const size_t i = item + position / dims.n[2] / dims.n[1] / dims.n[0];
    const bool anchor = c == 0;
    const size_t gz = anchor ? 0 : (2 * z + (c >> 2 & 1U)) << shift;
    const size_t gy = anchor ? 0 : (2 * y + (c >> 1 & 1U)) << shift;
    const size_t gx = anchor ? 0 : (2 * x + (c & 1U)) << shift;
    return ((i * grid_.n[0] + gz) * grid_.n[1] + gy) * grid_.n[2] + gx;
  }

  /// Writes the elements of a level's points and all coarser ones' from its classes, but for patches. `finest`: the
  /// finest level that was read, counted from this one.
  void write_out(const Level<W>& step, const Layout& layout, std::byte* out, uint8_t finest) {
    const size_t between = (size_t{1} << std::min(finest, kCoarseLevel)) - 1;  // bits of points below
    const Kernels& set = kernels();
    const size_t m = layout.dims.n[2];
    const bool in_place =
        kIsReal<W> && !coding_.mapped && layout.stride[2] == 1 && reinterpret_cast<uintptr_t>(out) % alignof(W) == 0;
    W* row = work_.row.reserve(m + kSlackBytes);
    const bool any_special = step.any_special();
    for_each_row(layout.dims, [&](size_t item, size_t z, size_t y) {
      const unsigned c = static_cast<unsigned>((z & 1U) << 2 | (y & 1U) << 1);
      const Plane<W>& even = step.plane(c);
      const Plane<W>& odd = step.plane(c | 1U);
      std::byte* to = out + (layout.batch_offset[item] + z * layout.stride[0] + y * layout.stride[1]) * coding_.size;
      W* target = in_place ? reinterpret_cast<W*>(to) : row;
      typed<W>(set).interleave(even.value + even.strides.at(item, z / 2, y / 2),
                               odd.value + odd.strides.at(item, z / 2, y / 2), m, target);
      if (finest > 0 && !kIsReal<W>) {
        for (size_t x = 0; x < m; ++x) {
          if (((x | y | z) & between) != 0) {  // points that were decoded may be NaN or infinite halves
            row[x] = std::clamp(row[x], coding_.range.low, coding_.range.high);
          }
        }
      }
      const uint8_t* marks = nullptr;
      if (any_special) {
        uint8_t* both = work_.marks.reserve(m + kSlackBytes);
        set.interleave8(even.special + even.strides.at(item, z / 2, y / 2),
                        odd.special + odd.strides.at(item, z / 2, y / 2), m, both);
        marks = both;
      }
      store_points(coding_, target, marks, m, in_place ? nullptr : to, layout.stride[2]);
    });
  }

  static Workspace<W>& workspace() {
    thread_local Workspace<W> held;
    return held;
  }

  Coding<W> coding_;
  const Settings& settings_;
  bool lossy_;
  Thresholds thresholds_;
  Dims dims_;
  DifferenceAxis differences_;
  Dims grid_;          ///< what patches count
  unsigned unit_ = 0;  ///< level of that grid
  Workspace<W>& work_ = workspace();
  bool preview_ = false;
  bool brick_ = false;
};

/// The bytes of a CoarseGrid: values, activities, marks of special points where the array has such, patches.
struct GridParts {
  size_t points;
  size_t value;
  bool special;
  size_t activity() const { return points * value; }
  size_t marks() const { return activity() + points; }
  size_t patches() const { return marks() + (special ? points : 0); }
  template <typename W>
  CoarsePoints<W> of(const std::byte* data, const Dims& grid) const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(data);
    return {grid, data, bytes + activity(), special ? bytes + marks() : nullptr};
  }
};

/// Writes elements in place of values.
void apply(const Patch& patch, const Layout& layout, size_t size, std::byte* out) {
  const auto& n = layout.dims.n;
  const size_t x = patch.index % n[2];
  const size_t y = patch.index / n[2] % n[1];
  const size_t z = patch.index / n[2] / n[1] % n[0];
  const size_t item = patch.index / n[2] / n[1] / n[0];
  std::memcpy(
      out + (layout.batch_offset[item] + z * layout.stride[0] + y * layout.stride[1] + x * layout.stride[2]) * size,
      &patch.bits, size);
}

/// The number of a point of a grid, which has one, among each 2^shift-th of them.
uint64_t thinned(uint64_t index, const Dims& grid, unsigned shift) {
  if (shift == 0) {
    return index;
  }
  const auto& n = grid.n;
  const Dims few = coarsen(grid, shift);
  const uint64_t x = index % n[2] >> shift;
  const uint64_t y = index / n[2] % n[1] >> shift;
  const uint64_t z = index / n[2] / n[1] % n[0] >> shift;
  return ((index / n[2] / n[1] / n[0] * few.n[0] + z) * few.n[1] + y) * few.n[2] + x;
}

/// Those of a tile's coarse grid that lie in a brick, counted in the brick's own points.
template <typename F>
void for_patches_of(std::span<const std::byte> patches, const Dims& grid, const std::array<size_t, 3>& origin,
                    const Dims& brick, unsigned shift, F&& f) {
  const Dims own = coarsen(brick, shift);
  for (size_t at = 0; at + sizeof(Patch) <= patches.size(); at += sizeof(Patch)) {
    Patch patch{};
    std::memcpy(&patch, patches.data() + at, sizeof patch);
    const size_t x = patch.index % grid.n[2] - origin[2];
    const size_t y = patch.index / grid.n[2] % grid.n[1] - origin[1];
    const size_t z = patch.index / grid.n[2] / grid.n[1] % grid.n[0] - origin[0];
    const size_t item = patch.index / grid.n[2] / grid.n[1] / grid.n[0];
    if (x < own.n[2] && y < own.n[1] && z < own.n[0] && item < own.batch) {
      patch.index = ((item * brick.n[0] + (z << shift)) * brick.n[1] + (y << shift)) * brick.n[2] + (x << shift);
      f(patch);
    }
  }
}

/// The element that all points of levels 0, 1 and 2 are, if their records say so; else nothing.
std::span<const std::byte> constant_levels(const std::array<std::optional<std::span<const std::byte>>, 3>& levels,
                                           size_t size) {
  std::span<const std::byte> all;
  for (const auto& level : levels) {
    const auto one = level.has_value() ? constant_of(*level, size) : std::span<const std::byte>();
    if (one.empty() || (!all.empty() && !std::equal(one.begin(), one.end(), all.begin()))) {
      return {};
    }
    all = one;
  }
  return all;
}

/// Puts the coarse points of a brick where they belong.
template <typename W>
void put_coarse_points(const Coding<W>& coding, const Plane<W>& window, unsigned shift, const Layout& layout,
                       std::byte* out) {
  const size_t size = coding.size;
  const Dims coarse = coarsen(layout.dims, shift);
  std::vector<W> row(coarse.n[2]);
  for_each_row(coarse, [&](size_t item, size_t z, size_t y) {
    const ptrdiff_t at = window.strides.at(item, z, y);
    std::byte* to = out + (layout.batch_offset[item] + ((z * layout.stride[0] + y * layout.stride[1]) << shift)) * size;
    const size_t step = layout.stride[2] << shift;
    std::memcpy(row.data(), window.value + at, row.size() * sizeof(W));
    store_points(coding, row.data(), window.special != nullptr ? window.special + at : nullptr, row.size(), to, step);
  });
}

/// A brick whose levels are elements alone, which need no prediction. Nothing: it has others. `together`: no other
/// elements lie between the brick's.
std::optional<Status> copy_elements_of(const std::array<std::optional<std::span<const std::byte>>, 3>& levels,
                                       size_t specials, size_t size, const Layout& layout, bool together,
                                       std::byte* out) {
  const Dims& dims = layout.dims;
  for (unsigned level = 0; level < 3; ++level) {
    const auto& record = levels.at(level);
    if (points_of_level(dims, level) > 0 &&
        (!record.has_value() || record->empty() || !has_elements(static_cast<Method>(record->front())))) {
      return std::nullopt;
    }
  }
  if (const auto element = constant_levels(levels, size); together && !element.empty()) {
    const size_t all = dims.count() * size;
    std::memcpy(out, element.data(), size);
    for (size_t done = size; done < all; done *= 2) {
      std::memcpy(out + done, out, std::min(done, all - done));
    }
    return Status();
  }
  thread_local RecordReader reader;
  for (unsigned level = 0; level < 3; ++level) {
    const size_t points = points_of_level(dims, level);
    if (points == 0) {
      continue;
    }
    if (Status opened = reader.open(*levels.at(level), points, size, specials); !opened.ok()) {
      return opened;
    }
    const std::byte* from = reader.elements().data();
    for_each_level_row(coarsen(dims, level),
                       [&](const std::array<size_t, 3>& row, size_t offset, size_t step, size_t count) {
                         const size_t at = layout.batch_offset[row[0]] + (row[1] << level) * layout.stride[0] +
                                           (row[2] << level) * layout.stride[1] + (offset << level) * layout.stride[2];
                         copy_elements(from, 1, count, size, out + at * size, (step << level) * layout.stride[2]);
                         from += count * size;
                       });
  }
  return Status();
}

}  // namespace

Result<CoarseGrid> decode_coarse(const Settings& settings, uint64_t tile, std::span<const std::byte> record) {
  const Geometry& geometry = settings.geometry;
  const Box box = geometry.tile_box(tile);
  const Dims grid = coarsen(geometry.dims_of(box), geometry.coarse_shift);
  return with_work_type(settings, [&](auto zero) -> Result<CoarseGrid> {
    using W = decltype(zero);
    Decoder<W> decoder(settings, box);
    VARVE_ASSIGN(const Plane<W> plane, decoder.coarse(record, geometry.coarse_shift));
    const GridParts parts{grid.count(), sizeof(W), plane.special != nullptr};
    CoarseGrid out;
    out.data.resize(parts.patches() + decoder.patches().size() * sizeof(Patch));
    std::byte* data = out.data.data();
    size_t to = 0;
    const size_t m = grid.n[2];
    for_each_row(grid, [&](size_t item, size_t z, size_t y) {
      const ptrdiff_t at = plane.strides.at(item, z, y);
      std::memcpy(data + to * sizeof(W), plane.value + at, m * sizeof(W));
      std::memcpy(data + parts.activity() + to, plane.activity + at, m);
      if (plane.special != nullptr) {
        std::memcpy(data + parts.marks() + to, plane.special + at, m);
      }
      to += m;
    });
    if (!decoder.patches().empty()) {
      std::memcpy(data + parts.patches(), decoder.patches().data(), decoder.patches().size() * sizeof(Patch));
    }
    return out;
  });
}

Status decode_brick(const Settings& settings, uint64_t brick, std::span<const std::byte> coarse,
                    const std::array<std::optional<std::span<const std::byte>>, 3>& levels, const BrickTarget& target,
                    std::byte* out) {
  const Geometry& geometry = settings.geometry;
  const Box box = geometry.brick_box(brick);
  const Box tile = geometry.tile_box(geometry.tile_of(brick));
  const Dims grid = coarsen(geometry.dims_of(tile), geometry.coarse_shift);
  const Dims dims = geometry.dims_of(box);
  const Layout layout = geometry.layout(target.part, target.into);
  const auto origin = coarse_origin(geometry, box, tile);
  const size_t size = element_size(settings.dtype);
  const unsigned last = std::min<unsigned>(target.last, geometry.coarse_shift);
  return with_work_type(settings, [&](auto zero) -> Status {
    using W = decltype(zero);
    const GridParts parts{grid.count(), sizeof(W), !settings.specials.empty()};
    if (coarse.size() < parts.patches() || (coarse.size() - parts.patches()) % sizeof(Patch) != 0) {
      return Error{EBADMSG, fmt::format("coarse grid has {} bytes where brick {}'s tile has {}: it is another tile's",
                                        coarse.size(), brick, parts.patches())};
    }
    const CoarsePoints<W> points = parts.of<W>(coarse.data(), grid);
    const auto patch = [&](Patch one) {
      one.index = thinned(one.index, dims, last);
      apply(one, layout, size, out);
    };
    Decoder<W> decoder(settings, box);
    const Plane<W> window =
        coarse_window<W>(points, origin, coarsen(dims, geometry.coarse_shift), Decoder<W>::memory());
    std::optional<Status> copied;
    if (last == geometry.coarse_shift) {
      copied = Status();  // all points that are asked for are coarse
    } else if (target.finest == 0) {
      copied = copy_elements_of(levels, settings.specials.size(), size, layout, target.part == target.into, out);
    }
    if (copied.has_value()) {
      VARVE_TRY(std::move(*copied));
      put_coarse_points<W>(Coding<W>(settings), window, geometry.coarse_shift - last, layout, out);
    } else {
      const uint8_t finest = std::max(target.finest, target.last);
      VARVE_TRY(decoder.brick(window, levels, finest, target.last, layout, out));
      std::for_each(decoder.patches().begin(), decoder.patches().end(), patch);
    }
    for_patches_of(coarse.subspan(parts.patches()), grid, origin, dims, geometry.coarse_shift, patch);
    return {};
  });
}

}  // namespace varve::codec
