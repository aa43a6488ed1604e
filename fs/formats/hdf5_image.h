// Images of HDF5 files: see file_image.h.
#pragma once

#include "fs/formats/region_spec.h"

namespace varve::fs {

/// A part of a dataset as an .npy image. Elements that lie in the file as they are come from there; those of compressed
/// and compact datasets are in the image, up to kMostLiteral bytes. ENOENT: no such dataset, or none of numbers.
Result<FileImage> hdf5_region(FileView& file, const RegionSpec& spec);

inline constexpr uint64_t kMostLiteral = uint64_t{64} << 20;

}  // namespace varve::fs
