#include "fs/formats/hdf5_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "fs/formats/array_image.h"
#include "fs/formats/check.h"
#include "fs/formats/hdf5_dataset.h"
#include "fs/formats/hdf5_file.h"

namespace varve::fs {

namespace {

constexpr size_t kMostNamesTold = 8;

struct Names {
  hid_t file = -1;
  std::vector<std::string> names;
};

/// For H5Ovisit: datasets of numbers.
herr_t visit_name(hid_t /*root*/, const char* name, const H5O_info_t* info, void* data) {
  auto& found = *static_cast<Names*>(data);
  try {
    if (info->type == H5O_TYPE_DATASET) {
      const Hdf5Dataset dataset(found.file, fmt::format("/{}", name));
      if (dataset && describe_type(dataset.type.get())) {
        found.names.emplace_back(name);
      }
    }
    return 0;
  } catch (const std::exception&) {  // must not pass through the C library
    return -1;
  }
}

std::vector<std::string> names_of(hid_t file) {
  Names found{file, {}};
  H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, visit_name, &found, H5O_INFO_BASIC);
  H5Eclear2(H5E_DEFAULT);
  return std::move(found.names);
}

std::string listed(std::vector<std::string> names) {
  const bool more = names.size() > kMostNamesTold;
  names.resize(std::min(names.size(), kMostNamesTold));
  return fmt::format("{}{}", fmt::join(names, ", "), more ? ", ..." : "");
}

hid_t innermost_type(hid_t type) {
  hid_t at = H5Tcopy(type);
  while (at >= 0 && H5Tget_class(at) == H5T_ARRAY) {
    const hid_t next = H5Tget_super(at);
    H5Tclose(at);
    at = next;
  }
  return at;
}

/// As h5py stores booleans: an enumeration of FALSE and TRUE.
bool is_boolean(hid_t type) {
  if (H5Tget_class(type) != H5T_ENUM || H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) {
    return false;
  }
  int8_t no = -1;
  int8_t yes = -1;
  const bool named = H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0;
  H5Eclear2(H5E_DEFAULT);
  return named && no == 0 && yes == 1;
}

/// Elements of a C-order array over `axes`.
std::vector<std::byte> gather(const std::vector<std::byte>& from, const codec::Extents& shape,
                              const std::vector<SliceAxis>& axes, size_t size) {
  uint64_t count = 1;
  for (const SliceAxis& axis : axes) {
    count *= axis.count;
  }
  std::vector<std::byte> out(count * size);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t rest = i;
    uint64_t stride = 1;
    uint64_t at = 0;
    for (size_t axis = axes.size(); axis-- > 0;) {
      const auto index = static_cast<int64_t>(rest % axes[axis].count);
      at += (axes[axis].start + static_cast<uint64_t>(index * axes[axis].step)) * stride;
      rest /= axes[axis].count;
      stride *= shape[axis];
    }
    std::memcpy(out.data() + i * size, from.data() + at * size, size);
  }
  return out;
}

/// The library reads the part: of datasets whose elements are not in the file as they are. `axes`: of the dataset, then
/// those inside an element; `size`: bytes of what the innermost ones count.
Result<std::vector<std::byte>> read_part(const Hdf5Dataset& dataset, const std::string& name,
                                         const std::vector<SliceAxis>& axes, const codec::Extents& inner, size_t size) {
  const size_t rank = axes.size() - inner.size();
  std::vector<hsize_t> start;
  std::vector<hsize_t> stride;
  std::vector<hsize_t> count;
  codec::Extents shape;
  std::vector<SliceAxis> turned;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const SliceAxis& wanted = axes[axis];
    const bool back = wanted.step < 0;
    if (axis < rank) {
      stride.push_back(static_cast<hsize_t>(back ? -wanted.step : wanted.step));
      start.push_back(back ? wanted.start - (wanted.count - 1) * stride.back() : wanted.start);
      count.push_back(wanted.count);
      shape.push_back(wanted.count);
      turned.push_back({back ? wanted.count - 1 : 0, back ? -1 : 1, wanted.count});
    } else {
      shape.push_back(inner[axis - rank]);
      turned.push_back(wanted);
    }
  }
  const auto elements = checked_product(shape);
  if (!elements || *elements > kMostLiteral / size) {
    return Error{ENOENT, fmt::format("dataset {} is compressed by its program, and this part of it takes more than {} "
                                     "MiB: ask for less at once",
                                     name, kMostLiteral >> 20)};
  }
  Hdf5Id memory(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(rank), count.data(), nullptr),
                H5Sclose);
  Hdf5Id selected(H5Scopy(dataset.space.get()), H5Sclose);
  std::vector<std::byte> out(*elements * size);
  if (!memory || !selected ||
      (rank > 0 &&
       H5Sselect_hyperslab(selected.get(), H5S_SELECT_SET, start.data(), stride.data(), count.data(), nullptr) < 0) ||
      H5Dread(dataset.id.get(), dataset.type.get(), memory.get(), selected.get(), H5P_DEFAULT, out.data()) < 0) {
    return Error{EIO, fmt::format("the HDF5 library cannot read dataset {}: {}", name, take_hdf5_error())};
  }
  return gather(out, shape, turned, size);
}

Result<std::string> name_of(const RegionSpec& spec, hid_t file) {
  if (!spec.dataset.empty()) {
    return spec.dataset;
  }
  const std::vector<std::string> names = names_of(file);
  if (names.size() != 1) {
    return Error{ENOENT, fmt::format("the file has {} arrays; name one of them: {}", names.size(), listed(names))};
  }
  return names.front();
}

}  // namespace

Result<FileImage> hdf5_region(FileView& view, const RegionSpec& spec) {
  VARVE_ASSIGN(const std::unique_ptr<Hdf5File> file, open_hdf5_file(view));
  VARVE_ASSIGN(const std::string name, name_of(spec, file->id->get()));
  const Hdf5Dataset dataset(file->id->get(), "/" + name);
  if (!dataset) {
    H5Eclear2(H5E_DEFAULT);
    return Error{ENOENT, fmt::format("the file has no dataset {}; it has {}", name, listed(names_of(file->id->get())))};
  }
  const auto element = describe_type(dataset.type.get());
  const auto shape = shape_of(dataset.space.get());
  const H5D_layout_t layout = H5Pget_layout(dataset.creation.get());
  if (!element || !shape) {
    return Error{ENOENT, fmt::format("dataset {} is not made of numbers", name)};
  }
  if (layout == H5D_VIRTUAL || H5Pget_external_count(dataset.creation.get()) != 0) {
    return Error{ENOENT, fmt::format("dataset {} lies in other files, which are not followed", name)};
  }
  const Hdf5Id innermost(innermost_type(dataset.type.get()), H5Tclose);
  const bool complex = innermost && H5Tget_class(innermost.get()) == H5T_COMPOUND;
  IndexedArray array;
  array.inner = complex ? 1 : 0;
  array.type = is_boolean(innermost.get()) ? "|b1" : numpy_type(element->dtype, element->big_endian, complex);
  codec::Extents whole = *shape;
  whole.insert(whole.end(), element->inner.begin(), element->inner.end());
  array.shape.assign(whole.begin(), whole.end() - static_cast<ptrdiff_t>(array.inner));
  if (whole.size() > codec::kMaxRank || !checked_product(whole)) {
    return Error{ENOENT, fmt::format("dataset {} has too many axes or elements", name)};
  }
  VARVE_ASSIGN(const RegionSpec::Part part, spec.apply(array.shape));
  if (checked_product(kept_shape(part)) == 0) {
    return literal_image(array.type, part, {});
  }
  Hdf5Lookups lookups{&file->source, 0};
  VARVE_ASSIGN(auto source, source_of(lookups, dataset, *element, whole));
  if (source) {
    array.source = std::move(*source);
    return region_image(array, spec);
  }
  std::vector<SliceAxis> axes = part.axes;
  for (size_t axis = array.shape.size(); axis < whole.size(); ++axis) {
    axes.push_back({0, 1, whole[axis]});
  }
  VARVE_ASSIGN(std::vector<std::byte> elements,
               read_part(dataset, name, axes, element->inner, codec::element_size(element->dtype)));
  return literal_image(array.type, part, std::move(elements));
}

}  // namespace varve::fs
