// What differences from Lorenzo's predictor would cost, from a few points.
#include <cmath>

#include "codec/coding.h"
#include "codec/estimate.h"

namespace varve::codec {

namespace {

constexpr size_t kPoints = 256;
constexpr size_t kMaxAxes = 4;  ///< the last ones longer than 1, as in axis_choices()

}  // namespace

template <typename W>
AxisEstimate estimate_lorenzo(const Settings& settings, const std::vector<std::vector<uint8_t>>& choices,
                              const Region<W>& region) {
  const Extents& shape = region.box.shape;
  const Coding<W> coding(settings);
  const uint64_t count = element_count(shape);
  const uint64_t step = std::max<uint64_t>(1, count / kPoints) | 1U;  // odd: columns are not alike
  // What lies before a point: along each of the last axes longer than 1, and so along each set of them.
  std::vector<uint64_t> back(1, 0);
  std::vector<std::pair<uint64_t, uint64_t>> axes;  // stride and extent
  std::vector<unsigned> bit_of(shape.size());
  uint64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] > 1 && axes.size() < kMaxAxes) {
      bit_of[axis] = static_cast<unsigned>(axes.size());
      axes.emplace_back(stride, shape[axis]);
      for (size_t set = 0, sets = back.size(); set < sets; ++set) {
        back.push_back(back[set] + stride);
      }
    }
    stride *= shape[axis];
  }
  std::vector<std::vector<unsigned>> sets;  // of each choice: what its differences are made of
  for (const auto& choice : choices) {
    auto& some = sets.emplace_back(1, 0U);
    for (const uint8_t axis : choice) {
      for (size_t set = 0, now = some.size(); set < now && shape[axis] > 1; ++set) {
        some.push_back(some[set] | 1U << bit_of[axis]);
      }
    }
  }
  std::vector<double> bits(choices.size());
  std::vector<double> whole(back.size());
  size_t points = 0;
  for (uint64_t at = step / 2; at < count; at += step) {
    if (std::any_of(axes.begin(), axes.end(), [&](const auto& axis) { return at / axis.first % axis.second == 0; })) {
      continue;
    }
    bool plain = true;
    for (size_t set = 0; set < back.size(); ++set) {
      const W x = region.data[at - back[set]];
      plain = plain && !coding.is_special(x);
      whole[set] = std::nearbyint(static_cast<double>(x) / settings.quantum);
    }
    points += plain ? 1 : 0;
    for (size_t choice = 0; choice < choices.size() && plain; ++choice) {
      double difference = 0;
      for (const unsigned set : sets[choice]) {
        difference += std::popcount(set) % 2 == 0 ? whole[set] : -whole[set];
      }
      bits[choice] += bits_of_code(std::fabs(difference));
    }
  }
  if (points == 0) {
    return {choices[0], Interpolation::none, std::numeric_limits<double>::infinity()};
  }
  const auto least = std::min_element(bits.begin(), bits.end());
  return {choices[static_cast<size_t>(least - bits.begin())], Interpolation::none,
          *least / static_cast<double>(points)};
}

template AxisEstimate estimate_lorenzo(const Settings&, const std::vector<std::vector<uint8_t>>&, const Region<float>&);
template AxisEstimate estimate_lorenzo(const Settings&, const std::vector<std::vector<uint8_t>>&,
                                       const Region<double>&);

}  // namespace varve::codec
