// Opening HDF5 files that nobody vouches for.
#pragma once

#include <memory>
#include <mutex>

#include "fs/formats/hdf5_driver.h"

namespace varve::fs {

/// An open file, the only one in this process: the library has global state, which the lock guards.
struct Hdf5File {
  std::unique_lock<std::mutex> lock;
  Hdf5Source source;
  std::unique_ptr<Hdf5Id> id;
};

/// Opens the file for reading. Null: no HDF5 signature. EBADMSG: it is being written, or the library cannot open it.
Result<std::unique_ptr<Hdf5File>> open_hdf5_file(FileView& file);

/// EBADMSG with the library's reason and what to do.
Error unreadable_hdf5(std::string_view reason);

}  // namespace varve::fs
