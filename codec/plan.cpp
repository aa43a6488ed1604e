// Choosing an array's settings: which axes to predict along, quantized or exact, which tables. By trial on samples.
#include <fmt/format.h>

#include <cmath>

#include "codec/coding.h"
#include "codec/estimate.h"
#include "codec/lossless.h"
#include "codec/plan.h"
#include "codec/scan.h"

namespace varve::codec {

namespace {

constexpr uint64_t kRegions = 4;  ///< of larger arrays
constexpr uint64_t kRegionElements = uint64_t{1} << 15;
constexpr uint64_t kPeekElements = uint64_t{1} << 12;
constexpr uint64_t kTrialFrom = ArrayCodec::kEncodeWhole;  ///< larger arrays afford trials, on so many elements:
constexpr uint64_t kTrialElements = uint64_t{1} << 18;
constexpr uint64_t kSureElements = uint64_t{1} << 14;  ///< up to here, whether data was decoded once is tried out

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

class Planner {
 public:
  Planner(const ArraySpec& spec, const ReadBox& read) : spec_(spec), read_(read) {}

  /// All but the tables.
  Result<Plan> run() {
    VARVE_TRY(check_spec(spec_));
    base_.dtype = spec_.dtype;
    const bool lossy_type = spec_.dtype == DType::f32 || spec_.dtype == DType::f64;
    base_.bound = lossy_type && spec_.bound.value > 0 ? spec_.bound : Bound{};
    choices_ = axis_choices(spec_.shape);
    if (element_count(spec_.shape) == 0) {
      base_.geometry = Geometry::make(spec_.shape, choices_[0]);
      return Plan{std::move(base_), {}, {}, choices_[0], false};
    }
    VARVE_TRY(read_whole());
    const size_t size = element_size(spec_.dtype);
    const bool constant = is_constant(whole_, size);
    VARVE_ASSIGN(scan_,
                 whole_.empty() ? scan_array(spec_, read_) : scan_array(spec_, constant ? whole_.first(size) : whole_));
    set_specials();
    if (constant) {
      base_.min = scan_.rest_min;
      base_.max = scan_.rest_max;
      base_.geometry = Geometry::make(spec_.shape, choices_[0]);
      return Plan{std::move(base_), whole_, std::move(memory_), choices_[0], false};
    }
    set_bound();
    VARVE_TRY(choose());
    return Plan{std::move(base_), whole_, std::move(memory_), choices_[0],
                try_elements_ || element_count(spec_.shape) <= kTinyArray};
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
    // Finer than the type's resolution of the largest: nothing would be gained over lossless storage.
    if (most > 0 && quantum >= unit && quantum / 2 > least && 2 / quantum < largest) {
      base_.absolute_bound = bound;
      base_.quantum = quantum;
    }
  }

  /// A small array is read once.
  Status read_whole() {
    if (!spec_.elements.empty()) {
      whole_ = spec_.elements;
    } else if (element_count(spec_.shape) <= kWholeElements) {
      memory_.resize(element_count(spec_.shape) * element_size(spec_.dtype));
      VARVE_TRY(read_({Extents(spec_.shape.size(), 0), spec_.shape}, memory_.data()));
      whole_ = memory_;
    }
    return {};
  }

  /// Regions to look at: all of an array in memory, else some boxes across it.
  Status read_regions() {
    const Extents& shape = spec_.shape;
    const size_t size = element_size(spec_.dtype);
    if (!whole_.empty() && reinterpret_cast<uintptr_t>(whole_.data()) % size == 0) {
      boxes_.push_back({Extents(shape.size(), 0), shape});
      regions_.push_back(whole_);
      return {};
    }
    for (uint64_t part = 1; part <= kRegions; ++part) {
      Box box = middle(shape, part == 1 ? kTrialElements : kRegionElements);
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        box.origin[axis] = (shape[axis] - box.shape[axis]) * part / (kRegions + 1);
      }
      Bytes& data = region_memory_.emplace_back(element_count(box.shape) * size);
      VARVE_TRY(read_(box, data.data()));
      boxes_.push_back(std::move(box));
      regions_.push_back(data);
    }
    return {};
  }

  template <typename W>
  std::vector<Region<W>> regions_as(std::vector<std::vector<W>>& memory) const {
    std::vector<Region<W>> out;
    for (size_t k = 0; k < boxes_.size(); ++k) {
      if constexpr (kIsReal<W>) {
        out.push_back({boxes_[k], reinterpret_cast<const W*>(regions_[k].data())});
      } else {
        auto& values = memory.emplace_back(element_count(boxes_[k].shape));
        load_row<W>(spec_.dtype, regions_[k].data(), 1, values.size(), values.data());
        out.push_back({boxes_[k], values.data()});
      }
    }
    return out;
  }

  /// Choices by their estimates, best first.
  std::vector<AxisEstimate> estimates(Scheme scheme) const {
    Settings settings = base_;
    settings.scheme = scheme;
    return with_work_type(spec_.dtype, [&](auto zero) {
      using W = decltype(zero);
      std::vector<std::vector<W>> memory;
      return estimate_axes<W>(settings, spec_.shape, regions_as<W>(memory));
    });
  }

  Settings with(Scheme scheme, const AxisEstimate& choice) const {
    Settings made = base_;
    made.scheme = scheme;
    made.cubic = choice.cubic;
    made.geometry = Geometry::make(spec_.shape, choice.axes);
    return made;
  }

  /// Data that was decoded once gets the settings that made it, so that encoding it again moves nothing.
  std::optional<Settings> maker(const std::vector<AxisEstimate>& ranked) const {
    return with_work_type(spec_.dtype, [&](auto zero) -> std::optional<Settings> {
      using W = decltype(zero);
      if constexpr (kIsReal<W>) {
        std::vector<std::vector<W>> memory;
        const auto regions = regions_as<W>(memory);
        const bool whole = !whole_.empty() && element_count(spec_.shape) <= kWholeElements;
        const bool small = whole && element_count(spec_.shape) <= kSureElements;
        std::optional<Settings> likely;
        for (const AxisEstimate& choice : ranked) {
          Settings settings = with(Scheme::codes, choice);
          for (settings.schedule = 0; settings.schedule < kSchedules; ++settings.schedule) {
            if (!anchors_fit<W>(settings)) {
              continue;
            }
            const bool all = std::all_of(regions.begin(), regions.end(), [&](const Region<W>& region) {
              return looks_decoded<W>(settings, region).value_or(small);
            });
            if (all && (!whole || unchanged(settings))) {
              return settings;
            }
            if (all && !small && !likely.has_value()) {
              likely = settings;
            }
          }
        }
        return likely;
      }
      return std::nullopt;
    });
  }

  /// Whether the first elements of tiles, which nothing predicts, are whole codes: else these settings did not make
  /// them. For arrays in memory.
  template <typename W>
  bool anchors_fit(const Settings& settings) const {
    constexpr uint64_t kLooks = 8;
    const Coding<W> coding(settings);
    for (uint64_t tile = 0; tile < std::min(settings.geometry.tile_count(), kLooks) && !whole_.empty(); ++tile) {
      const Box box = settings.geometry.tile_box(tile);
      uint64_t at = 0;
      for (size_t axis = 0; axis < box.origin.size(); ++axis) {
        at = at * spec_.shape[axis] + box.origin[axis];
      }
      W x{};
      load_row<W>(spec_.dtype, whole_.data() + at * sizeof(W), 1, 1, &x);
      const unsigned top = std::max(top_level(settings.geometry.dims_of(box)), settings.geometry.coarse_shift);
      const W quantum = coding.quantum(top);
      const W code = std::nearbyint(x / quantum);
      const bool plain = std::fabs(code) < W(1 << 20) && !coding.is_special(x);  // what is not may be stored exactly
      if (plain && std::fabs(code * quantum - x) > std::fabs(x) * 4 * std::numeric_limits<W>::epsilon()) {
        return false;
      }
    }
    return true;
  }

  /// Whether encoding an array in memory with these settings would change nothing.
  bool unchanged(const Settings& settings) const {
    Tally tally;
    tally.count_changes = true;
    for (uint64_t tile = 0; tile < settings.geometry.tile_count(); ++tile) {
      tally_tile(settings, tile, tile_data(settings.geometry, tile).data(), 1, tally);
      if (tally.changed > 0) {
        return false;
      }
    }
    return true;
  }

  /// A tile of an array that is one region.
  Bytes tile_data(const Geometry& geometry, uint64_t tile) const {
    const Box box = geometry.tile_box(tile);
    Bytes out(element_count(box.shape) * element_size(spec_.dtype));
    copy_box(spec_.shape, whole_.data(), box, element_size(spec_.dtype), out.data());
    return out;
  }

  /// For large arrays: the best by encoding a part.
  Settings best_of_trials(const std::vector<AxisEstimate>& ranked) const {
    Settings best;
    double least = std::numeric_limits<double>::infinity();
    for (const bool cubic : {ranked[0].cubic, !ranked[0].cubic}) {
      Settings settings = with(Scheme::codes, {ranked[0].axes, cubic, 0});
      const unsigned schedules = cubic == ranked[0].cubic ? kSchedules : 0;
      for (settings.schedule = 0; settings.schedule < std::max(1U, schedules); ++settings.schedule) {
        if (const double bits = measured_bits(settings, kTrialElements); bits < least) {
          least = bits;
          best = settings;
        }
      }
    }
    return best;
  }

  /// Bits for each point of the middle of the first region (at most `limit`), encoded as an array by itself.
  double measured_bits(const Settings& settings, uint64_t limit = kRegionElements) const {
    const Box part = middle(boxes_[0].shape, limit);
    const size_t size = element_size(spec_.dtype);
    Bytes array(element_count(part.shape) * size);
    copy_box(boxes_[0].shape, regions_[0].data(), part, size, array.data());
    Settings trial = settings;
    trial.geometry = Geometry::make(part.shape, settings.geometry.predicted);
    Tally tally;
    Bytes data;
    for (uint64_t tile = 0; tile < trial.geometry.tile_count(); ++tile) {
      const Box box = trial.geometry.tile_box(tile);
      data.resize(element_count(box.shape) * size);
      copy_box(part.shape, array.data(), box, size, data.data());
      if (trial.scheme == Scheme::elements) {
        tally.side_bits += 8 * elements_size(trial, tile, data.data());
      } else {
        tally_tile(trial, tile, data.data(), 1, tally);
      }
    }
    return tally.bits() / static_cast<double>(element_count(part.shape));
  }

  Status choose() {
    VARVE_TRY(read_regions());
    const double raw = 8 * static_cast<double>(element_size(spec_.dtype));
    double bits = std::numeric_limits<double>::infinity();
    Settings best = base_;
    best.geometry = Geometry::make(spec_.shape, choices_[0]);
    if (base_.quantum > 0 && base_.max - base_.min <= base_.absolute_bound) {
      // Nearly constant: any choice will do, but rounding alone must not change it when decoded data comes.
      base_ = with(Scheme::codes, {choices_[0], true, 0});
      return {};
    }
    if (base_.quantum > 0) {
      const auto ranked = estimates(Scheme::codes);
      if (auto made = maker(ranked); made.has_value()) {
        base_ = *std::move(made);
        return {};
      }
      best = with(Scheme::codes, ranked[0]);
      bits = ranked[0].bits;
      if (element_count(spec_.shape) > kTrialFrom) {
        best = best_of_trials(ranked);
      }
    }
    if (bits > raw / 4) {  // exact schemes may be as good
      AxisEstimate choice = estimates(Scheme::residuals)[0];
      // Twice the distance and the sign make about two bits more than the code's length.
      base_.residual_base = static_cast<uint8_t>(choice.bits > 8 ? choice.bits - 8 : 0);
      const Settings exact = with(Scheme::residuals, choice);
      bits = best.scheme == Scheme::codes ? measured_bits(best) : bits;
      if (const double other = measured_bits(exact); other < bits) {
        best = exact;
        bits = other;
      }
      Settings plain = best;
      plain.scheme = Scheme::elements;
      plain.geometry = Geometry::make(spec_.shape, choices_[0]);  // the order of the array, as far as it goes
      // Zstandard is slow: a look at a part tells whether it is worth while.
      if (measured_bits(plain, kPeekElements) < 1.25 * measured_bits(best, kPeekElements)) {
        const double stored = measured_bits(plain);
        try_elements_ = stored < 1.1 * bits && element_count(spec_.shape) <= kRegionElements;
        if (stored < bits) {
          best = plain;
        }
      }
    }
    const uint8_t base = base_.residual_base;
    base_ = std::move(best);
    base_.residual_base = base;
    if (base_.scheme != Scheme::codes) {
      base_.absolute_bound = base_.quantum = 0;
    }
    return {};
  }

  const ArraySpec& spec_;
  const ReadBox& read_;
  Settings base_;
  Scan scan_;
  std::vector<std::vector<uint8_t>> choices_;
  std::span<const std::byte> whole_;  ///< empty: not in memory
  Bytes memory_;
  bool try_elements_ = false;
  std::vector<Box> boxes_;  ///< of the regions
  std::vector<std::span<const std::byte>> regions_;
  std::vector<Bytes> region_memory_;
};

}  // namespace

Result<Plan> choose_settings(const ArraySpec& spec, const ReadBox& read) { return Planner(spec, read).run(); }

}  // namespace varve::codec
