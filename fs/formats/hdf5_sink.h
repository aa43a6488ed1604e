// A write-only place for an HDF5 file that the library makes: what it writes is kept, what it only gives a place is
// not.
#pragma once

#include <hdf5.h>

#include <map>

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// Must outlive the HDF5 file that is open on it. Not thread-safe.
struct Hdf5Sink {
  static constexpr uint64_t kPage = 65536;
  /// Bytes that were written, by page; what is in none is zeros.
  std::map<uint64_t, std::vector<std::byte>> pages;
  uint64_t end = 0;         ///< of what the library allocated
  uint64_t most_pages = 0;  ///< a write that would need more fails
  bool full = false;        ///< one did
};

/// Creates a file in `sink`. `creation`: a file creation property list. EIO: the library's reason.
Result<hid_t> create_hdf5(Hdf5Sink& sink, hid_t creation);

}  // namespace varve::fs
