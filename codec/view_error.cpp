#include "codec/view_error.h"

#include "codec/labels.h"

namespace varve::codec {

namespace {

/// What an evaluated prediction may be off by, for each unit of its terms' magnitude, in units of the work type: six
/// roundings, and as many of the one that it is compared with.
constexpr double kRoundings = 14;
/// Above the true value by what errors are off by that were themselves computed in the work type.
constexpr double kMargin = 1 + 0x1p-20;
/// A prediction's sums stay below so many of the values that they are made of.
constexpr double kSums = 64;

/// The sum of the magnitudes of the weights that two-sided predictions give to points.
double two_sided_weight(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::none:
      return 0;
    case Interpolation::linear:
      return 1;
    case Interpolation::cubic:
      return 1.25;  // also where the outer points are extrapolated
    default:
      return 1.390625;  // 1.367 and less where they are
  }
}
constexpr double kOneSidedWeight = 2;

ClassShape shape_of(const Dims& dims) { return {dims.batch, dims.n[0], dims.n[1], dims.n[2]}; }

template <typename W>
double largest_difference(const Dims& dims, const Plane<W>& a, const Plane<W>* b) {
  CompareJob<W> job{shape_of(dims), a.value, a.strides, nullptr, {}};
  if (b != nullptr) {
    job.b = b->value;
    job.b_strides = b->strides;
  }
  return static_cast<double>(typed<W>(kernels()).largest_difference(job));
}

/// Of two elements that are numbers and not missing.
class ElementErrors {
 public:
  ElementErrors(DType type, std::span<const uint64_t> missing) : type_(type), missing_(missing) {}

  double largest(const std::byte* written, const std::byte* seen, uint64_t count) const {
    return with_element(type_, [&](auto element) {
      using E = decltype(element);
      return missing_.empty() && E::kIsInteger ? plain<E>(written, seen, count) : checked<E>(written, seen, count);
    });
  }

 private:
  template <typename E>
  static double plain(const std::byte* written, const std::byte* seen, uint64_t count) {
    if constexpr (E::kIsInteger) {
      using Bits = typename E::Bits;
      using Unsigned = std::make_unsigned_t<Bits>;
      Unsigned most = 0;
      for (uint64_t i = 0; i < count; ++i) {
        const Bits x = load_as<Bits>(written + i * sizeof(Bits));
        const Bits y = load_as<Bits>(seen + i * sizeof(Bits));
        const auto up = static_cast<Unsigned>(static_cast<Unsigned>(y) - static_cast<Unsigned>(x));
        const auto down = static_cast<Unsigned>(static_cast<Unsigned>(x) - static_cast<Unsigned>(y));
        const Unsigned distance = x < y ? up : down;
        most = distance > most ? distance : most;
      }
      return static_cast<double>(most);
    }
    return 0;
  }
  template <typename E>
  double checked(const std::byte* written, const std::byte* seen, uint64_t count) const {
    using Bits = typename E::Bits;
    double most = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const Bits x = load_as<Bits>(written + i * sizeof(Bits));
      const Bits y = load_as<Bits>(seen + i * sizeof(Bits));
      if (x == y || is_missing(x) || is_missing(y)) {
        continue;
      }
      if constexpr (E::kIsInteger) {
        most = std::max(most, static_cast<double>(E::distance(x, y)));
      } else if (E::is_finite(x) && E::is_finite(y)) {
        most = std::max(most, std::fabs(static_cast<double>(E::value(x)) - static_cast<double>(E::value(y))));
      }
    }
    return most;
  }
  template <typename Bits>
  bool is_missing(Bits bits) const {
    return std::any_of(missing_.begin(), missing_.end(),
                       [&](uint64_t value) { return static_cast<Bits>(value) == bits; });
  }

  DType type_;
  std::span<const uint64_t> missing_;
};

Bytes brick_of(const Box& brick, const Box& tile, size_t size, const std::byte* data) {
  Bytes out(element_count(brick.shape) * size);
  Box within = brick;
  for (size_t axis = 0; axis < brick.shape.size(); ++axis) {
    within.origin[axis] -= tile.origin[axis];
  }
  copy_box(tile.shape, data, within, size, out.data());
  return out;
}

/// A float's value; NaN and infinities give such.
double float_value(DType type, uint64_t bits) {
  return with_element(type, [&](auto element) -> double {
    using E = decltype(element);
    if constexpr (!E::kIsInteger) {
      return static_cast<double>(E::value(static_cast<typename E::Bits>(bits)));
    }
    return 0;
  });
}

/// Zeros that no bound lets move are special: views show there what is around them.
bool has_special_zeros(const Settings& settings) {
  const auto& specials = settings.specials;
  return (settings.bound.mode == BoundMode::pointwise || settings.bound.mode == BoundMode::bits) &&
         std::find(specials.begin(), specials.end(), uint64_t{0}) != specials.end();
}

/// Whether errors of elements are others than those of the work values that stand for them; of decimals they are, but
/// only by a factor.
bool has_own_scale(const Settings& settings) {
  return settings.is_mapped() || element_size(settings.dtype) == 2 || has_special_zeros(settings);
}

/// What elements may differ by whose orders (see OrderMapping) are at most `largest` and `error` apart. Values are
/// convex in orders and 0 at 0, so that no two orders so far apart differ more than those at the end.
double error_of_orders(DType type, double error, double largest) {
  const auto greatest = static_cast<double>(with_element(type, [](auto element) -> uint64_t {
    using E = decltype(element);
    if constexpr (!E::kIsInteger) {
      return E::kInfinity - 1;
    }
    return 0;
  }));
  const double value = float_value(type, static_cast<uint64_t>(std::min(largest, greatest)));
  if (!(largest + error <= greatest)) {
    return float_value(type, static_cast<uint64_t>(greatest)) + value;
  }
  return float_value(type, static_cast<uint64_t>(largest + error)) - value;
}

/// What decimals differ by, from what their integers of at most `largest` differ by.
double error_of_decimals(const Decimal& decimal, DType type, double error, double largest) {
  const bool single = type == DType::f32;
  const double most = largest + error;
  // Integers beyond their type would stand for something else; floats are rounded quotients.
  if (error > 0 && !(most < (single ? 0x1p31 : 0x1p63) - 2 * kMostEscapes)) {
    return std::numeric_limits<double>::infinity();
  }
  return error == 0 ? 0 : (error + (single ? 0x1p-23 : 0x1p-51) * most) / std::pow(10.0, decimal.digits);
}

/// What elements differ by, from what work values of at most `largest` differ by.
double error_of_elements(const Settings& settings, double error, double largest) {
  if (error == 0 || !has_own_scale(settings)) {
    return error;
  }
  const bool zeros = has_special_zeros(settings);
  const DType type = settings.dtype;
  if (!settings.is_mapped() && element_size(type) > 2) {
    return zeros ? std::max(error, largest + error) : error;
  }
  if (settings.is_mapped() && settings.mapping.kind == MappingKind::values) {
    // The nearest number of the type, or of its subnormal ones, which are 2^-24 or less apart.
    const int bits = static_cast<int>(mantissa_bits(type));
    return error + (largest + error) * std::ldexp(1.0, -bits - 1) + 0x1p-25 + (zeros ? largest : 0);
  }
  // Orders are rounded to whole ones, those of f64 to 2^10 as they are at most 2^63.
  const double rounding = type == DType::f64 ? 2048 : 2;
  double step = 1;
  if (settings.mapping.kind == MappingKind::rounded) {
    step = std::ldexp(1.0, static_cast<int>(mantissa_bits(type)) - settings.mapping.kept_bits);
  }
  const double scaled = error_of_orders(type, std::ceil(error + rounding) * step, std::ceil(largest + rounding) * step);
  return zeros ? std::max(scaled, error_of_orders(type, std::ceil(largest + error + rounding) * step, 0)) : scaled;
}

/// A coarser view never states less than a finer one.
void make_monotone(LevelErrors& errors) {
  for (size_t level = 1; level < errors.most.size(); ++level) {
    errors.most.at(level) = std::max(errors.most.at(level), errors.most.at(level - 1));
  }
}

}  // namespace

void LevelErrors::merge(const LevelErrors& other) {
  for (size_t level = 0; level < most.size(); ++level) {
    most.at(level) = std::max(most.at(level), other.most.at(level));
  }
}

double bound_of_level(const LevelReach& level, double even, double largest) {
  // For each class, and for its points that are the last along some of its axes and so have nothing after them there:
  // what they differ by, and how large they are. Which axes predict them: FORMAT.md, "Prediction".
  std::array<std::array<double, 8>, 8> off{};
  std::array<std::array<double, 8>, 8> size{};
  off[0][0] = even;
  size[0][0] = largest;
  unsigned ends = 0;
  for (unsigned axis = 0; axis < 3; ++axis) {
    ends |= level.dims.n.at(axis) % 2 == 0 ? 4U >> axis : 0U;
  }
  double most = even;
  double all = largest;
  const double weight = two_sided_weight(level.interpolation);
  for (const unsigned c : kClassOrder) {
    if (class_dims(level.dims, c).count() == 0) {
      continue;
    }
    for (unsigned last = 0; last < 8; ++last) {
      if ((last & ~(c & ends)) != 0) {
        continue;
      }
      double moved = 0;
      double sum = 0;
      if (const unsigned used = c & ~last; used != 0) {
        for (const unsigned axis : {4U, 2U, 1U}) {
          moved += (used & axis) != 0 ? off.at(c ^ axis).at(last) : 0;
          sum += (used & axis) != 0 ? size.at(c ^ axis).at(last) : 0;
        }
        moved *= weight / std::popcount(used);
        sum *= weight / std::popcount(used);
      } else {
        const unsigned axis = c & (0U - c);
        moved = kOneSidedWeight * off.at(c ^ axis).at(last ^ axis);
        sum = kOneSidedWeight * size.at(c ^ axis).at(last ^ axis);
      }
      const double rounding = level.unit * kRoundings * (sum + moved) + level.step;
      off.at(c).at(last) = level.reach.at(c) + moved + rounding;
      size.at(c).at(last) = level.reach.at(c) + sum + rounding;
      most = std::max(most, off.at(c).at(last));
      all = std::max(all, size.at(c).at(last));
    }
  }
  return (all + most) * kSums <= level.greatest ? most : std::numeric_limits<double>::infinity();
}

template <typename W>
LevelReach ViewErrors<W>::reach_of(const Dims& dims, const std::array<double, 8>& reach) const {
  LevelReach one{dims, settings_.interpolation, reach};
  one.greatest = static_cast<double>(std::numeric_limits<W>::max());
  if constexpr (kIsReal<W>) {
    one.unit = static_cast<double>(std::numeric_limits<W>::epsilon()) / 2;
  } else {
    one.step = 3;  // both predictions are rounded, those of three axes twice
  }
  return one;
}

template <typename W>
void ViewErrors<W>::level_2(double difference) {
  brick_ = {};
  brick_[3] = difference;
}

template <typename W>
void ViewErrors<W>::level_0(const Dims& dims, const std::array<double, 8>& reach, double known, double largest) {
  errors_.largest = std::max(errors_.largest, largest);
  const LevelReach one = reach_of(dims, reach);
  for (unsigned k = 1; k < errors_.most.size(); ++k) {
    const double error = bound_of_level(one, brick_.at(k), known);
    errors_.most.at(k) = std::max(errors_.most.at(k), error_of_elements(settings_, error, largest));
  }
}

template <typename W>
double ViewMeter<W>::difference(const Level<W>& step, Level<W>& view, const Coding<W>& coding) {
  double most = 0;
  for (const uint8_t c : kClassOrder) {
    if (view.dims(c).count() == 0) {
      continue;
    }
    DecodeJob<W> job;
    job.width = coding.width();
    view.describe(c, job);
    if constexpr (kIsReal<W>) {
      const bool codes = coding.settings->scheme == Scheme::codes;
      (codes ? typed<W>(kernels()).decode_codes : typed<W>(kernels()).decode_residuals)(job);
    } else {
      typed<W>(kernels()).decode_residuals(job);
    }
    most = std::max(most, largest_difference(view.dims(c), view.plane(c), &step.plane(c)));
  }
  return most;
}

template <typename W>
void ViewMeter<W>::level(const Level<W>& step, unsigned level, const Dims& dims, const std::array<double, 8>& reach,
                         const Coding<W>& coding) {
  const Interpolation interpolation = coding.settings->interpolation;
  Memory& held = memory();
  if (level == 2) {
    Level<W> view(dims, step.plane(0), interpolation, held.levels);
    errors_.level_2(difference(step, view, coding));
    coarsest_ = held.whole.reserve(dims, false);
    view.assemble_values(coarsest_);
    return;
  }
  const double known = largest_difference<W>(coarsen(dims, 1), step.plane(0), nullptr);
  if (level == 1) {
    errors_.level_1(dims, reach, known, [&](unsigned k) {
      Level<W> view(dims, k == 3 ? coarsest_ : step.plane(0), interpolation, held.levels);
      return difference(step, view, coding);
    });
    return;
  }
  double largest = known;
  for (const uint8_t c : kClassOrder) {
    if ((has_own_scale(*coding.settings) || !kIsReal<W>)&&step.dims(c).count() > 0) {
      largest = std::max(largest, largest_difference<W>(step.dims(c), step.plane(c), nullptr));
    }
  }
  errors_.level_0(dims, reach, known, largest);
}

template class ViewErrors<float>;
template class ViewErrors<double>;
template class ViewErrors<int32_t>;
template class ViewErrors<int64_t>;
template class ViewMeter<float>;
template class ViewMeter<double>;
template class ViewMeter<int32_t>;
template class ViewMeter<int64_t>;

bool has_metered_views(const Settings& settings, std::span<const uint64_t> missing) {
  if (settings.lorenzo.has_value()) {
    return false;
  }
  if (!settings.decimal.has_value()) {
    return is_float(settings.dtype);
  }
  const auto& escapes = settings.decimal->escapes;
  return std::all_of(escapes.begin(), escapes.end(), [&](uint64_t bits) {
    return std::find(missing.begin(), missing.end(), bits) != missing.end() ||
           !(std::fabs(float_value(settings.element_type(), bits)) <= std::numeric_limits<double>::max());
  });
}

LevelErrors errors_of_elements(const Settings& settings, const WorkErrors& work, bool exact) {
  LevelErrors out;
  out.most[0] = exact ? 0 : settings.absolute_bound;
  for (size_t level = 1; level < out.most.size(); ++level) {
    const double error = settings.decimal.has_value() ? error_of_decimals(*settings.decimal, settings.element_type(),
                                                                          work.most.at(level), work.largest)
                                                      : work.most.at(level);
    out.most.at(level) = (out.most[0] + error) * kMargin;
  }
  make_monotone(out);
  return out;
}

LevelErrors errors_of_labels(const ArrayCodec& codec, uint64_t tile, const std::byte* data,
                             std::span<const uint64_t> missing) {
  const size_t size = element_size(codec.dtype());
  const ElementErrors errors(codec.dtype(), missing);
  const Box box = codec.tile_box(tile);
  const double moved = codec.info().absolute_bound;
  LevelErrors out;
  out.most.fill(moved);
  for (const uint64_t brick : codec.bricks_of(tile)) {
    const Extents shape = codec.brick_box(brick).shape;
    const Bytes written = brick_of(codec.brick_box(brick), box, size, data);
    Bytes seen;
    for (uint8_t level = 1; level < out.most.size(); ++level) {
      const Extents steps = codec.level_steps(level);
      if (std::all_of(steps.begin(), steps.end(), [](uint64_t step) { return step == 1; })) {
        continue;
      }
      seen = written;
      repeat_samples(shape, steps, size, seen.data());
      const double error = errors.largest(written.data(), seen.data(), element_count(shape));
      out.most.at(level) =
          std::max(out.most.at(level), moved > 0 || error >= 0x1p53 ? (error + moved) * kMargin : error);
    }
  }
  make_monotone(out);
  return out;
}

Result<LevelErrors> errors_by_decoding(const ArrayCodec& codec, uint64_t tile, const std::vector<Record>& records,
                                       const std::byte* data, std::span<const uint64_t> missing) {
  const size_t size = element_size(codec.dtype());
  const ElementErrors errors(codec.dtype(), missing);
  const Box box = codec.tile_box(tile);
  std::span<const std::byte> coarse;
  std::vector<std::pair<RecordId, std::span<const std::byte>>> fine;
  for (const Record& record : records) {
    if (record.id.level == kCoarseLevel) {
      coarse = record.data;
    } else {
      fine.emplace_back(record.id, record.data);
    }
  }
  VARVE_ASSIGN(const CoarseGrid grid, codec.decode_coarse(tile, coarse));
  LevelErrors out;
  Bytes seen;
  for (const uint64_t brick : codec.bricks_of(tile)) {
    std::array<std::optional<std::span<const std::byte>>, kCoarseLevel> levels;
    for (const auto& [id, record] : fine) {
      if (id.brick == brick) {
        levels.at(id.level) = record;
      }
    }
    const Bytes written = brick_of(codec.brick_box(brick), box, size, data);
    seen.resize(written.size());
    for (uint8_t level = 0; level < out.most.size(); ++level) {
      VARVE_TRY(codec.decode_brick(brick, grid, levels, level, seen.data()));
      const double error = errors.largest(written.data(), seen.data(), written.size() / size);
      out.most.at(level) = std::max(out.most.at(level), error * kMargin);
    }
  }
  make_monotone(out);
  return out;
}

}  // namespace varve::codec
