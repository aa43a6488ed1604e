#include "fs/formats/hdf5_copy.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "fs/formats/hdf5_types.h"

namespace varve::fs {

namespace {

constexpr int kDeepestType = 16;

void follow(const Hdf5Twins& twins, hid_t type, std::byte* element, int depth);

void follow_members(const Hdf5Twins& twins, hid_t type, std::byte* element, int depth) {
  const int members = H5Tget_nmembers(type);
  for (int i = 0; i < members; ++i) {
    const auto member = static_cast<unsigned>(i);
    const Hdf5Id inner(H5Tget_member_type(type, member), H5Tclose);
    if (inner && H5Tdetect_class(inner.get(), H5T_REFERENCE) > 0) {
      follow(twins, inner.get(), element + H5Tget_member_offset(type, member), depth + 1);
    }
  }
}

void follow_sequence(const Hdf5Twins& twins, hid_t type, std::byte* elements, uint64_t count, int depth) {
  const Hdf5Id inner(H5Tget_super(type), H5Tclose);
  const size_t size = inner ? H5Tget_size(inner.get()) : 0;
  for (uint64_t i = 0; i < count && size > 0; ++i) {
    follow(twins, inner.get(), elements + i * size, depth + 1);
  }
}

void follow_reference(const Hdf5Twins& twins, hid_t type, std::byte* element) {
  hobj_ref_t address = 0;
  if (H5Tequal(type, H5T_STD_REF_OBJ) > 0) {
    std::memcpy(&address, element, sizeof address);
  }
  std::memset(element, 0, H5Tget_size(type));
  if (const auto twin = twins.paths.find(address); address != 0 && twin != twins.paths.end()) {
    H5Rcreate(element, twins.to, twin->second.c_str(), H5R_OBJECT, -1);
  }
}

void follow(const Hdf5Twins& twins, hid_t type, std::byte* element, int depth) {  // NOLINT(misc-no-recursion)
  if (depth > kDeepestType) {
    return;
  }
  switch (H5Tget_class(type)) {
    case H5T_REFERENCE:
      return follow_reference(twins, type, element);
    case H5T_COMPOUND:
      return follow_members(twins, type, element, depth);
    case H5T_ARRAY: {
      std::array<hsize_t, H5S_MAX_RANK> extents{};
      const int rank = H5Tget_array_dims2(type, extents.data());
      uint64_t count = 1;
      for (int axis = 0; axis < rank; ++axis) {
        count *= extents.at(static_cast<size_t>(axis));
      }
      return follow_sequence(twins, type, element, count, depth);
    }
    case H5T_VLEN: {
      hvl_t sequence{};
      std::memcpy(&sequence, element, sizeof sequence);
      return follow_sequence(twins, type, static_cast<std::byte*>(sequence.p), sequence.len, depth);
    }
    default:
      return;
  }
}

herr_t note_name(hid_t /*object*/, const char* name, const H5A_info_t* /*info*/, void* data) {
  try {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  } catch (const std::exception&) {  // must not pass through the C library
    return -1;
  }
}

std::vector<std::string> attribute_names(hid_t object) {
  std::vector<std::string> names;
  hsize_t index = 0;
  if (H5Aiterate2(object, H5_INDEX_CRT_ORDER, H5_ITER_INC, &index, note_name, &names) < 0) {
    names.clear();
    index = 0;
    H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &index, note_name, &names);
    H5Eclear2(H5E_DEFAULT);
  }
  return names;
}

bool copy_attribute(const Hdf5Twins& twins, hid_t from, hid_t to, const std::string& name) {
  const Hdf5Id attribute(H5Aopen(from, name.c_str(), H5P_DEFAULT), H5Aclose);
  const Hdf5Id type(attribute ? H5Aget_type(attribute.get()) : -1, H5Tclose);
  const Hdf5Id space(attribute ? H5Aget_space(attribute.get()) : -1, H5Sclose);
  const Hdf5Id creation(attribute ? H5Aget_create_plist(attribute.get()) : -1, H5Pclose);
  if (!type || !space || !creation) {
    return false;
  }
  const Hdf5Id target(type_in(twins, type.get()), H5Tclose);
  const Hdf5Id copy(H5Acreate2(to, name.c_str(), target.get(), space.get(), creation.get(), H5P_DEFAULT), H5Aclose);
  if (!target || !copy) {
    return false;
  }
  if (H5Sget_simple_extent_npoints(space.get()) <= 0) {
    return true;
  }
  Hdf5Values values(type.get(), space.get());
  if (H5Aread(attribute.get(), values.type(), values.data()) < 0) {
    return false;
  }
  follow_references(twins, values.type(), values.data(), values.count());
  return H5Awrite(copy.get(), values.type(), values.data()) >= 0;
}

}  // namespace

Hdf5Values::Hdf5Values(hid_t type, hid_t space) : type_(H5Tcopy(type), H5Tclose), space_(space) {
  const hssize_t points = H5Sget_simple_extent_npoints(space);
  count_ = points > 0 ? static_cast<uint64_t>(points) : 0;
  bytes_.resize(count_ * H5Tget_size(type_.get()));
}

Hdf5Values::~Hdf5Values() {
  if (count_ > 0 && (H5Tdetect_class(type_.get(), H5T_VLEN) > 0 || H5Tis_variable_str(type_.get()) > 0 ||
                     H5Tget_class(type_.get()) == H5T_COMPOUND)) {
    H5Dvlen_reclaim(type_.get(), space_, H5P_DEFAULT, bytes_.data());
  }
}

hid_t type_in(const Hdf5Twins& twins, hid_t type) {
  if (H5Tcommitted(type) > 0) {
    H5O_info_t info{};
    if (H5Oget_info2(type, &info, H5O_INFO_BASIC) >= 0) {
      if (const auto twin = twins.paths.find(info.addr); twin != twins.paths.end()) {
        return H5Topen2(twins.to, twin->second.c_str(), H5P_DEFAULT);
      }
    }
  }
  return H5Tcopy(type);
}

void follow_references(const Hdf5Twins& twins, hid_t type, std::byte* elements, uint64_t count) {
  if (H5Tdetect_class(type, H5T_REFERENCE) <= 0) {
    return;
  }
  const size_t size = H5Tget_size(type);
  for (uint64_t i = 0; i < count; ++i) {
    follow(twins, type, elements + i * size, 0);
  }
}

Status copy_attributes(const Hdf5Twins& twins, hid_t from, hid_t to) {
  for (const std::string& name : attribute_names(from)) {
    if (!copy_attribute(twins, from, to, name)) {
      return Error{EIO, fmt::format("the HDF5 library cannot copy attribute {}: {}", name, take_hdf5_error())};
    }
  }
  return {};
}

}  // namespace varve::fs
