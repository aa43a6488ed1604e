#include "fs/formats/hdf5_sink.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "fs/formats/hdf5_driver.h"

namespace varve::fs {

namespace {

constexpr haddr_t kMaxAddress = (haddr_t{1} << 60) - 1;

struct Driver {
  H5FD_t common;
  Hdf5Sink* sink;
};

Hdf5Sink& sink_of(const H5FD_t* file) { return *reinterpret_cast<const Driver*>(file)->sink; }

H5FD_t* open_file(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*max_address*/) {
  const void* info = H5Pget_driver_info(access);
  auto* driver = info == nullptr ? nullptr : new (std::nothrow) Driver{};
  if (driver != nullptr) {
    std::memcpy(static_cast<void*>(&driver->sink), info, sizeof driver->sink);
  }
  return reinterpret_cast<H5FD_t*>(driver);
}

herr_t close_file(H5FD_t* file) {
  delete reinterpret_cast<Driver*>(file);
  return 0;
}

herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t /*type*/) { return sink_of(file).end; }

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  sink_of(file).end = address;
  return 0;
}

/// Calls f(page number, place in the page, place in the buffer, bytes) for the pages of a range.
template <typename F>
void for_each_page(haddr_t address, size_t size, F&& f) {
  for (size_t done = 0; done < size;) {
    const uint64_t at = address + done;
    const size_t skip = at % Hdf5Sink::kPage;
    const size_t part = std::min<size_t>(size - done, Hdf5Sink::kPage - skip);
    f(at / Hdf5Sink::kPage, skip, done, part);
    done += part;
  }
}

herr_t read_range(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, size_t size, void* buffer) {
  const Hdf5Sink& sink = sink_of(file);
  auto* out = static_cast<std::byte*>(buffer);
  for_each_page(address, size, [&](uint64_t page, size_t skip, size_t done, size_t part) {
    if (const auto found = sink.pages.find(page); found != sink.pages.end()) {
      std::memcpy(out + done, found->second.data() + skip, part);
    } else {
      std::memset(out + done, 0, part);
    }
  });
  return 0;
}

herr_t write_range(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, size_t size,
                   const void* buffer) {
  Hdf5Sink& sink = sink_of(file);
  const auto* in = static_cast<const std::byte*>(buffer);
  try {
    for_each_page(address, size, [&](uint64_t page, size_t skip, size_t done, size_t part) {
      sink.full = sink.full || (sink.pages.size() >= sink.most_pages && !sink.pages.contains(page));
      if (!sink.full) {
        std::vector<std::byte>& bytes = sink.pages[page];
        bytes.resize(Hdf5Sink::kPage);
        std::memcpy(bytes.data() + skip, in + done, part);
      }
    });
  } catch (const std::bad_alloc&) {  // must not pass through the C library
    sink.full = true;
  }
  return sink.full ? -1 : 0;
}

constexpr H5FD_class_t kSinkClass = {
    .name = "varve-image",
    .maxaddr = kMaxAddress,
    .fc_degree = H5F_CLOSE_STRONG,
    .terminate = nullptr,
    .sb_size = nullptr,
    .sb_encode = nullptr,
    .sb_decode = nullptr,
    .fapl_size = sizeof(Hdf5Sink*),
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
    .get_eof = end_of_allocation,
    .get_handle = nullptr,
    .read = read_range,
    .write = write_range,
    .flush = nullptr,
    .truncate = nullptr,
    .lock = nullptr,
    .unlock = nullptr,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

}  // namespace

Result<hid_t> create_hdf5(Hdf5Sink& sink, hid_t creation) {
  static const hid_t driver = H5FDregister(&kSinkClass);
  const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  Hdf5Sink* pointer = &sink;
  if (driver < 0 || !access || H5Pset_driver(access.get(), driver, static_cast<const void*>(&pointer)) < 0 ||
      H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST) < 0) {
    return Error{ENOMEM, take_hdf5_error()};
  }
  const hid_t file = H5Fcreate("varve-image", H5F_ACC_TRUNC, creation, access.get());
  return file < 0 ? Result<hid_t>(Error{EIO, take_hdf5_error()}) : Result<hid_t>(file);
}

}  // namespace varve::fs
