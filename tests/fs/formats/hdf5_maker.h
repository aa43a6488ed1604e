// Makes HDF5 files for tests.
#pragma once

#include <fmt/format.h>
#include <hdf5.h>

#include <optional>
#include <random>

#include "gather.h"

namespace varve::fs {

struct DatasetOptions {
  hid_t type = H5T_IEEE_F32LE;
  std::vector<hsize_t> shape = {};
  std::vector<hsize_t> chunk = {};      ///< empty: contiguous
  std::vector<hsize_t> unlimited = {};  ///< maximal shape; empty: the shape
  bool scalar = false, compact = false, fletcher = false, shuffle = false, gzip = false, nbit = false, scaled = false;
  bool skip_edges = false, early = false;
  bool write = true;
  std::optional<double> fill = {};
};

class Hdf5Maker {
 public:
  explicit Hdf5Maker(const std::string& path, hsize_t user_block = 0, bool latest = false, bool paged = false) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    Hdf5Id creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    H5Pset_userblock(creation.get(), user_block);
    if (paged) {
      H5Pset_file_space_strategy(creation.get(), H5F_FSPACE_STRATEGY_PAGE, false, 1);
    }
    if (latest) {
      H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    }
    file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get());
  }
  ~Hdf5Maker() { close(); }
  Hdf5Maker(const Hdf5Maker&) = delete;
  Hdf5Maker& operator=(const Hdf5Maker&) = delete;
  void close() {
    if (file_ >= 0) {
      H5Fclose(file_);
      file_ = -1;
    }
  }
  hid_t file() const { return file_; }

  /// Random bytes as content. 0 or more: made.
  herr_t dataset(const std::string& name, const DatasetOptions& options) {
    auto rank = static_cast<int>(options.shape.size());
    Hdf5Id space(options.scalar ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(rank, options.shape.data(),
                                                   options.unlimited.empty() ? nullptr : options.unlimited.data()),
                 H5Sclose);
    Hdf5Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    set(creation.get(), options);
    Hdf5Id made(H5Dcreate2(file_, name.c_str(), options.type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                H5Dclose);
    if (!made || !options.write) {
      return made ? 0 : -1;
    }
    uint64_t bytes = H5Tget_size(options.type);
    for (hsize_t extent : options.shape) {
      bytes *= extent;
    }
    std::vector<uint8_t> content(bytes);
    for (uint8_t& byte : content) {
      byte = static_cast<uint8_t>(random_());
    }
    return H5Dwrite(made.get(), options.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, content.data());
  }

  void text(const std::string& object, const char* name, const std::string& value, bool variable = false) {
    Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.get(), variable ? H5T_VARIABLE : value.size());
    const char* pointer = value.c_str();
    attribute(object, name, type.get(), 0, variable ? static_cast<const void*>(&pointer) : value.data());
  }

  /// `count` 0: scalar.
  void attribute(const std::string& object, const char* name, hid_t type, hsize_t count, const void* value) {
    Hdf5Id owner(H5Oopen(file_, object.c_str(), H5P_DEFAULT), H5Oclose);
    Hdf5Id space(count == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr), H5Sclose);
    Hdf5Id made(H5Acreate2(owner.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    ASSERT_GE(H5Awrite(made.get(), type, value), 0) << object << " " << name;
  }

 private:
  static void set(hid_t creation, const DatasetOptions& options) {
    if (!options.chunk.empty()) {
      H5Pset_chunk(creation, static_cast<int>(options.chunk.size()), options.chunk.data());
    }
    if (options.compact) {
      H5Pset_layout(creation, H5D_COMPACT);
    }
    if (options.shuffle) {
      H5Pset_shuffle(creation);
    }
    if (options.gzip) {
      H5Pset_deflate(creation, 6);
    }
    if (options.nbit) {
      H5Pset_nbit(creation);
    }
    if (options.scaled) {
      H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
    }
    if (options.fletcher) {
      H5Pset_fletcher32(creation);
    }
    if (options.skip_edges) {
      H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    }
    if (options.early) {
      H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    }
    if (options.fill) {
      H5Pset_fill_value(creation, H5T_NATIVE_DOUBLE, &*options.fill);
    }
  }

  hid_t file_ = -1;
  std::mt19937 random_{1};
};

inline Recognised recognise_file(const std::string& path) {
  MemoryView file(read_whole(path));
  auto result = recognise("test.h5", file, std::nullopt);
  EXPECT_TRUE(result.ok()) << path << ": " << (result.ok() ? "" : result.error().text);
  return result.ok() && *result ? std::move(**result) : Recognised{};
}

inline const ArrayRegion* find_array(const Recognised& recognised, const std::string& name) {
  for (const ArrayRegion& array : recognised.arrays) {
    if (array.name == name) {
      return &array;
    }
  }
  return nullptr;
}

}  // namespace varve::fs
