#include "index/keys.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <concepts>

namespace varve::index {
namespace {

constexpr char kInodeVersion = 1;
constexpr char kInlineRecord = 1;
constexpr char kPackedRecord = 2;
constexpr uint32_t kPackMagic = 0x43455256;  // "VREC"
constexpr char kByName = 'n';
constexpr char kByCookie = 'c';
constexpr size_t kRecordKeySize = 21;

template <std::unsigned_integral T>
void put_little(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

template <std::unsigned_integral T>
void put_big(std::string& out, T value) {
  for (size_t i = sizeof(T); i-- > 0;) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

/// Takes integers from the front of some bytes; once they run out, all that follows is 0 and ok() is false.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T little() {
    uint64_t value = 0;
    const std::string_view bytes = take(sizeof(T));
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return static_cast<T>(value);
  }

  template <std::unsigned_integral T>
  T big() {
    uint64_t value = 0;
    for (const char byte : take(sizeof(T))) {
      value = value << 8 | static_cast<unsigned char>(byte);
    }
    return static_cast<T>(value);
  }

  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view take(size_t count) {
    if (rest_.size() < count) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

void put_time(std::string& out, const Time& time) {
  put_little(out, static_cast<uint64_t>(time.seconds));
  put_little(out, time.nanoseconds);
}

Time take_time(Cursor& cursor) {
  Time time;
  time.seconds = static_cast<int64_t>(cursor.little<uint64_t>());
  time.nanoseconds = cursor.little<uint32_t>();
  return time;
}

void put_record_key(std::string& out, ObjectId object, const RecordKey& key) {
  put_big(out, object);
  put_big(out, key.region);
  put_big(out, static_cast<uint8_t>(255 - key.level));
  put_big(out, key.brick);
}

Identity take_record_key(Cursor& cursor) {
  Identity identity;
  identity.object = cursor.big<uint64_t>();
  identity.key.region = cursor.big<uint32_t>();
  identity.key.level = static_cast<uint8_t>(255 - cursor.big<uint8_t>());
  identity.key.brick = cursor.big<uint64_t>();
  return identity;
}

}  // namespace

std::string describe(const Identity& identity) {
  return fmt::format("object {}, region {}, level {}, brick {}", identity.object, identity.key.region,
                     identity.key.level, identity.key.brick);
}

uint64_t RecordValue::pack_bytes() const { return packed ? kPackHeaderSize + length : 0; }

uint64_t checksum_of(std::span<const std::byte> data) { return XXH3_64bits(data.data(), data.size()); }
uint64_t checksum_of(std::string_view data) { return XXH3_64bits(data.data(), data.size()); }

std::string number_key(uint64_t number) {
  std::string key;
  put_big(key, number);
  return key;
}

uint64_t parse_number_key(std::string_view key) { return Cursor(key).big<uint64_t>(); }

std::string name_key(InodeNumber parent, std::string_view name) {
  std::string key;
  key.reserve(9 + name.size());
  put_big(key, parent);
  key.push_back(kByName);
  key.append(name);
  return key;
}

std::string cookie_prefix(InodeNumber parent) {
  std::string key;
  key.reserve(17);
  put_big(key, parent);
  key.push_back(kByCookie);
  return key;
}

std::string cookie_key(InodeNumber parent, uint64_t cookie) {
  std::string key = cookie_prefix(parent);
  put_big(key, cookie);
  return key;
}

std::string xattr_key(InodeNumber inode, std::string_view name) {
  std::string key;
  key.reserve(8 + name.size());
  put_big(key, inode);
  key.append(name);
  return key;
}

std::string record_key(ObjectId object, const RecordKey& key) {
  std::string bytes;
  bytes.reserve(kRecordKeySize);
  put_record_key(bytes, object, key);
  return bytes;
}

std::optional<Identity> parse_record_key(std::string_view key) {
  Cursor cursor(key);
  const Identity identity = take_record_key(cursor);
  return cursor.done() ? std::optional(identity) : std::nullopt;
}

std::string object_key(ObjectTag tag, ObjectId object) {
  std::string key(1, static_cast<char>(tag));
  put_big(key, object);
  return key;
}

std::optional<ObjectId> parse_object_key(std::string_view key) {
  Cursor cursor(key.substr(key.empty() ? 0 : 1));
  const ObjectId object = cursor.big<uint64_t>();
  return cursor.done() ? std::optional(object) : std::nullopt;
}

std::string inode_value(const Inode& inode) {
  std::string out(1, kInodeVersion);
  out.reserve(105 + inode.target.size());
  put_little(out, inode.mode);
  put_little(out, inode.uid);
  put_little(out, inode.gid);
  put_little(out, inode.links);
  put_little(out, inode.device);
  put_little(out, inode.size);
  put_time(out, inode.accessed);
  put_time(out, inode.modified);
  put_time(out, inode.changed);
  put_time(out, inode.created);
  put_little(out, inode.parent);
  put_little(out, inode.object);
  put_little(out, inode.stored);
  out.append(inode.target);
  return out;
}

std::optional<Inode> parse_inode(InodeNumber number, std::string_view value) {
  Cursor cursor(value);
  if (cursor.little<uint8_t>() != kInodeVersion) {
    return std::nullopt;
  }
  Inode inode;
  inode.number = number;
  inode.mode = cursor.little<uint32_t>();
  inode.uid = cursor.little<uint32_t>();
  inode.gid = cursor.little<uint32_t>();
  inode.links = cursor.little<uint32_t>();
  inode.device = cursor.little<uint64_t>();
  inode.size = cursor.little<uint64_t>();
  inode.accessed = take_time(cursor);
  inode.modified = take_time(cursor);
  inode.changed = take_time(cursor);
  inode.created = take_time(cursor);
  inode.parent = cursor.little<uint64_t>();
  inode.object = cursor.little<uint64_t>();
  inode.stored = cursor.little<uint64_t>();
  inode.target = cursor.rest();
  return cursor.ok() ? std::optional(std::move(inode)) : std::nullopt;
}

std::string name_value(const Dentry& entry) {
  std::string out;
  out.reserve(20);
  put_little(out, entry.inode);
  put_little(out, entry.type);
  put_little(out, entry.cookie);
  return out;
}

std::optional<Dentry> parse_name_value(std::string_view name, std::string_view value) {
  Cursor cursor(value);
  Dentry entry;
  entry.name = name;
  entry.inode = cursor.little<uint64_t>();
  entry.type = cursor.little<uint32_t>();
  entry.cookie = cursor.little<uint64_t>();
  return cursor.done() ? std::optional(std::move(entry)) : std::nullopt;
}

std::string cookie_value(const Dentry& entry) {
  std::string out;
  out.reserve(12 + entry.name.size());
  put_little(out, entry.inode);
  put_little(out, entry.type);
  out.append(entry.name);
  return out;
}

std::optional<Dentry> parse_cookie_row(std::string_view key, std::string_view value) {
  Cursor place(key);
  place.big<uint64_t>();
  place.big<uint8_t>();
  Cursor cursor(value);
  Dentry entry;
  entry.cookie = place.big<uint64_t>();
  entry.inode = cursor.little<uint64_t>();
  entry.type = cursor.little<uint32_t>();
  entry.name = cursor.rest();
  return place.done() && cursor.ok() ? std::optional(std::move(entry)) : std::nullopt;
}

std::string record_value(const RecordValue& record) {
  std::string out(1, record.packed ? kPackedRecord : kInlineRecord);
  out.reserve(50 + record.payload.size());
  put_record_key(out, record.origin.object, record.origin.key);
  put_little(out, record.checksum);
  if (record.packed) {
    put_little(out, record.length);
    put_little(out, record.pack);
    put_little(out, record.offset);
  } else {
    out.append(record.payload);
  }
  return out;
}

std::optional<RecordValue> parse_record_value(std::string_view value) {
  Cursor cursor(value);
  const auto kind = cursor.little<uint8_t>();
  if (kind != kInlineRecord && kind != kPackedRecord) {
    return std::nullopt;
  }
  RecordValue record;
  record.origin = take_record_key(cursor);
  record.checksum = cursor.little<uint64_t>();
  record.packed = kind == kPackedRecord;
  if (record.packed) {
    record.length = cursor.little<uint64_t>();
    record.pack = cursor.little<uint32_t>();
    record.offset = cursor.little<uint64_t>();
    return cursor.done() ? std::optional(record) : std::nullopt;
  }
  record.payload = cursor.rest();
  record.length = record.payload.size();
  return cursor.ok() ? std::optional(record) : std::nullopt;
}

std::string count_value(uint64_t count) {
  std::string out;
  put_little(out, count);
  return out;
}

std::optional<uint64_t> parse_count(std::string_view value) {
  Cursor cursor(value);
  const auto count = cursor.little<uint64_t>();
  return cursor.done() ? std::optional(count) : std::nullopt;
}

std::string pack_header(const PackHeader& header) {
  std::string out;
  out.reserve(kPackHeaderSize);
  put_little(out, kPackMagic);
  put_little(out, kPackHeaderVersion);
  put_little(out, header.origin.key.level);
  put_little(out, uint8_t{0});
  put_little(out, header.origin.key.region);
  put_little(out, uint32_t{0});
  put_little(out, header.origin.object);
  put_little(out, header.origin.key.brick);
  put_little(out, header.length);
  put_little(out, header.checksum);
  put_little(out, checksum_of(out));
  return out;
}

std::optional<PackHeader> parse_pack_header(std::string_view bytes, std::string* reason) {
  if (bytes.size() != kPackHeaderSize) {
    *reason = "the pack ends before the record's header does";
    return std::nullopt;
  }
  Cursor cursor(bytes);
  PackHeader header;
  if (cursor.little<uint32_t>() != kPackMagic) {
    *reason = "no record begins there";
    return std::nullopt;
  }
  if (Cursor(bytes.substr(kPackHeaderSize - 8)).little<uint64_t>() !=
      checksum_of(bytes.substr(0, kPackHeaderSize - 8))) {
    *reason = "the record's header fails its checksum";
    return std::nullopt;
  }
  if (const auto version = cursor.little<uint16_t>(); version != kPackHeaderVersion) {
    *reason = fmt::format("the record's header is of version {}, this program knows {}", version, kPackHeaderVersion);
    return std::nullopt;
  }
  header.origin.key.level = cursor.little<uint8_t>();
  cursor.little<uint8_t>();
  header.origin.key.region = cursor.little<uint32_t>();
  cursor.little<uint32_t>();
  header.origin.object = cursor.little<uint64_t>();
  header.origin.key.brick = cursor.little<uint64_t>();
  header.length = cursor.little<uint64_t>();
  header.checksum = cursor.little<uint64_t>();
  return header;
}

}  // namespace varve::index
