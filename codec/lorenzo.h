// Floats under a bound as whole multiples of a step, and those as differences from Lorenzo's predictor (Ibarria,
// Lindstrom, Rossignac and Szymczak, "Out-of-core compression and decompression of large n-dimensional scalar fields",
// Computer Graphics Forum 22(3), 2003). Rounding comes first, so that differences are exact and a brick is undone by
// sums alone, as in cuSZ (Tian et al., PACT 2020). Better than interpolation where what is near tells more than what is
// smooth: noise, steps, values that repeat.
#pragma once

#include "codec/settings.h"

namespace varve::codec {

/// Brings the elements of `bricks`, which lie in `frame` (a tile, or the whole array), into their stored form: integers
/// of as many bytes at the same places. Both arrays: the elements of `frame`, C order. False: an element fits neither
/// the bound nor the escapes (and `out` is not complete).
bool to_differences(const Settings& settings, const Box& frame, std::span<const uint64_t> bricks,
                    const std::byte* floats, std::byte* out);

/// The inverse for the elements of one brick, in place; any integers give floats.
void from_differences(const Settings& settings, uint64_t brick, std::byte* elements);

/// The same for all bricks of an array, while it is planned: what no multiple stands for (infinities, NaN, -0.0)
/// becomes an escape of `settings`. False also where there would be too many.
bool plan_differences(Settings& settings, const std::byte* floats, std::byte* out);

/// Whether all elements but those that are or may become escapes are multiples of the step, to the bit.
bool are_multiples(const Settings& settings, std::span<const std::byte> floats);

}  // namespace varve::codec
