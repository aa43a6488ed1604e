// Datasets of an open HDF5 file: what they are made of, and where their elements lie.
#pragma once

#include "fs/formats/file_image.h"
#include "fs/formats/hdf5_driver.h"
#include "fs/formats/hdf5_types.h"

namespace varve::fs {

/// An open dataset. `id` and the others are closed with it.
struct Hdf5Dataset {
  /// Follows no external link. id is negative when there is no such dataset.
  Hdf5Dataset(hid_t file, const std::string& name);
  explicit operator bool() const { return id && creation && space && type; }

  Hdf5Id id, creation, space, type;
};

/// What look-ups in a file have cost, and where they go.
struct Hdf5Lookups {
  Hdf5Source* source = nullptr;
  uint64_t chunks = 0;  ///< looked up so far
};

/// The extents of a dataset, without its elements' inner axes. Nothing: it has none, or they cannot be read.
std::optional<codec::Extents> shape_of(hid_t space);

/// An array whose elements lie in the file as they are, or behind filters that are known here (ChunkFilter): contiguous
/// or chunked, not empty, of numbers. Nothing: it is another kind.
std::optional<ArrayRegion> locate_array(Hdf5Lookups& lookups, const std::string& name, const Hdf5Dataset& dataset);

/// The same for images, with what fills elements that were never written; also of a dataset of which none was. `whole`:
/// the dataset's extents and those inside an element. ENOENT: some were not written, and no one number fills them.
Result<std::optional<ImageSource>> source_of(Hdf5Lookups& lookups, const Hdf5Dataset& dataset,
                                             const Hdf5Element& element, const codec::Extents& whole);

}  // namespace varve::fs
