#include "fs/formats/hdf5_dataset.h"

#include <algorithm>
#include <array>

#include "fs/formats/check.h"
#include "fs/formats/chunk_filters.h"

namespace varve::fs {

namespace {

/// Chunks of one file that are looked up at most: some 3 us each.
constexpr uint64_t kMostChunks = uint64_t{1} << 22;
/// A chunk grid may have so many cells for each chunk that is stored, and so many more.
constexpr uint64_t kSparsest = 64;
constexpr uint64_t kSmallGrid = 65536;
/// Chunks whose filters are undone at once: a few of them are in memory.
constexpr uint64_t kLargestFiltered = uint64_t{128} << 20;

/// For H5Pset_elink_cb: files that a link names are not opened.
herr_t refuse_link(const char* /*parent_file*/, const char* /*parent_group*/, const char* /*child_file*/,
                   const char* /*child_object*/, unsigned* /*flags*/, hid_t /*access*/, void* /*data*/) {
  return -1;
}

hid_t open_dataset(hid_t file, const std::string& name) {
  Hdf5Id access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  if (!access || H5Pset_elink_cb(access.get(), refuse_link, nullptr) < 0) {
    return -1;
  }
  return H5Dopen2(file, name.c_str(), access.get());
}

/// False: one of them is not known here.
bool read_filters(hid_t creation, std::vector<ChunkFilter>& filters) {
  const int count = H5Pget_nfilters(creation);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::array<unsigned, 1> values{};
    size_t stored = values.size();  // the library says how many there are
    const H5Z_filter_t id =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &stored, values.data(), 0, nullptr, &config);
    if (id == H5Z_FILTER_FLETCHER32) {
      filters.push_back({ChunkFilter::Kind::fletcher32, 0});
    } else if (id == H5Z_FILTER_SHUFFLE && stored == 1) {
      filters.push_back({ChunkFilter::Kind::shuffle, values[0]});
    } else if (id == H5Z_FILTER_DEFLATE && stored == 1) {
      filters.push_back({ChunkFilter::Kind::deflate, values[0]});
    } else {
      return false;
    }
  }
  return count >= 0;
}

bool place_contiguous(const Hdf5Dataset& dataset, ArrayRegion& array) {
  if (H5Pget_external_count(dataset.creation.get()) != 0) {
    return false;
  }
  array.chunk_shape = array.shape;
  haddr_t offset = H5Dget_offset(dataset.id.get());
  auto bytes = chunk_bytes(array);
  if (offset == HADDR_UNDEF || !bytes || H5Dget_storage_size(dataset.id.get()) < *bytes) {
    return false;
  }
  array.chunks = {{0, offset}};
  return true;
}

/// Does a chunk reach over the array's edge?
bool is_partial(const ArrayRegion& array, const std::vector<hsize_t>& offset, const std::vector<hsize_t>& chunk) {
  for (size_t axis = 0; axis < chunk.size(); ++axis) {
    if (chunk[axis] > array.shape[axis] - offset[axis]) {
      return true;
    }
  }
  return false;
}

/// Looks every cell of the chunk grid up. False: an unfiltered chunk has an unexpected size.
bool look_up_chunks(Hdf5Lookups& lookups, const Hdf5Dataset& dataset, const std::vector<hsize_t>& chunk, uint64_t cells,
                    uint64_t bytes, ArrayRegion& array) {
  Hdf5Source& source = *lookups.source;
  std::vector<hsize_t> offset(chunk.size(), 0);
  unsigned options = 0;
  const bool plain_edges =
      H5Pget_chunk_opts(dataset.creation.get(), &options) >= 0 && (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  std::array<std::byte, 8> unused{};
  for (uint64_t cell = 0; cell < cells; ++cell) {
    source.noted = false;
    source.note_only = true;
    uint32_t mask = 0;
    H5Dread_chunk(dataset.id.get(), H5P_DEFAULT, offset.data(), &mask, unused.data());
    source.note_only = false;
    if (source.noted) {
      if (!array.filters.empty()) {
        array.stored.push_back({source.size, plain_edges && is_partial(array, offset, chunk) ? UINT32_MAX : mask, 0});
      } else if (source.size != bytes) {
        return false;
      }
      array.chunks.push_back({cell, source.address});
    }
    for (size_t axis = chunk.size(); axis-- > 0;) {
      offset[axis] += chunk[axis];
      if (offset[axis] < array.shape[axis]) {
        break;
      }
      offset[axis] = 0;
    }
  }
  return !array.chunks.empty();
}

bool place_chunked(Hdf5Lookups& lookups, const Hdf5Dataset& dataset, size_t inner, ArrayRegion& array) {
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  int rank = H5Pget_chunk(dataset.creation.get(), H5S_MAX_RANK, extents.data());
  if (rank < 1 || static_cast<size_t>(rank) + inner != array.shape.size()) {
    return false;
  }
  std::vector<hsize_t> chunk(extents.begin(), extents.begin() + rank);
  if (std::find(chunk.begin(), chunk.end(), 0U) != chunk.end()) {
    return false;
  }
  array.chunk_shape.assign(chunk.begin(), chunk.end());
  array.chunk_shape.insert(array.chunk_shape.end(), array.shape.end() - static_cast<ptrdiff_t>(inner),
                           array.shape.end());
  auto cells = chunk_grid_size(array);
  auto bytes = chunk_bytes(array);
  hsize_t stored = 0;
  if (!array.filters.empty() && bytes && *bytes > kLargestFiltered) {
    return false;
  }
  if (!cells || !bytes || H5Dget_num_chunks(dataset.id.get(), dataset.space.get(), &stored) < 0 || stored == 0 ||
      *cells > kMostChunks - lookups.chunks || *cells / kSparsest > stored + kSmallGrid / kSparsest) {
    return false;
  }
  lookups.chunks += *cells;
  return look_up_chunks(lookups, dataset, chunk, *cells, *bytes, array);
}

/// The bytes of one element that was never written.
std::vector<std::byte> fill_of(const Hdf5Dataset& dataset) {
  std::vector<std::byte> fill(H5Tget_size(dataset.type.get()));
  H5D_fill_value_t state = H5D_FILL_VALUE_ERROR;
  if (H5Pfill_value_defined(dataset.creation.get(), &state) >= 0 && state == H5D_FILL_VALUE_USER_DEFINED) {
    H5Pget_fill_value(dataset.creation.get(), dataset.type.get(), fill.data());
  }
  return fill;
}

/// Nothing: its parts differ, so that no one number stands for it.
std::optional<std::vector<std::byte>> one_number(const std::vector<std::byte>& fill, size_t size) {
  for (size_t at = size; at < fill.size(); at += size) {
    if (!std::equal(fill.begin(), fill.begin() + static_cast<ptrdiff_t>(size),
                    fill.begin() + static_cast<ptrdiff_t>(at))) {
      return std::nullopt;
    }
  }
  return std::vector<std::byte>(fill.begin(), fill.begin() + static_cast<ptrdiff_t>(size));
}

}  // namespace

Hdf5Dataset::Hdf5Dataset(hid_t file, const std::string& name)
    : id(open_dataset(file, name), H5Dclose),
      creation(id ? H5Dget_create_plist(id.get()) : -1, H5Pclose),
      space(id ? H5Dget_space(id.get()) : -1, H5Sclose),
      type(id ? H5Dget_type(id.get()) : -1, H5Tclose) {}

std::optional<codec::Extents> shape_of(hid_t space) {
  H5S_class_t kind = H5Sget_simple_extent_type(space);
  if (kind == H5S_SCALAR) {
    return codec::Extents();
  }
  int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space) : -1;
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  if (rank < 0 || rank > H5S_MAX_RANK || H5Sget_simple_extent_dims(space, extents.data(), nullptr) != rank) {
    return std::nullopt;
  }
  return codec::Extents(extents.begin(), extents.begin() + rank);
}

std::optional<ArrayRegion> locate_array(Hdf5Lookups& lookups, const std::string& name, const Hdf5Dataset& dataset) {
  auto element = describe_type(dataset.type.get());
  auto shape = shape_of(dataset.space.get());
  if (!element || !shape) {
    return std::nullopt;
  }
  ArrayRegion array;
  array.name = name;
  array.dtype = element->dtype;
  array.big_endian = element->big_endian;
  array.shape = *shape;
  array.shape.insert(array.shape.end(), element->inner.begin(), element->inner.end());
  if (array.shape.size() > codec::kMaxRank || checked_product(array.shape).value_or(0) == 0) {
    return std::nullopt;
  }
  if (!read_filters(dataset.creation.get(), array.filters)) {
    return std::nullopt;
  }
  bool placed = false;
  switch (H5Pget_layout(dataset.creation.get())) {
    case H5D_CONTIGUOUS:
      placed = array.filters.empty() && place_contiguous(dataset, array);
      break;
    case H5D_CHUNKED:
      placed = place_chunked(lookups, dataset, element->inner.size(), array);
      break;
    default:
      break;
  }
  if (!placed || !check_array(array).ok()) {
    return std::nullopt;
  }
  collect_fill_values(dataset.id.get(), dataset.creation.get(), dataset.type.get(), *element, array.fill_values);
  array.keep_exact = is_deflated(array) ? "deflated" : "";
  return array;
}

Result<std::optional<ImageSource>> source_of(Hdf5Lookups& lookups, const Hdf5Dataset& dataset,
                                             const Hdf5Element& element, const codec::Extents& whole) {
  auto region = locate_array(lookups, "", dataset);
  const H5D_layout_t layout = H5Pget_layout(dataset.creation.get());
  const bool external = H5Pget_external_count(dataset.creation.get()) != 0;
  if (!region && !external && (layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED) &&
      H5Dget_storage_size(dataset.id.get()) == 0) {
    region = ArrayRegion{"", element.dtype, element.big_endian, false, whole, whole, {}, {}, {}, {}, ""};
  }
  if (!region) {
    return std::optional<ImageSource>();
  }
  auto fill = one_number(fill_of(dataset), codec::element_size(element.dtype));
  if (!fill && region->chunks.size() < chunk_grid_size(*region).value_or(0)) {
    return Error{ENOENT, "chunks were never written, and the parts of the fill value differ"};
  }
  region->name.clear();
  region->fill_values.clear();
  region->keep_exact.clear();
  return std::optional(ImageSource{std::move(*region), fill.value_or(std::vector<std::byte>())});
}

}  // namespace varve::fs
