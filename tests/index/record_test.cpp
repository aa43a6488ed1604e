// Records: inline and packed, shared, damaged, unpublished.
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "index/keys.h"
#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

void flip_bit(const std::string& path, uint64_t offset, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 1 << bit));
}

std::string read_range(const std::string& path, uint64_t offset, size_t length) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  std::string bytes(length, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(length));
  return bytes;
}

void write_range(const std::string& path, uint64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class Records : public StoreTest {
 protected:
  void SetUp() override {
    options_.pack_limit = 100000;
    StoreTest::SetUp();
  }
};

TEST_F(Records, OfAllSizesComeBackInKeyOrder) {
  std::vector<std::pair<RecordKey, Payload>> records;
  for (uint64_t i = 0; i < 300; ++i) {
    const size_t size = i % 3 == 0 ? random_() % 100 : i % 3 == 1 ? 2030 + random_() % 40 : random_() % 30000;
    const RecordKey key{static_cast<uint32_t>(i % 3), static_cast<uint8_t>(random_() % 4), i};
    records.emplace_back(key, random_bytes(random_, size));
  }
  records.emplace_back(RecordKey{kPatchRegion, 0, 7}, Payload());
  const ObjectId object = publish(records, std::string(5000, 'l'));
  EXPECT_GT(pack_files().size(), 2U);
  for (int round = 0; round < 2; ++round) {
    for (const auto& [key, payload] : records) {
      const auto back = index_->record(object, key);
      ASSERT_OK(back);
      EXPECT_EQ(*back, payload);
    }
    std::map<std::string, uint64_t> expected;
    for (const auto& [key, payload] : records) {
      expected[record_key(object, key)] = payload.size();
    }
    auto next = expected.begin();
    ASSERT_OK(index_->records(object, [&](const RecordInfo& info) {
      EXPECT_NE(next, expected.end());
      EXPECT_EQ(record_key(object, info.key), next->first);
      EXPECT_EQ(info.length, next->second);
      ++next;
      return true;
    }));
    EXPECT_EQ(next, expected.end());
    EXPECT_EQ(*index_->layout(object), std::string(5000, 'l'));
    EXPECT_EQ(index_->record(object, {9, 0, 0}).error().code, ENOENT);
    EXPECT_EQ(index_->record(object + 1, records[0].first).error().code, ENOENT);
    EXPECT_EQ(index_->layout(object + 1).error().code, ENOENT);
    reopen();
  }
}

TEST_F(Records, PuttingAKeyAgainReplacesIt) {
  options_.inline_limit = 64;
  reopen();
  auto writer = index_->begin_object();
  ASSERT_OK(writer);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t brick = 0; brick < 9000; ++brick) {  // enough rows to be written ahead of publication
      ASSERT_OK((*writer)->put({1, 0, brick}, bytes_of(brick + round, 50 + 20 * round)));
    }
  }
  ASSERT_OK((*writer)->finish());
  Batch batch;
  batch.publish((*writer)->object(), "");
  ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
  uint64_t expected = 0;
  for (uint64_t brick = 0; brick < 9000; brick += 100) {
    EXPECT_EQ(*index_->record((*writer)->object(), {1, 0, brick}), bytes_of(brick + 2, 90));
  }
  expected = 9000 * (90 + kPackHeaderSize);
  EXPECT_EQ((*writer)->stored(), expected);
  EXPECT_EQ(index_->statistics()->live_pack_bytes, expected);
}

TEST_F(Records, SharedOnesSurviveTheirOrigin) {
  const RecordKey small{1, 3, 0};
  const RecordKey large{1, 0, 4};
  const RecordKey moved{2, 0, 9};
  const Payload a = random_bytes(random_, 500);
  const Payload b = random_bytes(random_, 50000);
  const ObjectId origin = publish({{small, a}, {large, b}});
  auto writer = index_->begin_object();
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->share(origin, small, small));
  ASSERT_OK((*writer)->share(origin, large, moved));
  EXPECT_EQ((*writer)->share(origin, {1, 0, 5}, moved).error().code, ENOENT);
  EXPECT_EQ((*writer)->share(origin + 100, large, moved).error().code, ENOENT);
  EXPECT_GE((*writer)->stored(), b.size() + a.size());
  ASSERT_OK((*writer)->finish());
  const uint64_t pack_bytes = index_->statistics()->pack_bytes;
  Batch batch;
  batch.publish((*writer)->object(), "second");
  batch.release(origin);
  ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
  EXPECT_EQ(index_->statistics()->pack_bytes, pack_bytes) << "sharing copied";
  const ObjectId copy = (*writer)->object();
  writer->reset();
  ASSERT_OK(index_->collect());
  reopen();
  ASSERT_OK(index_->collect());
  EXPECT_EQ(index_->record(origin, large).error().code, ENOENT);
  EXPECT_EQ(*index_->record(copy, small), a);
  EXPECT_EQ(*index_->record(copy, moved), b);
}

TEST_F(Records, ReferencesKeepAnObject) {
  const RecordKey key{1, 0, 0};
  const ObjectId object = publish({{key, random_bytes(random_, 5000)}});
  Batch more;
  more.reference(object);
  more.reference(object);
  more.release(object);
  ASSERT_OK(index_->commit(std::move(more), Durability::buffered));
  release(object);
  ASSERT_OK(index_->collect());
  EXPECT_OK(index_->record(object, key));
  release(object);
  ASSERT_OK(index_->collect());
  EXPECT_EQ(index_->record(object, key).error().code, ENOENT);
  EXPECT_EQ(index_->layout(object).error().code, ENOENT);
  Batch late;
  late.reference(object);
  EXPECT_EQ(index_->commit(std::move(late), Durability::buffered).error().code, ENOENT);
}

TEST_F(Records, ReleasingTooOftenIsRefused) {
  const ObjectId object = publish({{{1, 0, 0}, random_bytes(random_, 10)}});
  Batch batch;
  batch.release(object);
  batch.release(object);
  EXPECT_EQ(index_->commit(std::move(batch), Durability::buffered).error().code, EINVAL);
  EXPECT_OK(index_->record(object, {1, 0, 0}));
}

TEST_F(Records, PublishedObjectTakesNoMore) {
  auto writer = index_->begin_object();
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->put({1, 0, 0}, bytes_of(1, 5000)));
  Batch batch;
  batch.publish((*writer)->object(), "");
  ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
  EXPECT_EQ((*writer)->put({1, 0, 1}, bytes_of(1, 5000)).error().code, EINVAL);
  EXPECT_EQ((*writer)->share((*writer)->object(), {1, 0, 0}, {1, 0, 1}).error().code, EINVAL);
  Batch again;
  again.publish((*writer)->object(), "");
  EXPECT_EQ(index_->commit(std::move(again), Durability::synced).error().code, EINVAL);
  writer->reset();
  EXPECT_EQ(*index_->record(1, {1, 0, 0}), bytes_of(1, 5000));
}

TEST_F(Records, AnyFlippedByteOfAPackIsAnErrorForThatRecordAlone) {
  options_.inline_limit = 10;
  reopen();
  std::vector<std::pair<RecordKey, Payload>> records;
  std::vector<uint64_t> begins;
  uint64_t end = 0;
  for (uint64_t brick = 0; brick < 6; ++brick) {
    records.emplace_back(RecordKey{1, 0, brick}, random_bytes(random_, 20 + random_() % 60));
    begins.push_back(end);
    end += kPackHeaderSize + records.back().second.size();
  }
  const ObjectId object = publish(records);
  const std::string pack = pack_files().at(0);
  ASSERT_EQ(std::filesystem::file_size(pack), end);
  for (uint64_t offset = 0; offset < end; ++offset) {
    flip_bit(pack, offset, static_cast<int>(offset % 8));
    for (size_t i = 0; i < records.size(); ++i) {
      const uint64_t until = i + 1 < begins.size() ? begins[i + 1] : end;
      const auto back = index_->record(object, records[i].first);
      if (offset >= begins[i] && offset < until) {
        ASSERT_FALSE(back.ok()) << "byte " << offset;
        EXPECT_EQ(back.error().code, EIO);
        EXPECT_NE(back.error().text.find(pack), std::string::npos) << back.error().text;
        EXPECT_NE(back.error().text.find("offset " + std::to_string(begins[i])), std::string::npos)
            << back.error().text;
      } else {
        ASSERT_OK(back);
        EXPECT_EQ(*back, records[i].second);
      }
    }
    flip_bit(pack, offset, static_cast<int>(offset % 8));
  }
}

TEST_F(Records, SwappedAndStaleRecordsAreErrors) {
  const size_t size = 5000;
  const RecordKey first{1, 0, 0};
  const RecordKey second{1, 0, 1};
  const Payload a = random_bytes(random_, size);
  const Payload b = random_bytes(random_, size);
  const ObjectId object = publish({{first, a}, {second, b}});
  const std::string pack = pack_files().at(0);
  const size_t whole = size + kPackHeaderSize;
  const std::string one = read_range(pack, 0, whole);
  const std::string two = read_range(pack, whole, whole);
  write_range(pack, 0, two + one);
  for (const auto& key : {first, second}) {
    const auto back = index_->record(object, key);
    ASSERT_FALSE(back.ok());
    EXPECT_EQ(back.error().code, EIO);
    EXPECT_NE(back.error().text.find("another record"), std::string::npos) << back.error().text;
  }
  // An older version of the same record, valid in itself.
  const Payload old = random_bytes(random_, size);
  std::string stale = pack_header({{object, first}, old.size(), checksum_of(old)});
  stale.append(reinterpret_cast<const char*>(old.data()), old.size());
  write_range(pack, 0, stale + two);
  EXPECT_EQ(index_->record(object, first).error().code, EIO);
  EXPECT_EQ(*index_->record(object, second), b);
}

TEST_F(Records, CutAndMissingPacksAreErrors) {
  const RecordKey key{1, 0, 0};
  const ObjectId object = publish({{key, random_bytes(random_, 5000)}});
  const std::string pack = pack_files().at(0);
  for (const uint64_t size : {5055U, 56U, 55U, 0U}) {
    std::filesystem::resize_file(pack, size);
    const auto back = index_->record(object, key);
    ASSERT_FALSE(back.ok());
    EXPECT_EQ(back.error().code, EIO);
  }
  close();
  std::filesystem::remove(pack);
  open();
  const auto back = index_->record(object, key);
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().code, EIO);
  EXPECT_NE(back.error().text.find("00000001.pack"), std::string::npos) << back.error().text;
}

TEST_F(Records, HostileLengthAllocatesNothing) {
  const RecordKey key{1, 0, 0};
  const ObjectId object = publish({{key, random_bytes(random_, 5000)}});
  const std::string header = pack_header({{object, key}, uint64_t{1} << 60, 5});
  write_range(pack_files().at(0), 0, header);
  EXPECT_EQ(index_->record(object, key).error().code, EIO);
}

TEST_F(Records, UnpublishedObjectsVanish) {
  const RecordKey key{1, 0, 0};
  const ObjectId kept = publish({{key, random_bytes(random_, 5000)}});
  ObjectId lost = 0;
  uint64_t rows = 0;
  {
    auto writer = index_->begin_object();
    ASSERT_OK(writer);
    lost = (*writer)->object();
    for (uint64_t brick = 0; brick < 30000; ++brick) {
      ASSERT_OK((*writer)->put({1, 0, brick}, bytes_of(brick, 40)));
    }
    for (uint64_t brick = 0; brick < 30; ++brick) {
      ASSERT_OK((*writer)->put({2, 0, brick}, bytes_of(brick, 30000)));
    }
    ASSERT_OK(index_->records(lost, [&](const RecordInfo&) {
      ++rows;
      return true;
    }));
    EXPECT_GT(rows, 10000U) << "this test means to have rows written ahead";
  }
  const uint64_t before = index_->statistics()->pack_bytes;
  const auto freed = index_->collect();
  ASSERT_OK(freed);
  EXPECT_GT(*freed, 500000U);
  EXPECT_LT(index_->statistics()->pack_bytes, before - 500000);
  rows = 0;
  ASSERT_OK(index_->records(lost, [&](const RecordInfo&) {
    ++rows;
    return true;
  }));
  EXPECT_EQ(rows, 0U);
  EXPECT_OK(index_->record(kept, key));
}

TEST_F(Records, FlippedBitsInTheDatabaseNeverGiveWrongData) {
  std::map<ObjectId, Payload> objects;
  std::map<InodeNumber, std::string> names;
  for (uint64_t i = 0; i < 60; ++i) {
    const Payload payload = bytes_of(i, 50 + i * 40);
    objects[publish({{{1, 3, 0}, payload}}, numbered("layout", i))] = payload;
    Inode inode;
    inode.number = index_->new_inode_number();
    inode.size = i;
    names[inode.number] = numbered("name", i);
    Batch batch;
    batch.put_inode(inode);
    batch.put_dentry(kRootInode, {names[inode.number], inode.number, S_IFREG, index_->new_cookie()});
    ASSERT_OK(index_->commit(std::move(batch), Durability::buffered));
  }
  close();
  std::vector<std::string> tables;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.store() + "/db")) {
    if (entry.path().extension() == ".sst") {
      tables.push_back(entry.path().string());
    }
  }
  ASSERT_GE(tables.size(), 4U);
  IndexOptions options = options_;
  options.read_only = true;
  int refused = 0;
  int failed = 0;
  for (int round = 0; round < 150; ++round) {
    const std::string& table = tables[random_() % tables.size()];
    const uint64_t offset = random_() % std::filesystem::file_size(table);
    const int bit = static_cast<int>(random_() % 8);
    flip_bit(table, offset, bit);
    const auto opened = Index::open(directory_.store(), options);
    if (opened.ok()) {
      for (const auto& [object, payload] : objects) {
        const auto back = (*opened)->record(object, {1, 3, 0});
        const auto layout = (*opened)->layout(object);
        ASSERT_TRUE(back.ok() ? *back == payload : back.error().code == EIO) << table << " byte " << offset;
        ASSERT_TRUE(layout.ok() || layout.error().code == EIO) << table << " byte " << offset;
        failed += back.ok() && layout.ok() ? 0 : 1;
      }
      for (const auto& [number, name] : names) {
        const auto entry = (*opened)->lookup(kRootInode, name);
        const auto inode = (*opened)->inode(number);
        ASSERT_TRUE(entry.ok() ? entry->has_value() && (*entry)->inode == number : entry.error().code == EIO);
        ASSERT_TRUE(inode.ok() ? inode->has_value() && (*inode)->number == number : inode.error().code == EIO);
      }
    } else {
      EXPECT_TRUE(opened.error().code == EIO || opened.error().code == EUCLEAN) << opened.error().text;
      ++refused;
    }
    flip_bit(table, offset, bit);
  }
  EXPECT_GT(failed + refused, 10);
  EXPECT_LT(refused, 150);
  open();
}

}  // namespace
}  // namespace varve::index::testing
