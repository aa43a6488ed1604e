// Choosing an array's settings: which axes to predict along, quantized or exact, which tables. By trial on samples.
#include <fmt/format.h>

#include <cmath>

#include "codec/scan.h"
#include "codec/settings.h"

namespace varve::codec {

namespace {

constexpr uint64_t kTrialElements = uint64_t{1} << 16;
constexpr uint64_t kSampleElements = uint64_t{1} << 20;  ///< arrays up to here build their tables from every point
constexpr uint64_t kSampleTiles = 4;

Status check_spec(const ArraySpec& spec) {
  if (element_size(spec.dtype) == 0) {
    return Error{EINVAL, fmt::format("element type number {} is not known", static_cast<unsigned>(spec.dtype))};
  }
  if (spec.shape.size() > kMaxRank) {
    return Error{EINVAL, fmt::format("array has {} axes; at most {} can be stored", spec.shape.size(), kMaxRank)};
  }
  uint64_t count = 1;
  for (const uint64_t extent : spec.shape) {
    if (extent != 0 && count > kMaxElements / extent) {
      return Error{EINVAL, "array has more than 2^62 elements; it cannot be stored"};
    }
    count *= std::max<uint64_t>(1, extent);
  }
  if (spec.bound.mode != BoundMode::lossless && (!std::isfinite(spec.bound.value) || spec.bound.value < 0)) {
    return Error{EINVAL, fmt::format("error bound {} must be finite and not negative", spec.bound.value)};
  }
  return {};
}

/// Rounding a reconstruction moves it by about a unit in the last place: the quantum leaves room for that (`need`: as a
/// part of the bound), so that few points need to be kept exactly. Few steps, so that decoded data, whose largest
/// value moved a little, gets the quantum that it was made with.
double shrink(double need) {
  for (const double part : {0.0009765625, 0.015625, 0.0625}) {
    if (need <= part) {
      return part;
    }
  }
  return 0.25;
}

/// The middle of the array, with the longest axes cut until it has at most `limit` elements.
Box middle(const Extents& shape, uint64_t limit) {
  Box box{Extents(shape.size(), 0), shape};
  while (element_count(box.shape) > limit) {
    auto longest = std::max_element(box.shape.begin(), box.shape.end());
    *longest = (*longest + 1) / 2;
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    box.origin[axis] = (shape[axis] - box.shape[axis]) / 2;
  }
  return box;
}

/// Sets of axes worth trying: the last three longer than 1 first, then what is left of the last four.
std::vector<std::vector<uint8_t>> axis_choices(const Extents& shape) {
  std::vector<uint8_t> axes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] > 1) {
      axes.push_back(static_cast<uint8_t>(axis));
    }
  }
  if (axes.empty() && !shape.empty()) {
    axes.push_back(static_cast<uint8_t>(shape.size() - 1));
  }
  if (axes.size() > 4) {
    axes.erase(axes.begin(), axes.end() - 4);
  }
  std::vector<std::vector<uint8_t>> choices;
  for (size_t size = std::min<size_t>(3, axes.size()); size > 0; --size) {
    for (unsigned set = (1U << axes.size()); set-- > 1;) {
      std::vector<uint8_t> choice;
      for (size_t k = 0; k < axes.size(); ++k) {
        if ((set >> k & 1U) != 0) {
          choice.push_back(axes[k]);
        }
      }
      if (choice.size() == size) {
        choices.push_back(std::move(choice));
      }
    }
  }
  if (choices.empty()) {
    choices.emplace_back();
  }
  return choices;
}

class Planner {
 public:
  Planner(const ArraySpec& spec, const ReadBox& read) : spec_(spec), read_(read) {}

  Result<Settings> run() {
    VARVE_TRY(check_spec(spec_));
    base_.dtype = spec_.dtype;
    const bool lossy_type = spec_.dtype == DType::f32 || spec_.dtype == DType::f64;
    base_.bound = lossy_type && spec_.bound.value > 0 ? spec_.bound : Bound{};
    choices_ = axis_choices(spec_.shape);
    if (element_count(spec_.shape) == 0) {
      base_.geometry = Geometry::make(spec_.shape, choices_[0]);
      return base_;
    }
    VARVE_ASSIGN(scan_, scan_array(spec_, read_));
    set_specials();
    set_bound();
    VARVE_TRY(read_trial());
    choose();
    VARVE_TRY(build_tables());
    return base_;
  }

 private:
  void set_specials() {
    base_.specials = scan_.hidden;
    base_.specials.insert(base_.specials.end(), scan_.fills.begin(), scan_.fills.end());
    if (base_.specials.size() >= kMaxSpecials) {  // too many to tell apart cheaply: nothing is worth a bound then
      base_.specials.clear();
      base_.bound = Bound{};
    }
    if (scan_.not_finite.has_value() &&
        std::find(base_.specials.begin(), base_.specials.end(), *scan_.not_finite) == base_.specials.end()) {
      base_.specials.push_back(*scan_.not_finite);
    }
  }

  void set_bound() {
    // Without undeclared missing values: they would widen a relative bound until it wipes the data out. A tighter bound
    // keeps the promise, and they themselves are stored exactly.
    base_.min = scan_.rest_min;
    base_.max = scan_.rest_max;
    if (base_.bound.mode == BoundMode::lossless || scan_.counted == 0) {
      return;
    }
    double bound = base_.bound.value;
    if (base_.bound.mode == BoundMode::relative) {
      bound = std::isfinite(base_.max - base_.min) ? bound * (base_.max - base_.min)
                                                   : bound * base_.max - bound * base_.min;
      bound = std::min(bound, std::numeric_limits<double>::max());
    }
    base_.bound_exceeds_range = bound > base_.max - base_.min;
    const double most = std::max(std::fabs(scan_.rest_min), std::fabs(scan_.rest_max));
    const bool wide = spec_.dtype == DType::f64;
    const double largest = wide ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
    // A bound beyond eight times every magnitude makes every code 0 on every level: no need for larger numbers.
    const double useful = std::min({bound, most < largest / 128 ? 8 * most : largest / 16, largest / 16});
    const double unit = most > 0 ? std::ldexp(1.0, std::ilogb(most) - (wide ? 52 : 23)) : 0;
    const double quantum = 2 * useful * (1 - shrink(1.5 * unit / useful));
    const double least = wide ? double{std::numeric_limits<double>::min()} : double{std::numeric_limits<float>::min()};
    if (most > 0 && quantum / 2 > least && 2 / quantum < largest) {
      base_.absolute_bound = bound;
      base_.quantum = quantum;
    }
  }

  Status read_trial() {
    const Box box = middle(spec_.shape, kTrialElements);
    trial_shape_ = box.shape;
    trial_.resize(element_count(box.shape) * element_size(spec_.dtype));
    return read_(box, trial_.data());
  }

  /// Settings for the trial box as an array by itself.
  Settings on_trial(Scheme scheme, const std::vector<uint8_t>& axes, bool cubic) const {
    Settings made = base_;
    made.scheme = scheme;
    made.cubic = cubic;
    made.geometry = Geometry::make(trial_shape_, axes);
    made.make_contexts();
    return made;
  }

  Tally try_out(const Settings& settings) const {
    Tally tally;
    for (uint64_t tile = 0; tile < settings.geometry.tile_count(); ++tile) {
      tally_tile(settings, tile, tile_of_trial(settings.geometry, tile).data(), 1, tally);
    }
    return tally;
  }

  Bytes tile_of_trial(const Geometry& geometry, uint64_t tile) const {
    const Box box = geometry.tile_box(tile);
    if (box.shape == trial_shape_) {
      return trial_;
    }
    const size_t size = element_size(spec_.dtype);
    Bytes out;
    out.reserve(element_count(box.shape) * size);
    // A tile's elements in C order: runs along the last axis.
    const size_t rank = box.shape.size();
    const uint64_t run = box.shape[rank - 1];
    Extents index(rank, 0);
    while (true) {
      uint64_t at = 0;
      for (size_t axis = 0; axis < rank; ++axis) {
        at = at * trial_shape_[axis] + box.origin[axis] + index[axis];
      }
      const std::byte* from = trial_.data() + at * size;
      out.insert(out.end(), from, from + run * size);
      size_t axis = rank - 1;
      while (axis > 0 && ++index[axis - 1] == box.shape[axis - 1]) {
        index[--axis] = 0;
      }
      if (axis == 0) {
        return out;
      }
    }
  }

  struct Choice {
    double bits = std::numeric_limits<double>::infinity();
    std::vector<uint8_t> axes;
    bool cubic = true;
  };

  /// Every choice with the bits that the trial box takes, best first.
  std::vector<Choice> rank_axes(Scheme scheme) const {
    std::vector<Choice> ranked;
    const auto consider = [&](const std::vector<uint8_t>& axes, bool cubic) {
      ranked.push_back({try_out(on_trial(scheme, axes, cubic)).bits(), axes, cubic});
    };
    const auto sort = [&] {
      std::stable_sort(ranked.begin(), ranked.end(), [](const Choice& p, const Choice& q) { return p.bits < q.bits; });
    };
    for (const auto& axes : choices_) {
      consider(axes, true);
    }
    sort();
    const std::vector<uint8_t> axes = ranked[0].axes;
    consider(axes, false);
    sort();
    return ranked;
  }

  Choice best_axes(Scheme scheme) const {
    const std::vector<Choice> ranked = rank_axes(scheme);
    if (scheme == Scheme::codes) {
      // Data that was decoded once gets the settings that made it, so that encoding it again moves nothing.
      const bool all = element_count(spec_.shape) <= kSampleElements;
      for (const Choice& choice : ranked) {
        for (const bool cubic : {choice.cubic, !choice.cubic}) {
          if ((all || choice.bits < ranked[0].bits * 1.3) && made_by(choice.axes, cubic)) {
            return {choice.bits, choice.axes, cubic};
          }
        }
      }
    }
    return ranked[0];
  }

  /// Whether the array looks like what these settings decode to: in one tile and brick, codes that are not 0, and not
  /// one element that would change.
  bool made_by(const std::vector<uint8_t>& axes, bool cubic) const {
    constexpr uint64_t kEnough = 3;
    Settings settings = base_;
    settings.scheme = Scheme::codes;
    settings.cubic = cubic;
    settings.geometry = Geometry::make(spec_.shape, axes);
    settings.make_contexts();
    const uint64_t tile = settings.geometry.tile_count() / 2;
    const Box box = settings.geometry.tile_box(tile);
    Bytes data(element_count(box.shape) * element_size(spec_.dtype));
    if (!read_(box, data.data()).ok()) {
      return false;  // whoever reads next will report it
    }
    for (const size_t brick_step : {size_t{0}, std::numeric_limits<size_t>::max()}) {
      Tally tally;
      tally_tile(settings, tile, data.data(), brick_step, tally);
      if (tally.unchanged != tally.points || (brick_step > 0 && tally.points < tally.zeros() + kEnough)) {
        return false;
      }
    }
    return true;
  }

  /// Bits of the trial box as plain elements.
  double element_bits() const {
    const Settings plain = on_trial(Scheme::elements, choices_[0], true);
    double size = 0;
    for (uint64_t tile = 0; tile < plain.geometry.tile_count(); ++tile) {
      size += static_cast<double>(elements_size(plain, tile, tile_of_trial(plain.geometry, tile).data()));
    }
    return 8 * size;
  }

  void choose() {
    Choice best;
    Scheme scheme = Scheme::elements;
    if (base_.quantum > 0) {
      best = best_axes(Scheme::codes);
      scheme = Scheme::codes;
    }
    const auto points = static_cast<double>(element_count(trial_shape_));
    const double raw = points * 8 * static_cast<double>(element_size(spec_.dtype));
    if (best.bits > raw / 4) {  // exact schemes may be as good
      const Tally first = try_out(on_trial(Scheme::residuals, choices_[0], true));
      const uint64_t mean = first.residual_bits / std::max<uint64_t>(1, first.points);
      base_.residual_base = static_cast<uint8_t>(mean > 6 ? mean - 6 : 0);
      const Choice exact = best_axes(Scheme::residuals);
      if (exact.bits < best.bits) {
        best = exact;
        scheme = Scheme::residuals;
      }
      if (const double plain = element_bits(); plain < best.bits) {
        best.bits = plain;
        scheme = Scheme::elements;
      }
    }
    base_.scheme = scheme;
    base_.cubic = best.cubic;
    base_.geometry = Geometry::make(spec_.shape, best.axes);
    if (scheme != Scheme::codes) {
      base_.absolute_bound = base_.quantum = 0;
    }
    base_.make_contexts();
  }

  Status build_tables() {
    if (base_.scheme == Scheme::elements) {
      return {};
    }
    const Geometry& geometry = base_.geometry;
    const uint64_t tiles = geometry.tile_count();
    const uint64_t count = element_count(spec_.shape);
    const bool all = count <= kSampleElements;
    const uint64_t tile_step = all ? 1 : std::max<uint64_t>(1, tiles / kSampleTiles);
    // Every so many-th brick, so that about kSampleElements are looked at in all.
    const uint64_t in_sampled_tiles = count / tile_step;
    const uint64_t brick_step = std::max<uint64_t>(1, in_sampled_tiles / kSampleElements);
    Tally tally;
    Bytes data;
    size_t plain = 0;
    for (uint64_t tile = all ? 0 : tile_step / 2; tile < tiles; tile += tile_step) {
      const Box box = geometry.tile_box(tile);
      data.resize(element_count(box.shape) * element_size(spec_.dtype));
      VARVE_TRY(read_(box, data.data()));
      tally_tile(base_, tile, data.data(), brick_step, tally);
      if (count <= 16 * kTinyArray) {
        plain += elements_size(base_, tile, data.data());
      }
    }
    base_.tables = TableSet::build(tally.histogram, all);
    if (plain > 0) {  // small: the tables' own size may decide
      const double coded = (base_.tables.bits(tally.histogram) + static_cast<double>(tally.side_bits)) / 8;
      if (static_cast<double>(write_header(base_).size()) + coded > static_cast<double>(plain) + 16) {
        base_.scheme = Scheme::elements;
        base_.absolute_bound = base_.quantum = 0;
        base_.tables = TableSet();
        base_.make_contexts();
      }
    }
    return {};
  }

  const ArraySpec& spec_;
  const ReadBox& read_;
  Settings base_;
  Scan scan_;
  std::vector<std::vector<uint8_t>> choices_;
  Extents trial_shape_;
  Bytes trial_;
};

}  // namespace

Result<Settings> make_plan(const ArraySpec& spec, const ReadBox& read) { return Planner(spec, read).run(); }

}  // namespace varve::codec
