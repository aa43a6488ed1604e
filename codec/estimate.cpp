#include "codec/estimate.h"

#include <cmath>

#include "codec/coding.h"

namespace varve::codec {

namespace {

constexpr size_t kRun = 8;        ///< points next to each other along the last axis
constexpr unsigned kStrides = 4;  ///< levels 0 to 3
constexpr size_t kMaxAxes = 4;    ///< the last ones longer than 1

/// A counter-based generator: the same numbers on every machine.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

using Run = std::array<double, kRun>;
using ByStride = std::array<Run, kStrides>;

/// The predictions of one run of points along each axis at each stride.
struct Predictions {
  size_t count = 0;
  std::array<double, kRun> value{};
  std::array<bool, kRun> used{};  ///< not special
  std::array<ByStride, kMaxAxes> linear{};
  std::array<ByStride, kMaxAxes> cubic{};
  std::array<ByStride, kMaxAxes> quintic{};
  const std::array<ByStride, kMaxAxes>& by(Interpolation interpolation) const {
    return interpolation == Interpolation::linear ? linear : interpolation == Interpolation::cubic ? cubic : quintic;
  }
};

struct Axes {
  explicit Axes(const Extents& shape) {
    stride.resize(shape.size());
    uint64_t step = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      stride[axis] = step;
      step *= shape[axis];
      if (shape[axis] > 1 && used.size() < kMaxAxes) {
        used.insert(used.begin(), static_cast<uint8_t>(axis));
      }
    }
  }
  std::vector<uint64_t> stride;
  std::vector<uint8_t> used;
};

template <typename W>
class Sampler {
 public:
  Sampler(const Settings& settings, const Region<W>& region, const Axes& axes)
      : region_(region),
        axes_(axes),
        codes_(settings.scheme == Scheme::codes),
        noise_(codes_ ? settings.work_bound : 0) {
    for (const W special : Coding<W>(settings).specials) {
      specials_.push_back(static_cast<double>(special));
    }
  }

  void take(uint64_t seed, Predictions& out) const {
    Extents index(region_.box.shape.size());
    uint64_t at = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const uint64_t room =
          axis + 1 == index.size() ? region_.box.shape[axis] - run_length() + 1 : region_.box.shape[axis];
      index[axis] = mix(seed * 31 + axis) % room;
      at += index[axis] * axes_.stride[axis];
    }
    out.count = run_length();
    for (size_t i = 0; i < out.count; ++i) {
      out.value.at(i) = static_cast<double>(region_.data[at + i]);
      out.used.at(i) = !odd(out.value.at(i));
    }
    for (size_t k = 0; k < axes_.used.size(); ++k) {
      for (unsigned s = 0; s < kStrides; ++s) {
        predict(axes_.used[k], uint64_t{1} << s, index, at, out.linear.at(k).at(s), out.cubic.at(k).at(s),
                out.quintic.at(k).at(s));
      }
    }
    if (noise_ > 0) {
      for (size_t k = 0; k < axes_.used.size(); ++k) {
        add_noise(seed * kMaxAxes + k, out.value, out.linear.at(k), out.cubic.at(k), out.quintic.at(k));
      }
    }
  }
  size_t run_length() const { return std::min<size_t>(kRun, region_.box.shape.back()); }

 private:
  bool odd(double value) const {
    return !std::isfinite(value) || std::find(specials_.begin(), specials_.end(), value) != specials_.end();
  }
  /// The element at a distance along an axis, brought back into the region by reflection.
  double around(size_t axis, int64_t step, const Extents& index, uint64_t at, size_t i) const {
    const auto extent = static_cast<int64_t>(region_.box.shape[axis]);
    const int64_t own =
        static_cast<int64_t>(index[axis]) + (axis + 1 == region_.box.shape.size() ? static_cast<int64_t>(i) : 0);
    int64_t to = own + step;
    to = to < 0 ? -to : to;
    to = to >= extent ? 2 * (extent - 1) - to : to;
    to = std::clamp<int64_t>(to, 0, extent - 1);
    const auto from = static_cast<int64_t>(at + i) + (to - own) * static_cast<int64_t>(axes_.stride[axis]);
    return static_cast<double>(region_.data[from]);
  }
  void predict(size_t axis, uint64_t s, const Extents& index, uint64_t at, Run& linear, Run& cubic,
               Run& quintic) const {
    const uint64_t last = index[axis] + (axis + 1 == index.size() ? run_length() - 1 : 0);
    if (index[axis] >= 5 * s && last + 5 * s < region_.box.shape[axis]) {
      const W* const data = region_.data + at;
      const auto unit = static_cast<int64_t>(axes_.stride[axis]);
      predict_from(
          [&](int64_t step, size_t i) { return static_cast<double>(data[static_cast<int64_t>(i) + step * unit]); },
          axis, s, linear, cubic, quintic);
    } else {
      predict_from([&](int64_t step, size_t i) { return around(axis, step, index, at, i); }, axis, s, linear, cubic,
                   quintic);
    }
  }
  /// `value(step, i)`: that of the point `step` from point i of the run along the axis.
  template <typename F>
  void predict_from(const F& value, size_t axis, uint64_t s, Run& linear, Run& cubic, Run& quintic) const {
    const auto step = static_cast<int64_t>(s);
    const bool small = region_.box.shape[axis] <= 3 * s;
    const bool has_six = codes_ && region_.box.shape[axis] > 5 * s;
    for (size_t i = 0; i < run_length(); ++i) {
      double b = value(-step, i);
      double c = value(step, i);
      b = odd(b) ? c : b;
      c = odd(c) ? b : c;
      linear.at(i) = (b + c) * 0.5;
      if (small) {
        cubic.at(i) = quintic.at(i) = linear.at(i);
        continue;
      }
      double a = value(-3 * step, i);
      double d = value(3 * step, i);
      a = odd(a) ? b : a;
      d = odd(d) ? c : d;
      cubic.at(i) = quintic.at(i) = ((b + c) * 9 - (a + d)) * 0.0625;
      if (!has_six) {
        continue;
      }
      const double e = value(-5 * step, i);
      const double f = value(5 * step, i);
      quintic.at(i) = ((b + c) * 150 - (a + d) * 25 + ((odd(e) ? a : e) + (odd(f) ? d : f)) * 3) * (1.0 / 256);
    }
  }

  /// What quantizing the neighbours would do: they are as far from their true values as their own predictions, those
  /// at twice the stride, but at most by the bound.
  void add_noise(uint64_t seed, const Run& value, ByStride& linear, ByStride& cubic, ByStride& quintic) const {
    for (unsigned s = 0; s < kStrides; ++s) {
      const auto& coarser = cubic.at(std::min(s + 1, kStrides - 1));
      for (size_t i = 0; i < run_length(); ++i) {
        const double size = std::min(noise_, std::fabs(coarser.at(i) - value.at(i)));
        const uint64_t random = mix((seed * kStrides + s) * kRun + i);
        const auto part = [&](unsigned k) {
          return (static_cast<double>(random >> (16 * k) & 0xffffU) - 32767.5) * (1.0 / 32768);
        };
        const double near = part(0) + part(1);
        const double far = part(2) + part(3);
        quintic.at(s).at(i) += size * (near * 150 - far * 25) * (1.0 / 256);
        cubic.at(s).at(i) += size * (near * 9 - far) * 0.0625;
        linear.at(s).at(i) += size * (part(0) + part(1)) * 0.5;
      }
    }
  }

  const Region<W>& region_;
  const Axes& axes_;
  bool codes_;
  double noise_;
  std::vector<double> specials_;
};

/// Bits of a point that is `x` and predicted as `p`.
template <typename W>
struct PointBits {
  explicit PointBits(const Settings& settings)
      : codes(settings.scheme == Scheme::codes), reciprocal(codes ? 1 / settings.quantum : 0) {}
  float operator()(double x, double p, double scale) const {
    if (codes) {
      return bits_of_code(std::fabs(x - p) * reciprocal * scale);
    }
    double distance = std::fabs(x - p);
    if constexpr (kIsReal<W>) {
      using U = BitsOf<W>;
      const U a = bits_to_order(std::bit_cast<U>(static_cast<W>(x)));
      const U b = bits_to_order(std::bit_cast<U>(static_cast<W>(p)));
      distance = static_cast<double>(a > b ? a - b : b - a);
    }
    return rough_log2(1.0F + 2.0F * static_cast<float>(std::min(distance, 1e30)));
  }
  bool codes;
  double reciprocal;
};

constexpr std::array<double, kStrides> kLevelPrecision = {1.0, 1.25, 1.5625, 1.95};

/// Mean bits by class (a set of the used axes) and stride, for one kind of prediction.
using ClassBits = std::array<std::array<double, kStrides>, 1U << kMaxAxes>;

template <typename W>
void add_bits(const PointBits<W>& bits, const Predictions& from, Interpolation interpolation, unsigned classes,
              ClassBits& out) {
  const auto& by_axis = from.by(interpolation);
  for (unsigned c = 1; c < classes; ++c) {
    if (std::popcount(c) > 3) {
      continue;
    }
    const double part = 1.0 / std::popcount(c);
    for (unsigned s = 0; s < kStrides; ++s) {
      double sum = 0;
      for (size_t i = 0; i < from.count; ++i) {
        double p = 0;
        for (size_t k = 0; k < kMaxAxes; ++k) {
          p += (c >> k & 1U) != 0 ? by_axis.at(k).at(s).at(i) : 0.0;
        }
        sum += from.used.at(i) ? static_cast<double>(bits(from.value.at(i), p * part, kLevelPrecision.at(s))) : 0.0;
      }
      out.at(c).at(s) += sum;
    }
  }
}

/// Bits of all points of an array of `extents` (of the used axes) predicted along `set`. Levels above those that were
/// looked at cost a bit more for each; anchors cost `anchor`.
double set_bits(const ClassBits& by_class, unsigned set, const std::vector<uint64_t>& extents, double anchor) {
  std::vector<double> n(extents.begin(), extents.end());
  double sum = 0;
  double items = 1;
  for (size_t k = 0; k < n.size(); ++k) {
    items *= (set >> k & 1U) != 0 ? 1.0 : n[k];
  }
  const auto more = [&] {
    bool any = false;
    for (size_t k = 0; k < n.size(); ++k) {
      any = any || ((set >> k & 1U) != 0 && n[k] > 1);
    }
    return any;
  };
  for (unsigned s = 0; more(); ++s) {
    const double extra = s < kStrides ? 0 : s - kStrides + 1;
    for (unsigned c = set; c > 0; c = (c - 1) & set) {
      double points = items;
      for (size_t k = 0; k < n.size(); ++k) {
        if ((set >> k & 1U) != 0) {
          points *= (c >> k & 1U) != 0 ? std::floor(n[k] / 2) : std::ceil(n[k] / 2);
        }
      }
      sum += points * (by_class.at(c).at(std::min(s, kStrides - 1)) + extra);
    }
    for (size_t k = 0; k < n.size(); ++k) {
      n[k] = (set >> k & 1U) != 0 ? std::ceil(n[k] / 2) : n[k];
    }
  }
  return sum + items * anchor;
}

}  // namespace

std::vector<std::vector<uint8_t>> axis_choices(const Extents& shape) {
  std::vector<uint8_t> axes = Axes(shape).used;
  if (axes.empty() && !shape.empty()) {
    axes.push_back(static_cast<uint8_t>(shape.size() - 1));
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

template <typename W>
std::vector<AxisEstimate> estimate_axes(const Settings& settings, const Extents& whole,
                                        const std::vector<Region<W>>& regions) {
  const Axes axes(regions[0].box.shape);
  if (axes.used.empty()) {
    return {{axis_choices(regions[0].box.shape)[0], Interpolation::cubic, 0}};
  }
  const unsigned classes = 1U << axes.used.size();
  const PointBits<W> bits(settings);
  // What ties is better the first.
  std::vector<Interpolation> kinds = {Interpolation::cubic, Interpolation::linear};
  if (settings.scheme == Scheme::codes && kIsReal<W>) {
    kinds.push_back(Interpolation::quintic);
  }
  std::vector<ClassBits> by_kind(kinds.size());
  double points = 0;
  double anchor = 0;
  const uint64_t count = element_count(regions[0].box.shape) * regions.size();
  const size_t runs = std::clamp<size_t>(count / 4096, 24, 128);
  Predictions predictions;
  for (size_t r = 0; r < runs; ++r) {
    const Region<W>& region = regions[r % regions.size()];
    const double before = predictions.value[0];
    const Axes own(region.box.shape);
    if (own.used != axes.used) {
      continue;
    }
    Sampler<W>(settings, region, own).take(r, predictions);
    for (size_t k = 0; k < kinds.size(); ++k) {
      add_bits(bits, predictions, kinds[k], classes, by_kind[k]);
    }
    points += static_cast<double>(std::count(predictions.used.begin(), predictions.used.end(), true));
    anchor += static_cast<double>(bits(predictions.value[0], before, 2)) * static_cast<double>(predictions.count);
  }
  const double scale = points > 0 ? 1.0 / points : 0;
  for (ClassBits& one : by_kind) {
    for (auto& by_stride : one) {
      for (double& sum : by_stride) {
        sum *= scale;
      }
    }
  }
  anchor = anchor / static_cast<double>(runs * predictions.count) + 1;
  std::vector<uint64_t> extents;
  double all = 1;
  for (const uint8_t axis : axes.used) {
    extents.push_back(whole[axis]);
    all *= static_cast<double>(whole[axis]);
  }
  std::vector<AxisEstimate> out;
  for (const auto& choice : axis_choices(regions[0].box.shape)) {
    unsigned set = 0;
    for (const uint8_t axis : choice) {
      const auto found = std::find(axes.used.begin(), axes.used.end(), axis);
      set |= found != axes.used.end() ? 1U << (found - axes.used.begin()) : 0U;
    }
    for (size_t k = 0; k < kinds.size(); ++k) {
      // Near borders there are no six points, and noise counts for more.
      const double more = kinds[k] == Interpolation::quintic ? 1.03 : 1;
      out.push_back({choice, kinds[k], set_bits(by_kind[k], set, extents, anchor) / all * more});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const AxisEstimate& p, const AxisEstimate& q) { return p.bits < q.bits; });
  return out;
}

namespace {

/// Points of one of levels 0 to 2 and what predicts them: see FORMAT.md, "Prediction".
template <typename W>
class DecodedPoint {
 public:
  DecodedPoint(const Settings& settings, const Region<W>& region, unsigned level)
      : settings_(settings),
        region_(region),
        level_(level),
        reach_(uint64_t{settings.interpolation == Interpolation::quintic ? 5U : 3U} << level),
        axes_(region.box.shape) {
    const Geometry& geometry = settings.geometry;
    for (size_t k = 0; k < geometry.predicted.size(); ++k) {
      const size_t axis = geometry.predicted[k];
      if (std::min(region.box.shape[axis], geometry.brick[axis]) > 2 * reach_) {
        long_axes_.push_back(1U << k);
      }
    }
  }

  /// Whether there are points with all their neighbours.
  bool has_points() const { return !long_axes_.empty(); }

  enum class Look { none, same, other };
  /// A point chosen by `seed`. None: it has not all its neighbours, or is as they are.
  Look look(uint64_t seed, uint64_t& nonzero) const {
    const Geometry& geometry = settings_.geometry;
    const auto which = static_cast<unsigned>(1 + mix(seed) % ((1U << long_axes_.size()) - 1));
    unsigned set = 0;
    for (size_t k = 0; k < long_axes_.size(); ++k) {
      set |= (which >> k & 1U) != 0 ? long_axes_[k] : 0U;
    }
    Extents index(region_.box.shape.size());
    uint64_t at = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const uint64_t extent = region_.box.shape[axis];
      const uint64_t origin = region_.box.origin[axis];
      index[axis] = mix(seed * 37 + axis) % extent;
      const auto found = std::find(geometry.predicted.begin(), geometry.predicted.end(), axis);
      if (found != geometry.predicted.end()) {
        const bool odd = (set >> (found - geometry.predicted.begin()) & 1U) != 0;
        // On the level's grid, and odd or even there.
        uint64_t place = (origin + index[axis]) >> level_;
        place += (place & 1U) != (odd ? 1U : 0U) ? 1 : 0;
        place <<= level_;
        const uint64_t in_brick = place % geometry.brick[axis];
        if (place < origin || place >= origin + extent ||
            (odd && (in_brick < reach_ || in_brick + reach_ >= geometry.brick[axis] || place < origin + reach_ ||
                     place + reach_ >= origin + extent))) {
          return Look::none;
        }
        index[axis] = place - origin;
      }
      at += index[axis] * axes_.stride[axis];
    }
    return compare(at, set, nonzero);
  }

 private:
  Look compare(uint64_t at, unsigned set, uint64_t& nonzero) const {
    const W x = region_.data[at];
    std::array<W, 3> v{};
    size_t axes = 0;
    bool flat = true;
    for (size_t k = 0; k < settings_.geometry.predicted.size(); ++k) {
      if ((set >> k & 1U) == 0) {
        continue;
      }
      const W* p = region_.data + at;
      const auto step = static_cast<ptrdiff_t>(axes_.stride[settings_.geometry.predicted[k]] << level_);
      const W near = p[-step] + p[step];
      switch (settings_.interpolation) {
        case Interpolation::linear:
          v.at(axes++) = near * W(8) - near * W(0);
          break;
        case Interpolation::cubic:
          v.at(axes++) = near * W(9) - (p[-3 * step] + p[3 * step]);
          break;
        case Interpolation::none:
          break;
        case Interpolation::quintic:
          v.at(axes++) =
              (near * W(9.375) - (p[-3 * step] + p[3 * step]) * W(1.5625)) + (p[-5 * step] + p[5 * step]) * W(0.1875);
          break;
      }
      flat = flat && p[-step] == x && p[step] == x;
    }
    const W mean = axes == 1   ? v[0] * W(0.0625)
                   : axes == 2 ? (v[0] + v[1]) * W(0.03125)
                               : ((v[0] + v[1]) + v[2]) * W(1.0 / 48.0);
    const W quantum = static_cast<W>(settings_.quantum * level_scale(settings_.schedule, level_));
    const W code = std::nearbyint((x - mean) * (W(1) / quantum));
    const bool kept = x == 0 && std::signbit(x);  // -0 is never coded
    if (flat || kept || !std::isfinite(x) || !(std::fabs(code) < W(1e6))) {
      return Look::none;
    }
    nonzero += code != 0 ? 1 : 0;
    return same_bits(mean + quantum * code, x) ? Look::same : Look::other;
  }

  const Settings& settings_;
  const Region<W>& region_;
  unsigned level_;
  uint64_t reach_;  ///< how far the neighbours of a point are
  Axes axes_;
  std::vector<unsigned> long_axes_;  ///< predicted ones along which points can be odd, as bits
};

/// The looks at one level.
template <typename W>
std::optional<bool> level_looks_decoded(const Settings& settings, const Region<W>& region, unsigned level) {
  constexpr uint64_t kLooks = 4000;
  constexpr uint64_t kEnough = 200;
  constexpr uint64_t kSure = 16;
  const DecodedPoint<W> point(settings, region, level);
  if (!point.has_points()) {
    return std::nullopt;
  }
  uint64_t same = 0;
  uint64_t other = 0;
  uint64_t nonzero = 0;
  for (uint64_t seed = 0; seed < kLooks && (same < kEnough || nonzero < 3); ++seed) {
    const auto look = point.look(seed, nonzero);
    same += look == DecodedPoint<W>::Look::same ? 1 : 0;
    other += look == DecodedPoint<W>::Look::other ? 1 : 0;
    if (other > 1 + same / 16) {  // elements kept exactly differ, too
      return false;
    }
  }
  if (nonzero >= 3 || same >= kSure) {  // what predicts itself to the bit was decoded, too
    return true;
  }
  return other == 0 ? std::nullopt : std::optional<bool>(false);
}

}  // namespace

template <typename W>
std::optional<bool> looks_decoded(const Settings& settings, const Region<W>& region) {
  const auto fine = level_looks_decoded(settings, region, 0);
  if (!fine.value_or(false)) {
    return fine;
  }
  return level_looks_decoded(settings, region, 1).value_or(true) &&
         level_looks_decoded(settings, region, 2).value_or(true);
}

template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&, const std::vector<Region<float>>&);
template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&, const std::vector<Region<double>>&);
template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&, const std::vector<Region<int32_t>>&);
template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&, const std::vector<Region<int64_t>>&);

template std::optional<bool> looks_decoded(const Settings&, const Region<float>&);
template std::optional<bool> looks_decoded(const Settings&, const Region<double>&);

}  // namespace varve::codec
