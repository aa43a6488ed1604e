// Parts of arrays as .npy images.
#pragma once

#include "fs/formats/region_spec.h"

namespace varve::fs {

/// An array as a program indexes it.
struct IndexedArray {
  ImageSource source;    ///< shape slowest axis first, then the axes inside an element
  codec::Extents shape;  ///< as a program gives it: of a Fortran-order array, the source's reversed
  bool fortran_order = false;
  size_t inner = 0;  ///< axes inside an element: of complex numbers, 1
  std::string type;  ///< NumPy's: "<f4", ...
};

/// NumPy's name of an element type; `complex`: of pairs. Of bfloat16, which NumPy lacks, two bytes.
std::string numpy_type(codec::DType dtype, bool big_endian, bool complex);

/// The bytes before the elements of an .npy file.
std::vector<std::byte> npy_header(const std::string& type, bool fortran_order, const codec::Extents& shape);

/// The part as an .npy image. ENOENT: the array has no such part.
Result<FileImage> region_image(const IndexedArray& array, const RegionSpec& spec);

/// The same from elements that are at hand: those of `part`, in C order.
FileImage literal_image(const std::string& type, const RegionSpec::Part& part, std::vector<std::byte> elements);

/// Extents of the axes that stay.
codec::Extents kept_shape(const RegionSpec::Part& part);

}  // namespace varve::fs
