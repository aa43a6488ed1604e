// Properties of the encodings: order of keys, round trips, refusal of what is cut short.
#include "index/keys.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

namespace varve::index {
namespace {

constexpr int kRounds = 20000;

class Keys : public ::testing::Test {
 protected:
  uint64_t number() {  // small and large ones, often equal
    const uint64_t value = random_();
    return value >> (random_() % 64);
  }
  RecordKey record_key_of() {
    return {static_cast<uint32_t>(number() >> 32 | (number() & 3)), static_cast<uint8_t>(number() % 5),
            number() >> 32 | (number() & 1)};
  }
  std::string text(size_t most) {
    std::string bytes(random_() % (most + 1), '\0');
    for (auto& byte : bytes) {
      byte = static_cast<char>(random_());
    }
    return bytes;
  }
  Time time() { return {static_cast<int64_t>(random_()), static_cast<uint32_t>(random_())}; }

  std::mt19937_64 random_{7};
};

TEST_F(Keys, RecordKeysSortByObjectRegionCoarsenessBrick) {
  const auto order = [](const Identity& id) {
    return std::tuple(id.object, id.key.region, -int{id.key.level}, id.key.brick);
  };
  for (int i = 0; i < kRounds; ++i) {
    const Identity a{number() >> 40, record_key_of()};
    const Identity b{number() >> 40, record_key_of()};
    EXPECT_EQ(order(a) < order(b), record_key(a.object, a.key) < record_key(b.object, b.key))
        << describe(a) << " against " << describe(b);
  }
}

TEST_F(Keys, RecordKeysComeBackAndNothingElseParses) {
  for (int i = 0; i < kRounds; ++i) {
    const Identity identity{number(), record_key_of()};
    const std::string key = record_key(identity.object, identity.key);
    EXPECT_EQ(parse_record_key(key), identity);
    EXPECT_FALSE(parse_record_key(key.substr(0, random_() % key.size())));
    EXPECT_FALSE(parse_record_key(key + "x"));
  }
}

TEST_F(Keys, NamesAndCookiesOfOneDirectoryStayTogether) {
  for (int i = 0; i < kRounds; ++i) {
    const InodeNumber a = number() >> 50;
    const InodeNumber b = number() >> 50;
    if (a != b) {
      EXPECT_EQ(a < b, name_key(a, text(8)) < name_key(b, text(8)));
      EXPECT_EQ(a < b, cookie_key(a, number()) < cookie_key(b, number()));
      EXPECT_EQ(a < b, cookie_key(a, number()) < name_key(b, text(8)));
    }
    const uint64_t first = number();
    const uint64_t second = number();
    EXPECT_EQ(first < second, cookie_key(a, first) < cookie_key(a, second));
    EXPECT_TRUE(cookie_key(a, first).starts_with(cookie_prefix(a)));
    EXPECT_FALSE(name_key(a, text(8)).starts_with(cookie_prefix(a)));
  }
}

TEST_F(Keys, InodesComeBack) {
  for (int i = 0; i < kRounds; ++i) {
    Inode inode;
    inode.number = number();
    inode.mode = static_cast<uint32_t>(random_());
    inode.uid = static_cast<uint32_t>(random_());
    inode.gid = static_cast<uint32_t>(random_());
    inode.links = static_cast<uint32_t>(random_());
    inode.device = random_();
    inode.size = random_();
    inode.accessed = time();
    inode.modified = time();
    inode.changed = time();
    inode.created = time();
    inode.parent = random_();
    inode.object = random_();
    inode.stored = random_();
    inode.target = text(40);
    const std::string value = inode_value(inode);
    EXPECT_EQ(parse_inode(inode.number, value), inode);
    const size_t fixed = value.size() - inode.target.size();
    EXPECT_FALSE(parse_inode(inode.number, value.substr(0, random_() % fixed)));
  }
}

TEST_F(Keys, DirectoryEntriesComeBackFromBothRows) {
  for (int i = 0; i < kRounds; ++i) {
    const Dentry entry{text(255), random_(), static_cast<uint32_t>(random_()), random_()};
    const auto by_name = parse_name_value(entry.name, name_value(entry));
    const auto by_cookie = parse_cookie_row(cookie_key(5, entry.cookie), cookie_value(entry));
    for (const auto& back : {by_name, by_cookie}) {
      ASSERT_TRUE(back);
      EXPECT_EQ(back->name, entry.name);
      EXPECT_EQ(back->inode, entry.inode);
      EXPECT_EQ(back->type, entry.type);
      EXPECT_EQ(back->cookie, entry.cookie);
    }
    EXPECT_FALSE(parse_name_value(entry.name, name_value(entry).substr(1)));
    EXPECT_FALSE(parse_cookie_row(cookie_key(5, entry.cookie), cookie_value(entry).substr(0, 11)));
  }
}

TEST_F(Keys, RecordValuesComeBack) {
  for (int i = 0; i < kRounds; ++i) {
    const std::string payload = text(100);
    RecordValue record;
    record.origin = {random_(), record_key_of()};
    record.checksum = random_();
    record.packed = random_() % 2 == 0;
    if (record.packed) {
      record.length = random_();
      record.pack = static_cast<uint32_t>(random_());
      record.offset = random_();
    } else {
      record.payload = payload;
      record.length = payload.size();
    }
    const std::string value = record_value(record);
    const auto back = parse_record_value(value);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->origin, record.origin);
    EXPECT_EQ(back->checksum, record.checksum);
    EXPECT_EQ(back->packed, record.packed);
    EXPECT_EQ(back->length, record.length);
    EXPECT_EQ(back->pack, record.pack);
    EXPECT_EQ(back->offset, record.offset);
    EXPECT_EQ(back->payload, record.payload);
    EXPECT_FALSE(parse_record_value(value.substr(0, random_() % 30)));
    std::string unknown = value;
    unknown[0] = 7;
    EXPECT_FALSE(parse_record_value(unknown));
  }
}

TEST_F(Keys, PackHeadersComeBackAndAnyFlippedBitIsSeen) {
  for (int i = 0; i < 200; ++i) {
    const PackHeader header{{random_(), record_key_of()}, random_(), random_()};
    std::string bytes = pack_header(header);
    ASSERT_EQ(bytes.size(), kPackHeaderSize);
    std::string reason;
    const auto back = parse_pack_header(bytes, &reason);
    ASSERT_TRUE(back) << reason;
    EXPECT_EQ(back->origin, header.origin);
    EXPECT_EQ(back->length, header.length);
    EXPECT_EQ(back->checksum, header.checksum);
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      reason.clear();
      EXPECT_FALSE(parse_pack_header(flipped, &reason)) << "bit " << bit;
      EXPECT_FALSE(reason.empty());
    }
    EXPECT_FALSE(parse_pack_header(bytes.substr(1), &reason));
  }
}

TEST_F(Keys, CountsComeBack) {
  for (int i = 0; i < kRounds; ++i) {
    const uint64_t count = number();
    EXPECT_EQ(parse_count(count_value(count)), count);
    EXPECT_EQ(parse_number_key(number_key(count)), count);
    EXPECT_FALSE(parse_count(count_value(count).substr(1)));
  }
}

}  // namespace
}  // namespace varve::index
