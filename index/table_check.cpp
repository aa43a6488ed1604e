#include "index/table_check.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace varve::index {
namespace {

constexpr uint64_t kMagic = 0x88e241b785f4cff7;
constexpr size_t kFooter = 53;  // checksum kind u8 | handles, padded to 40 | version u32 | magic u64
constexpr size_t kTrailer = 5;  // of each block: compression u8 | checksum u32
constexpr char kXxh3 = 4;
constexpr uint64_t kMost = 16 << 20;  // bytes of a block; a damaged handle must not ask for more memory
constexpr std::string_view kProperties = "rocksdb.properties";

/// A LEB128 number, which is taken off `text`.
std::optional<uint64_t> number(std::string_view& text) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  return std::nullopt;
}

uint32_t word(std::string_view text) {
  uint32_t value = 0;
  std::memcpy(&value, text.data(), sizeof value);
  return value;
}

/// A block and its trailer, if its checksum is right.
std::optional<std::string> block(DeviceFile& file, std::string_view handle) {
  const auto offset = number(handle);
  const auto size = number(handle);
  if (!offset || !size || *size > kMost) {
    return std::nullopt;
  }
  std::string bytes(*size + kTrailer, '\0');
  const auto got = file.read(*offset, std::as_writable_bytes(std::span(bytes)));
  if (!got.ok() || *got != bytes.size()) {
    return std::nullopt;
  }
  const auto kind = static_cast<unsigned char>(bytes[*size]);
  const auto sum = static_cast<uint32_t>(XXH3_64bits(bytes.data(), *size)) ^ (kind * 0x6b9083d9U);
  if (sum != word(std::string_view(bytes).substr(*size + 1))) {
    return std::nullopt;
  }
  return bytes;
}

/// The value of a key in a block that is not compressed; empty: it has none.
std::string find(std::string_view bytes, std::string_view wanted) {
  bytes.remove_suffix(kTrailer);
  if (bytes.size() < sizeof(uint32_t)) {
    return {};
  }
  const uint64_t restarts = word(bytes.substr(bytes.size() - sizeof(uint32_t)));
  if (restarts > bytes.size() / sizeof(uint32_t) - 1) {
    return {};
  }
  bytes.remove_suffix((restarts + 1) * sizeof(uint32_t));
  std::string key;
  while (!bytes.empty()) {
    const auto shared = number(bytes);
    const auto rest = number(bytes);
    const auto length = number(bytes);
    if (!shared || !rest || !length || *shared > key.size() || *rest > bytes.size() || *length > bytes.size() - *rest) {
      return {};
    }
    key.resize(*shared);
    key += bytes.substr(0, *rest);
    if (key == wanted) {
      return std::string(bytes.substr(*rest, *length));
    }
    bytes.remove_prefix(*rest + *length);
  }
  return {};
}

}  // namespace

Status check_table(Device& device, const std::string& path) {
  VARVE_ASSIGN(const auto file, device.open(path, Device::Mode::read));
  VARVE_ASSIGN(const uint64_t size, file->size());
  std::array<char, kFooter> footer{};
  if (size < kFooter) {
    return {};
  }
  const auto got = file->read(size - kFooter, std::as_writable_bytes(std::span(footer)));
  uint64_t magic = 0;
  std::memcpy(&magic, footer.data() + kFooter - sizeof magic, sizeof magic);
  if (!got.ok() || *got != kFooter || magic != kMagic || footer[0] != kXxh3) {
    return {};
  }
  const auto damaged = [&](std::string_view which) {
    return Error{EUCLEAN, fmt::format("table {} of the index database is damaged: its {} is not what was written; "
                                      "restore the store from a copy",
                                      path, which)};
  };
  const auto list = block(*file, std::string_view(footer.data() + 1, footer.size() - 1));
  if (!list) {
    return damaged("list of blocks");
  }
  const std::string properties = find(*list, kProperties);
  return properties.empty() || block(*file, properties) ? Status() : Status(damaged("block of properties"));
}

}  // namespace varve::index
