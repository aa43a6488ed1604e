// Images of HDF5 files: see file_image.h.
#pragma once

#include "fs/formats/region_spec.h"

namespace varve::fs {

/// A part of a dataset as an .npy image. Elements that lie in the file as they are come from there; those of compressed
/// and compact datasets are in the image, up to kMostLiteral bytes. ENOENT: no such dataset, or none of numbers.
Result<FileImage> hdf5_region(FileView& file, const RegionSpec& spec);

/// The file with thinned datasets: groups, attributes, links and their order as they are, object references and
/// dimension scales follow. Left out: datasets that lie in other files or need a filter that the library has not. Up to
/// kMostLiteral bytes that are no slices.
Result<FileImage> hdf5_coarse(FileView& file, uint8_t shift);

inline constexpr uint64_t kMostLiteral = uint64_t{64} << 20;

}  // namespace varve::fs
