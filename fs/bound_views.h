// .varve/bound/V/PATH: a file as few records give it under a looser bound.
#pragma once

#include <string_view>
#include <vector>

#include "fs/reader.h"

namespace varve::fs {

/// V: "abs:X", "rel:X", both, "lossless", or a number, which is "abs:". Others: EINVAL with a sentence.
Result<codec::Bound> parse_view_bound(std::string_view text);

/// For each array of a file: the coarsest level whose stated error (ArrayEntry::errors) is within `bound`. Arrays that
/// a bound of a directory leaves exact stay at level 0. EIO, and a sentence that names the array: as it is stored it
/// differs by more.
Result<std::vector<uint8_t>> levels_within(const Sealed& sealed, const codec::Bound& bound);

}  // namespace varve::fs
