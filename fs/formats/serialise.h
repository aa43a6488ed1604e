// An array's description as bytes and back: for the worker's answers.
#pragma once

#include "fs/formats/recogniser.h"
#include "fs/serial.h"

namespace varve::fs {

inline constexpr size_t kSmallestArray = 10;  ///< bytes that an array takes at least

void write_filters(SerialWriter& out, const std::vector<ChunkFilter>& filters);
std::vector<ChunkFilter> read_filters(SerialReader& in);

void write_array(SerialWriter& out, const ArrayRegion& array);
/// Unchecked: see check_array, and `in` for whether there was one.
ArrayRegion read_array(SerialReader& in);

}  // namespace varve::fs
