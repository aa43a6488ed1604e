#include "fs/formats/array_image.h"

#include <fmt/format.h>

#include <algorithm>

#include "fs/formats/check.h"
#include "fs/formats/fits.h"
#include "fs/formats/hdf5.h"
#include "fs/formats/hdf5_image.h"
#include "fs/formats/netcdf3.h"
#include "fs/formats/npy.h"
#include "fs/formats/thinning.h"

namespace varve::fs {

namespace {

constexpr size_t kNpyAlignment = 64;

Error no_array(const RegionSpec& spec, std::string_view format) {
  return Error{ENOENT, spec.dataset.empty() ? fmt::format("the {} file has no array of numbers", format)
                                            : fmt::format("a file of format {} has one array, without a name: leave "
                                                          "\"{}\" out",
                                                          format, spec.dataset)};
}

Result<FileImage> npy_region(const NpyHeader& header, const RegionSpec& spec, uint64_t file_size) {
  VARVE_ASSIGN(auto array, npy_array(header, file_size));
  if (!array || !spec.dataset.empty()) {
    return no_array(spec, "npy");
  }
  IndexedArray indexed{{std::move(array->region), {}}, header.shape, header.fortran_order, array->inner, header.type};
  return region_image(indexed, spec);
}

/// Of a format that needs no more for it than where its arrays lie.
Result<FileImage> recognised_region(Recognised& file, const RegionSpec& spec) {
  const auto named = [&](const ArrayRegion& array) {
    return array.name.substr(array.name.starts_with('/') ? 1 : 0) == spec.dataset;
  };
  const bool only = spec.dataset.empty() && file.arrays.size() == 1;
  const auto found = only ? file.arrays.begin() : std::find_if(file.arrays.begin(), file.arrays.end(), named);
  if (found == file.arrays.end()) {
    if (file.arrays.empty() || file.arrays.front().name.empty()) {
      return no_array(spec, file.format);
    }
    return Error{ENOENT, fmt::format("the file has no array \"{}\"; its {} arrays are \"{}\" and so on", spec.dataset,
                                     file.arrays.size(), file.arrays.front().name)};
  }
  codec::Extents shape = found->shape;
  if (found->fortran_order) {
    std::reverse(shape.begin(), shape.end());
  }
  const std::string type = numpy_type(found->dtype, found->big_endian, false);
  const bool fortran_order = found->fortran_order;
  return region_image({{std::move(*found), {}}, shape, fortran_order, 0, type}, spec);
}

FileImage npy_coarse(const NpyHeader& header, NpyArray array, uint8_t shift) {
  std::vector<SliceAxis> axes;
  for (const uint64_t extent : array.region.shape) {
    axes.push_back(thinned(extent, shift));
  }
  for (size_t axis = axes.size() - array.inner; axis < axes.size(); ++axis) {
    axes[axis] = {0, 1, array.region.shape[axis]};
  }
  codec::Extents shape;
  for (size_t axis = 0; axis + array.inner < axes.size(); ++axis) {
    shape.push_back(axes[axis].count);
  }
  if (header.fortran_order) {
    std::reverse(shape.begin(), shape.end());
  }
  FileImage image;
  std::vector<std::byte> bytes = npy_header(header.type, header.fortran_order, shape);
  const uint64_t offset = bytes.size();
  image.add_bytes(0, std::move(bytes));
  image.sources.push_back({std::move(array.region), {}});
  image.add_slice(offset, 0, std::move(axes));
  image.size = offset + image.parts.back().length;
  return image;
}

Result<FileImage> coarse_image(uint8_t shift, FileView& file) {
  VARVE_ASSIGN(const auto npy, read_npy_header(file));
  if (npy) {
    VARVE_ASSIGN(auto array, npy_array(*npy, file.size()));
    return array ? Result<FileImage>(npy_coarse(*npy, std::move(*array), shift))
                 : Error{ENOENT, "its elements are no numbers, or there are none"};
  }
  if (has_hdf5_signature(file)) {
    return hdf5_coarse(file, shift);
  }
  if (has_netcdf3_magic(file)) {
    return netcdf3_coarse(file, shift);
  }
  if (has_fits_magic(file)) {
    return fits_coarse(file, shift);
  }
  return Error{ENOENT, "files of this format have no coarse form"};
}

}  // namespace

std::string numpy_type(codec::DType dtype, bool big_endian, bool complex) {
  const size_t size = codec::element_size(dtype);
  const std::string_view name = codec::name_of(dtype);
  if (dtype == codec::DType::bf16) {
    return "|V2";
  }
  const char kind = complex ? 'c' : name.front();
  return fmt::format("{}{}{}", size == 1 ? '|' : big_endian ? '>' : '<', kind, complex ? 2 * size : size);
}

std::vector<std::byte> npy_header(const std::string& type, bool fortran_order, const codec::Extents& shape) {
  std::string axes = fmt::format("{}", fmt::join(shape, ", "));
  axes += shape.size() == 1 ? "," : "";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", type,
                                 fortran_order ? "True" : "False", axes);
  const size_t prefix = kNpyMagic.size() + 4;
  const size_t whole = (prefix + text.size() + 1 + kNpyAlignment - 1) / kNpyAlignment * kNpyAlignment;
  text.append(whole - prefix - text.size() - 1, ' ');
  text.push_back('\n');
  std::string out(kNpyMagic);
  out += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  out += text;
  const auto bytes = std::as_bytes(std::span(out));
  return {bytes.begin(), bytes.end()};
}

codec::Extents kept_shape(const RegionSpec::Part& part) {
  codec::Extents shape;
  for (size_t axis = 0; axis < part.axes.size(); ++axis) {
    if (part.kept[axis]) {
      shape.push_back(part.axes[axis].count);
    }
  }
  return shape;
}

Result<FileImage> region_image(const IndexedArray& array, const RegionSpec& spec) {
  VARVE_ASSIGN(RegionSpec::Part part, spec.apply(array.shape));
  const codec::Extents shape = kept_shape(part);
  FileImage image;
  std::vector<std::byte> header = npy_header(array.type, array.fortran_order && shape.size() > 1, shape);
  const uint64_t offset = header.size();
  image.add_bytes(0, std::move(header));
  const auto elements = checked_product(shape);
  if (!elements) {
    return Error{ENOENT, "the region is larger than any file can be"};
  }
  image.size = offset;
  if (*elements > 0) {
    if (array.fortran_order) {
      std::reverse(part.axes.begin(), part.axes.end());
    }
    const codec::Extents& all = array.source.region.shape;
    for (size_t axis = all.size() - array.inner; axis < all.size(); ++axis) {
      part.axes.push_back({0, 1, all[axis]});
    }
    image.sources.push_back(array.source);
    image.add_slice(offset, 0, std::move(part.axes));
    image.size += image.parts.back().length;
  }
  return image;
}

FileImage literal_image(const std::string& type, const RegionSpec::Part& part, std::vector<std::byte> elements) {
  FileImage image;
  std::vector<std::byte> bytes = npy_header(type, false, kept_shape(part));
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  image.size = bytes.size();
  image.add_bytes(0, std::move(bytes));
  return image;
}

Result<FileImage> make_image(const ImageRequest& request, std::string_view name, FileView& file,
                             const std::optional<RawHint>& hint) {
  if (request.kind == ImageRequest::Kind::coarse) {
    return coarse_image(request.shift, file);
  }
  VARVE_ASSIGN(const RegionSpec spec, RegionSpec::parse(request.region));
  VARVE_ASSIGN(const auto npy, read_npy_header(file));
  if (npy) {
    return npy_region(*npy, spec, file.size());
  }
  if (has_hdf5_signature(file)) {
    return hdf5_region(file, spec);
  }
  if (has_netcdf3_magic(file)) {
    return netcdf3_region(file, spec);
  }
  VARVE_ASSIGN(auto found, recognise(name, file, hint));
  if (found) {
    return recognised_region(*found, spec);
  }
  return Error{ENOENT, "no arrays are found in a file of this format"};
}

}  // namespace varve::fs
