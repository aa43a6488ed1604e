// NumPy's .npy: a magic number, a header that is a Python dictionary in text, and the elements.
// Method: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

inline constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};

/// Nothing: no .npy file. A header that does not parse, or a file shorter than its header says: EBADMSG. Element types
/// that are no numbers (objects, strings, records) and empty arrays: a result without arrays.
Result<std::optional<Recognised>> recognise_npy(FileView& file);

}  // namespace varve::fs
