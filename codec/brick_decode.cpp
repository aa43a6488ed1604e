// Decoding a tile's coarse record and a brick's levels. Nothing that is read is trusted.
#include <fmt/format.h>

#include "codec/coding.h"
#include "codec/record.h"

namespace varve::codec {

namespace {

template <typename W>
class Decoder {
 public:
  explicit Decoder(const Settings& settings) : coding_(settings), settings_(settings) {}

  /// Points of the records to come: where their elements go, and the level of the layout's points.
  void target(std::byte* out, const Layout& layout, unsigned unit) {
    out_ = out;
    layout_ = &layout;
    unit_ = unit;
  }

  Status coarse(std::span<const std::byte> record, const Dims& tile, size_t points, W* value, Activity* activity) {
    VARVE_TRY(check_open(record, points));
    walk_coarse<W>(tile, settings_.geometry.coarse_shift, settings_.cubic, memory_, *this, value, activity);
    return reader_.finish();
  }

  Status brick(const CoarseWindow<W>& window, const Dims& dims,
               const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t finest) {
    BrickOp op{*this, dims, levels, finest, {}};
    walk_brick<W>(dims, window.plane(), settings_.cubic, memory_, op);
    return op.status;
  }

  // What walk_coarse calls.
  void anchors(W* value, Activity* activity, const Dims& dims, unsigned level) {
    const size_t count = dims.count();
    uint8_t* contexts = contexts_.reserve(count);
    std::fill(contexts, contexts + count, uint8_t{0});
    uint8_t* tokens = read_tokens(kAnchorContext, contexts, count);
    W before{};
    for (size_t i = 0; i < count; ++i) {
      decode_row(&before, 1, level, tokens + i, contexts, value + i, activity + i,
                 out_ + layout_->batch_offset[i] * coding_.size, 1);
      before = value[i];
    }
  }
  void level(const LevelStep<W>& step, unsigned level) {
    for (const uint8_t c : kClassOrder) {
      decode_class(step, level, c);
    }
  }

 private:
  struct BrickOp {
    Decoder& self;
    const Dims& dims;
    const std::array<std::optional<std::span<const std::byte>>, 3>& levels;
    uint8_t finest;
    Status status;
    bool level(const LevelStep<W>& step, unsigned level) {
      status = self.brick_level(step, level, dims, levels.at(level), level < finest);
      return status.ok();
    }
  };

  Status brick_level(const LevelStep<W>& step, unsigned level, const Dims& dims,
                     const std::optional<std::span<const std::byte>>& record, bool preview) {
    preview_ = preview;
    const size_t points = points_of_level(dims, level);
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
    }
    this->level(step, level);
    return preview ? Status() : reader_.finish();
  }

  Status check_open(std::span<const std::byte> record, size_t points) {
    VARVE_TRY(reader_.open(record, points, coding_.size, coding_.specials.size()));
    if (settings_.tables.empty() && (reader_.method() == Method::tokens || reader_.method() == Method::zero)) {
      return Error{EBADMSG, "record is damaged: it needs frequency tables, and its array has none; restore it"};
    }
    return {};
  }

  uint8_t* read_tokens(unsigned base, const uint8_t* contexts, size_t count) {
    uint8_t* tokens = tokens_.reserve(count);
    if (!preview_ && reader_.method() == Method::tokens) {
      reader_.tokens(settings_.tables, base, contexts, count, tokens);
    } else {
      std::fill(tokens, tokens + count, static_cast<uint8_t>(kTokenZero));
    }
    return tokens;
  }

  void decode_class(const LevelStep<W>& step, unsigned level, unsigned c) {
    const Dims dims = step.class_dims(c);
    const size_t count = dims.count();
    if (count == 0) {
      return;
    }
    uint8_t* contexts = contexts_.reserve(count);
    if (preview_ || reader_.method() == Method::tokens) {
      step.contexts(c, settings_.contexts, contexts);
    }
    const uint8_t* tokens = read_tokens(context_base(level, c), contexts, count);
    const Place<std::byte> place{out_, layout_, coding_.size, level - unit_};
    const Plane<W>& plane = step.plane(c);
    const size_t m = dims.n[2];
    W* prediction = prediction_.reserve(m);
    for (size_t batch = 0; batch < dims.batch; ++batch) {
      for (size_t z = 0; z < dims.n[0]; ++z) {
        for (size_t y = 0; y < dims.n[1]; ++y, tokens += m, contexts += m) {
          step.predict_row(c, batch, z, y, prediction);
          const ptrdiff_t to = plane.at(batch, z, y);
          decode_row(prediction, m, level, tokens, contexts, plane.value + to, plane.activity + to,
                     place.row(c, batch, z, y), place.step());
        }
      }
    }
  }

  void decode_row(const W* prediction, size_t m, unsigned level, const uint8_t* tokens, const uint8_t* contexts,
                  W* value, Activity* activity, std::byte* out, size_t step) {
    W* exact = exact_.reserve(m);
    if (preview_) {
      preview_row(prediction, m, contexts, value, activity, exact);
    } else if (reader_.method() == Method::stored || reader_.method() == Method::shuffled) {
      for (size_t i = 0; i < m; ++i) {
        load_row<W>(coding_.type, reader_.exact(), 1, 1, exact + i);
        const bool special = !Coding<W>::is_finite(exact[i]) || coding_.special_index(exact[i]) >= 0;
        value[i] = special ? prediction[i] : exact[i];
        activity[i] = special ? kSpecialActivity : Activity{0};
      }
    } else {
      token_row(prediction, m, level, tokens, value, activity, exact);
    }
    store_row<W>(coding_.type, exact, m, out, step);
  }

  void preview_row(const W* prediction, size_t m, const uint8_t* contexts, W* value, Activity* activity, W* exact) {
    for (size_t i = 0; i < m; ++i) {
      const bool hole = contexts[i] == kClassContexts - 1 && !coding_.specials.empty();
      value[i] = prediction[i];
      activity[i] = hole ? kSpecialActivity : Activity{0};
      exact[i] = hole ? coding_.specials[0] : std::clamp(prediction[i], coding_.range.low, coding_.range.high);
    }
  }

  void token_row(const W* prediction, size_t m, unsigned level, const uint8_t* tokens, W* value, Activity* activity,
                 W* exact) {
    const bool lossy = settings_.scheme == Scheme::codes;
    const W quantum = lossy ? coding_.quantum(level) : W{};
    if constexpr (kIsReal<W>) {
      if (lossy && row_kernels<W>().dequantize(prediction, tokens, m, quantum, value, activity)) {
        std::copy(value, value + m, exact);
        return;
      }
    }
    for (size_t i = 0; i < m; ++i) {
      const unsigned token = tokens[i];
      if (token < kTokenZero) {
        odd_one(token, prediction[i], value + i, activity + i, exact + i);
        continue;
      }
      uint64_t code = token - kTokenZero;
      if (token >= kFirstLongToken) {
        code = code_of(token, reader_.extra(extra_bits_of(token)));
      }
      if constexpr (kIsReal<W>) {
        if (lossy) {
          const auto narrow = static_cast<uint32_t>(code);
          exact[i] = value[i] = dequantize(prediction[i], quantum, unzigzag(narrow));
          activity[i] = static_cast<Activity>(std::min<uint64_t>((code + 1) / 2, kMaxActivity));
          continue;
        }
      }
      exact[i] = from_residual(static_cast<BitsOf<W>>(code), prediction[i], coding_.range);
      value[i] = Coding<W>::is_finite(exact[i]) ? exact[i] : prediction[i];
      activity[i] = std::min(static_cast<Activity>(std::bit_width(code)), kMaxActivity);
    }
  }

  void odd_one(unsigned token, W prediction, W* value, Activity* activity, W* exact) {
    if (token == kTokenSpecial) {
      const uint8_t index = reader_.special();
      if (index == kUnlistedSpecial) {
        load_row<W>(coding_.type, reader_.exact(), 1, 1, exact);
      } else {
        *exact = coding_.specials[index];
      }
      *value = prediction;
      *activity = kSpecialActivity;
      return;
    }
    load_row<W>(coding_.type, reader_.exact(), 1, 1, exact);
    *value = Coding<W>::is_finite(*exact) ? *exact : prediction;
    *activity = kMaxActivity;
  }

  Coding<W> coding_;
  const Settings& settings_;
  LevelMemory<W> memory_;
  RecordReader reader_;
  bool preview_ = false;
  std::byte* out_ = nullptr;
  const Layout* layout_ = nullptr;
  unsigned unit_ = 0;
  Buffer<uint8_t> contexts_;
  Buffer<uint8_t> tokens_;
  Buffer<W> prediction_;
  Buffer<W> exact_;
};

/// Parts of a CoarseGrid: values, activities, elements.
struct GridParts {
  size_t points;
  size_t value;
  size_t activity() const { return points * value; }
  size_t elements() const { return activity() + points * sizeof(Activity); }
  size_t bytes(size_t element) const { return elements() + points * element; }
};

/// Layout of a grid that lies in memory by itself.
Layout grid_layout(const Dims& grid) {
  Layout layout;
  layout.dims = grid;
  layout.stride = {grid.n[1] * grid.n[2], grid.n[2], 1};
  for (size_t batch = 0; batch < grid.batch; ++batch) {
    layout.batch_offset.push_back(batch * grid.n[0] * grid.n[1] * grid.n[2]);
  }
  return layout;
}

/// Every point of a brick of a tiny array is in the coarse grid: copies them.
void copy_from_grid(const std::byte* elements, const Dims& grid, const std::array<size_t, 3>& origin,
                    const Layout& layout, size_t size, std::byte* out) {
  const Dims& dims = layout.dims;
  for (size_t batch = 0; batch < dims.batch; ++batch) {
    for (size_t z = 0; z < dims.n[0]; ++z) {
      for (size_t y = 0; y < dims.n[1]; ++y) {
        for (size_t x = 0; x < dims.n[2]; ++x) {
          const size_t from =
              ((batch * grid.n[0] + origin[0] + z) * grid.n[1] + origin[1] + y) * grid.n[2] + origin[2] + x;
          const size_t to =
              layout.batch_offset[batch] + z * layout.stride[0] + y * layout.stride[1] + x * layout.stride[2];
          std::memcpy(out + to * size, elements + from * size, size);
        }
      }
    }
  }
}

/// A brick's coarse points come from the tile's grid.
void copy_coarse_points(const std::byte* elements, const Dims& grid, const std::array<size_t, 3>& origin,
                        const Layout& layout, size_t size, std::byte* out) {
  Layout every_eighth = layout;
  every_eighth.dims = coarsen(layout.dims, 3);
  for (size_t& stride : every_eighth.stride) {
    stride *= 8;
  }
  copy_from_grid(elements, grid, origin, every_eighth, size, out);
}

}  // namespace

Result<CoarseGrid> decode_coarse(const Settings& settings, uint64_t tile, std::span<const std::byte> record) {
  const Geometry& geometry = settings.geometry;
  const Dims dims = geometry.dims_of(geometry.tile_box(tile));
  const Dims grid = coarsen(dims, geometry.coarse_shift);
  return with_work_type(settings.dtype, [&](auto zero) -> Result<CoarseGrid> {
    using W = decltype(zero);
    const GridParts parts{grid.count(), sizeof(W)};
    std::vector<W> value(parts.points);
    std::vector<Activity> activity(parts.points);
    CoarseGrid out;
    out.data.resize(parts.bytes(element_size(settings.dtype)));
    const Layout layout = grid_layout(grid);
    Decoder<W> decoder(settings);
    decoder.target(out.data.data() + parts.elements(), layout, geometry.coarse_shift);
    VARVE_TRY(decoder.coarse(record, dims, parts.points, value.data(), activity.data()));
    std::memcpy(out.data.data(), value.data(), parts.activity());
    std::memcpy(out.data.data() + parts.activity(), activity.data(), parts.points * sizeof(Activity));
    return out;
  });
}

Status decode_brick(const Settings& settings, uint64_t brick, const CoarseGrid& coarse,
                    const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t finest,
                    std::byte* out) {
  const Geometry& geometry = settings.geometry;
  const Box box = geometry.brick_box(brick);
  const Box tile = geometry.tile_box(geometry.tile_of(brick));
  const Dims grid = coarsen(geometry.dims_of(tile), geometry.coarse_shift);
  const Layout layout = geometry.layout(box, box);
  const auto origin = coarse_origin(geometry, box, tile);
  const size_t size = element_size(settings.dtype);
  return with_work_type(settings.dtype, [&](auto zero) -> Status {
    using W = decltype(zero);
    const GridParts parts{grid.count(), sizeof(W)};
    if (coarse.data.size() != parts.bytes(size)) {
      return Error{EBADMSG, fmt::format("coarse grid has {} bytes where brick {}'s tile has {}: it is another tile's",
                                        coarse.data.size(), brick, parts.bytes(size))};
    }
    const std::byte* elements = coarse.data.data() + parts.elements();
    if (geometry.coarse_shift == 0) {
      copy_from_grid(elements, grid, origin, layout, size, out);
      return {};
    }
    copy_coarse_points(elements, grid, origin, layout, size, out);
    const CoarseWindow<W> window(coarse.data.data(), coarse.data.data() + parts.activity(), grid, origin,
                                 coarsen(layout.dims, geometry.coarse_shift));
    Decoder<W> decoder(settings);
    decoder.target(out, layout, 0);
    return decoder.brick(window, layout.dims, levels, finest);
  });
}

}  // namespace varve::codec
