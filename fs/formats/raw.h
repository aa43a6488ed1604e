// Files that are nothing but numbers: what they are is in their name, or in a rule of the policy.
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// "pressure_256x384x384.f32" -> f32, {256, 384, 384}: the dimensions, slowest first, after the last '_', '-' or '.' of
/// the stem, and a dtype as extension ("f32", "float64", "i16", ...; little-endian). Nothing: no such name.
std::optional<RawHint> raw_hint_of_name(std::string_view name);

/// With `hint`: the array, or EINVAL when the size disagrees. Without: by the name, if the size agrees.
Result<std::optional<Recognised>> recognise_raw(std::string_view name, FileView& file,
                                                const std::optional<RawHint>& hint);

}  // namespace varve::fs
