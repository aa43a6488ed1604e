// Choosing an array's settings: which axes to predict along, quantized or exact, which tables. By trial on samples.

#include <cmath>
#include <numeric>

#include "codec/bound.h"
#include "codec/coding.h"
#include "codec/estimate.h"
#include "codec/lorenzo.h"
#include "codec/lossless.h"
#include "codec/plan.h"
#include "codec/trial.h"

namespace varve::codec {

namespace {

constexpr uint64_t kRegions = 4;  ///< of larger arrays
constexpr uint64_t kRegionElements = uint64_t{1} << 15;
constexpr uint64_t kPeekElements = uint64_t{1} << 12;
constexpr uint64_t kTrialFrom = ArrayCodec::kEncodeWhole;  ///< larger arrays afford trials, on so many elements:
constexpr uint64_t kTrialElements = uint64_t{1} << 18;
constexpr uint64_t kRatioBoxes = 8;  ///< a larger array's ratio is measured on so many boxes of kTrialElements
constexpr uint64_t kSureElements = uint64_t{1} << 14;  ///< up to here, whether data was decoded once is tried out

class Planner {
 public:
  Planner(const ArraySpec& spec, const ReadBox& read) : spec_(spec), read_(read) {}

  /// All but the tables.
  Result<Plan> run() {
    VARVE_TRY(check_spec(spec_));
    base_.dtype = spec_.dtype;
    VARVE_ASSIGN(base_.bound, parse_bound(to_string(spec_.bound)));  // refuses nonsense; 0 is lossless
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
      base_.why = base_.bound.mode == BoundMode::lossless ? "" : "all elements have the same bits";
      base_.min = value_range(spec_.dtype, scan_).min;
      base_.max = value_range(spec_.dtype, scan_).max;
      base_.geometry = Geometry::make(spec_.shape, choices_[0]);
      return Plan{std::move(base_), whole_, std::move(memory_), choices_[0], false};
    }
    set_bound();
    VARVE_TRY(choose());
    if (base_.lorenzo.has_value()) {
      return Plan{std::move(base_), integers_, std::move(integers_), choices_[0], false};
    }
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

  /// All bounds but those that a ratio asks for, which take a look at the data.
  void set_bound() {
    // Without undeclared missing values: they would widen a relative bound until it wipes the data out. A tighter bound
    // keeps the promise, and they themselves are stored exactly.
    range_ = value_range(spec_.dtype, scan_);
    base_.min = range_.min;
    base_.max = range_.max;
    const ResolvedBound resolved = resolve_bound(spec_.dtype, base_.bound, range_);
    apply(resolved, base_);
    zero_is_special_ = resolved.zero_is_special && range_.min <= 0 && range_.max >= 0 &&
                       base_.specials.size() < kMaxSpecials &&
                       std::find(base_.specials.begin(), base_.specials.end(), uint64_t{0}) == base_.specials.end();
  }

  static void apply(const ResolvedBound& resolved, Settings& to) {
    to.mapping = resolved.mapping;
    to.absolute_bound = resolved.absolute_bound;
    to.work_bound = resolved.work_bound;
    to.quantum = resolved.quantum;
    to.bound_exceeds_range = resolved.exceeds_range;
    to.why = resolved.why;
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
  std::vector<Region<W>> regions_as(const Settings& settings, std::vector<std::vector<W>>& memory) const {
    std::vector<Region<W>> out;
    memory.resize(boxes_.size());
    for (size_t k = 0; k < boxes_.size(); ++k) {
      out.push_back(region_as<W>(settings, k, memory[k]));
    }
    return out;
  }
  template <typename W>
  Region<W> region_as(const Settings& settings, size_t k, std::vector<W>& memory) const {
    const Coding<W> coding(settings);
    if (kIsReal<W> && !coding.mapped) {
      return {boxes_[k], reinterpret_cast<const W*>(regions_[k].data())};
    }
    memory.resize(element_count(boxes_[k].shape));
    coding.load(regions_[k].data(), 1, memory.size(), memory.data());
    return {boxes_[k], memory.data()};
  }

  /// Choices by their estimates, best first.
  std::vector<AxisEstimate> estimates(Scheme scheme) const {
    const Settings settings = with(scheme);
    return with_work_type(settings, [&](auto zero) {
      using W = decltype(zero);
      std::vector<std::vector<W>> memory;
      return estimate_axes<W>(settings, spec_.shape, regions_as<W>(settings, memory));
    });
  }

  Settings with(Scheme scheme) const {
    Settings made = base_;
    made.scheme = scheme;
    if (scheme == Scheme::codes && zero_is_special_) {
      made.specials.push_back(0);
    }
    return made;
  }

  Settings with(Scheme scheme, const AxisEstimate& choice) const {
    Settings made = with(scheme);
    made.interpolation = choice.interpolation;
    made.geometry = Geometry::make(spec_.shape, choice.axes);
    return made;
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

  /// The settings in scheme codes that differ in what decoding may have moved: it moves the extremes, and with them the
  /// quantum where one of them passes a power of two.
  std::vector<Settings> possible_makers() const {
    std::vector<Settings> out = {with(Scheme::codes)};
    for (const double bounds : {-1.0, 1.0, -2.0, 2.0}) {
      const double moved = bounds * base_.absolute_bound;
      const ValueRange range{range_.counted, range_.min - moved, range_.max + moved};
      const ResolvedBound resolved = resolve_bound(spec_.dtype, base_.bound, range);
      const bool known =
          std::any_of(out.begin(), out.end(), [&](const Settings& one) { return one.quantum == resolved.quantum; });
      if (!resolved.lossless() && !known) {
        Settings& one = out.emplace_back(out[0]);
        one.quantum = resolved.quantum;
        one.work_bound = resolved.work_bound;
      }
    }
    return out;
  }

  /// Calls f(settings) for all that may have made this array, likely ones first, until it answers true.
  template <typename F>
  void for_each_maker(const std::vector<AxisEstimate>& ranked, F&& f) const {
    for (const Settings& possible : possible_makers()) {
      for (const AxisEstimate& choice : ranked) {
        Settings settings = possible;
        settings.interpolation = choice.interpolation;
        settings.geometry = Geometry::make(spec_.shape, choice.axes);
        for (settings.schedule = 0; settings.schedule < kSchedules; ++settings.schedule) {
          if (f(settings)) {
            return;
          }
        }
      }
    }
  }

  /// Data that was decoded once gets the settings that made it, so that encoding it again moves nothing.
  std::optional<Settings> maker(const std::vector<AxisEstimate>& ranked) const {
    if (with(Scheme::codes).is_mapped()) {
      return whole_.empty() ? std::nullopt : tried_maker(ranked);
    }
    return with_work_type(spec_.dtype, [&](auto zero) -> std::optional<Settings> {
      using W = decltype(zero);
      std::optional<Settings> found;
      if constexpr (kIsReal<W>) {
        std::vector<std::vector<W>> memory;
        const auto regions = regions_as<W>(with(Scheme::codes), memory);
        const bool whole = !whole_.empty() && element_count(spec_.shape) <= kWholeElements;
        const bool small = whole && element_count(spec_.shape) <= kSureElements;
        // Where hardly a code is not 0, looks tell nothing, and trying costs little.
        const bool unsure = small || (whole && base_.absolute_bound > (base_.max - base_.min) / 16);
        for_each_maker(ranked, [&](const Settings& settings) {
          const bool likely =
              anchors_fit<W>(settings) && std::all_of(regions.begin(), regions.end(), [&](const Region<W>& region) {
                return looks_decoded<W>(settings, region).value_or(unsure);
              });
          const bool sure = likely && (!whole || unchanged(settings));
          if (sure || (likely && !small && !found.has_value())) {
            found = settings;
          }
          return sure;
        });
      }
      return found;
    });
  }

  /// The same where elements are mapped: what decoded points are stored as tells little of their codes. So an array in
  /// memory is encoded.
  std::optional<Settings> tried_maker(const std::vector<AxisEstimate>& ranked) const {
    std::optional<Settings> found;
    for_each_maker(ranked, [&](const Settings& settings) {
      if (unchanged(settings)) {
        found = settings;
      }
      return found.has_value();
    });
    return found;
  }

  /// Whether encoding an array in memory with these settings would change nothing. Its coarse points, which are few,
  /// are encoded first.
  bool unchanged(const Settings& settings) const { return unchanged(settings, 0) && unchanged(settings, 1); }

  /// The same of the points that tally_tile() counts.
  bool unchanged(const Settings& settings, size_t brick_step) const {
    Tally tally;
    tally.count_changes = true;
    Bytes memory;
    for (uint64_t tile = 0; tile < settings.geometry.tile_count(); ++tile) {
      const std::byte* data = tile_elements(settings.geometry, tile, whole_.data(), element_size(spec_.dtype), memory);
      tally_tile(settings, tile, data, brick_step, tally);
      if (tally.changed > 0) {
        return false;
      }
    }
    return true;
  }

  /// For large arrays: the best by encoding a part.
  Settings best_of_trials(const std::vector<AxisEstimate>& ranked) const {
    Settings best;
    double least = std::numeric_limits<double>::infinity();
    for (const Interpolation interpolation : {Interpolation::linear, Interpolation::cubic, Interpolation::quintic}) {
      Settings settings = with(Scheme::codes, {ranked[0].axes, interpolation, 0});
      const unsigned schedules = interpolation == ranked[0].interpolation ? kSchedules : 0;
      for (settings.schedule = 0; settings.schedule < std::max(1U, schedules); ++settings.schedule) {
        if (const double bits = measured_bits(settings, kTrialElements); bits < least) {
          least = bits;
          best = settings;
        }
      }
    }
    return best;
  }

  /// Codes as differences along an axis, where that saves enough to be worth the time.
  void choose_differences(Settings& settings) const {
    constexpr double kWorthATrial = 0.08;
    constexpr double kWorthIt = 0.96;
    constexpr size_t kTrials = 2;
    if (settings.scheme != Scheme::codes) {
      return;
    }
    const std::vector<double> savings = with_work_type(settings, [&](auto zero) -> std::vector<double> {
      using W = decltype(zero);
      if constexpr (kIsReal<W>) {
        std::vector<W> memory;
        return difference_savings<W>(settings, region_as<W>(settings, 0, memory));
      }
      return {};
    });
    std::vector<uint8_t> axes(savings.size());
    std::iota(axes.begin(), axes.end(), uint8_t{0});
    std::stable_sort(axes.begin(), axes.end(), [&](uint8_t p, uint8_t q) { return savings[p] > savings[q]; });
    axes.resize(std::min<size_t>(axes.size(), kTrials));
    const uint64_t count = element_count(spec_.shape);
    const uint64_t limit = count > kTrialFrom ? kTrialElements : std::clamp(count / 16, kPeekElements, kRegionElements);
    double least = 0;
    for (const uint8_t axis : axes) {
      if (savings[axis] < kWorthATrial) {
        break;
      }
      Settings trial = settings;
      trial.difference_axis.reset();
      if (least == 0) {
        least = kWorthIt * measured_bits(trial, limit);
      }
      trial.difference_axis = axis;
      if (const double bits = measured_bits(trial, limit); bits < least) {
        least = bits;
        settings.difference_axis = axis;
      }
    }
  }

  /// Whether whole multiples of the quantum may be differences (see lorenzo.h): of floats by value, all of which are at
  /// hand to be checked. Bounds that are found by how codes fare are left to those.
  bool may_be_lorenzo() const {
    const BoundMode mode = base_.bound.mode;
    return base_.quantum > 0 && has_decimals(spec_.dtype) && !with(Scheme::codes).is_mapped() && !whole_.empty() &&
           element_count(spec_.shape) > kTinyArray && element_count(spec_.shape) <= kWholeElements &&
           base_.specials.size() <= kMostEscapes &&
           (mode == BoundMode::absolute || mode == BoundMode::relative || mode == BoundMode::absolute_and_relative);
  }

  AxisEstimate lorenzo_estimate(const Settings& codes) const {
    return with_work_type(spec_.dtype, [&](auto zero) -> AxisEstimate {
      using W = decltype(zero);
      if constexpr (kIsReal<W>) {
        std::vector<W> memory;
        return estimate_lorenzo<W>(codes, choices_, region_as<W>(codes, 0, memory));
      }
      return {};
    });
  }

  /// `codes`: of the quantum.
  bool take_lorenzo(const Settings& codes, const std::vector<uint8_t>& axes) {
    Settings settings = lorenzo_settings(codes);
    integers_ = planned_differences(settings, axes, spec_.shape, whole_);
    if (!integers_.empty()) {
      base_ = std::move(settings);
    }
    return !integers_.empty();
  }

  /// An array of multiples of a quantum that may have made it: encoding it so moves nothing.
  bool take_lorenzo_maker() {
    constexpr size_t kLooks = 8;
    constexpr size_t kLookElements = 64;
    const size_t size = element_size(spec_.dtype);
    for (const Settings& codes : possible_makers()) {
      const Settings made = lorenzo_settings(codes);
      bool all = true;
      for (size_t look = 0; look < kLooks && all; ++look) {
        const size_t first = whole_.size() / size * (2 * look + 1) / (2 * kLooks);
        all = are_multiples(made, whole_.subspan(first * size, kLookElements * size));
      }
      if (all && are_multiples(made, whole_)) {
        return take_lorenzo(codes, lorenzo_estimate(codes).axes);
      }
    }
    return false;
  }

  /// Differences instead of interpolation, where they take clearly less: views gain nothing from them. `than`: bits for
  /// each point of `codes`, as estimated.
  bool choose_lorenzo(const Settings& codes, double than) {
    constexpr double kWorthIt = 0.95;
    constexpr uint64_t kLeast = uint64_t{1} << 13;
    const AxisEstimate choice = lorenzo_estimate(codes);
    if (1.05 * choice.bits + 0.25 > than) {  // what few codes cost is estimated too low
      return false;
    }
    const uint64_t count = element_count(spec_.shape);
    const Box part = middle(boxes_[0].shape, std::clamp<uint64_t>(count / 8, kLeast, kRegionElements));
    const Bytes array = of_first_region(part);
    Settings made = lorenzo_settings(codes);
    const Bytes integers = planned_differences(made, choice.axes, part.shape, array);
    return !integers.empty() &&
           sample_bits({{part.shape, integers.data()}}, made, spec_.shape) <
               kWorthIt * sample_bits({{part.shape, array.data()}}, codes, spec_.shape) &&
           take_lorenzo(codes, choice.axes);
  }

  Bytes of_first_region(const Box& part) const {
    Bytes array(element_count(part.shape) * element_size(spec_.dtype));
    copy_box(boxes_[0].shape, regions_[0].data(), part, element_size(spec_.dtype), array.data());
    return array;
  }

  /// Bits for each point of the middle of the first region (at most `limit`), encoded as an array by itself.
  double measured_bits(const Settings& settings, uint64_t limit = kRegionElements) const {
    const Box part = middle(boxes_[0].shape, limit);
    const Bytes array = of_first_region(part);
    Tally tally;
    tally_array(settings, {part.shape, array.data()}, tally);
    return tally.bits() / static_cast<double>(element_count(part.shape));
  }

  /// What the ratio that was asked for comes to: see find_ratio_bound().
  Status find_bound() {
    std::vector<Bytes> memory;
    VARVE_ASSIGN(const auto sample, ratio_sample(memory));
    const auto ratio_of = [&](double bound) {
      apply(resolve_bound(spec_.dtype, {BoundMode::absolute, bound}, range_), base_);
      double bits = std::numeric_limits<double>::infinity();
      if (base_.quantum > 0) {
        Settings codes = with(Scheme::codes, estimates(Scheme::codes)[0]);
        choose_differences(codes);
        bits = sample_bits(sample, codes, spec_.shape);
      } else {
        Settings exact = with(Scheme::residuals, estimates(Scheme::residuals)[0]);
        bits = sample_bits(sample, exact, spec_.shape);
        exact.scheme = Scheme::elements;
        bits = std::min(bits, sample_bits(sample, exact, spec_.shape));
      }
      return 8 * static_cast<double>(element_size(spec_.dtype) * element_count(spec_.shape)) / bits;
    };
    const RatioBound found = find_ratio_bound(base_.bound.value, ratio_limits(spec_.dtype, range_), ratio_of);
    apply(resolve_bound(spec_.dtype, {BoundMode::absolute, found.bound}, range_), base_);
    if (found.bound == 0 && found.reached) {
      base_.why = "that reaches the ratio";
    } else if (!found.reached) {
      base_.why = found.bound == 0 ? "the array has no range to take a bound from"
                                   : "not even the array's whole range as bound reaches the ratio";
    }
    return {};
  }

  /// The array, or boxes all over it.
  Result<std::vector<Sample>> ratio_sample(std::vector<Bytes>& memory) const {
    std::vector<Sample> sample;
    if (!whole_.empty() && element_count(spec_.shape) <= kWholeElements) {
      sample.push_back({spec_.shape, whole_.data()});
      return sample;
    }
    Box box = middle(spec_.shape, kTrialElements);
    for (uint64_t k = 0; k < kRatioBoxes; ++k) {
      for (size_t axis = 0; axis < box.shape.size(); ++axis) {
        const uint64_t place = (k * (2 * axis + 1) + axis) % kRatioBoxes;  // each box in another part of every axis
        box.origin[axis] = (spec_.shape[axis] - box.shape[axis]) * (2 * place + 1) / (2 * kRatioBoxes);
      }
      Bytes& data = memory.emplace_back(element_count(box.shape) * element_size(spec_.dtype));
      if (whole_.empty()) {
        VARVE_TRY(read_(box, data.data()));
      } else {
        copy_box(spec_.shape, whole_.data(), box, element_size(spec_.dtype), data.data());
      }
      sample.push_back({box.shape, data.data()});
    }
    return sample;
  }

  Status choose() {
    VARVE_TRY(read_regions());
    if (base_.bound.mode == BoundMode::ratio && scan_.counted > 0) {
      VARVE_TRY(find_bound());
    }
    const double raw = 8 * static_cast<double>(element_size(spec_.dtype));
    double bits = std::numeric_limits<double>::infinity();
    Settings best = base_;
    best.geometry = Geometry::make(spec_.shape, choices_[0]);
    if (base_.quantum > 0 && base_.max - base_.min <= base_.absolute_bound) {
      // Nearly constant: any choice will do, but rounding alone must not change it when decoded data comes.
      base_ = with(Scheme::codes, {choices_[0], Interpolation::cubic, 0});
      return {};
    }
    if (base_.quantum > 0) {
      if (may_be_lorenzo() && take_lorenzo_maker()) {
        return {};
      }
      const auto ranked = estimates(Scheme::codes);
      auto made = maker(ranked);
      if (made.has_value() && !made->is_mapped()) {
        base_ = *std::move(made);
        choose_differences(base_);
        return {};
      }
      best = with(Scheme::codes, ranked[0]);
      bits = ranked[0].bits;
      if (made.has_value()) {
        best = *std::move(made);
      } else if (element_count(spec_.shape) > kTrialFrom) {
        best = best_of_trials(ranked);
      }
      choose_differences(best);
      bits = best.difference_axis.has_value() ? measured_bits(best) : bits;
      if (may_be_lorenzo() && choose_lorenzo(best, bits)) {
        return {};
      }
    }
    // Exact schemes may be as good; where steps between elements are longer than the bound, even better.
    if (bits > raw / 4 || best.is_mapped()) {
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
      base_.make_lossless(base_.scheme);
    }
    return {};
  }

  const ArraySpec& spec_;
  const ReadBox& read_;
  Settings base_;
  Scan scan_;
  ValueRange range_;
  bool zero_is_special_ = false;  ///< in scheme codes
  std::vector<std::vector<uint8_t>> choices_;
  std::span<const std::byte> whole_;  ///< empty: not in memory
  Bytes memory_;
  Bytes integers_;  ///< what the array is encoded as, if not as it is
  bool try_elements_ = false;
  std::vector<Box> boxes_;  ///< of the regions
  std::vector<std::span<const std::byte>> regions_;
  std::vector<Bytes> region_memory_;
};

}  // namespace

Result<Plan> choose_settings(const ArraySpec& spec, const ReadBox& read) { return Planner(spec, read).run(); }

}  // namespace varve::codec
