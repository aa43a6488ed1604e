// Whether codes are worth coding as differences, from a few points and without encoding.
#include <cmath>

#include "codec/coding.h"
#include "codec/estimate.h"

namespace varve::codec {

namespace {

/// What predictions leave of points of a level.
template <typename W>
class Residuals {
 public:
  Residuals(const Settings& settings, const Region<W>& region, unsigned level)
      : settings_(settings), level_(level), region_(region), coding_(settings), stride_(region.box.shape.size(), 1) {
    for (size_t axis = stride_.size(); axis-- > 1;) {
      stride_[axis - 1] = stride_[axis] * region.box.shape[axis];
    }
  }

  /// Of the point at `index`, moved back by `step` along `axis`, in quanta. NaN: it has not all its neighbours, or no
  /// residual.
  double at(Extents index, size_t axis, uint64_t step) const {
    const uint64_t unit = uint64_t{1} << level_;
    if (index[axis] < step) {
      return kNone;
    }
    index[axis] -= step;
    uint64_t place = 0;
    for (size_t k = 0; k < index.size(); ++k) {
      if (index[k] >= region_.box.shape[k]) {
        return kNone;
      }
      place += index[k] * stride_[k];
    }
    double sum = 0;
    unsigned axes = 0;
    for (const uint8_t k : settings_.geometry.predicted) {
      if (((region_.box.origin[k] + index[k]) >> level_) % 2 == 0) {
        continue;
      }
      if (index[k] < 3 * unit || index[k] + 3 * unit >= region_.box.shape[k]) {
        return kNone;
      }
      const auto value = [&](int64_t by) {
        return number(static_cast<int64_t>(place) + by * static_cast<int64_t>(stride_[k] * unit));
      };
      const double near = value(-1) + value(1);
      sum += settings_.interpolation == Interpolation::linear ? near / 2 : (near * 9 - (value(-3) + value(3))) / 16;
      ++axes;
    }
    return axes == 0 ? kNone : (number(static_cast<int64_t>(place)) - sum / axes) / settings_.quantum;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  /// NaN for what is missing or not finite.
  double number(int64_t place) const {
    const W x = region_.data[place];
    return coding_.is_special(x) ? kNone : static_cast<double>(x);
  }

  const Settings& settings_;
  unsigned level_;
  const Region<W>& region_;
  Coding<W> coding_;
  std::vector<uint64_t> stride_;
};

/// The code that a residual, in quanta, becomes: its neighbours are quantized, which adds noise, another for each seed.
double code_of(double residual, uint64_t seed) {
  const double noise = static_cast<double>(seed * 0x9e3779b97f4a7c15U >> 40) * 0x1p-24 - 0.5;
  return std::nearbyint(residual + 0.6 * noise);
}

double bits_of(double code) { return static_cast<double>(bits_of_code(std::fabs(code))); }

}  // namespace

template <typename W>
std::vector<double> difference_savings(const Settings& settings, const Region<W>& region) {
  constexpr uint64_t kLooks = 512;
  constexpr unsigned kLevels = 2;
  const Extents& shape = region.box.shape;
  const uint64_t count = element_count(shape);
  const std::array<Residuals<W>, kLevels> by_level = {Residuals<W>(settings, region, 0),
                                                      Residuals<W>(settings, region, 1)};
  std::vector<double> plain(shape.size());
  std::vector<double> different(shape.size());
  const auto& predicted = settings.geometry.predicted;
  for (uint64_t look = 0; look < std::min(kLooks, count / 16); ++look) {
    uint64_t place = (look * 0x9e3779b97f4a7c15U >> 20) % count;
    const unsigned level = look % kLevels;
    Extents index(shape.size());
    for (size_t axis = shape.size(); axis-- > 0; place /= shape[axis]) {
      index[axis] = place % shape[axis];
    }
    for (const uint8_t axis : predicted) {
      const uint64_t over = (region.box.origin[axis] + index[axis]) % (uint64_t{1} << level);
      index[axis] = index[axis] >= over ? index[axis] - over : index[axis] + (uint64_t{1} << level) - over;
    }
    const Residuals<W>& residuals = by_level.at(level);
    const double weight = 1.0 / static_cast<double>(uint64_t{1} << (level * predicted.size()));
    const double residual = residuals.at(index, 0, 0);
    if (!std::isfinite(residual)) {
      continue;
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const uint64_t apart = settings.geometry.grid_axis(axis) ? uint64_t{2} << level : 1;
      const double before = residuals.at(index, axis, apart);
      if (std::isfinite(before)) {
        const double code = code_of(residual, 2 * look);
        plain[axis] += weight * bits_of(code);
        different[axis] += weight * bits_of(code - code_of(before, 2 * look + 1));
      }
    }
  }
  std::vector<double> savings(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    savings[axis] = plain[axis] > 0 ? 1 - different[axis] / plain[axis] : 0;
  }
  return savings;
}

template std::vector<double> difference_savings(const Settings&, const Region<float>&);
template std::vector<double> difference_savings(const Settings&, const Region<double>&);

}  // namespace varve::codec
