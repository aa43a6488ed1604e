// Encoding parts of an array to see what settings come to.
#pragma once

#include "codec/settings.h"

namespace varve::codec {

/// The middle of an array, with the longest axes cut until it has at most `limit` elements.
Box middle(const Extents& shape, uint64_t limit);

/// A part of an array, in the form that is encoded, C order.
struct Sample {
  Extents shape;
  const std::byte* data;
};

/// Encodes a part as an array by itself, along the axes of `settings`.
void tally_array(const Settings& settings, const Sample& part, Tally& tally);

/// Bits that an array of `whole` elements takes if all of it is as in `sample`, its header among them.
double sample_bits(const std::vector<Sample>& sample, Settings settings, const Extents& whole);

/// Settings for differences (see lorenzo.h) of multiples of the quantum of `codes`, without axes and special values.
Settings lorenzo_settings(const Settings& codes);

/// An array of floats as it is encoded under such settings along `axes`, whose escapes are added; empty: some element
/// does not fit.
Bytes planned_differences(Settings& settings, const std::vector<uint8_t>& axes, const Extents& shape,
                          std::span<const std::byte> floats);

}  // namespace varve::codec
