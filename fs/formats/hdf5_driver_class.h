// What HDF5's virtual file drivers have in common here.
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <iterator>
#include <new>

namespace varve::fs {

/// What the library holds for an open file of a driver: its own part first, as it demands. `User`: what a pointer to is
/// given to H5Pset_driver(); its `end` is that of what the library allocated.
template <typename User>
struct Hdf5OpenFile {
  H5FD_t common;
  User* user;

  static User& user_of(const H5FD_t* file) { return *reinterpret_cast<const Hdf5OpenFile*>(file)->user; }

  /// Null: no User was given, or no memory is left.
  static H5FD_t* open(hid_t access) {
    const void* info = H5Pget_driver_info(access);
    auto* made = info == nullptr ? nullptr : new (std::nothrow) Hdf5OpenFile{};
    if (made != nullptr) {
      made->user = *static_cast<User* const*>(info);
      made->user->end = 0;
    }
    return reinterpret_cast<H5FD_t*>(made);
  }
  static herr_t close(H5FD_t* file) {
    delete reinterpret_cast<Hdf5OpenFile*>(file);
    return 0;
  }
  static haddr_t get_end(const H5FD_t* file, H5FD_mem_t /*type*/) { return user_of(file).end; }
  static herr_t set_end(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
    user_of(file).end = address;
    return 0;
  }
};

/// A driver that leaves space management, locks and flushing to the library. Its `open`, `query`, `get_eof`, `read` and
/// `write` are to be set.
template <typename User>
constexpr H5FD_class_t hdf5_driver_class(const char* name, haddr_t max_address) {
  using OpenFile = Hdf5OpenFile<User>;
  constexpr H5FD_mem_t kFreeLists[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t made = {};
  made.name = name;
  made.maxaddr = max_address;
  made.fc_degree = H5F_CLOSE_STRONG;
  made.fapl_size = sizeof(User*);
  made.close = OpenFile::close;
  made.get_eoa = OpenFile::get_end;
  made.set_eoa = OpenFile::set_end;
  std::copy(std::begin(kFreeLists), std::end(kFreeLists), std::begin(made.fl_map));
  return made;
}

}  // namespace varve::fs
