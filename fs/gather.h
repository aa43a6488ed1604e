// The elements of an array, from where they lie in a file.
#pragma once

#include <functional>
#include <span>

#include "codec/box.h"
#include "fs/formats/recogniser.h"

namespace varve::fs {

/// Fills `out` from the file's bytes at `offset`. Thread-safe.
using ReadContent = std::function<Status(uint64_t offset, std::span<std::byte> out)>;

/// Reads the elements of `box` of `region` through `read`: C order, host byte order. Elements of chunks that the file
/// does not store get the first fill value, or 0.
Status gather_box(const ArrayRegion& region, const codec::Box& box, const ReadContent& read, std::byte* out);

}  // namespace varve::fs
