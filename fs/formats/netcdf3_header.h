// The header of NetCDF's classic formats (CDF-1, CDF-2, CDF-5), and where the elements of variables lie.
// Method: https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// A number of the header, which stays where it is in an image.
struct Netcdf3Field {
  size_t at = 0;
  size_t bytes = 4;
  uint64_t value = 0;
};

struct Netcdf3Dimension {
  std::string name;
  Netcdf3Field length;  ///< 0: the record dimension
};

struct Netcdf3Attribute {
  std::string name;
  uint32_t type = 0;
  uint64_t count = 0;  ///< of values
  size_t at = 0;       ///< of the first value in the header
};

struct Netcdf3Variable {
  std::string name;
  std::vector<size_t> dimensions;
  std::vector<Netcdf3Attribute> attributes;
  uint32_t type = 0;
  Netcdf3Field size, begin;
  bool record = false;  ///< its first dimension is the record dimension
};

struct Netcdf3Header {
  codec::Bytes bytes;
  Netcdf3Field records;  ///< of a file that is still being streamed: as many as there is room for
  std::vector<Netcdf3Dimension> dimensions;
  std::vector<uint64_t> lengths;  ///< of the dimensions, the record dimension's too
  std::vector<Netcdf3Variable> variables;
};

inline constexpr uint32_t kNetcdf3Char = 2;

/// Names and variables are padded to four bytes.
inline uint64_t netcdf3_padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

/// Of a type's number; characters are u8. Nothing: there is no such type.
std::optional<codec::DType> netcdf3_dtype(uint32_t type);

Error malformed_netcdf3(std::string_view why);

/// EBADMSG: it cannot be read.
Result<Netcdf3Header> read_netcdf3_header(FileView& file);

/// Bytes of a variable, or of one record of it, with padding or without. Nothing: they overflow.
std::optional<uint64_t> netcdf3_bytes(const Netcdf3Variable& variable, const std::vector<uint64_t>& lengths, bool pad);

/// What is from one record to the next, where dimensions have these lengths. Nothing: it overflows.
std::optional<uint64_t> netcdf3_record_bytes(const Netcdf3Header& header, const std::vector<uint64_t>& lengths);

/// How many chunks a variable has: one for each record, unless its records follow on each other. `step`: bytes from one
/// record to the next.
uint64_t netcdf3_chunks(const Netcdf3Header& header, const Netcdf3Variable& variable, uint64_t step);

/// Where the elements of a variable lie, as far as the header tells, without a name. Nothing: it has none, or they are
/// more than any file can hold.
std::optional<ArrayRegion> netcdf3_region_of(const Netcdf3Header& header, const Netcdf3Variable& variable,
                                             uint64_t step);

}  // namespace varve::fs
