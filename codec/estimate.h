// What predicting an array along this or that set of axes would cost, from a few of its points and without encoding.
#pragma once

#include "codec/settings.h"

namespace varve::codec {

/// About log2(v) for v >= 1: exact at powers of two, linear between them.
inline float rough_log2(float v) {
  return static_cast<float>(std::bit_cast<uint32_t>(v) - 0x3f800000U) * (1.0F / 8388608.0F);
}

/// About the bits of a code of `size` quanta, which need not be whole.
inline float bits_of_code(double size) {
  const double t = std::min(size, 1e15);
  return 0.5F * rough_log2(1.0F + 40.0F * static_cast<float>(t * t));
}

/// A part of an array: its points (see Coding), C order.
template <typename W>
struct Region {
  Box box;
  const W* data = nullptr;
};

/// Sets of axes worth predicting along: up to three of the last four longer than 1, larger sets first.
std::vector<std::vector<uint8_t>> axis_choices(const Extents& shape);

struct AxisEstimate {
  std::vector<uint8_t> axes;
  Interpolation interpolation = Interpolation::cubic;
  double bits = 0;  ///< for each point
};

/// Every choice of axes with each interpolation (quintic: for codes), best first. `whole`: the array's extents. With
/// `settings.quantum` > 0 for codes, else for exact residuals. A point's bits are taken as a function of its residual
/// alone; the quantization of its neighbours is imitated by noise.
template <typename W>
std::vector<AxisEstimate> estimate_axes(const Settings& settings, const Extents& whole,
                                        const std::vector<Region<W>>& regions);

/// The axes of `choices` along which differences of whole quanta (see lorenzo.h) cost the least, and what they cost for
/// each point.
template <typename W>
AxisEstimate estimate_lorenzo(const Settings& settings, const std::vector<std::vector<uint8_t>>& choices,
                              const Region<W>& region);

extern template AxisEstimate estimate_lorenzo(const Settings&, const std::vector<std::vector<uint8_t>>&,
                                              const Region<float>&);
extern template AxisEstimate estimate_lorenzo(const Settings&, const std::vector<std::vector<uint8_t>>&,
                                              const Region<double>&);

/// Whether the region's points are what `settings`, with their geometry, decode to: their differences from their
/// predictions are whole codes, bit for bit. Looks at some points of level 0; nothing: there are none to look at.
template <typename W>
std::optional<bool> looks_decoded(const Settings& settings, const Region<W>& region);

/// For each axis, which part of an array's bits would be saved if codes were coded as differences along it; below 0
/// where that makes more. From some points of levels 0 and 1; the quantization of their neighbours is imitated by
/// noise. A trial has to confirm it.
template <typename W>
std::vector<double> difference_savings(const Settings& settings, const Region<W>& region);

extern template std::vector<double> difference_savings(const Settings&, const Region<float>&);
extern template std::vector<double> difference_savings(const Settings&, const Region<double>&);

extern template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&,
                                                        const std::vector<Region<float>>&);
extern template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&,
                                                        const std::vector<Region<double>>&);
extern template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&,
                                                        const std::vector<Region<int32_t>>&);
extern template std::vector<AxisEstimate> estimate_axes(const Settings&, const Extents&,
                                                        const std::vector<Region<int64_t>>&);

extern template std::optional<bool> looks_decoded(const Settings&, const Region<float>&);
extern template std::optional<bool> looks_decoded(const Settings&, const Region<double>&);

}  // namespace varve::codec
