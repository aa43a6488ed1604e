#include "tools/hdf5/library.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace varve::tools {

namespace {

Hdf5Library load(const char* path) {
  void* handle = path == nullptr ? nullptr : ::dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  const auto find = [&](const char* name) -> void* {
    void* symbol = handle == nullptr ? nullptr : ::dlsym(handle, name);
    return symbol != nullptr ? symbol : ::dlsym(RTLD_DEFAULT, name);  // a program that HDF5 is a part of
  };
  Hdf5Library library;
  library.complete = true;
#define VARVE_HDF5_FIND(name)                                           \
  library.name = reinterpret_cast<decltype(library.name)>(find(#name)); \
  library.complete = library.complete && library.name != nullptr;
  VARVE_HDF5_FUNCTIONS(VARVE_HDF5_FIND)
#undef VARVE_HDF5_FIND
  library.error_class = static_cast<const hid_t*>(find("H5E_ERR_CLS_g"));
  library.pipeline_errors = static_cast<const hid_t*>(find("H5E_PLINE_g"));
  library.filter_failed = static_cast<const hid_t*>(find("H5E_CANTFILTER_g"));
  return library;  // the handle stays: the library is in use anyway
}

}  // namespace

void Hdf5Library::push_error(const char* text) const {
  if (complete && error_class != nullptr && pipeline_errors != nullptr && filter_failed != nullptr) {
    H5Epush2(H5E_DEFAULT, "", "varve", 0, *error_class, *pipeline_errors, *filter_failed, "varve: %s", text);
  }
}

const Hdf5Library& library_at(const void* address) {
  static std::mutex mutex;
  static auto& libraries = *new std::map<const void*, Hdf5Library>();  // by where they lie; outlives exit handlers
  Dl_info place{};
  const bool known = ::dladdr(address, &place) != 0;
  const std::lock_guard lock(mutex);
  const auto [found, fresh] = libraries.try_emplace(known ? place.dli_fbase : nullptr);
  if (fresh) {
    found->second = load(known ? place.dli_fname : nullptr);
  }
  return found->second;
}

}  // namespace varve::tools
