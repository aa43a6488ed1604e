#include "fs/formats/netcdf3_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fs/formats/check.h"

namespace varve::fs {

namespace {

constexpr size_t kMagicBytes = 4;
constexpr uint64_t kUsualHeader = uint64_t{1} << 16;
constexpr uint64_t kLongestHeader = uint64_t{1} << 24;
/// Chunks of a variable, so that their places do not overflow.
constexpr uint64_t kMostChunks = uint64_t{1} << 24;
constexpr uint64_t kMostStep = uint64_t{1} << 39;

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
  Netcdf3Field field(size_t size) {
    const size_t at = at_;
    return {at, size, number(size)};
  }
  Netcdf3Field count() { return field(wide_ ? 8 : 4); }
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
  std::vector<Netcdf3Attribute> attributes() {
    std::vector<Netcdf3Attribute> attributes;
    const uint64_t length = list(12);
    for (uint64_t i = 0; i < length && !failed_; ++i) {
      Netcdf3Attribute& attribute = attributes.emplace_back();
      attribute.name = name();
      attribute.type = static_cast<uint32_t>(number(4));
      attribute.count = count().value;
      attribute.at = at_;
      const auto type = netcdf3_dtype(attribute.type);
      failed_ = failed_ || !type || attribute.count > bytes_.size();
      skip(failed_ ? 0 : attribute.count * codec::element_size(*type));
    }
    return attributes;
  }
  bool failed() const { return failed_; }
  size_t position() const { return at_; }

 private:
  void skip(uint64_t bytes) {
    if (failed_ || bytes > bytes_.size() || netcdf3_padded(bytes) > bytes_.size() - at_) {
      failed_ = true;
      return;
    }
    at_ += netcdf3_padded(bytes);
  }

  std::span<const std::byte> bytes_;
  bool wide_;
  size_t at_ = kMagicBytes;
  bool failed_ = false;
};

/// Lengths of the dimensions, with the number of records of a file that is still being streamed: as many as there is
/// room for.
void find_lengths(Netcdf3Header& header, uint64_t file_size) {
  const uint64_t streaming = header.records.bytes == 4 ? UINT32_MAX : UINT64_MAX;
  const bool unknown = header.records.value == streaming;
  header.records.value = unknown ? 0 : header.records.value;
  for (const Netcdf3Dimension& dimension : header.dimensions) {
    header.lengths.push_back(dimension.length.value == 0 ? header.records.value : dimension.length.value);
  }
  const auto each = netcdf3_record_bytes(header, header.lengths);
  uint64_t first = UINT64_MAX;
  for (const Netcdf3Variable& variable : header.variables) {
    first = variable.record ? std::min(first, variable.begin.value) : first;
  }
  if (unknown && each && *each > 0 && first < file_size) {
    header.records.value = (file_size - first) / *each;
    for (size_t i = 0; i < header.lengths.size(); ++i) {
      header.lengths[i] = header.dimensions[i].length.value == 0 ? header.records.value : header.lengths[i];
    }
  }
}

Result<Netcdf3Variable> read_variable(HeaderReader& in, const Netcdf3Header& header, size_t offset_bytes) {
  Netcdf3Variable variable;
  variable.name = in.name();
  const uint64_t rank = in.count().value;
  if (in.failed() || rank > codec::kMaxRank) {
    return malformed_netcdf3("a variable has too many dimensions");
  }
  for (uint64_t i = 0; i < rank; ++i) {
    const uint64_t dimension = in.count().value;
    if (dimension >= header.dimensions.size()) {
      return malformed_netcdf3(fmt::format("variable {} has a dimension that is not declared", variable.name));
    }
    const bool record = header.dimensions[dimension].length.value == 0;
    if (record && i > 0) {
      return malformed_netcdf3(
          fmt::format("variable {} has the record dimension, but not as the first", variable.name));
    }
    variable.record = variable.record || record;
    variable.dimensions.push_back(dimension);
  }
  variable.attributes = in.attributes();
  variable.type = static_cast<uint32_t>(in.number(4));
  variable.size = in.count();
  variable.begin = in.field(offset_bytes);
  if (!in.failed() && !netcdf3_dtype(variable.type)) {
    return malformed_netcdf3(fmt::format("variable {} has type {}, which there is not", variable.name, variable.type));
  }
  return variable;
}

Result<Netcdf3Header> parse_header(codec::Bytes bytes, uint64_t file_size) {
  Netcdf3Header header;
  header.bytes = std::move(bytes);
  if (header.bytes.size() < kMagicBytes) {
    return malformed_netcdf3("the file ends within its first bytes");
  }
  const auto version = std::to_integer<unsigned>(header.bytes[kMagicBytes - 1]);
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
    VARVE_ASSIGN(Netcdf3Variable variable, read_variable(in, header, version == 1 ? 4 : 8));
    header.variables.push_back(std::move(variable));
  }
  if (in.failed()) {
    return malformed_netcdf3("a list or a name is cut short, or is another than must stand there");
  }
  header.bytes.resize(in.position());
  find_lengths(header, file_size);
  return header;
}

}  // namespace

Error malformed_netcdf3(std::string_view why) {
  return Error{EBADMSG, fmt::format("the NetCDF header cannot be read: {}", why)};
}

std::optional<codec::DType> netcdf3_dtype(uint32_t type) {
  using codec::DType;
  constexpr std::array<DType, 12> kTypes{DType::u8,  DType::i8, DType::u8,  DType::i16, DType::i32, DType::f32,
                                         DType::f64, DType::u8, DType::u16, DType::u32, DType::i64, DType::u64};
  return type >= 1 && type < kTypes.size() ? std::optional(kTypes.at(type)) : std::nullopt;
}

std::optional<uint64_t> netcdf3_bytes(const Netcdf3Variable& variable, const std::vector<uint64_t>& lengths, bool pad) {
  codec::Extents extents;
  for (const size_t dimension : variable.dimensions) {
    extents.push_back(lengths[dimension]);
  }
  if (variable.record) {
    extents.erase(extents.begin());
  }
  extents.push_back(codec::element_size(*netcdf3_dtype(variable.type)));
  const auto bytes = checked_product(extents);
  return bytes && pad ? netcdf3_padded(*bytes) : bytes;
}

std::optional<uint64_t> netcdf3_record_bytes(const Netcdf3Header& header, const std::vector<uint64_t>& lengths) {
  const auto is_record = [](const Netcdf3Variable& variable) { return variable.record; };
  const auto count = std::count_if(header.variables.begin(), header.variables.end(), is_record);
  uint64_t all = 0;
  for (const Netcdf3Variable& variable : header.variables) {
    if (variable.record) {
      // Records of one variable alone are not padded.
      const auto bytes = netcdf3_bytes(variable, lengths, count > 1);
      if (!bytes || *bytes > (uint64_t{1} << 60) - all) {
        return std::nullopt;
      }
      all += *bytes;
    }
  }
  return all;
}

Result<Netcdf3Header> read_netcdf3_header(FileView& file) {
  // Nothing says how long the header is: most are short.
  for (uint64_t length = kUsualHeader;; length *= 16) {
    codec::Bytes bytes(std::min({length, file.size(), kLongestHeader}));
    VARVE_ASSIGN(const size_t got, file.read(0, bytes));
    bytes.resize(got);
    auto header = parse_header(std::move(bytes), file.size());
    if (header.ok() || length >= std::min(file.size(), kLongestHeader)) {
      return header;
    }
  }
}

uint64_t netcdf3_chunks(const Netcdf3Header& header, const Netcdf3Variable& variable, uint64_t step) {
  const bool apart = variable.record && netcdf3_bytes(variable, header.lengths, false) != step;
  return apart ? header.records.value : 1;
}

std::optional<ArrayRegion> netcdf3_region_of(const Netcdf3Header& header, const Netcdf3Variable& variable,
                                             uint64_t step) {
  ArrayRegion region;
  region.dtype = *netcdf3_dtype(variable.type);
  region.big_endian = codec::element_size(region.dtype) > 1;
  for (const size_t dimension : variable.dimensions) {
    region.shape.push_back(header.lengths[dimension]);
  }
  const uint64_t chunks = netcdf3_chunks(header, variable, step);
  if (checked_product(region.shape).value_or(0) == 0 || chunks > kMostChunks || step > kMostStep) {
    return std::nullopt;
  }
  region.chunk_shape = region.shape;
  region.chunks = {{0, variable.begin.value}};
  if (chunks > 1) {
    region.chunk_shape.front() = 1;
    for (uint64_t record = 1; record < chunks; ++record) {
      region.chunks.push_back({record, variable.begin.value + record * step});
    }
  }
  return region;
}

}  // namespace varve::fs
