// HDF5 and NetCDF-4, through the HDF5 library.
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// Whether the HDF5 signature stands at offset 0, 512, 1024, 2048, ... (after a user block).
bool has_hdf5_signature(FileView& file);

/// Has the library do what it does once in a process, and makes an image of a small file, so that the code for it is in
/// memory when the first real one is asked for.
void prepare_hdf5();

/// Nothing: no signature. EBADMSG: the library cannot walk the file; the text is the library's reason. Claims
/// contiguous and chunked datasets of integers, floats, enumerations, arrays and complex pairs of them; chunked ones
/// when nothing but shuffle, Fletcher32 and deflate filters them. One call at a time in a process (the library has
/// global state; a lock sees to it).
Result<std::optional<Recognised>> recognise_hdf5(FileView& file);

}  // namespace varve::fs
