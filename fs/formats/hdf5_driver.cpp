#include "fs/formats/hdf5_driver.h"

#include <algorithm>
#include <cstring>

#include "fs/formats/hdf5_driver_class.h"

namespace varve::fs {

namespace {

constexpr haddr_t kMaxAddress = (haddr_t{1} << 62) - 1;

using OpenFile = Hdf5OpenFile<Hdf5Source>;

H5FD_t* open_file(const char* /*name*/, unsigned flags, hid_t access, haddr_t /*max_address*/) {
  const bool write = (flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0;
  return write ? nullptr : OpenFile::open(access);
}

herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return std::min<haddr_t>(OpenFile::user_of(file).view->size(), kMaxAddress);
}

herr_t read_range(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address, size_t size, void* buffer) {
  Hdf5Source& source = OpenFile::user_of(file);
  if (source.note_only && type == H5FD_MEM_DRAW) {
    source.noted = true;
    source.address = address;
    source.size = size;
    return 0;
  }
  if (address > kMaxAddress || size > kMaxAddress) {
    return -1;
  }
  auto got = source.view->read(address, {static_cast<std::byte*>(buffer), size});
  if (!got.ok()) {
    return -1;
  }
  std::memset(static_cast<std::byte*>(buffer) + *got, 0, size - *got);  // past the end: zeros, as other drivers do
  return 0;
}

herr_t refuse_write(H5FD_t* /*file*/, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t /*address*/, size_t /*size*/,
                    const void* /*buffer*/) {
  return -1;
}

constexpr H5FD_class_t kDriverClass = [] {
  H5FD_class_t made = hdf5_driver_class<Hdf5Source>("varve", kMaxAddress);
  made.open = open_file;
  made.query = query;
  made.get_eof = end_of_file;
  made.read = read_range;
  made.write = refuse_write;
  return made;
}();

herr_t note_innermost(unsigned /*depth*/, const H5E_error2_t* entry, void* data) {
  if (entry->desc != nullptr) {
    *static_cast<std::string*>(data) = entry->desc;
  }
  return 0;
}

}  // namespace

Result<hid_t> open_hdf5(Hdf5Source& source) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors come back as values; nothing is printed
  H5PLset_loading_state(0);                     // a file must not make the library load filter plugins
  static const hid_t driver = H5FDregister(&kDriverClass);
  Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  Hdf5Source* pointer = &source;
  if (driver < 0 || !access || H5Pset_driver(access.get(), driver, static_cast<const void*>(&pointer)) < 0) {
    return Error{ENOMEM, take_hdf5_error()};
  }
  hid_t file = H5Fopen("varve", H5F_ACC_RDONLY, access.get());
  if (file < 0) {
    return Error{EBADMSG, take_hdf5_error()};  // before any other call into the library empties its stack
  }
  return file;
}

std::string take_hdf5_error() {
  std::string text = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_innermost, &text);
  std::string innermost = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, note_innermost, &innermost);
  H5Eclear2(H5E_DEFAULT);
  return innermost == text ? text : text + ": " + innermost;
}

}  // namespace varve::fs
