// A read-only HDF5 virtual file driver on a FileView.
#pragma once

#include <hdf5.h>

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// An HDF5 identifier that is closed with its owner. Negative: the call that gave it failed.
class Hdf5Id {
 public:
  using Closer = herr_t (*)(hid_t);
  Hdf5Id(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  ~Hdf5Id() {
    if (id_ >= 0) {
      closer_(id_);
    }
  }
  Hdf5Id(const Hdf5Id&) = delete;
  Hdf5Id& operator=(const Hdf5Id&) = delete;

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_;
  Closer closer_;
};

/// What the driver shares with its user. Must outlive the HDF5 file that is open on it. Not thread-safe.
struct Hdf5Source {
  FileView* view = nullptr;
  /// While set, reads of array data are not done but noted: `address` (from the start of the file, user block included)
  /// and `size`. The buffer is left alone. This is how chunks are found: H5Dread_chunk costs one look-up in the chunk
  /// index, where H5Dget_chunk_info walks that index from its start.
  bool note_only = false;
  bool noted = false;
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t end = 0;  ///< of what the library allocated
};

/// Opens the file behind `source`, read-only. EBADMSG: the library's reason.
Result<hid_t> open_hdf5(Hdf5Source& source);

/// What HDF5's error stack says, which is emptied. Any other call into the library empties it too.
std::string take_hdf5_error();

}  // namespace varve::fs
