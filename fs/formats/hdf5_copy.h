// Types, values and attributes of one HDF5 file in another, whose objects have other addresses.
#pragma once

#include <map>
#include <string>

#include "fs/formats/hdf5_driver.h"

namespace varve::fs {

/// The objects of a file that are in another: paths there, by address here. Object references follow them; those to
/// anything else, and references to regions, become null.
struct Hdf5Twins {
  hid_t from = -1, to = -1;  ///< files
  std::map<haddr_t, std::string> paths;
};

/// A type for the other file: its own committed type where it has the twin of one, else a copy. To be closed.
hid_t type_in(const Hdf5Twins& twins, hid_t type);

/// Sends the object references in `count` elements of `type` (as in memory) to the other file's objects.
void follow_references(const Hdf5Twins& twins, hid_t type, std::byte* elements, uint64_t count);

/// Copies the attributes of an object, in the order in which they were made where that is known. EIO: the library
/// refused one.
Status copy_attributes(const Hdf5Twins& twins, hid_t from, hid_t to);

/// Elements in memory, with what variable-length ones point to; freed with their owner.
class Hdf5Values {
 public:
  Hdf5Values(hid_t type, hid_t space);
  ~Hdf5Values();
  Hdf5Values(const Hdf5Values&) = delete;
  Hdf5Values& operator=(const Hdf5Values&) = delete;
  std::byte* data() { return bytes_.data(); }
  hid_t type() const { return type_.get(); }
  uint64_t count() const { return count_; }

 private:
  Hdf5Id type_;  ///< of the elements in memory
  hid_t space_;
  uint64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace varve::fs
