// NumPy's .npy: a magic number, a header that is a Python dictionary in text, and the elements.
// Method: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

inline constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};

struct NpyHeader {
  std::string type;  ///< "<f4", ...; empty: a record
  bool fortran_order = false;
  codec::Extents shape;  ///< as written
  uint64_t data = 0;     ///< offset of the first element
};

/// Nothing: no .npy file. A header that does not parse: EBADMSG.
Result<std::optional<NpyHeader>> read_npy_header(FileView& file);

struct NpyArray {
  ArrayRegion region;
  size_t inner = 0;  ///< axes inside an element: 1 of complex numbers
};

/// Nothing: elements that are no numbers, or none. EBADMSG: the file is shorter than its header says.
Result<std::optional<NpyArray>> npy_array(const NpyHeader& header, uint64_t file_size);

/// Nothing: no .npy file. A header that does not parse, or a file shorter than its header says: EBADMSG. Element types
/// that are no numbers (objects, strings, records) and empty arrays: a result without arrays.
Result<std::optional<Recognised>> recognise_npy(FileView& file);

}  // namespace varve::fs
