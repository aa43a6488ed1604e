// HDF5 datatypes and attributes -> the project's words.
#pragma once

#include <hdf5.h>

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// What one element of a dataset is made of.
struct Hdf5Element {
  codec::DType dtype = codec::DType::u8;
  bool big_endian = false;
  codec::Extents inner;  ///< axes inside the element: of an array datatype, or {2} of a complex number
};

/// Nothing: not made of integers or IEEE floats that fill their bytes.
std::optional<Hdf5Element> describe_type(hid_t type);

/// The library's type for `dtype` in this machine's order; not to be closed. Negative for f16, which it lacks.
hid_t native_type(codec::DType dtype);

/// The attribute's value when it is one string (a fixed or a variable one).
std::optional<std::string> text_attribute(hid_t object, const char* name);

bool has_attribute(hid_t object, const char* name);

/// Appends the fill value of the creation properties, `_FillValue` and `missing_value` to `values`, as patterns of
/// `dtype`; each once, at most eight.
void collect_fill_values(hid_t dataset, hid_t creation, hid_t file_type, const Hdf5Element& element,
                         std::vector<uint64_t>& values);

}  // namespace varve::fs
