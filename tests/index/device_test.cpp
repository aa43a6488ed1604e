// The disk misbehaves: full, failing, slow to forget. Also the operating system's own Device.
#include <sys/stat.h>

#include <map>
#include <set>

#include "index/keys.h"
#include "tests/index/bad_disk.h"
#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

class BadDisk : public StoreTest {
 protected:
  void SetUp() override {
    options_.device = std::make_shared<BadDevice>(packs_);
    options_.file_system = std::make_shared<BadFileSystem>(tree_);
    StoreTest::SetUp();
  }

  Status write_note(const std::string& key, const std::string& value, Durability durability = Durability::synced) {
    Batch batch;
    batch.put_note(key, value);
    return index_->commit(std::move(batch), durability);
  }

  Status put_object(ObjectId* object, uint64_t seed, size_t size) {
    VARVE_ASSIGN(auto writer, index_->begin_object());
    VARVE_TRY(writer->put({1, 0, 0}, bytes_of(seed, size)));
    VARVE_TRY(writer->finish());
    Batch batch;
    batch.publish(writer->object(), "");
    VARVE_TRY(index_->commit(std::move(batch), Durability::synced));
    *object = writer->object();
    return {};
  }

  std::shared_ptr<Trouble> packs_ = std::make_shared<Trouble>();
  std::shared_ptr<Trouble> tree_ = std::make_shared<Trouble>();
};

TEST_F(BadDisk, EverythingGoesThroughTheTwoSeams) {
  const ObjectId object = publish({{{1, 0, 0}, bytes_of(1, 5000)}});
  EXPECT_GT(packs_->opened, 0U);
  EXPECT_GT(tree_->opened, 0U);
  EXPECT_GT(packs_->syncs, 0U);
  EXPECT_GT(tree_->syncs, 0U);
  EXPECT_NE(object, 0U);
}

TEST_F(BadDisk, FullDiskIsReportedAndForgottenOnceThereIsSpace) {
  ObjectId before = 0;
  ASSERT_OK(put_object(&before, 1, 5000));
  for (const int code : {ENOSPC, EIO}) {
    for (int64_t allowed = 0; allowed < 3000; allowed += 700) {
      ASSERT_OK(write_note("before", std::to_string(allowed)));
      tree_->allowed = allowed;
      tree_->code = code;
      packs_->code = code == ENOSPC ? ENOSPC : 0;
      packs_->allowed = 1 << 20;
      std::map<std::string, bool> written;
      Status status;
      for (int i = 0; i < 100 && status.ok(); ++i) {
        const std::string key = numbered("n", static_cast<uint64_t>(i));
        status = write_note(key, std::to_string(allowed), Durability::buffered);
        written[key] = status.ok();
      }
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, code) << status.error().text;
      EXPECT_FALSE(write_note("x", "y").ok());
      EXPECT_EQ(*index_->note("before"), std::to_string(allowed)) << "reads go on";
      EXPECT_EQ(*index_->record(before, {1, 0, 0}), bytes_of(1, 5000));
      tree_->code = packs_->code = 0;
      Status recovered = write_note("after", std::to_string(allowed));
      for (int i = 0; i < 50 && !recovered.ok(); ++i) {
        ::usleep(50000);
        recovered = write_note("after", std::to_string(allowed));
      }
      ASSERT_OK(recovered);
      for (const auto& [key, ok] : written) {
        if (ok) {
          EXPECT_EQ(*index_->note(key), std::to_string(allowed)) << key;
        }
      }
      ObjectId after = 0;
      ASSERT_OK(put_object(&after, 9, 5000));
      EXPECT_EQ(*index_->record(after, {1, 0, 0}), bytes_of(9, 5000));
    }
  }
  reopen();
  EXPECT_EQ(*index_->record(before, {1, 0, 0}), bytes_of(1, 5000));
  EXPECT_EQ(*index_->note("after"), "2800");
}

TEST_F(BadDisk, FullDiskWhileObjectsArePacked) {
  ObjectId object = 0;
  packs_->allowed = 10000;
  packs_->code = ENOSPC;
  Status status;
  int stored = 0;
  for (; stored < 10; ++stored) {
    status = put_object(&object, static_cast<uint64_t>(stored), 4000);
    if (!status.ok()) {
      break;
    }
  }
  EXPECT_EQ(stored, 2);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENOSPC);
  packs_->code = 0;
  ASSERT_OK(put_object(&object, 50, 4000));
  EXPECT_EQ(*index_->record(object, {1, 0, 0}), bytes_of(50, 4000));
  ASSERT_OK(index_->collect());
  EXPECT_EQ(index_->statistics()->live_pack_bytes, 3 * (4000U + kPackHeaderSize));
}

TEST_F(BadDisk, ReaderAsksTheTreeAgainWhenThePackWasCollected) {
  ObjectId object = 0;
  ASSERT_OK(put_object(&object, 1, 5000));
  reopen();  // no pack is open now
  packs_->vanishing = 1;
  EXPECT_EQ(*index_->record(object, {1, 0, 0}), bytes_of(1, 5000));
  reopen();
  packs_->vanishing = 1000;
  EXPECT_EQ(index_->record(object, {1, 0, 0}).error().code, EIO);
  packs_->vanishing = 0;
}

TEST_F(BadDisk, FailedSyncOfAPackIsNeverTakenForSuccess) {
  auto writer = index_->begin_object();
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->put({1, 0, 0}, bytes_of(1, 5000)));
  packs_->failing_syncs = true;
  EXPECT_FALSE((*writer)->finish().ok());
  packs_->failing_syncs = false;  // the kernel would say "fine" from now on, though the bytes may be gone
  EXPECT_FALSE((*writer)->finish().ok());
  Batch batch;
  batch.publish((*writer)->object(), "");
  EXPECT_FALSE(index_->commit(std::move(batch), Durability::synced).ok());
  writer->reset();
  ObjectId object = 0;
  ASSERT_OK(put_object(&object, 2, 5000));  // in another pack
  EXPECT_EQ(*index_->record(object, {1, 0, 0}), bytes_of(2, 5000));
  ASSERT_OK(index_->collect());
  EXPECT_EQ(index_->statistics()->packs, 1U);
}

TEST_F(BadDisk, FailedSyncOfTheLogIsReportedAndHealed) {
  ASSERT_OK(write_note("a", "1"));
  tree_->failing_syncs = true;
  EXPECT_FALSE(write_note("b", "2").ok());
  tree_->failing_syncs = false;
  Status status = write_note("c", "3");
  for (int i = 0; i < 50 && !status.ok(); ++i) {
    ::usleep(50000);
    status = write_note("c", "3");
  }
  ASSERT_OK(status);
  reopen();
  EXPECT_EQ(*index_->note("a"), "1");
  EXPECT_EQ(*index_->note("c"), "3");
}

TEST(PosixDevice, FilesDoWhatTheInterfaceSays) {
  const TemporaryDirectory directory;
  const auto device = posix_device();
  const std::string path = directory.path() + "/file";
  EXPECT_EQ(device->open(path, Device::Mode::read).error().code, ENOENT);
  EXPECT_EQ(device->open(path, Device::Mode::write).error().code, ENOENT);
  auto opened = device->open(path, Device::Mode::create);
  ASSERT_OK(opened);
  DeviceFile& file = **opened;
  const Payload bytes = bytes_of(1, 300000);
  ASSERT_OK(file.write(100000, bytes));
  EXPECT_EQ(*file.size(), 400000U);
  Payload back(500000);
  EXPECT_EQ(*file.read(0, back), 400000U);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), back.begin() + 100000));
  EXPECT_EQ(back[5], std::byte{0});
  EXPECT_EQ(*file.read(400000, back), 0U);
  ASSERT_OK(file.punch(150000, 100000));
  ASSERT_OK(file.punch(390000, 1000000));
  EXPECT_EQ(*file.size(), 400000U);
  EXPECT_EQ(*file.read(0, back), 400000U);
  EXPECT_EQ(back[149999], bytes[49999]);
  EXPECT_TRUE(std::all_of(back.begin() + 150000, back.begin() + 250000, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(back[250000], bytes[150000]);
  EXPECT_EQ(back[399999], std::byte{0});
  ASSERT_OK(file.reserve(0, 1 << 20));
  EXPECT_EQ(*file.size(), 400000U);
  EXPECT_GE(*file.allocated(), 200000U);
  EXPECT_EQ(*file.seek(250000, true), 250000U);
  EXPECT_EQ(file.seek(400000, true).error().code, ENXIO);
  ASSERT_OK(file.truncate(10));
  EXPECT_EQ(*file.size(), 10U);
  ASSERT_OK(file.sync());
  ASSERT_OK(device->make_directory(directory.path() + "/d"));
  ASSERT_OK(device->make_directory(directory.path() + "/d"));
  EXPECT_EQ(device->make_directory(path).error().code, ENOTDIR);
  ASSERT_OK(device->sync_directory(directory.path()));
  const auto names = device->list(directory.path());
  ASSERT_OK(names);
  EXPECT_EQ(std::set<std::string>(names->begin(), names->end()), (std::set<std::string>{"d", "file"}));
  ASSERT_OK(device->remove(path));
  EXPECT_EQ(device->remove(path).error().code, ENOENT);
  EXPECT_GT(device->space(directory.path())->blocks, 0U);
  EXPECT_EQ(device->list(directory.path() + "/none").error().code, ENOENT);
}

}  // namespace
}  // namespace varve::index::testing
