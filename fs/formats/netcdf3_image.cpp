#include <fmt/format.h>

#include <algorithm>

#include "fs/formats/array_image.h"
#include "fs/formats/netcdf3.h"
#include "fs/formats/netcdf3_header.h"
#include "fs/formats/thinning.h"

namespace varve::fs {

namespace {

constexpr uint64_t kMostRecordChunks = uint64_t{1} << 21;

Result<uint64_t> checked_record_bytes(const Netcdf3Header& header) {
  const auto each = netcdf3_record_bytes(header, header.lengths);
  return each ? Result<uint64_t>(*each) : malformed_netcdf3("its records are larger than any file can be");
}

/// ENOENT: too many records to list.
Status check_records(const Netcdf3Header& header, const Netcdf3Variable& variable) {
  const uint64_t records = header.records.value;
  return !variable.record || records <= kMostRecordChunks / header.variables.size()
             ? Status()
             : Error{ENOENT,
                     fmt::format("variable {} has more records ({}) than an image can list", variable.name, records)};
}

void put(codec::Bytes& header, const Netcdf3Field& field, uint64_t value) {
  for (size_t i = field.bytes; i-- > 0; value >>= 8) {
    header[field.at + i] = static_cast<std::byte>(value & 0xff);
  }
}

/// Lengths in the image. The last dimension of variables of characters is the length of strings, and stays.
std::vector<SliceAxis> thinned_dimensions(const Netcdf3Header& header, uint8_t shift) {
  std::vector<SliceAxis> axes;
  for (const uint64_t length : header.lengths) {
    axes.push_back(thinned(length, shift));
  }
  for (const Netcdf3Variable& variable : header.variables) {
    if (variable.type == kNetcdf3Char && !variable.dimensions.empty()) {
      const size_t last = variable.dimensions.back();
      axes[last] = {0, 1, header.lengths[last]};
    }
  }
  return axes;
}

/// Gives the variables their places in the image: those without records first, each in the order of the file.
Status place(const Netcdf3Header& header, const std::vector<uint64_t>& lengths, codec::Bytes& bytes,
             std::vector<uint64_t>& begins, uint64_t& end) {
  std::vector<size_t> order(header.variables.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Netcdf3Variable& first = header.variables[a];
    const Netcdf3Variable& second = header.variables[b];
    return std::pair(first.record, first.begin.value) < std::pair(second.record, second.begin.value);
  });
  begins.assign(order.size(), 0);
  end = netcdf3_padded(header.bytes.size());
  for (const size_t i : order) {
    const Netcdf3Variable& variable = header.variables[i];
    const auto size = netcdf3_bytes(variable, lengths, true);
    if (!size || *size > (uint64_t{1} << 60) - end) {
      return malformed_netcdf3("its variables are larger than any file can be");
    }
    begins[i] = end;
    end += *size;
    const uint64_t most = variable.size.bytes == 4 ? UINT32_MAX : UINT64_MAX;
    put(bytes, variable.size, std::min(*size, most));
    put(bytes, variable.begin, begins[i]);
    if (variable.begin.bytes == 4 && begins[i] > INT32_MAX) {
      return malformed_netcdf3("a variable begins behind 2 GiB in a file of CDF-1");
    }
  }
  return {};
}

}  // namespace

Result<FileImage> netcdf3_coarse(FileView& file, uint8_t shift) {
  VARVE_ASSIGN(const Netcdf3Header header, read_netcdf3_header(file));
  VARVE_ASSIGN(const uint64_t each, checked_record_bytes(header));
  const std::vector<SliceAxis> axes = thinned_dimensions(header, shift);
  codec::Bytes bytes = header.bytes;
  std::vector<uint64_t> lengths;
  uint64_t records = header.records.value;
  for (size_t i = 0; i < axes.size(); ++i) {
    lengths.push_back(axes[i].count);
    if (header.dimensions[i].length.value == 0) {
      records = axes[i].count;
    } else {
      put(bytes, header.dimensions[i].length, axes[i].count);
    }
  }
  put(bytes, header.records, records);
  FileImage image;
  std::vector<uint64_t> begins;
  VARVE_TRY(place(header, lengths, bytes, begins, image.size));
  const uint64_t step = netcdf3_record_bytes(header, lengths).value_or(0);
  for (size_t i = 0; i < header.variables.size(); ++i) {
    const Netcdf3Variable& variable = header.variables[i];
    VARVE_TRY(check_records(header, variable));
    auto region = netcdf3_region_of(header, variable, each);
    if (!region) {
      continue;
    }
    const auto source = static_cast<uint32_t>(image.sources.size());
    image.sources.push_back({std::move(*region), {}});
    std::vector<SliceAxis> slice;
    for (const size_t dimension : variable.dimensions) {
      slice.push_back(axes[dimension]);
    }
    if (!variable.record) {
      image.add_slice(begins[i], source, slice);
      continue;
    }
    const SliceAxis all = slice.front();
    for (uint64_t record = 0; record < records; ++record) {
      slice.front() = {record * static_cast<uint64_t>(all.step), 1, 1};
      image.add_slice(begins[i] + record * step, source, slice);
    }
  }
  const bool any = std::any_of(header.variables.begin(), header.variables.end(),
                               [](const Netcdf3Variable& variable) { return variable.record; });
  if (any) {  // the first record is in already
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < begins.size(); ++i) {
      first = header.variables[i].record ? std::min(first, begins[i]) : first;
    }
    image.size = first + records * step;
  }
  image.add_bytes(0, std::move(bytes));
  return image;
}

Result<FileImage> netcdf3_region(FileView& file, const RegionSpec& spec) {
  VARVE_ASSIGN(const Netcdf3Header header, read_netcdf3_header(file));
  VARVE_ASSIGN(const uint64_t each, checked_record_bytes(header));
  std::vector<std::string> names;
  for (const Netcdf3Variable& variable : header.variables) {
    names.push_back(variable.name);
  }
  const bool only = spec.dataset.empty() && names.size() == 1;
  const auto found = only ? names.begin() : std::find(names.begin(), names.end(), spec.dataset);
  if (found == names.end()) {
    return Error{ENOENT,
                 fmt::format("the file has no variable \"{}\"; it has {}", spec.dataset, fmt::join(names, ", "))};
  }
  const Netcdf3Variable& variable = header.variables[static_cast<size_t>(found - names.begin())];
  IndexedArray array;
  const codec::DType dtype = *netcdf3_dtype(variable.type);
  array.type = variable.type == kNetcdf3Char ? "|S1" : numpy_type(dtype, codec::element_size(dtype) > 1, false);
  for (const size_t dimension : variable.dimensions) {
    array.shape.push_back(header.lengths[dimension]);
  }
  VARVE_TRY(check_records(header, variable));
  auto region = netcdf3_region_of(header, variable, each);
  if (!region) {
    VARVE_ASSIGN(const RegionSpec::Part part, spec.apply(array.shape));
    return literal_image(array.type, part, {});
  }
  array.source.region = std::move(*region);
  return region_image(array, spec);
}

}  // namespace varve::fs
