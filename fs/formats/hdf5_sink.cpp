#include "fs/formats/hdf5_sink.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "fs/formats/hdf5_driver.h"
#include "fs/formats/hdf5_driver_class.h"

namespace varve::fs {

namespace {

constexpr haddr_t kMaxAddress = (haddr_t{1} << 60) - 1;

using OpenFile = Hdf5OpenFile<Hdf5Sink>;

H5FD_t* open_file(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*max_address*/) {
  return OpenFile::open(access);
}

herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
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
  const Hdf5Sink& sink = OpenFile::user_of(file);
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
  Hdf5Sink& sink = OpenFile::user_of(file);
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

constexpr H5FD_class_t kSinkClass = [] {
  H5FD_class_t made = hdf5_driver_class<Hdf5Sink>("varve-image", kMaxAddress);
  made.open = open_file;
  made.query = query;
  made.get_eof = OpenFile::get_end;
  made.read = read_range;
  made.write = write_range;
  return made;
}();

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
