#include "fs/formats/hdf5_types.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fs/formats/check.h"
#include "fs/formats/conventions.h"
#include "fs/formats/hdf5_driver.h"

namespace varve::fs {

namespace {

constexpr size_t kLongestText = size_t{1} << 16;
constexpr int kDeepestArray = 8;

bool fills_its_bytes(hid_t type) { return H5Tget_precision(type) == 8 * H5Tget_size(type) && H5Tget_offset(type) == 0; }

std::optional<codec::DType> integer_type(size_t size, bool is_signed) {
  using codec::DType;
  switch (size) {
    case 1:
      return is_signed ? DType::i8 : DType::u8;
    case 2:
      return is_signed ? DType::i16 : DType::u16;
    case 4:
      return is_signed ? DType::i32 : DType::u32;
    case 8:
      return is_signed ? DType::i64 : DType::u64;
    default:
      return std::nullopt;
  }
}

/// The layout of IEEE 754: sign, exponent, mantissa with its leading one implied.
std::optional<codec::DType> float_type(hid_t type) {
  struct Layout {
    codec::DType dtype;
    size_t size, exponent_at, exponent_bits, mantissa_bits, bias;
  };
  constexpr std::array<Layout, 3> kLayouts{{{codec::DType::f16, 2, 10, 5, 10, 15},
                                            {codec::DType::f32, 4, 23, 8, 23, 127},
                                            {codec::DType::f64, 8, 52, 11, 52, 1023}}};
  size_t sign_at = 0;
  size_t exponent_at = 0;
  size_t exponent_bits = 0;
  size_t mantissa_at = 0;
  size_t mantissa_bits = 0;
  if (H5Tget_fields(type, &sign_at, &exponent_at, &exponent_bits, &mantissa_at, &mantissa_bits) < 0 ||
      H5Tget_norm(type) != H5T_NORM_IMPLIED) {
    return std::nullopt;
  }
  for (const Layout& layout : kLayouts) {
    if (H5Tget_size(type) == layout.size && sign_at == 8 * layout.size - 1 && exponent_at == layout.exponent_at &&
        exponent_bits == layout.exponent_bits && mantissa_at == 0 && mantissa_bits == layout.mantissa_bits &&
        H5Tget_ebias(type) == layout.bias) {
      return layout.dtype;
    }
  }
  return std::nullopt;
}

std::optional<Hdf5Element> describe_number(hid_t type, H5T_class_t kind) {
  H5T_order_t order = H5Tget_order(type);
  if (!fills_its_bytes(type) || (order != H5T_ORDER_LE && order != H5T_ORDER_BE)) {
    return std::nullopt;
  }
  size_t size = H5Tget_size(type);
  auto dtype =
      kind == H5T_FLOAT ? float_type(type) : integer_type(size, kind == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2);
  if (!dtype) {
    return std::nullopt;
  }
  return Hdf5Element{*dtype, order == H5T_ORDER_BE && size > 1, {}};
}

/// Two floats of one type, next to each other, named as the parts of a complex number.
std::optional<Hdf5Element> describe_complex(hid_t type) {
  if (H5Tget_nmembers(type) != 2) {
    return std::nullopt;
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNames{
      {{"r", "i"}, {"real", "imag"}, {"re", "im"}}};
  std::array<std::string, 2> names;
  for (unsigned member = 0; member < 2; ++member) {
    char* name = H5Tget_member_name(type, member);
    if (name == nullptr) {
      return std::nullopt;
    }
    names[member] = name;
    H5free_memory(name);
  }
  bool named = std::any_of(kNames.begin(), kNames.end(),
                           [&](const auto& pair) { return pair.first == names[0] && pair.second == names[1]; });
  Hdf5Id first(H5Tget_member_type(type, 0), H5Tclose);
  Hdf5Id second(H5Tget_member_type(type, 1), H5Tclose);
  if (!named || !first || !second || H5Tget_class(first.get()) != H5T_FLOAT ||
      H5Tequal(first.get(), second.get()) <= 0) {
    return std::nullopt;
  }
  size_t half = H5Tget_size(first.get());
  if (H5Tget_member_offset(type, 0) != 0 || H5Tget_member_offset(type, 1) != half || H5Tget_size(type) != 2 * half) {
    return std::nullopt;
  }
  auto element = describe_number(first.get(), H5T_FLOAT);
  if (element) {
    element->inner = {2};
  }
  return element;
}

std::optional<Hdf5Element> describe(hid_t type, int depth) {  // NOLINT(misc-no-recursion): as deep as the limit says
  H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_INTEGER || kind == H5T_FLOAT || kind == H5T_BITFIELD) {
    return describe_number(type, kind);
  }
  if (kind == H5T_COMPOUND) {
    return describe_complex(type);
  }
  if ((kind != H5T_ENUM && kind != H5T_ARRAY) || depth == kDeepestArray) {
    return std::nullopt;
  }
  Hdf5Id base(H5Tget_super(type), H5Tclose);
  auto element = base ? describe(base.get(), depth + 1) : std::nullopt;
  if (!element || kind == H5T_ENUM) {
    return element;
  }
  int rank = H5Tget_array_ndims(type);
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  if (rank < 1 || rank > H5S_MAX_RANK || H5Tget_array_dims2(type, extents.data()) < 0) {
    return std::nullopt;
  }
  element->inner.insert(element->inner.begin(), extents.begin(), extents.begin() + rank);
  return element;
}

void add_patterns(std::vector<uint64_t>& values, const std::vector<std::byte>& bytes, size_t size, bool swapped) {
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    uint64_t pattern = 0;
    for (size_t i = 0; i < size; ++i) {
      size_t source = swapped ? size - 1 - i : i;
      pattern |= std::to_integer<uint64_t>(bytes[at + source]) << (8 * i);
    }
    add_fill_value(values, pattern);
  }
}

void add_attribute_values(hid_t dataset, const char* name, const Hdf5Element& element, std::vector<uint64_t>& values) {
  if (!has_attribute(dataset, name)) {
    return;
  }
  Hdf5Id attribute(H5Aopen(dataset, name, H5P_DEFAULT), H5Aclose);
  Hdf5Id type(attribute ? H5Aget_type(attribute.get()) : -1, H5Tclose);
  Hdf5Id space(attribute ? H5Aget_space(attribute.get()) : -1, H5Sclose);
  if (!type || !space) {
    return;
  }
  hssize_t count = H5Sget_simple_extent_npoints(space.get());
  auto own = describe_type(type.get());
  if (count < 1 || count > static_cast<hssize_t>(kMostFillValues) || !own || !own->inner.empty()) {
    return;
  }
  // The same type: its bits as they are. Another number: what the library makes of it in the dataset's type.
  bool same = own->dtype == element.dtype;
  hid_t memory = same ? type.get() : native_type(element.dtype);
  size_t size = codec::element_size(element.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size);
  if (memory >= 0 && H5Aread(attribute.get(), memory, bytes.data()) >= 0) {
    add_patterns(values, bytes, size, same && own->big_endian);
  }
}

}  // namespace

std::optional<Hdf5Element> describe_type(hid_t type) { return describe(type, 0); }

hid_t native_type(codec::DType dtype) {
  switch (dtype) {
    case codec::DType::u8:
      return H5T_NATIVE_UINT8;
    case codec::DType::i8:
      return H5T_NATIVE_INT8;
    case codec::DType::u16:
      return H5T_NATIVE_UINT16;
    case codec::DType::i16:
      return H5T_NATIVE_INT16;
    case codec::DType::u32:
      return H5T_NATIVE_UINT32;
    case codec::DType::i32:
      return H5T_NATIVE_INT32;
    case codec::DType::u64:
      return H5T_NATIVE_UINT64;
    case codec::DType::i64:
      return H5T_NATIVE_INT64;
    case codec::DType::f32:
      return H5T_NATIVE_FLOAT;
    case codec::DType::f64:
      return H5T_NATIVE_DOUBLE;
    default:
      return -1;
  }
}

bool has_attribute(hid_t object, const char* name) { return H5Aexists(object, name) > 0; }

std::optional<std::string> text_attribute(hid_t object, const char* name) {
  if (!has_attribute(object, name)) {
    return std::nullopt;
  }
  Hdf5Id attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
  Hdf5Id type(attribute ? H5Aget_type(attribute.get()) : -1, H5Tclose);
  Hdf5Id space(attribute ? H5Aget_space(attribute.get()) : -1, H5Sclose);
  if (!type || !space || H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) {
    return std::nullopt;
  }
  if (H5Tis_variable_str(type.get()) > 0) {
    char* value = nullptr;
    if (H5Aread(attribute.get(), type.get(), static_cast<void*>(&value)) < 0 || value == nullptr) {
      return std::nullopt;
    }
    std::string text(value, strnlen(value, kLongestText));
    H5free_memory(value);
    return text;
  }
  std::string text(H5Tget_size(type.get()), '\0');
  if (text.empty() || text.size() > kLongestText || H5Aread(attribute.get(), type.get(), text.data()) < 0) {
    return std::nullopt;
  }
  text.resize(strnlen(text.data(), text.size()));
  return text;
}

void collect_fill_values(hid_t dataset, hid_t creation, hid_t file_type, const Hdf5Element& element,
                         std::vector<uint64_t>& values) {
  if (!element.inner.empty()) {
    return;
  }
  H5D_fill_value_t state = H5D_FILL_VALUE_ERROR;
  if (H5Pfill_value_defined(creation, &state) >= 0 && state == H5D_FILL_VALUE_USER_DEFINED) {
    std::vector<std::byte> bytes(codec::element_size(element.dtype));
    if (H5Pget_fill_value(creation, file_type, bytes.data()) >= 0) {
      add_patterns(values, bytes, bytes.size(), element.big_endian);
    }
  }
  add_attribute_values(dataset, "_FillValue", element, values);
  add_attribute_values(dataset, "missing_value", element, values);
}

}  // namespace varve::fs
