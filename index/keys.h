// Bytes of the tree's keys and values, and of pack headers; FORMAT.md specifies them. Pure functions, any thread.
// Parsers never trust their input: std::nullopt when it is not well-formed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "index/schema.h"

namespace varve::index {

/// What a record is, for ever: the object and key that it was first put under. Shared records keep it.
struct Identity {
  ObjectId object = 0;
  RecordKey key;
  bool operator==(const Identity&) const = default;
};

/// "object 5, region 1, level 2, brick 7"
std::string describe(const Identity& identity);

/// The tree's value of a record. Inline: `payload` holds it. Packed: at `offset` of `pack` stands its header.
struct RecordValue {
  Identity origin;
  uint64_t length = 0;    ///< bytes of the payload
  uint64_t checksum = 0;  ///< XXH3-64 of the payload
  bool packed = false;
  uint32_t pack = 0;
  uint64_t offset = 0;
  std::string_view payload;  ///< points into what was parsed

  /// Bytes that a packed record takes in its pack; 0 if inline.
  uint64_t pack_bytes() const;
};

/// The header that precedes a payload in a pack.
struct PackHeader {
  Identity origin;
  uint64_t length = 0;
  uint64_t checksum = 0;  ///< XXH3-64 of the payload
};
inline constexpr size_t kPackHeaderSize = 56;
inline constexpr uint16_t kPackHeaderVersion = 1;

uint64_t checksum_of(std::span<const std::byte> data);
uint64_t checksum_of(std::string_view data);

std::string number_key(uint64_t number);  ///< inode, layout, pack, xattr prefix: 8 bytes, big-endian
uint64_t parse_number_key(std::string_view key);

std::string name_key(InodeNumber parent, std::string_view name);
std::string cookie_key(InodeNumber parent, uint64_t cookie);
std::string cookie_prefix(InodeNumber parent);
std::string xattr_key(InodeNumber inode, std::string_view name);
std::string record_key(ObjectId object, const RecordKey& key);
std::optional<Identity> parse_record_key(std::string_view key);

enum class ObjectTag : char { published = 'o', unpublished = 'u', dying = 'd' };
std::string object_key(ObjectTag tag, ObjectId object);
std::optional<ObjectId> parse_object_key(std::string_view key);

std::string inode_value(const Inode& inode);
std::optional<Inode> parse_inode(InodeNumber number, std::string_view value);

std::string name_value(const Dentry& entry);
std::optional<Dentry> parse_name_value(std::string_view name, std::string_view value);
std::string cookie_value(const Dentry& entry);
std::optional<Dentry> parse_cookie_row(std::string_view key, std::string_view value);

std::string record_value(const RecordValue& record);
std::optional<RecordValue> parse_record_value(std::string_view value);

std::string count_value(uint64_t count);
std::optional<uint64_t> parse_count(std::string_view value);

std::string pack_header(const PackHeader& header);
/// Why the header cannot be used, in `reason`, when the result is empty.
std::optional<PackHeader> parse_pack_header(std::string_view bytes, std::string* reason);

}  // namespace varve::index
