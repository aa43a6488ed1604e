// Encoding a tile: the coarse grid first, then each brick's levels.
#include "codec/tile_encode.h"

#include "codec/coding.h"
#include "codec/difference.h"
#include "codec/grid.h"
#include "codec/lossless.h"

namespace varve::codec {

namespace {

/// Memory for encoding; one for each thread, kept between tiles.
template <typename W>
struct Workspace {
  LevelMemory<W> levels;
  std::array<GridMemory<W>, 64> grids;  ///< by level
  Buffer<uint8_t> tokens;
  Buffer<uint8_t> contexts;
  Buffer<uint32_t> exact;
  Buffer<BitsOf<W>> wide;
  CodeDifferences<W> differences;
  Buffer<uint8_t> marks;
  Bytes coarse;
  std::vector<uint8_t> coarse_activity;
  std::vector<uint8_t> coarse_special;
  Emitter emitter;
};

template <typename W, bool kLossy>
class TileEncoder {
 public:
  TileEncoder(const Settings& settings, const std::byte* data, bool elements_only, RecordSink& sink)
      : coding_(settings),
        settings_(settings),
        shift_(settings.geometry.coarse_shift),
        thresholds_(kLossy ? kCodeThresholds : residual_thresholds(settings.residual_base)),
        data_(data),
        elements_only_(elements_only),
        sink_(sink) {
    if constexpr (kLossy) {
      bound_ = bound_below<W>(settings.work_bound);
    }
    if (sink.errors() != nullptr) {
      meter_.emplace(settings);
    }
  }
  ~TileEncoder() {
    if (meter_) {
      *sink_.errors() = meter_->errors();
    }
  }
  TileEncoder(const TileEncoder&) = delete;
  TileEncoder& operator=(const TileEncoder&) = delete;

  void coarse(uint64_t tile, const Box& box, const Layout& layout) {
    layout_ = &layout;
    differences_ = DifferenceAxis(settings_, box);
    load_coarse();
    const Dims grid = coarsen(layout.dims, shift_);
    Plane<W> plane;
    for (const bool elements : {false, true}) {
      if (elements_only_ && !elements) {
        continue;
      }
      start_record(elements);
      plane = walk_coarse<W>(layout.dims, shift_, coding_, work_.levels, *this);
      if (finish_record({kCoarseLevel, tile}, grid.count())) {
        break;
      }
    }
    keep_coarse(plane, grid);
  }

  void brick(uint64_t number, const Box& box, const Layout& layout, const std::array<size_t, 3>& origin) {
    layout_ = &layout;
    differences_ = DifferenceAxis(settings_, box);
    number_ = number;
    if (predicts()) {
      load_brick();
    }
    const Plane<W> window = coarse_window<W>(coarse_, origin, coarsen(layout.dims, shift_), work_.levels);
    BrickOp op{*this};
    walk_brick<W>(layout.dims, window, coding_, work_.levels, op);
  }

  // What walk_coarse calls.
  void anchors(const Plane<W>& plane, const Dims& dims, unsigned level) {
    const size_t count = dims.count();
    uint8_t* tokens = work_.tokens.reserve(count + kSlackBytes);
    W before{};
    const GridView<W>& view = work_.grids[level].view();
    for (size_t i = 0; i < count && !stopped_; ++i) {
      // A class of one point with one source along x: what it predicts from is the anchor before.
      std::array<W, 64> line{};
      std::array<W, 64> value{};
      std::fill_n(line.begin(), 16, before);
      EncodeJob<W> job = make_job(count);
      job.shape = {1, 1, 1, 1};
      job.source[2] = {line.data() + 8, {}, 0, 1};
      job.one_sided = true;
      job.value = value.data() + 1;
      job.x = view.at + view.item_offset[i];
      const size_t zero = 0;
      job.item_offset = &zero;
      job.x_end = view.end;
      run(job, 0, level, i, tokens + i);
      put_lists(job, {1, {1, 1, 1}}, 0, level, i);
      const ptrdiff_t at = plane.strides.at(i, 0, 0);
      plane.value[at] = before = value[1];
      plane.activity[at] = 0;
      if (plane.special != nullptr) {
        plane.special[at] = tokens[i] == kTokenSpecial || (elements_ && tokens[i] == kTokenExact) ? 1 : 0;
      }
    }
    if (!elements_ && !stopped_) {
      work_.emitter.add_anchors(tokens, count);
      for (size_t i = 0; i < count; ++i) {
        plane.activity[plane.strides.at(i, 0, 0)] = activity_of(tokens[i]);
      }
    }
  }
  void level(Level<W>& step, unsigned level) {
    for (const uint8_t c : kClassOrder) {
      if (step.dims(c).count() > 0 && !stopped_) {
        encode_class(step, level, c);
      }
    }
  }
  /// Nobody needs more: something changed, and that was the question.
  bool stopped() const { return stopped_; }

 private:
  struct BrickOp {
    TileEncoder& self;
    bool level(Level<W>& step, unsigned level) {
      const size_t points = points_of_level(self.layout_->dims, level);
      for (const bool elements : {false, true}) {
        if (points == 0 || self.stopped_ || (self.elements_only_ && !elements)) {
          continue;
        }
        self.start_record(elements);
        if (self.predicts()) {
          self.level(step, level);
        }
        if (elements) {
          self.store_level(level);
        }
        if (self.finish_record({static_cast<uint8_t>(level), self.number_}, points)) {
          break;
        }
      }
      if (self.meter_) {
        self.meter_->level(step, level, coarsen(self.layout_->dims, level), self.reach_, self.coding_);
      }
      return true;
    }
  };

  /// Elements of bricks that are stored as such are predicted for the sake of views alone.
  bool predicts() const { return !elements_only_ || meter_.has_value(); }

  uint8_t activity_of(uint8_t token) const {
    if (token == kTokenExact) {
      return kMaxActivity;
    }
    return static_cast<uint8_t>(
        std::count_if(thresholds_.begin(), thresholds_.end(), [&](uint8_t threshold) { return token >= threshold; }));
  }

  const std::byte* element(size_t item, size_t z, size_t y, size_t x) const {
    const auto& stride = layout_->stride;
    return data_ + (layout_->batch_offset[item] + z * stride[0] + y * stride[1] + x * stride[2]) * coding_.size;
  }
  /// Of a point of class c of a level; of anchors (c = 0): item `item`.
  const std::byte* element_of(unsigned c, unsigned level, size_t item, size_t z, size_t y, size_t x) const {
    if (c == 0) {
      return element(item, 0, 0, 0);
    }
    return element(item, (2 * z + (c >> 2 & 1U)) << level, (2 * y + (c >> 1 & 1U)) << level,
                   (2 * x + (c & 1U)) << level);
  }

  /// Grids of the coarse levels: every 2^shift-th point, and so on up.
  void load_coarse() {
    const Dims grid = coarsen(layout_->dims, shift_);
    W* to = work_.grids[shift_].reserve(grid);
    const size_t step = layout_->stride[2] << shift_;
    for_each_row(grid, [&](size_t item, size_t z, size_t y) {
      coding_.load(element(item, z << shift_, y << shift_, 0), step, grid.n[2], to);
      to += grid.n[2];
    });
    const unsigned top = std::max(top_level(layout_->dims), shift_);
    for (unsigned level = shift_; level < top; ++level) {
      halve(level);
    }
  }

  /// Grids of levels 0, 1 and 2 of a brick.
  void load_brick() {
    const Dims& dims = layout_->dims;
    const bool in_place = kIsReal<W> && !coding_.mapped && layout_->stride[2] == 1 &&
                          reinterpret_cast<uintptr_t>(data_) % alignof(W) == 0;
    if (in_place) {
      const auto* at = reinterpret_cast<const W*>(data_);
      const size_t last = layout_->batch_offset.back() + (dims.n[0] - 1) * layout_->stride[0] +
                          (dims.n[1] - 1) * layout_->stride[1] + dims.n[2];
      grid0_ = {at, layout_->batch_offset.data(), static_cast<ptrdiff_t>(layout_->stride[0]),
                static_cast<ptrdiff_t>(layout_->stride[1]), at + last};
    } else {
      W* to = work_.grids[0].reserve(dims);
      for_each_row(dims, [&](size_t item, size_t z, size_t y) {
        coding_.load(element(item, z, y, 0), layout_->stride[2], dims.n[2], to);
        to += dims.n[2];
      });
      grid0_ = work_.grids[0].view();
    }
    halve(0);
    halve(1);
  }

  const GridView<W>& grid(unsigned level) const {
    return level == 0 && shift_ > 0 ? grid0_ : work_.grids[level].view();
  }

  /// The grid of the level above.
  void halve(unsigned level) {
    const GridView<W> from = grid(level);
    const Dims dims = coarsen(layout_->dims, level + 1);
    W* to = work_.grids[level + 1].reserve(dims);
    for_each_row(dims, [&](size_t item, size_t z, size_t y) {
      const W* row = from.at + from.item_offset[item] + static_cast<ptrdiff_t>(2 * z) * from.slab +
                     static_cast<ptrdiff_t>(2 * y) * from.row;
      typed<W>(kernels()).every_second(row, from.end, dims.n[2], to);
      to += dims.n[2];
    });
  }

  void keep_coarse(const Plane<W>& plane, const Dims& grid) {
    const size_t count = grid.count();
    work_.coarse.resize(count * sizeof(W));
    work_.coarse_activity.resize(count);
    work_.coarse_special.resize(count);
    size_t to = 0;
    const size_t m = grid.n[2];
    for_each_row(grid, [&](size_t item, size_t z, size_t y) {
      const ptrdiff_t at = plane.strides.at(item, z, y);
      std::memcpy(work_.coarse.data() + to * sizeof(W), plane.value + at, m * sizeof(W));
      std::memcpy(work_.coarse_activity.data() + to, plane.activity + at, m);
      if (plane.special != nullptr) {
        std::memcpy(work_.coarse_special.data() + to, plane.special + at, m);
      }
      to += m;
    });
    coarse_ = {grid, work_.coarse.data(), work_.coarse_activity.data(),
               plane.special != nullptr ? work_.coarse_special.data() : nullptr};
  }

  void start_record(bool elements) {
    elements_ = elements;
    reach_ = {};
    work_.emitter.clear();
    stored_.clear();
  }
  bool finish_record(RecordId id, size_t points) {
    if (elements_) {
      sink_.elements(id, pack_elements(stored_, coding_.size));
      return true;
    }
    return sink_.tokens(id, work_.emitter, points);
  }

  /// The elements of a brick's level, in C order.
  void store_level(unsigned level) {
    const auto& stride = layout_->stride;
    stored_.resize(points_of_level(layout_->dims, level) * coding_.size);
    std::byte* to = stored_.data();
    for_each_level_row(coarsen(layout_->dims, level),
                       [&](const std::array<size_t, 3>& row, size_t offset, size_t step, size_t count) {
                         const std::byte* from = element(row[0], row[1] << level, row[2] << level, offset << level);
                         copy_elements(from, (step << level) * stride[2], count, coding_.size, to, 1);
                         to += count * coding_.size;
                       });
  }

  EncodeJob<W> make_job(size_t points) {
    EncodeJob<W> job;
    job.special = coding_.specials.data();
    job.specials = coding_.specials.size();
    job.width = coding_.width();
    job.exact = work_.exact.reserve(points);
    job.wide = work_.wide.reserve(points + 64);
    return job;
  }

  void run(EncodeJob<W>& job, unsigned c, unsigned level, size_t item, uint8_t* tokens) {
    job.measure = meter_.has_value() && level <= 1;
    encode(job, c, level, item, tokens);
    if (job.measure) {
      measure(job, c);
    }
  }

  void measure(const EncodeJob<W>& job, unsigned c) {
    double reach = static_cast<double>(job.reach);
    if (kLossy && !elements_) {
      uint64_t code = 0;
      if (job.wide_count > 0) {
        code = typed<W>(kernels()).largest_code(job.wide, job.wide_count);
      } else if (const uint8_t most = kernels().largest_byte(job.tokens, job.shape.points()); most > kTokenZero) {
        code = most - kTokenZero;
      }
      reach = std::max(reach, static_cast<double>((code + 1) / 2) * static_cast<double>(job.quantum));
    }
    reach_.at(c) = std::max(reach_.at(c), reach);
  }

  /// Quantizes, or takes exact residuals: those give the values that records of elements need, too.
  void encode(EncodeJob<W>& job, unsigned c, unsigned level, size_t item, uint8_t* tokens) {
    job.tokens = tokens;
    if constexpr (kLossy) {
      if (!elements_) {
        job.quantum = coding_.quantum(level);
        job.reciprocal = W(1) / job.quantum;
        job.bound = bound_;
        typed<W>(kernels()).encode_codes(job);
        if (coding_.mapped) {
          keep_bound(job, c, level, item);
        }
        count_changes(job, c, level, item);
        return;
      }
    }
    typed<W>(kernels()).encode_residuals(job);
  }

  static Dims dims_of(const ClassShape& n) { return {n.items, {n.slabs, n.rows, n.count}}; }

  /// What a work value is stored as may break the bound although the work value keeps it, or be a missing value that
  /// the element is not: such points become exact.
  void keep_bound(EncodeJob<W>& job, unsigned c, unsigned level, size_t first_item) {
    const Dims dims = dims_of(job.shape);
    const size_t count = dims.count();
    uint8_t* bad = work_.marks.reserve(count + kSlackBytes);
    std::fill_n(bad, count, uint8_t{0});
    const size_t step = layout_->stride[2] * (size_t{2} << level);
    uint8_t* row = bad;
    for_each_row(dims, [&](size_t item, size_t z, size_t y) {
      const W* value = job.value + job.strides.at(item, z, y);
      mark_broken<W>(coding_.type, settings_.mapping, element_of(c, level, first_item + item, z, y, 0), step, value,
                     dims.n[2], row);
      coding_.mark_stored_specials(value, dims.n[2], row);
      row += dims.n[2];
    });
    unsigned any = 0;
    for (size_t i = 0; i < count; ++i) {
      bad[i] &= job.tokens[i] >= kTokenZero ? 1U : 0U;  // the others are exact as it is
      any |= bad[i];
    }
    if (any != 0) {
      make_exact(job, c, level, first_item, bad);
      job.reach += bound_;  // their codes were within it
    }
  }

  /// Makes coded points exact, those with bad[i] != 0.
  void make_exact(EncodeJob<W>& job, unsigned c, unsigned level, size_t first_item, const uint8_t* bad) {
    size_t position = 0;
    size_t wide_seen = 0;
    job.exact_count = job.wide_count = 0;
    for_each_row(dims_of(job.shape), [&](size_t item, size_t z, size_t y) {
      W* value = job.value + job.strides.at(item, z, y);
      for (size_t x = 0; x < job.shape.count; ++x, ++position) {
        uint8_t& token = job.tokens[position];
        const bool wide = token >= kFirstWideToken;
        if (bad[position] != 0) {
          token = kTokenExact;
          coding_.load(element_of(c, level, first_item + item, z, y, x), 1, 1, value + x);
        } else if (wide) {
          job.wide[job.wide_count++] = job.wide[wide_seen];
        }
        wide_seen += wide ? 1 : 0;
        if (token == kTokenExact) {
          job.exact[job.exact_count++] = static_cast<uint32_t>(position);
        }
      }
      if (job.pads) {
        typed<W>(kernels()).pad_row(value, job.shape.count);
      }
    });
  }

  void count_changes(const EncodeJob<W>& job, unsigned c, unsigned level, size_t first_item) {
    uint64_t* changed = sink_.changed();
    if (changed == nullptr) {
      return;
    }
    const uint8_t* token = job.tokens;
    for_each_row(dims_of(job.shape), [&](size_t item, size_t z, size_t y) {
      const W* value = job.value + job.strides.at(item, z, y);
      for (size_t x = 0; x < job.shape.count; ++x, ++token) {
        std::array<std::byte, 8> stored{};
        coding_.store(value + x, 1, stored.data(), 1);
        const bool same =
            std::memcmp(stored.data(), element_of(c, level, first_item + item, z, y, x), coding_.size) == 0;
        *changed += *token < kTokenZero || same ? 0 : 1;
      }
    });
    stopped_ = *changed > 0;
  }

  void encode_class(Level<W>& step, unsigned level, unsigned c) {
    const Dims& dims = step.dims(c);
    const size_t count = dims.count();
    EncodeJob<W> job = make_job(count);
    step.describe(c, job);
    const GridView<W>& from = grid(level);
    job.x = from.at + static_cast<ptrdiff_t>(c >> 2 & 1U) * from.slab + static_cast<ptrdiff_t>(c >> 1 & 1U) * from.row +
            static_cast<ptrdiff_t>(c & 1U);
    job.item_offset = from.item_offset;
    job.x_strides = {0, 2 * from.slab, 2 * from.row};
    job.x_end = from.end;
    uint8_t* tokens = work_.tokens.reserve(count + kSlackBytes);
    run(job, c, level, 0, tokens);
    if (differences_ && !elements_) {
      job.wide_count = work_.differences.take(tokens, count, differences_.steps(dims), job.wide);
    }
    put_lists(job, dims, c, level, 0);
    if (elements_) {
      uint8_t* marks = work_.marks.reserve(count + kSlackBytes);
      std::transform(tokens, tokens + count, marks, [](uint8_t token) {
        return static_cast<uint8_t>(token == kTokenSpecial || token == kTokenExact ? 1 : 0);
      });
      step.mark_elements(c, marks);
      return;
    }
    uint8_t* contexts = work_.contexts.reserve(count + kSlackBytes);
    step.contexts(c, contexts);
    step.mark(c, tokens, thresholds_);
    work_.emitter.add_class(context_base(level, odd_axes(c)), tokens, contexts, count);
  }

  /// What belongs to the tokens of a class (or of anchor `item`) but is not in them.
  void put_lists(const EncodeJob<W>& job, const Dims& dims, unsigned c, unsigned level, size_t item) {
    const auto place = [&](size_t position) {
      const size_t x = position % dims.n[2];
      const size_t y = position / dims.n[2] % dims.n[1];
      const size_t z = position / dims.n[2] / dims.n[1] % dims.n[0];
      const size_t i = position / dims.n[2] / dims.n[1] / dims.n[0];
      return element_of(c, level, item + i, z, y, x);
    };
    if (elements_ && level < shift_) {
      return;  // a brick's: see store_level()
    }
    if (elements_) {
      for (size_t position = 0; position < dims.count(); ++position) {
        const std::byte* from = place(position);
        stored_.insert(stored_.end(), from, from + coding_.size);
      }
      return;
    }
    work_.emitter.add_wide(job.wide, job.wide_count);
    for (size_t k = 0; k < job.exact_count; ++k) {
      work_.emitter.exact(place(job.exact[k]), coding_.size);
    }
    if (settings_.specials.size() < 2) {
      return;
    }
    for (size_t position = 0; position < dims.count(); ++position) {
      if (job.tokens[position] == kTokenSpecial) {
        uint64_t bits = 0;
        std::memcpy(&bits, place(position), coding_.size);
        work_.emitter.special(coding_.special_index(bits));
      }
    }
  }

  static Workspace<W>& workspace() {
    thread_local Workspace<W> held;
    return held;
  }

  Coding<W> coding_;
  const Settings& settings_;
  unsigned shift_;
  Thresholds thresholds_;
  const std::byte* data_;
  bool elements_only_;
  RecordSink& sink_;
  Workspace<W>& work_ = workspace();
  W bound_{};
  const Layout* layout_ = nullptr;
  DifferenceAxis differences_;
  uint64_t number_ = 0;
  bool elements_ = false;
  bool stopped_ = false;
  GridView<W> grid0_;
  CoarsePoints<W> coarse_;
  Bytes stored_;
  std::optional<ViewMeter<W>> meter_;  ///< of views, if anybody asks
  std::array<double, 8> reach_{};      ///< of the record so far: see LevelReach
};

template <typename Encoder>
void encode_with(Encoder&& encoder, const Geometry& geometry, uint64_t tile, BrickChoice choice) {
  const Box box = geometry.tile_box(tile);
  const Layout layout = geometry.layout(box, box);
  encoder.coarse(tile, box, layout);
  if (geometry.coarse_shift == 0 || choice.step == 0 || encoder.stopped()) {
    return;
  }
  const std::vector<uint64_t> bricks = geometry.bricks_of(tile);
  const size_t step = std::min(choice.step, bricks.size());
  for (size_t first = 0; first < bricks.size() && !encoder.stopped(); first += step) {
    // Another place within each run of `step`, so that no row or column of bricks is always or never looked at.
    const size_t i =
        step == 1 ? first : std::min(bricks.size() - 1, first + (first / step * 7 + tile * 3 + step / 2) % step);
    const Box part = geometry.brick_box(bricks[i]);
    const Layout place = geometry.layout(part, box);
    encoder.brick(bricks[i], part, place, coarse_origin(geometry, part, box));
  }
}

/// A tile of one element: records of it, without looking at points.
void encode_constant(const Settings& settings, uint64_t tile, std::span<const std::byte> element, BrickChoice choice,
                     RecordSink& sink) {
  const Geometry& geometry = settings.geometry;
  const Bytes record = pack_elements(element, element.size());
  sink.elements({kCoarseLevel, tile}, record);
  if (geometry.coarse_shift == 0 || choice.step == 0) {
    return;
  }
  for (const uint64_t brick : geometry.bricks_of(tile)) {
    const Dims dims = geometry.dims_of(geometry.brick_box(brick));
    for (uint8_t level = kCoarseLevel; level-- > 0;) {
      if (points_of_level(dims, level) > 0) {
        sink.elements({level, brick}, record);
      }
    }
  }
}

}  // namespace

void encode_records(const Settings& settings, uint64_t tile, const std::byte* data, bool elements, BrickChoice choice,
                    RecordSink& sink) {
  const bool only = elements || settings.scheme == Scheme::elements;
  if (only) {
    const size_t size = element_size(settings.dtype);
    const std::span<const std::byte> all(data, element_count(settings.geometry.tile_box(tile).shape) * size);
    if (is_constant(all, size)) {
      encode_constant(settings, tile, all.first(size), choice, sink);
      return;
    }
  }
  with_work_type(settings, [&](auto zero) {
    using W = decltype(zero);
    if constexpr (kIsReal<W>) {
      if (settings.scheme == Scheme::codes) {
        encode_with(TileEncoder<W, true>(settings, data, only, sink), settings.geometry, tile, choice);
        return;
      }
    }
    encode_with(TileEncoder<W, false>(settings, data, only, sink), settings.geometry, tile, choice);
  });
}

}  // namespace varve::codec
