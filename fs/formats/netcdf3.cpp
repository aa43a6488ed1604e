#include "fs/formats/netcdf3.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "fs/formats/array_image.h"
#include "fs/formats/check.h"
#include "fs/formats/thinning.h"

namespace varve::fs {

namespace {

constexpr uint64_t kLongestHeader = uint64_t{16} << 20;
constexpr uint64_t kMostRecordChunks = uint64_t{1} << 21;
constexpr uint32_t kChar = 2;

Error malformed(std::string_view why) {
  return Error{EBADMSG, fmt::format("the NetCDF header cannot be read: {}", why)};
}

/// A number of the header, which stays where it is in an image.
struct Field {
  size_t at = 0;
  size_t bytes = 4;
  uint64_t value = 0;
};

struct Dimension {
  std::string name;
  Field length;  ///< 0: the record dimension
};

struct Variable {
  std::string name;
  std::vector<size_t> dimensions;
  uint32_t type = 0;
  Field size, begin;
  bool record = false;
};

struct Header {
  codec::Bytes bytes;
  Field records;
  std::vector<Dimension> dimensions;
  std::vector<Variable> variables;
};

std::optional<codec::DType> dtype_of(uint32_t type) {
  using codec::DType;
  constexpr std::array<DType, 12> kTypes{DType::u8,  DType::i8, DType::u8,  DType::i16, DType::i32, DType::f32,
                                         DType::f64, DType::u8, DType::u16, DType::u32, DType::i64, DType::u64};
  return type >= 1 && type < kTypes.size() ? std::optional(kTypes.at(type)) : std::nullopt;
}

uint64_t padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

/// Reads the header's numbers and lists. Past the end: zeros, and from then on failed().
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, bool wide) : bytes_(bytes), wide_(wide) {}

  uint64_t number(size_t size) {
    if (failed_ || bytes_.size() - at_ < size) {
      failed_ = true;
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value = value << 8 | std::to_integer<uint64_t>(bytes_[at_++]);
    }
    return value;
  }
  Field field(size_t size) {
    const size_t at = at_;
    return {at, size, number(size)};
  }
  Field count() { return field(wide_ ? 8 : 4); }
  std::string name() {
    const uint64_t length = count().value;
    const size_t at = at_;
    skip(length);
    return failed_ ? "" : std::string(reinterpret_cast<const char*>(bytes_.data()) + at, length);
  }
  /// The length of a list with this tag, or of one that is absent; each of its items takes some bytes.
  uint64_t list(uint64_t tag) {
    const uint64_t found = number(4);
    const uint64_t length = count().value;
    failed_ = failed_ || (found != tag && (found != 0 || length != 0)) || length > bytes_.size();
    return failed_ ? 0 : length;
  }
  void attributes() {
    const uint64_t length = list(12);
    for (uint64_t i = 0; i < length && !failed_; ++i) {
      name();
      const auto type = dtype_of(static_cast<uint32_t>(number(4)));
      const uint64_t values = count().value;
      failed_ = failed_ || !type || values > bytes_.size();
      skip(failed_ ? 0 : values * codec::element_size(*type));
    }
  }
  bool failed() const { return failed_; }
  size_t position() const { return at_; }

 private:
  void skip(uint64_t bytes) {
    if (failed_ || bytes > bytes_.size() || padded(bytes) > bytes_.size() - at_) {
      failed_ = true;
      return;
    }
    at_ += padded(bytes);
  }

  std::span<const std::byte> bytes_;
  bool wide_;
  size_t at_ = 4;
  bool failed_ = false;
};

/// Bytes of one record, or of all, padded. Nothing: they overflow.
std::optional<uint64_t> bytes_of(const Variable& variable, const std::vector<uint64_t>& lengths, bool pad = true) {
  codec::Extents extents;
  for (const size_t dimension : variable.dimensions) {
    extents.push_back(lengths[dimension]);
  }
  if (variable.record) {
    extents.erase(extents.begin());
  }
  extents.push_back(codec::element_size(*dtype_of(variable.type)));
  const auto bytes = checked_product(extents);
  return bytes && pad ? padded(*bytes) : bytes;
}

/// What is from one record to the next. A record of one variable alone is not padded.
std::optional<uint64_t> record_bytes(const Header& header, const std::vector<uint64_t>& lengths) {
  const auto is_record = [](const Variable& variable) { return variable.record; };
  const auto count = std::count_if(header.variables.begin(), header.variables.end(), is_record);
  uint64_t all = 0;
  for (const Variable& variable : header.variables) {
    if (variable.record) {
      const auto bytes = bytes_of(variable, lengths, count > 1);
      if (!bytes || *bytes > (uint64_t{1} << 60) - all) {
        return std::nullopt;
      }
      all += *bytes;
    }
  }
  return all;
}

std::vector<uint64_t> lengths_of(const Header& header) {
  std::vector<uint64_t> lengths;
  for (const Dimension& dimension : header.dimensions) {
    lengths.push_back(dimension.length.value == 0 ? header.records.value : dimension.length.value);
  }
  return lengths;
}

/// The number of records of a file that is still being streamed: as many as there is room for.
void count_records(Header& header, uint64_t file_size) {
  const uint64_t streaming = header.records.bytes == 4 ? UINT32_MAX : UINT64_MAX;
  if (header.records.value != streaming) {
    return;
  }
  header.records.value = 0;
  const auto each = record_bytes(header, lengths_of(header));
  uint64_t first = UINT64_MAX;
  for (const Variable& variable : header.variables) {
    first = variable.record ? std::min(first, variable.begin.value) : first;
  }
  if (each && *each > 0 && first < file_size) {
    header.records.value = (file_size - first) / *each;
  }
}

Result<Variable> read_variable(HeaderReader& in, const Header& header, size_t offset_bytes) {
  Variable variable;
  variable.name = in.name();
  const uint64_t rank = in.count().value;
  if (in.failed() || rank > codec::kMaxRank) {
    return malformed("a variable has too many dimensions");
  }
  for (uint64_t i = 0; i < rank; ++i) {
    const uint64_t dimension = in.count().value;
    if (dimension >= header.dimensions.size()) {
      return malformed(fmt::format("variable {} has a dimension that is not declared", variable.name));
    }
    const bool record = header.dimensions[dimension].length.value == 0;
    if (record && i > 0) {
      return malformed(fmt::format("variable {} has the record dimension, but not as the first", variable.name));
    }
    variable.record = variable.record || record;
    variable.dimensions.push_back(dimension);
  }
  in.attributes();
  variable.type = static_cast<uint32_t>(in.number(4));
  variable.size = in.count();
  variable.begin = in.field(offset_bytes);
  if (!in.failed() && !dtype_of(variable.type)) {
    return malformed(fmt::format("variable {} has type {}, which there is not", variable.name, variable.type));
  }
  return variable;
}

Result<Header> read_header(FileView& file) {
  Header header;
  header.bytes.resize(std::min(file.size(), kLongestHeader));
  VARVE_ASSIGN(const size_t got, file.read(0, header.bytes));
  header.bytes.resize(got);
  const auto version = got >= 4 ? std::to_integer<unsigned>(header.bytes[3]) : 0;
  HeaderReader in(header.bytes, version == 5);
  header.records = in.count();
  const uint64_t dimensions = in.list(10);
  for (uint64_t i = 0; i < dimensions && !in.failed(); ++i) {
    std::string name = in.name();
    header.dimensions.push_back({std::move(name), in.count()});
  }
  in.attributes();
  const uint64_t variables = in.list(11);
  for (uint64_t i = 0; i < variables && !in.failed(); ++i) {
    VARVE_ASSIGN(Variable variable, read_variable(in, header, version == 1 ? 4 : 8));
    header.variables.push_back(std::move(variable));
  }
  if (in.failed()) {
    return malformed("a list or a name is cut short, or is another than must stand there");
  }
  header.bytes.resize(in.position());
  count_records(header, file.size());
  return header;
}

/// Where the elements of a variable lie; `each`: bytes from one record to the next. Nothing: it has none.
Result<std::optional<ArrayRegion>> region_of(const Header& header, const Variable& variable, uint64_t each) {
  const std::vector<uint64_t> lengths = lengths_of(header);
  ArrayRegion region;
  region.dtype = *dtype_of(variable.type);
  region.big_endian = codec::element_size(region.dtype) > 1;
  for (const size_t dimension : variable.dimensions) {
    region.shape.push_back(lengths[dimension]);
  }
  if (checked_product(region.shape) == 0) {
    return std::optional<ArrayRegion>();
  }
  region.chunk_shape = region.shape;
  region.chunks = {{0, variable.begin.value}};
  if (variable.record) {
    const uint64_t records = region.shape.front();
    if (records > kMostRecordChunks / std::max<size_t>(header.variables.size(), 1) ||
        (each > 0 && records > (uint64_t{1} << 60) / each)) {
      return Error{ENOENT,
                   fmt::format("variable {} has more records ({}) than an image can list", variable.name, records)};
    }
    region.chunk_shape.front() = 1;
    region.chunks.clear();
    for (uint64_t record = 0; record < records; ++record) {
      region.chunks.push_back({record, variable.begin.value + record * each});
    }
  }
  return std::optional(std::move(region));
}

Result<uint64_t> checked_record_bytes(const Header& header) {
  const auto each = record_bytes(header, lengths_of(header));
  return each ? Result<uint64_t>(*each) : malformed("its records are larger than any file can be");
}

void put(codec::Bytes& header, const Field& field, uint64_t value) {
  for (size_t i = field.bytes; i-- > 0; value >>= 8) {
    header[field.at + i] = static_cast<std::byte>(value & 0xff);
  }
}

/// Lengths in the image. The last dimension of variables of characters is the length of strings, and stays.
std::vector<SliceAxis> thinned_dimensions(const Header& header, uint8_t shift) {
  std::vector<SliceAxis> axes;
  for (const uint64_t length : lengths_of(header)) {
    axes.push_back(thinned(length, shift));
  }
  for (const Variable& variable : header.variables) {
    if (variable.type == kChar && !variable.dimensions.empty()) {
      const size_t last = variable.dimensions.back();
      axes[last] = {0, 1, lengths_of(header)[last]};
    }
  }
  return axes;
}

/// Gives the variables their places in the image: those without records first, each in the order of the file.
Status place(const Header& header, const std::vector<uint64_t>& lengths, codec::Bytes& bytes,
             std::vector<uint64_t>& begins, uint64_t& end) {
  std::vector<size_t> order(header.variables.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Variable& first = header.variables[a];
    const Variable& second = header.variables[b];
    return std::pair(first.record, first.begin.value) < std::pair(second.record, second.begin.value);
  });
  begins.assign(order.size(), 0);
  end = padded(header.bytes.size());
  for (const size_t i : order) {
    const Variable& variable = header.variables[i];
    const auto size = bytes_of(variable, lengths);
    if (!size || *size > (uint64_t{1} << 60) - end) {
      return malformed("its variables are larger than any file can be");
    }
    begins[i] = end;
    end += *size;
    const uint64_t most = variable.size.bytes == 4 ? UINT32_MAX : UINT64_MAX;
    put(bytes, variable.size, std::min(*size, most));
    put(bytes, variable.begin, begins[i]);
    if (variable.begin.bytes == 4 && begins[i] > INT32_MAX) {
      return malformed("a variable begins behind 2 GiB in a file of CDF-1");
    }
  }
  return {};
}

}  // namespace

bool has_netcdf3_magic(FileView& file) {
  std::array<std::byte, 4> start{};
  const auto got = file.read(0, start);
  return got.ok() && *got == start.size() && std::memcmp(start.data(), "CDF", 3) == 0 &&
         (start[3] == std::byte{1} || start[3] == std::byte{2} || start[3] == std::byte{5});
}

Result<FileImage> netcdf3_coarse(FileView& file, uint8_t shift) {
  VARVE_ASSIGN(const Header header, read_header(file));
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
  const uint64_t step = record_bytes(header, lengths).value_or(0);
  for (size_t i = 0; i < header.variables.size(); ++i) {
    const Variable& variable = header.variables[i];
    VARVE_ASSIGN(auto region, region_of(header, variable, each));
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
                               [](const Variable& variable) { return variable.record; });
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
  VARVE_ASSIGN(const Header header, read_header(file));
  VARVE_ASSIGN(const uint64_t each, checked_record_bytes(header));
  std::vector<std::string> names;
  for (const Variable& variable : header.variables) {
    names.push_back(variable.name);
  }
  const bool only = spec.dataset.empty() && names.size() == 1;
  const auto found = only ? names.begin() : std::find(names.begin(), names.end(), spec.dataset);
  if (found == names.end()) {
    return Error{ENOENT,
                 fmt::format("the file has no variable \"{}\"; it has {}", spec.dataset, fmt::join(names, ", "))};
  }
  const Variable& variable = header.variables[static_cast<size_t>(found - names.begin())];
  IndexedArray array;
  const codec::DType dtype = *dtype_of(variable.type);
  array.type = variable.type == kChar ? "|S1" : numpy_type(dtype, codec::element_size(dtype) > 1, false);
  for (const size_t dimension : variable.dimensions) {
    array.shape.push_back(lengths_of(header)[dimension]);
  }
  VARVE_ASSIGN(auto region, region_of(header, variable, each));
  if (!region) {
    VARVE_ASSIGN(const RegionSpec::Part part, spec.apply(array.shape));
    return literal_image(array.type, part, {});
  }
  array.source.region = std::move(*region);
  return region_image(array, spec);
}

}  // namespace varve::fs
