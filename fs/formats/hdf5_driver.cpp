#include "fs/formats/hdf5_driver.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace varve::fs {

namespace {

constexpr haddr_t kMaxAddress = (haddr_t{1} << 62) - 1;

/// What the library holds for an open file: its own part first, as it demands.
struct Driver {
  H5FD_t common;
  Hdf5Source* source;
  haddr_t end_of_allocation;
};

Driver* as_driver(H5FD_t* file) { return reinterpret_cast<Driver*>(file); }
const Driver* as_driver(const H5FD_t* file) { return reinterpret_cast<const Driver*>(file); }

H5FD_t* open_file(const char* /*name*/, unsigned flags, hid_t access, haddr_t /*max_address*/) {
  const void* info = H5Pget_driver_info(access);
  if (info == nullptr || (flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0) {
    return nullptr;
  }
  auto* driver = new (std::nothrow) Driver{};
  if (driver != nullptr) {
    std::memcpy(static_cast<void*>(&driver->source), info, sizeof driver->source);
  }
  return reinterpret_cast<H5FD_t*>(driver);
}

herr_t close_file(H5FD_t* file) {
  delete as_driver(file);
  return 0;
}

herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t /*type*/) { return as_driver(file)->end_of_allocation; }

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  as_driver(file)->end_of_allocation = address;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return std::min<haddr_t>(as_driver(file)->source->view->size(), kMaxAddress);
}

herr_t read_range(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address, size_t size, void* buffer) {
  Hdf5Source& source = *as_driver(file)->source;
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

constexpr H5FD_class_t kDriverClass = {
    .name = "varve",
    .maxaddr = kMaxAddress,
    .fc_degree = H5F_CLOSE_STRONG,
    .terminate = nullptr,
    .sb_size = nullptr,
    .sb_encode = nullptr,
    .sb_decode = nullptr,
    .fapl_size = sizeof(Hdf5Source*),
    .fapl_get = nullptr,
    .fapl_copy = nullptr,
    .fapl_free = nullptr,
    .dxpl_size = 0,
    .dxpl_copy = nullptr,
    .dxpl_free = nullptr,
    .open = open_file,
    .close = close_file,
    .cmp = nullptr,
    .query = query,
    .get_type_map = nullptr,
    .alloc = nullptr,
    .free = nullptr,
    .get_eoa = end_of_allocation,
    .set_eoa = set_end_of_allocation,
    .get_eof = end_of_file,
    .get_handle = nullptr,
    .read = read_range,
    .write = refuse_write,
    .flush = nullptr,
    .truncate = nullptr,
    .lock = nullptr,
    .unlock = nullptr,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

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
