// Encoding a tile: the coarse grid first, then each brick's levels, closed loop: predictions use what the decoder will
// have. Every element is checked against exactly what the decoder will produce.
#include "codec/coding.h"
#include "codec/record.h"

namespace varve::codec {

namespace {

/// Codes and reconstructions of a row; bad[i] != 0 where the code may not do (out of range, not finite, bound broken,
/// or -0.0). Returns whether any is bad.
///
/// The check: `bound` is a number of type W not above the bound asked for, and the rounded difference must be *below*
/// it. Rounding is monotone, so |x - r| >= bound would give a rounded difference >= bound: what passes keeps the bound.
template <typename W>
bool quantize_row(const W* x, const W* prediction, size_t m, W quantum, W reciprocal, W bound, int32_t* code, W* value,
                  uint8_t* bad) {
  using Q = Quantizer<W>;
  constexpr auto kNegativeZero = std::bit_cast<BitsOf<W>>(W(-0.0));
  unsigned any = 0;
  for (size_t i = 0; i < m; ++i) {
    const W scaled = (x[i] - prediction[i]) * reciprocal;
    const bool in_range = std::fabs(scaled) < Q::kLimit;
    const W rounded = ((in_range ? scaled : W(0)) + Q::kMagic) - Q::kMagic;
    const auto k = static_cast<int32_t>(rounded);
    const W r = dequantize(prediction[i], quantum, k);
    const bool good = static_cast<int>(in_range) & static_cast<int>(std::fabs(x[i] - r) < bound) &
                      static_cast<int>(std::bit_cast<BitsOf<W>>(x[i]) != kNegativeZero);
    code[i] = k;
    value[i] = r;
    bad[i] = good ? 0 : 1;
    any |= good ? 0U : 1U;
  }
  return any != 0;
}

/// The largest number of type W that is not above `bound`.
template <typename W>
W bound_below(double bound) {
  if (bound >= static_cast<double>(std::numeric_limits<W>::max())) {
    return std::numeric_limits<W>::max();
  }
  W below = static_cast<W>(bound);
  if (static_cast<double>(below) > bound) {
    below = std::nextafter(below, W(0));
  }
  return below;
}

struct Lossy {};
struct Exact {};

template <typename W, typename Kind>
class TileEncoder {
  static constexpr bool kLossy = std::is_same_v<Kind, Lossy>;

 public:
  /// With a tally, nothing is written and every token can be coded.
  TileEncoder(const Settings& settings, const std::byte* data, Tally* tally)
      : coding_(settings), settings_(settings), data_(data), tally_(tally) {
    if constexpr (kLossy) {
      bound_ = bound_below<W>(settings.absolute_bound);
    }
  }

  /// The coarse record; keeps the coarse grid for the bricks.
  Bytes coarse(const Layout& layout, bool elements_only) {
    layout_ = &layout;
    grid_ = coarsen(layout.dims, settings_.geometry.coarse_shift);
    grid_value_.resize(grid_.count());
    grid_activity_.resize(grid_.count());
    for (const bool elements : {false, true}) {
      if (elements_only && !elements) {
        continue;
      }
      elements_ = elements;
      start_record();
      walk_coarse<W>(layout.dims, settings_.geometry.coarse_shift, settings_.cubic, memory_, *this, grid_value_.data(),
                     grid_activity_.data());
      if (finish_record(grid_.count())) {
        break;
      }
    }
    return std::move(record_);
  }

  /// The records of levels 2, 1, 0 of a brick; empty where a level has no points.
  std::array<Bytes, 3> brick(const Layout& layout, const std::array<size_t, 3>& origin, bool elements_only) {
    layout_ = &layout;
    elements_only_ = elements_only;
    const CoarseWindow<W> window(reinterpret_cast<const std::byte*>(grid_value_.data()),
                                 reinterpret_cast<const std::byte*>(grid_activity_.data()), grid_, origin,
                                 coarsen(layout.dims, settings_.geometry.coarse_shift));
    BrickOp op{*this};
    walk_brick<W>(layout.dims, window.plane(), settings_.cubic, memory_, op);
    return std::move(brick_records_);
  }

  // What walk_coarse calls.
  void anchors(W* value, Activity* activity, const Dims& dims, unsigned level) {
    const size_t count = dims.count();
    begin_segment(kAnchorContext, count);
    contexts_row(0, count);
    W before{};
    W* x = x_.reserve(1);
    for (size_t i = 0; i < count; ++i) {
      const std::byte* at = data_ + layout_->batch_offset[i] * coding_.size;
      load_row<W>(coding_.type, at, 1, 1, x);
      code_row(x, &before, 1, level, at, 1, i, value + i, activity + i);
      before = value[i];
    }
  }
  void level(const LevelStep<W>& step, unsigned level) {
    for (const uint8_t c : kClassOrder) {
      encode_class(step, level, c);
    }
  }

 private:
  struct BrickOp {
    TileEncoder& self;
    bool level(const LevelStep<W>& step, unsigned level) { return self.brick_level(step, level); }
  };

  bool brick_level(const LevelStep<W>& step, unsigned level) {
    const size_t points = points_of_level(layout_->dims, level);
    brick_records_.at(level).clear();
    for (const bool elements : {false, true}) {
      if (points == 0 || (elements_only_ && !elements)) {
        continue;
      }
      elements_ = elements;
      start_record();
      this->level(step, level);
      if (finish_record(points)) {
        brick_records_.at(level) = std::move(record_);
        break;
      }
    }
    return true;
  }

  void start_record() {
    emitter_.clear();
    stored_.clear();
  }
  /// False: the tokens take more than the elements do; once more as elements.
  bool finish_record(size_t points) {
    const size_t raw = points * coding_.size;
    if (tally_ != nullptr) {
      emitter_.count_into(tally_->histogram);
      tally_->side_bits += emitter_.side_bits();
      tally_->points += points;
      return true;
    }
    if (elements_) {
      record_ = pack_elements(stored_, coding_.size);
      return true;
    }
    record_ = emitter_.finish(settings_.tables, coding_.size);
    return record_.size() <= raw + 1;
  }

  void begin_segment(unsigned context_base, size_t count) {
    if (elements_) {
      return;
    }
    emitter_.begin_segment(context_base, count);
    codable_below_ = kTokens;
    for (unsigned k = 0; k < kClassContexts && context_base + k < kContexts && tally_ == nullptr; ++k) {
      const FrequencyTable& table = settings_.tables.table(context_base + k);
      frequency_.at(k) = table.frequency.data();
      codable_below_ = std::min(codable_below_, table.codable_below);
    }
  }
  void contexts_row(uint8_t context, size_t count) {
    if (!elements_) {
      std::fill(emitter_.contexts(), emitter_.contexts() + count, context);
    }
  }

  void encode_class(const LevelStep<W>& step, unsigned level, unsigned c) {
    const Dims dims = step.class_dims(c);
    const size_t count = dims.count();
    if (count == 0) {
      return;
    }
    begin_segment(context_base(level, c), count);
    if (!elements_) {
      step.contexts(c, settings_.contexts, emitter_.contexts());
    }
    const Place<const std::byte> place{data_, layout_, coding_.size, level};
    const Plane<W>& plane = step.plane(c);
    const size_t m = dims.n[2];
    W* x = x_.reserve(m);
    W* prediction = prediction_.reserve(m);
    size_t at = 0;
    for (size_t batch = 0; batch < dims.batch; ++batch) {
      for (size_t z = 0; z < dims.n[0]; ++z) {
        for (size_t y = 0; y < dims.n[1]; ++y, at += m) {
          const std::byte* row = place.row(c, batch, z, y);
          load(row, place.step(), m, x);
          step.predict_row(c, batch, z, y, prediction);
          const ptrdiff_t to = plane.at(batch, z, y);
          code_row(x, prediction, m, level, row, place.step(), at, plane.value + to, plane.activity + to);
        }
      }
    }
  }

  void load(const std::byte* row, size_t step, size_t m, W* x) const {
    if constexpr (kIsReal<W>) {
      if (step == 2) {
        row_kernels<W>().every_second(row, m, x);
        return;
      }
    }
    load_row<W>(coding_.type, row, step, m, x);
  }

  /// `at`: where in the segment the row begins.
  void code_row(const W* x, const W* prediction, size_t m, unsigned level, const std::byte* row, size_t step, size_t at,
                W* value, Activity* activity) {
    if (elements_) {
      element_row(x, prediction, m, row, step, value, activity);
    } else if constexpr (kLossy) {
      lossy_row(x, prediction, m, level, row, step, at, value, activity);
    } else {
      exact_row(x, prediction, m, row, step, at, value, activity);
    }
  }

  void element_row(const W* x, const W* prediction, size_t m, const std::byte* row, size_t step, W* value,
                   Activity* activity) {
    for (size_t i = 0; i < m; ++i) {
      const bool special = !Coding<W>::is_finite(x[i]) || coding_.special_index(x[i]) >= 0;
      value[i] = special ? prediction[i] : x[i];
      activity[i] = special ? kSpecialActivity : Activity{0};
      const std::byte* element = row + i * step * coding_.size;
      stored_.insert(stored_.end(), element, element + coding_.size);
    }
  }

  bool codable(unsigned context, unsigned token) const {
    return frequency_[context] == nullptr || frequency_[context][token] != 0;
  }

  void lossy_row(const W* x, const W* prediction, size_t m, unsigned level, const std::byte* row, size_t step,
                 size_t at, W* value, Activity* activity) {
    const W quantum = coding_.quantum(level);
    uint8_t* tokens = emitter_.tokens() + at;
    if (!coding_.finite_specials && codable_below_ > kTokenZero) {
      const uint32_t limit = std::min(kDirectCodes, codable_below_ - kTokenZero);
      const QuantizeJob<W> job = {x, prediction, m, quantum, W(1) / quantum, bound_, limit, tokens, activity, value};
      if (row_kernels<W>().quantize(job)) {
        count_unchanged(x, value, tokens, m);
        return;
      }
    }
    int32_t* code = code_.reserve(m);
    uint8_t* bad = bad_.reserve(m);
    bool any = quantize_row(x, prediction, m, quantum, W(1) / quantum, bound_, code, value, bad);
    if (coding_.finite_specials) {
      for (const W special : coding_.specials) {
        for (size_t i = 0; i < m; ++i) {
          bad[i] |= same_bits(special, x[i]) ? 1 : 0;
        }
      }
      any = true;
    }
    const uint8_t* contexts = emitter_.contexts() + at;
    for (size_t i = 0; i < m; ++i) {
      if (any && bad[i] != 0 && !same_bits(x[i], value[i])) {
        tokens[i] = odd_one(x[i], prediction[i], row + i * step * coding_.size, value + i, activity + i);
        continue;
      }
      const uint32_t zigzagged = zigzag(code[i]);
      const Token token = token_of(zigzagged);
      if (!codable(contexts[i], token.token)) {
        tokens[i] = odd_one(x[i], prediction[i], row + i * step * coding_.size, value + i, activity + i);
        continue;
      }
      tokens[i] = token.token;
      activity[i] = static_cast<Activity>(std::min<uint32_t>((zigzagged + 1) / 2, kMaxActivity));
      if (token.extra_bits > 0) {
        emitter_.extra(zigzagged & ((uint64_t{1} << token.extra_bits) - 1), token.extra_bits);
      }
    }
    count_unchanged(x, value, tokens, m);
  }

  void count_unchanged(const W* x, const W* value, const uint8_t* tokens, size_t m) {
    for (size_t i = 0; i < m && tally_ != nullptr; ++i) {
      tally_->unchanged += same_bits(x[i], value[i]) || tokens[i] == kTokenSpecial ? 1 : 0;
    }
  }

  void exact_row(const W* x, const W* prediction, size_t m, const std::byte* row, size_t step, size_t at, W* value,
                 Activity* activity) {
    uint8_t* tokens = emitter_.tokens() + at;
    const uint8_t* contexts = emitter_.contexts() + at;
    for (size_t i = 0; i < m; ++i) {
      const BitsOf<W> residual = residual_of(x[i], prediction[i], coding_.range.width);
      const Token token = token_of(residual);
      if (coding_.special_index(x[i]) >= 0 || !codable(contexts[i], token.token)) {
        tokens[i] = odd_one(x[i], prediction[i], row + i * step * coding_.size, value + i, activity + i);
        continue;
      }
      tokens[i] = token.token;
      value[i] = Coding<W>::is_finite(x[i]) ? x[i] : prediction[i];
      const auto bits = static_cast<Activity>(std::bit_width(residual));
      activity[i] = std::min(bits, kMaxActivity);
      if (token.extra_bits > 0) {
        emitter_.extra(residual & ((uint64_t{1} << token.extra_bits) - 1), token.extra_bits);
      }
      if (tally_ != nullptr) {
        tally_->residual_bits += bits;
      }
    }
  }

  /// A special point or an element kept as it is; returns its token.
  uint8_t odd_one(W x, W prediction, const std::byte* element, W* value, Activity* activity) {
    const int index = coding_.special_index(x);
    const bool finite = Coding<W>::is_finite(x);
    if (index >= 0 || (!finite && kLossy)) {
      emitter_.special(index >= 0 ? static_cast<uint8_t>(index) : kUnlistedSpecial);
      if (index < 0) {
        emitter_.exact(element, coding_.size);
      }
      *value = prediction;
      *activity = kSpecialActivity;
      return kTokenSpecial;
    }
    emitter_.exact(element, coding_.size);
    *value = finite ? x : prediction;
    *activity = kMaxActivity;
    return kTokenEscape;
  }

  Coding<W> coding_;
  const Settings& settings_;
  const std::byte* data_;
  Tally* tally_;
  W bound_{};
  const Layout* layout_ = nullptr;
  bool elements_ = false;
  bool elements_only_ = false;
  LevelMemory<W> memory_;
  Emitter emitter_;
  std::array<const uint16_t*, kClassContexts> frequency_{};
  unsigned codable_below_ = kTokens;  ///< smaller tokens can be coded in every context of the segment
  Buffer<W> x_;
  Buffer<W> prediction_;
  Buffer<int32_t> code_;
  Buffer<uint8_t> bad_;
  Bytes stored_;
  Bytes record_;
  std::array<Bytes, 3> brick_records_;
  Dims grid_;
  std::vector<W> grid_value_;
  std::vector<Activity> grid_activity_;
};

/// Calls f with the encoder that the settings need.
template <typename F>
auto with_encoder(const Settings& settings, const std::byte* data, Tally* tally, F&& f) {
  return with_work_type(settings.dtype, [&](auto zero) {
    using W = decltype(zero);
    if constexpr (kIsReal<W>) {
      if (settings.scheme == Scheme::codes) {
        TileEncoder<W, Lossy> encoder(settings, data, tally);
        return f(encoder);
      }
    }
    TileEncoder<W, Exact> encoder(settings, data, tally);
    return f(encoder);
  });
}

}  // namespace

Result<std::vector<Record>> encode_tile(const Settings& settings, uint64_t tile, const std::byte* data, bool exact) {
  const Geometry& geometry = settings.geometry;
  const Box box = geometry.tile_box(tile);
  const Layout layout = geometry.layout(box, box);
  const bool elements_only = exact || settings.scheme == Scheme::elements;
  return with_encoder(settings, data, nullptr, [&](auto& encoder) -> Result<std::vector<Record>> {
    std::vector<Record> records;
    records.push_back({{kCoarseLevel, tile}, encoder.coarse(layout, elements_only)});
    if (geometry.coarse_shift == 0) {
      return records;
    }
    const std::vector<uint64_t> bricks = geometry.bricks_of(tile);
    std::array<std::vector<Record>, 3> by_level;
    for (const uint64_t number : bricks) {
      const Box part = geometry.brick_box(number);
      auto made = encoder.brick(geometry.layout(part, box), coarse_origin(geometry, part, box), elements_only);
      for (uint8_t level = 0; level < 3; ++level) {
        if (!made.at(level).empty()) {
          by_level.at(level).push_back({{level, number}, std::move(made.at(level))});
        }
      }
    }
    for (size_t level = 3; level-- > 0;) {
      std::move(by_level.at(level).begin(), by_level.at(level).end(), std::back_inserter(records));
    }
    return records;
  });
}

void tally_tile(const Settings& settings, uint64_t tile, const std::byte* data, size_t brick_step, Tally& tally) {
  const Geometry& geometry = settings.geometry;
  const Box box = geometry.tile_box(tile);
  const Layout layout = geometry.layout(box, box);
  with_encoder(settings, data, &tally, [&](auto& encoder) {
    encoder.coarse(layout, false);
    const std::vector<uint64_t> bricks = geometry.bricks_of(tile);
    const size_t step = std::min(brick_step, bricks.size());
    for (size_t first = 0; step > 0 && first < bricks.size() && geometry.coarse_shift > 0; first += step) {
      // Another place within each run of `step`, so that no row or column of bricks is always or never looked at.
      const size_t i = std::min(bricks.size() - 1, first + (first / step * 7 + tile * 3 + step / 2) % step);
      const Box part = geometry.brick_box(bricks[i]);
      encoder.brick(geometry.layout(part, box), coarse_origin(geometry, part, box), false);
    }
  });
}

uint64_t Tally::zeros() const {
  uint64_t sum = 0;
  for (const Counts& counts : histogram.counts) {
    sum += uint64_t{counts[kTokenZero]} + counts[kTokenSpecial] + counts[kTokenEscape];
  }
  return sum;
}

size_t elements_size(const Settings& settings, uint64_t tile, const std::byte* data) {
  Settings plain = settings;
  plain.scheme = Scheme::elements;
  const auto records = encode_tile(plain, tile, data, true);
  size_t size = 0;
  for (const Record& record : *records) {
    size += record.data.size();
  }
  return size;
}

}  // namespace varve::codec
