#include "fs/formats/netcdf3.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "fs/formats/check.h"
#include "fs/formats/conventions.h"
#include "fs/formats/netcdf3_header.h"

namespace varve::fs {

namespace {

/// Record variables have a chunk for each record. A file may have so many; more if it has so many bytes for each.
constexpr uint64_t kFewChunks = 1024;
constexpr uint64_t kMostChunks = uint64_t{1} << 19;
constexpr uint64_t kBytesForChunk = 256;

uint64_t big_endian_number(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (const std::byte byte : bytes) {
    value = value << 8 | std::to_integer<uint64_t>(byte);
  }
  return value;
}

/// A number of any type; long double holds all of them exactly. No f16, which the format lacks.
long double number_of(uint64_t pattern, codec::DType type) {
  using codec::DType;
  switch (type) {
    case DType::i8:
      return static_cast<int8_t>(pattern);
    case DType::i16:
      return static_cast<int16_t>(pattern);
    case DType::i32:
      return static_cast<int32_t>(pattern);
    case DType::i64:
      return static_cast<int64_t>(pattern);
    case DType::f32:
      return std::bit_cast<float>(static_cast<uint32_t>(pattern));
    case DType::f64:
      return std::bit_cast<double>(pattern);
    default:
      return pattern;
  }
}

/// What the library fills with where a program writes nothing, as the format's specification has it.
uint64_t default_fill(codec::DType type) {
  using codec::DType;
  switch (type) {
    case DType::i8:
      return 0x81;
    case DType::u8:
      return 0xff;
    case DType::i16:
      return 0x8001;
    case DType::u16:
      return 0xffff;
    case DType::i32:
      return 0x80000001;
    case DType::u32:
      return 0xffffffff;
    case DType::i64:
      return 0x8000000000000002;
    case DType::u64:
      return 0xfffffffffffffffe;
    case DType::f32:
      return 0x7cf00000;
    default:
      return 0x479e000000000000;
  }
}

class Netcdf3Attributes : public VariableAttributes {
 public:
  Netcdf3Attributes(const Netcdf3Header& header, const Netcdf3Variable& variable)
      : header_(header), variable_(variable) {}

  bool has(const char* name) const override { return find(name) != nullptr; }

  std::optional<std::string> text(const char* name) const override {
    const Netcdf3Attribute* attribute = find(name);
    if (attribute == nullptr || attribute->type != kNetcdf3Char) {
      return std::nullopt;
    }
    const auto* start = reinterpret_cast<const char*>(header_.bytes.data()) + attribute->at;
    return std::string(start, strnlen(start, attribute->count));
  }

  /// Adds the attribute's numbers as patterns of the variable's type.
  void add_numbers(const char* name, codec::DType type, std::vector<uint64_t>& values) const {
    const Netcdf3Attribute* attribute = find(name);
    if (attribute == nullptr || attribute->type == kNetcdf3Char || attribute->count > kMostFillValues) {
      return;
    }
    const codec::DType own = *netcdf3_dtype(attribute->type);
    const size_t size = codec::element_size(own);
    for (uint64_t i = 0; i < attribute->count; ++i) {
      const uint64_t pattern = big_endian_number(std::span(header_.bytes).subspan(attribute->at + i * size, size));
      const auto same = own == type ? std::optional(pattern) : pattern_of_number(number_of(pattern, own), type);
      if (same) {
        add_fill_value(values, *same);
      }
    }
  }

 private:
  const Netcdf3Attribute* find(std::string_view name) const {
    const auto found = std::find_if(variable_.attributes.begin(), variable_.attributes.end(),
                                    [&](const Netcdf3Attribute& attribute) { return attribute.name == name; });
    return found == variable_.attributes.end() ? nullptr : &*found;
  }

  const Netcdf3Header& header_;
  const Netcdf3Variable& variable_;
};

/// Leaves out the records that the file is too short for. `step`: bytes from one to the next, 0 if there are none.
/// False: no element is left.
bool cut_to_file(ArrayRegion& region, uint64_t step, uint64_t file_size) {
  const uint64_t begin = region.chunks.front().offset;
  const uint64_t bytes = chunk_bytes(region).value_or(UINT64_MAX);
  if (begin >= file_size) {
    return false;
  }
  if (region.chunk_shape != region.shape) {
    while (!region.chunks.empty() && (bytes > file_size || region.chunks.back().offset > file_size - bytes)) {
      region.chunks.pop_back();
    }
    region.shape.front() = region.chunks.size();
  } else if (bytes > file_size - begin && step > 0) {
    region.shape.front() = (file_size - begin) / step;
    region.chunk_shape = region.shape;
  } else if (bytes > file_size - begin) {
    return false;
  }
  return region.shape.empty() || region.shape.front() > 0;
}

/// The numbers of the variables that become arrays: those of the largest records where there are too many chunks.
std::vector<size_t> chosen_variables(const Netcdf3Header& header, uint64_t step, uint64_t file_size) {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < header.variables.size(); ++i) {
    order.emplace_back(netcdf3_bytes(header.variables[i], header.lengths, false).value_or(0), i);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  uint64_t left = std::clamp(file_size / kBytesForChunk, kFewChunks, kMostChunks);
  std::vector<size_t> chosen;
  for (const auto& [bytes, i] : order) {
    const Netcdf3Variable& variable = header.variables[i];
    const uint64_t chunks = netcdf3_chunks(header, variable, step);
    if (variable.type != kNetcdf3Char && (chunks == 1 || chunks <= left)) {
      chosen.push_back(i);
      left -= chunks == 1 ? 0 : chunks;
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

bool has_netcdf3_magic(FileView& file) {
  std::array<std::byte, 4> start{};
  const auto got = file.read(0, start);
  return got.ok() && *got == start.size() && std::memcmp(start.data(), "CDF", 3) == 0 &&
         (start[3] == std::byte{1} || start[3] == std::byte{2} || start[3] == std::byte{5});
}

Result<std::optional<Recognised>> recognise_netcdf3(FileView& file) {
  if (!has_netcdf3_magic(file)) {
    return std::optional<Recognised>();
  }
  VARVE_ASSIGN(const Netcdf3Header header, read_netcdf3_header(file));
  Recognised result;
  const auto step = netcdf3_record_bytes(header, header.lengths);
  if (!step) {
    return malformed_netcdf3("its records are larger than any file can be");
  }
  Conventions conventions;
  for (const Netcdf3Variable& variable : header.variables) {
    const auto& dimensions = variable.dimensions;
    const bool named = !dimensions.empty() && header.dimensions[dimensions.front()].name == variable.name;
    conventions.look_at("/" + variable.name, Netcdf3Attributes(header, variable), dimensions.size() <= 1, named);
  }
  for (const size_t i : chosen_variables(header, *step, file.size())) {
    const Netcdf3Variable& variable = header.variables[i];
    auto region = netcdf3_region_of(header, variable, *step);
    if (!region || !cut_to_file(*region, variable.record ? *step : 0, file.size())) {
      continue;
    }
    region->name = "/" + variable.name;
    region->keep_exact = conventions.reason(region->name);
    const Netcdf3Attributes attributes(header, variable);
    attributes.add_numbers("_FillValue", region->dtype, region->fill_values);
    if (!attributes.has("_FillValue")) {
      add_fill_value(region->fill_values, default_fill(region->dtype));
    }
    attributes.add_numbers("missing_value", region->dtype, region->fill_values);
    result.arrays.push_back(std::move(*region));
  }
  return std::optional(std::move(result));
}

}  // namespace varve::fs
