// The HDF5 library that loaded the filter. It may be any (serial, of an MPI, one inside a Python wheel), and there may
// be several in one process: so the filter is linked to none, and takes functions from the one that calls it.
#pragma once

#include <hdf5.h>

namespace varve::tools {

/// Functions of one HDF5 library; all are there when `complete`.
struct Hdf5Library {
#define VARVE_HDF5_FUNCTIONS(F) \
  F(H5Epush2)                   \
  F(H5Pfill_value_defined)      \
  F(H5Pget_chunk)               \
  F(H5Pget_fill_value)          \
  F(H5Pget_filter2)             \
  F(H5Pget_filter_by_id2)       \
  F(H5Pmodify_filter)           \
  F(H5Tclose)                   \
  F(H5Tget_array_dims2)         \
  F(H5Tget_array_ndims)         \
  F(H5Tget_class)               \
  F(H5Tget_ebias)               \
  F(H5Tget_fields)              \
  F(H5Tget_member_offset)       \
  F(H5Tget_member_type)         \
  F(H5Tget_nmembers)            \
  F(H5Tget_norm)                \
  F(H5Tget_order)               \
  F(H5Tget_precision)           \
  F(H5Tget_sign)                \
  F(H5Tget_size)                \
  F(H5Tget_super)               \
  F(H5allocate_memory)          \
  F(H5free_memory)
#define VARVE_HDF5_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  VARVE_HDF5_FUNCTIONS(VARVE_HDF5_MEMBER)
#undef VARVE_HDF5_MEMBER
  const hid_t* error_class = nullptr;
  const hid_t* pipeline_errors = nullptr;  ///< what the error is about
  const hid_t* filter_failed = nullptr;
  bool complete = false;

  /// Puts a sentence on HDF5's error stack.
  void push_error(const char* text) const;
};

/// The library that has the code at `address`. Thread-safe; lives for ever.
const Hdf5Library& library_at(const void* address);

}  // namespace varve::tools
