// The codec as a filter of HDF5: libh5varve.so, which HDF5 loads from a folder in HDF5_PLUGIN_PATH. Each chunk becomes
// a container (codec/FORMAT.md) with a bound of its own: rel, psnr and ratio are about the chunk's range.
//
// The filter must be the first of its dataset: it needs elements, and Fletcher32 before it would be of other bytes than
// what comes back. Integers stay exact unless the parameters say otherwise. The dataset's fill value is kept bit for
// bit; so is 0 under bounds that are about a range, which padding must not widen.
#include <H5PLextern.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "codec/container.h"
#include "tools/hdf5/library.h"
#include "tools/hdf5/parameters.h"

namespace varve::tools {
namespace {

using codec::Bound;
using codec::BoundMode;
using codec::Bytes;
using codec::DType;

// ---- the type of a dataset's elements -------------------------------------------------------------------------------

struct ElementType {
  DType dtype = DType::u8;
  bool big_endian = false;
  bool measured = false;  ///< a number, and no label or flag
  codec::Extents inner;   ///< of an array type or of a pair
};

/// An HDF5 type that is closed again.
class Type {
 public:
  Type(const Hdf5Library& hdf5, hid_t id) : hdf5_(hdf5), id_(id) {}
  ~Type() {
    if (id_ >= 0) {
      hdf5_.H5Tclose(id_);
    }
  }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  hid_t id() const { return id_; }

 private:
  const Hdf5Library& hdf5_;
  hid_t id_;
};

Error unsupported() {
  return {EINVAL,
          "elements of this type are neither integers nor floats of 1, 2, 4 or 8 bytes, pairs or arrays of such"};
}

Result<DType> float_of(const Hdf5Library& hdf5, hid_t type) {
  struct Known {
    DType dtype;
    size_t size, sign, exponent, exponent_bits, mantissa_bits, bias;
  };
  constexpr std::array kKnown = {Known{DType::f16, 2, 15, 10, 5, 10, 15}, Known{DType::bf16, 2, 15, 7, 8, 7, 127},
                                 Known{DType::f32, 4, 31, 23, 8, 23, 127}, Known{DType::f64, 8, 63, 52, 11, 52, 1023}};
  size_t sign = 0;
  size_t exponent = 0;
  size_t exponent_bits = 0;
  size_t mantissa = 0;
  size_t mantissa_bits = 0;
  if (hdf5.H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) {
    return unsupported();
  }
  for (const Known& known : kKnown) {
    if (known.size == hdf5.H5Tget_size(type) && known.sign == sign && known.exponent == exponent &&
        known.exponent_bits == exponent_bits && mantissa == 0 && known.mantissa_bits == mantissa_bits &&
        known.bias == hdf5.H5Tget_ebias(type) && hdf5.H5Tget_norm(type) == H5T_NORM_IMPLIED) {
      return known.dtype;
    }
  }
  return unsupported();
}

Result<DType> integer_of(const Hdf5Library& hdf5, hid_t type, bool is_signed) {
  constexpr std::array kUnsigned = {DType::u8, DType::u16, DType::u32, DType::u64};
  constexpr std::array kSigned = {DType::i8, DType::i16, DType::i32, DType::i64};
  const size_t size = hdf5.H5Tget_size(type);
  for (size_t i = 0; i < kSigned.size(); ++i) {
    if (size == size_t{1} << i && hdf5.H5Tget_precision(type) == 8 * size) {
      return is_signed ? kSigned.at(i) : kUnsigned.at(i);
    }
  }
  return unsupported();
}

Result<ElementType> type_of(const Hdf5Library& hdf5, hid_t type, unsigned depth = 0);

/// Two numbers of one type, one behind the other: how h5py stores complex numbers.
Result<ElementType> pair_of(const Hdf5Library& hdf5, hid_t type, unsigned depth) {
  if (hdf5.H5Tget_nmembers(type) != 2) {
    return unsupported();
  }
  const Type first(hdf5, hdf5.H5Tget_member_type(type, 0));
  const Type second(hdf5, hdf5.H5Tget_member_type(type, 1));
  VARVE_ASSIGN(ElementType one, type_of(hdf5, first.id(), depth));
  VARVE_ASSIGN(const ElementType other, type_of(hdf5, second.id(), depth));
  const size_t size = element_size(one.dtype);
  if (!one.inner.empty() || !other.inner.empty() || one.dtype != other.dtype || one.big_endian != other.big_endian ||
      hdf5.H5Tget_member_offset(type, 0) != 0 || hdf5.H5Tget_member_offset(type, 1) != size ||
      hdf5.H5Tget_size(type) != 2 * size) {
    return unsupported();
  }
  one.measured = one.measured && other.measured;
  one.inner = {2};
  return one;
}

Result<ElementType> array_of(const Hdf5Library& hdf5, hid_t type, unsigned depth) {
  const int rank = hdf5.H5Tget_array_ndims(type);
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  if (rank < 0 || hdf5.H5Tget_array_dims2(type, extents.data()) < 0) {
    return unsupported();
  }
  const Type element(hdf5, hdf5.H5Tget_super(type));
  VARVE_ASSIGN(ElementType made, type_of(hdf5, element.id(), depth));
  made.inner.insert(made.inner.begin(), extents.begin(), extents.begin() + rank);
  return made;
}

Result<ElementType> type_of(const Hdf5Library& hdf5, hid_t type, unsigned depth) {
  if (type < 0 || depth > 4) {
    return unsupported();
  }
  const H5T_class_t kind = hdf5.H5Tget_class(type);
  if (kind == H5T_COMPOUND) {
    return pair_of(hdf5, type, depth + 1);
  }
  if (kind == H5T_ARRAY) {
    return array_of(hdf5, type, depth + 1);
  }
  if (kind == H5T_ENUM) {
    const Type base(hdf5, hdf5.H5Tget_super(type));
    VARVE_ASSIGN(ElementType made, type_of(hdf5, base.id(), depth + 1));
    made.measured = false;
    return made;
  }
  ElementType made;
  if (kind == H5T_FLOAT) {
    VARVE_ASSIGN(made.dtype, float_of(hdf5, type));
  } else if (kind == H5T_INTEGER || kind == H5T_BITFIELD) {
    VARVE_ASSIGN(made.dtype, integer_of(hdf5, type, kind == H5T_INTEGER && hdf5.H5Tget_sign(type) == H5T_SGN_2));
  } else {
    return unsupported();
  }
  made.measured = kind != H5T_BITFIELD;
  const H5T_order_t order = hdf5.H5Tget_order(type);
  if (element_size(made.dtype) > 1 && order != H5T_ORDER_LE && order != H5T_ORDER_BE) {
    return unsupported();
  }
  made.big_endian = order == H5T_ORDER_BE;
  return made;
}

// ---- creation of a dataset ------------------------------------------------------------------------------------------

bool is_first(const Hdf5Library& hdf5, hid_t dataset_creation) {
  unsigned flags = 0;
  size_t count = 0;
  unsigned configuration = 0;
  return hdf5.H5Pget_filter2(dataset_creation, 0, &flags, &count, nullptr, 0, nullptr, &configuration) ==
         static_cast<H5Z_filter_t>(kFilterNumber);
}

bool is_about_range(BoundMode mode) {
  return mode == BoundMode::relative || mode == BoundMode::psnr || mode == BoundMode::absolute_and_relative ||
         mode == BoundMode::ratio;
}

/// The parts of the dataset's fill value, as bit patterns in host byte order.
std::vector<uint64_t> fill_values_of(const Hdf5Library& hdf5, hid_t dataset_creation, hid_t type,
                                     const ElementType& element) {
  H5D_fill_value_t state = H5D_FILL_VALUE_UNDEFINED;
  if (hdf5.H5Pfill_value_defined(dataset_creation, &state) < 0 || state != H5D_FILL_VALUE_USER_DEFINED) {
    return {};
  }
  const size_t size = element_size(element.dtype);
  Bytes value(hdf5.H5Tget_size(type));
  if (value.size() % size != 0 || hdf5.H5Pget_fill_value(dataset_creation, type, value.data()) < 0) {
    return {};
  }
  std::vector<uint64_t> fills;
  for (size_t at = 0; at < value.size() && fills.size() + 1 < FilterParameters::kMostFills; at += size) {
    if (element.big_endian) {
      std::reverse(value.begin() + static_cast<ptrdiff_t>(at), value.begin() + static_cast<ptrdiff_t>(at + size));
    }
    uint64_t bits = 0;
    std::memcpy(&bits, value.data() + at, size);
    if (std::find(fills.begin(), fills.end(), bits) == fills.end()) {
      fills.push_back(bits);
    }
  }
  return fills;
}

Status set_parameters(const Hdf5Library& hdf5, hid_t dataset_creation, hid_t type) {
  std::array<unsigned, kMostParameters> numbers{};
  size_t count = numbers.size();
  unsigned flags = 0;
  unsigned configuration = 0;
  if (hdf5.H5Pget_filter_by_id2(dataset_creation, kFilterNumber, &flags, &count, numbers.data(), 0, nullptr,
                                &configuration) < 0) {
    return Error{EINVAL, "the dataset's parameters of this filter cannot be had from HDF5"};
  }
  if (count > numbers.size()) {
    return Error{EINVAL, "the dataset has more parameters of this filter than there are"};
  }
  VARVE_ASSIGN(FilterParameters parameters, read_bound(std::span(numbers).first(count)));
  if (!is_first(hdf5, dataset_creation)) {
    return Error{EINVAL,
                 "this filter must be the first of the dataset: it cannot follow shuffle, Fletcher32 or others"};
  }
  const auto element = type_of(hdf5, type);
  if (!element.ok()) {
    return (flags & H5Z_FLAG_OPTIONAL) != 0 ? Status() : element.error();  // its chunks are then stored as they are
  }
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int rank = hdf5.H5Pget_chunk(dataset_creation, static_cast<int>(chunk.size()), chunk.data());
  if (rank < 0) {
    return Error{EINVAL, "the dataset is not chunked"};
  }
  parameters.dtype = element->dtype;
  parameters.big_endian = element->big_endian;
  parameters.integers = parameters.integers && element->measured;
  parameters.shape.assign(chunk.begin(), chunk.begin() + rank);
  parameters.fill_values = fill_values_of(hdf5, dataset_creation, type, *element);
  if (is_about_range(parameters.bound.mode) &&  // the chunk may have padding: HDF5 does not tell
      std::find(parameters.fill_values.begin(), parameters.fill_values.end(), 0U) == parameters.fill_values.end()) {
    parameters.fill_values.push_back(0);
  }
  parameters.shape.insert(parameters.shape.end(), element->inner.begin(), element->inner.end());
  if (parameters.shape.size() > codec::kMaxRank || parameters.chunk_bytes() == 0) {
    return Error{EINVAL, "the dataset's chunks have too many axes or bytes"};
  }
  const std::vector<unsigned> complete = write_parameters(parameters);
  if (hdf5.H5Pmodify_filter(dataset_creation, kFilterNumber, flags, complete.size(), complete.data()) < 0) {
    return Error{EINVAL, "HDF5 does not take the filter's parameters"};
  }
  return {};
}

// ---- chunks ---------------------------------------------------------------------------------------------------------

void swap_bytes(std::byte* elements, size_t bytes, size_t size) {
  for (size_t at = 0; at + size <= bytes; at += size) {
    std::reverse(elements + at, elements + at + size);
  }
}

/// HDF5's buffer of a chunk.
struct Buffer {
  void** data;
  size_t* capacity;
};

/// Another buffer in place of the one that there is; HDF5 frees it.
Result<std::byte*> allocate(const Hdf5Library& hdf5, size_t size) {
  void* const memory = hdf5.H5allocate_memory(std::max<size_t>(size, 1), false);
  return memory == nullptr ? Result<std::byte*>(Error{ENOMEM, "there is not enough memory"})
                           : Result<std::byte*>(static_cast<std::byte*>(memory));
}

void replace(const Hdf5Library& hdf5, const Buffer& buffer, std::byte* data, size_t size) {
  hdf5.H5free_memory(*buffer.data);
  *buffer.data = data;
  *buffer.capacity = size;
}

Result<size_t> encode(const Hdf5Library& hdf5, const FilterParameters& parameters, size_t size, const Buffer& buffer) {
  if (size != parameters.chunk_bytes()) {
    return Error{EINVAL,
                 fmt::format("a chunk has {} bytes where its shape calls for {}", size, parameters.chunk_bytes())};
  }
  auto* const elements = static_cast<std::byte*>(*buffer.data);
  const size_t element = element_size(parameters.dtype);
  if (parameters.big_endian) {
    swap_bytes(elements, size, element);  // and back below: HDF5 keeps the chunk when the filter fails
  }
  codec::ArraySpec spec;
  spec.dtype = parameters.dtype;
  spec.shape = parameters.shape;
  spec.bound = is_float(parameters.dtype) || parameters.integers ? parameters.bound : Bound{};
  spec.fill_values = parameters.fill_values;
  spec.elements = {elements, size};
  const auto made = make_container(spec);
  if (parameters.big_endian) {
    swap_bytes(elements, size, element);
  }
  if (!made.ok()) {
    return made.error();
  }
  VARVE_ASSIGN(std::byte* const out, allocate(hdf5, made->size()));
  std::memcpy(out, made->data(), made->size());
  replace(hdf5, buffer, out, made->size());
  return made->size();
}

Result<size_t> decode(const Hdf5Library& hdf5, const FilterParameters& parameters, size_t size, const Buffer& buffer) {
  VARVE_ASSIGN(const codec::Container container,
               codec::Container::open({static_cast<const std::byte*>(*buffer.data), size}));
  if (container.codec().dtype() != parameters.dtype || container.codec().shape() != parameters.shape) {
    return Error{EBADMSG, "a chunk has another type or shape than its dataset"};
  }
  const size_t bytes = parameters.chunk_bytes();
  VARVE_ASSIGN(std::byte* const out, allocate(hdf5, bytes));
  const Status status = container.decode({codec::Extents(parameters.shape.size(), 0), parameters.shape}, 0, out);
  if (!status.ok()) {
    hdf5.H5free_memory(out);
    return status.error();
  }
  if (parameters.big_endian) {
    swap_bytes(out, bytes, element_size(parameters.dtype));
  }
  replace(hdf5, buffer, out, bytes);
  return bytes;
}

/// What `body` gives, or `failed` and a sentence on HDF5's error stack; nothing that is thrown passes.
template <typename T, typename F>
T at_border(const Hdf5Library& hdf5, T failed, F&& body) noexcept {
  try {
    if (!hdf5.complete) {
      return failed;
    }
    Result<T> result = body();
    if (result.ok()) {
      return *result;
    }
    hdf5.push_error(result.error().text.c_str());
  } catch (const std::exception& error) {
    hdf5.push_error(error.what());
  } catch (...) {
    hdf5.push_error("something unexpected was thrown");
  }
  return failed;
}

htri_t can_apply(hid_t /*dataset_creation*/, hid_t type, hid_t /*space*/) {
  const Hdf5Library& hdf5 = library_at(__builtin_return_address(0));
  return at_border<htri_t>(hdf5, 0, [&]() -> Result<htri_t> {
    VARVE_ASSIGN(const ElementType element, type_of(hdf5, type));
    static_cast<void>(element);
    return 1;
  });
}

herr_t set_local(hid_t dataset_creation, hid_t type, hid_t /*chunk*/) {
  const Hdf5Library& hdf5 = library_at(__builtin_return_address(0));
  return at_border<herr_t>(hdf5, -1, [&]() -> Result<herr_t> {
    VARVE_TRY(set_parameters(hdf5, dataset_creation, type));
    return 0;
  });
}

size_t filter(unsigned flags, size_t count, const unsigned numbers[], size_t size, size_t* capacity, void** data) {
  const Hdf5Library& hdf5 = library_at(__builtin_return_address(0));
  return at_border<size_t>(hdf5, 0, [&]() -> Result<size_t> {
    VARVE_ASSIGN(const FilterParameters parameters, read_parameters({numbers, count}));
    const Buffer buffer{data, capacity};
    return (flags & H5Z_FLAG_REVERSE) != 0 ? decode(hdf5, parameters, size, buffer)
                                           : encode(hdf5, parameters, size, buffer);
  });
}

const H5Z_class2_t kFilter = {
    H5Z_CLASS_T_VERS, static_cast<H5Z_filter_t>(kFilterNumber), 1, 1, "varve", can_apply, set_local, filter};

}  // namespace
}  // namespace varve::tools

// What HDF5 looks for in a plugin.
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void* H5PLget_plugin_info(void) { return &varve::tools::kFilter; }
