#include "codec/trial.h"

#include "codec/lorenzo.h"

namespace varve::codec {

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

void tally_array(const Settings& settings, const Sample& part, Tally& tally) {
  Settings trial = settings;
  trial.geometry = Geometry::make(part.shape, settings.geometry.predicted);
  Bytes memory;
  for (uint64_t tile = 0; tile < trial.geometry.tile_count(); ++tile) {
    const std::byte* data = tile_elements(trial.geometry, tile, part.data, element_size(settings.dtype), memory);
    if (trial.scheme == Scheme::elements) {
      tally.side_bits += 8 * elements_size(trial, tile, data);
    } else {
      tally_tile(trial, tile, data, 1, tally);
    }
  }
}

double sample_bits(const std::vector<Sample>& sample, Settings settings, const Extents& whole) {
  Tally tally;
  double points = 0;
  for (const Sample& one : sample) {
    tally_array(settings, one, tally);
    points += static_cast<double>(element_count(one.shape));
  }
  auto bits = static_cast<double>(tally.side_bits);
  if (settings.scheme != Scheme::elements) {
    settings.tables = TableSet::build(tally.histogram, true);
    bits += settings.tables.bits(tally.histogram);
  }
  return bits * static_cast<double>(element_count(whole)) / points +
         8 * static_cast<double>(write_header(settings).size());
}

Settings lorenzo_settings(const Settings& codes) {
  Settings made = codes;
  made.interpolation = Interpolation::none;
  made.scheme = Scheme::residuals;
  made.difference_axis.reset();
  made.schedule = 0;
  made.residual_base = 0;
  made.work_bound = made.quantum = 0;
  made.lorenzo = Lorenzo{codes.quantum, codes.specials};
  made.dtype = integers_of(codes.dtype);
  return made;
}

Bytes planned_differences(Settings& settings, const std::vector<uint8_t>& axes, const Extents& shape,
                          std::span<const std::byte> floats) {
  settings.geometry = Geometry::make(shape, axes);
  Bytes out(floats.size());
  if (!plan_differences(settings, floats.data(), out.data())) {
    return {};
  }
  settings.specials.clear();
  for (size_t i = 0; i < settings.lorenzo->escapes.size(); ++i) {
    settings.specials.push_back(escape_bits(settings.element_type(), i));
  }
  return out;
}

}  // namespace varve::codec
