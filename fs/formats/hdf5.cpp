#include "fs/formats/hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "fs/formats/check.h"
#include "fs/formats/hdf5_conventions.h"
#include "fs/formats/hdf5_driver.h"
#include "fs/formats/hdf5_types.h"

namespace varve::fs {

namespace {

constexpr std::string_view kSignature{"\x89HDF\r\n\x1a\n", 8};
/// Chunks of one file that are looked up at most: some 3 us each.
constexpr uint64_t kMostChunks = uint64_t{1} << 22;
/// A chunk grid may have so many cells for each chunk that is stored, and so many more.
constexpr uint64_t kSparsest = 64;
constexpr uint64_t kSmallGrid = 65536;
constexpr uint64_t kChecksumBytes = 4;  // what Fletcher32 appends to a chunk

/// What the walk over the file gathers.
struct Walk {
  Hdf5Source* source = nullptr;
  hid_t file = -1;
  uint64_t looked_up = 0;
  std::vector<ArrayRegion> arrays;
  Hdf5Conventions conventions;
  std::string failure;
};

/// One dataset while it is looked at.
struct Dataset {
  hid_t id = -1, creation = -1, space = -1, type = -1;
  Hdf5Element element;
  codec::Extents shape;  ///< of the dataset, without the element's inner axes
  size_t element_bytes = 0;
};

bool fletcher32_only(hid_t creation, bool& filtered) {
  int count = H5Pget_nfilters(creation);
  filtered = count > 0;
  if (count == 0) {
    return true;
  }
  if (count != 1) {
    return false;
  }
  unsigned flags = 0;
  size_t values = 0;
  unsigned config = 0;
  return H5Pget_filter2(creation, 0, &flags, &values, nullptr, 0, nullptr, &config) == H5Z_FILTER_FLETCHER32;
}

bool get_shape(Dataset& dataset) {
  H5S_class_t kind = H5Sget_simple_extent_type(dataset.space);
  if (kind == H5S_SCALAR) {
    return true;
  }
  int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(dataset.space) : -1;
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  if (rank < 0 || rank > H5S_MAX_RANK || H5Sget_simple_extent_dims(dataset.space, extents.data(), nullptr) != rank) {
    return false;
  }
  dataset.shape.assign(extents.begin(), extents.begin() + rank);
  return std::find(dataset.shape.begin(), dataset.shape.end(), 0U) == dataset.shape.end();
}

bool place_contiguous(const Dataset& dataset, ArrayRegion& array) {
  if (H5Pget_external_count(dataset.creation) != 0) {
    return false;
  }
  array.chunk_shape = array.shape;
  haddr_t offset = H5Dget_offset(dataset.id);
  auto bytes = chunk_bytes(array);
  if (offset == HADDR_UNDEF || !bytes || H5Dget_storage_size(dataset.id) < *bytes) {
    return false;
  }
  array.chunks = {{0, offset}};
  return true;
}

/// Looks every cell of the chunk grid up. False: a chunk has an unexpected size.
bool look_up_chunks(Walk& walk, const Dataset& dataset, const std::vector<hsize_t>& chunk, uint64_t cells,
                    uint64_t bytes, bool filtered, ArrayRegion& array) {
  Hdf5Source& source = *walk.source;
  std::vector<hsize_t> offset(chunk.size(), 0);
  std::array<std::byte, 8> unused{};
  for (uint64_t cell = 0; cell < cells; ++cell) {
    source.noted = false;
    source.note_only = true;
    uint32_t mask = 0;
    H5Dread_chunk(dataset.id, H5P_DEFAULT, offset.data(), &mask, unused.data());
    source.note_only = false;
    if (source.noted) {
      if (source.size != bytes && !(filtered && source.size == bytes + kChecksumBytes)) {
        return false;
      }
      array.chunks.push_back({cell, source.address});
    }
    for (size_t axis = chunk.size(); axis-- > 0;) {
      offset[axis] += chunk[axis];
      if (offset[axis] < dataset.shape[axis]) {
        break;
      }
      offset[axis] = 0;
    }
  }
  return !array.chunks.empty();
}

bool place_chunked(Walk& walk, const Dataset& dataset, bool filtered, ArrayRegion& array) {
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  int rank = H5Pget_chunk(dataset.creation, H5S_MAX_RANK, extents.data());
  if (rank < 1 || static_cast<size_t>(rank) != dataset.shape.size()) {
    return false;
  }
  std::vector<hsize_t> chunk(extents.begin(), extents.begin() + rank);
  if (std::find(chunk.begin(), chunk.end(), 0U) != chunk.end()) {
    return false;
  }
  array.chunk_shape.assign(chunk.begin(), chunk.end());
  array.chunk_shape.insert(array.chunk_shape.end(), dataset.element.inner.begin(), dataset.element.inner.end());
  auto cells = chunk_grid_size(array);
  auto bytes = chunk_bytes(array);
  hsize_t stored = 0;
  if (!cells || !bytes || H5Dget_num_chunks(dataset.id, dataset.space, &stored) < 0 || stored == 0 ||
      *cells > kMostChunks - walk.looked_up || *cells / kSparsest > stored + kSmallGrid / kSparsest) {
    return false;
  }
  walk.looked_up += *cells;
  return look_up_chunks(walk, dataset, chunk, *cells, *bytes, filtered, array);
}

std::optional<ArrayRegion> region_of(Walk& walk, const std::string& name, Dataset& dataset) {
  auto element = describe_type(dataset.type);
  if (!element || !get_shape(dataset)) {
    return std::nullopt;
  }
  dataset.element = *element;
  ArrayRegion array;
  array.name = name;
  array.dtype = element->dtype;
  array.big_endian = element->big_endian;
  array.shape = dataset.shape;
  array.shape.insert(array.shape.end(), element->inner.begin(), element->inner.end());
  if (array.shape.size() > codec::kMaxRank || !checked_product(array.shape)) {
    return std::nullopt;
  }
  bool filtered = false;
  if (!fletcher32_only(dataset.creation, filtered)) {
    return std::nullopt;
  }
  bool placed = false;
  switch (H5Pget_layout(dataset.creation)) {
    case H5D_CONTIGUOUS:
      placed = place_contiguous(dataset, array);
      break;
    case H5D_CHUNKED:
      placed = place_chunked(walk, dataset, filtered, array);
      break;
    default:
      break;
  }
  if (!placed || !check_array(array).ok()) {
    return std::nullopt;
  }
  collect_fill_values(dataset.id, dataset.creation, dataset.type, *element, array.fill_values);
  array.keep_exact = filtered ? "checksummed" : "";
  return array;
}

void look_at_dataset(Walk& walk, const std::string& name) {
  Hdf5Id id(H5Dopen2(walk.file, name.c_str(), H5P_DEFAULT), H5Dclose);
  Hdf5Id creation(id ? H5Dget_create_plist(id.get()) : -1, H5Pclose);
  Hdf5Id space(id ? H5Dget_space(id.get()) : -1, H5Sclose);
  Hdf5Id type(id ? H5Dget_type(id.get()) : -1, H5Tclose);
  if (creation && space && type) {
    walk.conventions.look_at(id.get(), name);
    Dataset dataset{id.get(), creation.get(), space.get(), type.get(), {}, {}, 0};
    auto array = region_of(walk, name, dataset);
    if (array) {
      walk.arrays.push_back(std::move(*array));
    }
  }
  H5Eclear2(H5E_DEFAULT);
}

/// For H5Ovisit: each object once, whatever the number of hard links to it; soft and external links are not followed.
herr_t visit(hid_t /*root*/, const char* name, const H5O_info_t* info, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  try {
    if (info->type == H5O_TYPE_DATASET) {
      look_at_dataset(walk, fmt::format("/{}", name));
    }
    return 0;
  } catch (const std::exception& problem) {  // must not pass through the C library
    walk.failure = problem.what();
    return -1;
  }
}

std::optional<uint64_t> signature_offset(FileView& file) {
  std::array<std::byte, kSignature.size()> start{};
  for (uint64_t offset = 0; offset + start.size() <= file.size(); offset = offset == 0 ? 512 : offset * 2) {
    auto got = file.read(offset, start);
    if (!got.ok() || *got != start.size()) {
      return std::nullopt;
    }
    if (std::equal(start.begin(), start.end(), kSignature.begin(),
                   [](std::byte a, char b) { return a == static_cast<std::byte>(b); })) {
      return offset;
    }
  }
  return std::nullopt;
}

/// Version 3 of the superblock has a flag for it. What such a file says of its arrays may be stale. (The library looks
/// at the flag too, but only with some drivers and settings.)
Result<bool> marked_as_being_written(FileView& file, uint64_t superblock) {
  std::array<std::byte, 4> fields{};  // version, size of offsets, size of lengths, consistency flags
  VARVE_ASSIGN(size_t got, file.read(superblock + kSignature.size(), fields));
  return got == fields.size() && fields[0] == std::byte{3} && (fields[3] & std::byte{1}) != std::byte{0};
}

Error unreadable(std::string_view reason) {
  return Error{EBADMSG,
               fmt::format("the HDF5 library cannot read it ({}); the file is kept as bytes. `h5dump -H` on it "
                           "shows whether it is damaged or still being written",
                           reason)};
}

}  // namespace

bool has_hdf5_signature(FileView& file) { return signature_offset(file).has_value(); }

Result<std::optional<Recognised>> recognise_hdf5(FileView& file) {
  auto superblock = signature_offset(file);
  if (!superblock) {
    return std::optional<Recognised>();
  }
  VARVE_ASSIGN(bool unfinished, marked_as_being_written(file, *superblock));
  if (unfinished) {
    return unreadable("its writer has not closed it");
  }
  static std::mutex library;
  std::lock_guard lock(library);
  Hdf5Source source;
  source.view = &file;
  Walk walk;
  walk.source = &source;
  auto opened = open_hdf5(source);
  if (!opened.ok()) {
    return unreadable(opened.error().text);
  }
  Hdf5Id id(*opened, H5Fclose);
  walk.file = id.get();
  if (H5Ovisit2(id.get(), H5_INDEX_NAME, H5_ITER_INC, visit, &walk, H5O_INFO_BASIC) < 0) {
    return unreadable(walk.failure.empty() ? take_hdf5_error() : walk.failure);
  }
  for (ArrayRegion& array : walk.arrays) {
    if (array.keep_exact.empty()) {
      array.keep_exact = walk.conventions.reason(array.name);
    }
  }
  return std::optional(Recognised{"hdf5", std::move(walk.arrays)});
}

}  // namespace varve::fs
