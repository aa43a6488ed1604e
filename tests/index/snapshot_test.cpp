// Snapshots keep what a store held, whatever becomes of it, and share its files.
#include <sys/stat.h>

#include <fstream>

#include "index/snapshot.h"
#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

class Snapshot : public StoreTest {
 protected:
  void SetUp() override {
    options_.pack_limit = 200000;
    StoreTest::SetUp();
  }
  std::string path_of(const std::string& name) const { return snapshot_path(directory_.store(), name); }
  std::unique_ptr<Index> open_snapshot(const std::string& name) {
    IndexOptions options;
    options.read_only = true;
    auto opened = Index::open(path_of(name), options);
    EXPECT_OK(opened);
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  void note(const std::string& value) {
    Batch batch;
    batch.put_note("note", value);
    ASSERT_OK(index_->commit(std::move(batch), Durability::buffered));
  }
};

TEST_F(Snapshot, KeepsWhatTheStoreRemovesAndCollects) {
  std::vector<ObjectId> objects;
  for (uint64_t i = 0; i < 40; ++i) {
    objects.push_back(publish({{{1, 0, 0}, bytes_of(i, 20000)}, {{1, 3, 0}, bytes_of(i, 100)}}));
  }
  note("before");
  ASSERT_OK(index_->snapshot("first"));
  note("between");
  ASSERT_OK(index_->snapshot("second"));
  note("after");
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 8 != 3) {
      release(objects[i]);
    }
  }
  ASSERT_OK(index_->collect());
  const ObjectId later = publish({{{1, 0, 0}, bytes_of(99, 50000)}});
  for (const bool again : {false, true}) {
    if (again) {
      reopen();
    }
    for (const std::string name : {"first", "second"}) {
      const auto kept = open_snapshot(name);
      ASSERT_NE(kept, nullptr);
      EXPECT_EQ(*kept->note("note"), name == "first" ? "before" : "between");
      for (size_t i = 0; i < objects.size(); ++i) {
        EXPECT_EQ(*kept->record(objects[i], {1, 0, 0}), bytes_of(i, 20000));
        EXPECT_EQ(*kept->record(objects[i], {1, 3, 0}), bytes_of(i, 100));
      }
      EXPECT_FALSE(kept->record(later, {1, 0, 0}).ok());
    }
    EXPECT_EQ(*index_->note("note"), "after");
    EXPECT_EQ(*index_->record(later, {1, 0, 0}), bytes_of(99, 50000));
  }
}

TEST_F(Snapshot, SharesItsFilesAndGivesBackWhatItAloneHolds) {
  std::vector<ObjectId> objects;
  for (uint64_t i = 0; i < 40; ++i) {
    objects.push_back(publish({{{1, 0, 0}, bytes_of(i, 20000)}}));
  }
  ASSERT_OK(index_->snapshot("one"));
  for (const std::string& pack : pack_files()) {
    struct stat facts {};
    ASSERT_EQ(::stat(pack.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_nlink, 2U) << pack;
  }
  const auto listed = list_snapshots(directory_.store());
  ASSERT_OK(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().name, "one");
  EXPECT_LT(listed->front().own_bytes, 200000U);
  for (const ObjectId object : objects) {
    release(object);
  }
  ASSERT_OK(index_->collect());
  EXPECT_GT(list_snapshots(directory_.store())->front().own_bytes, 40 * 20000U) << "the store has let go of them";
  ASSERT_OK(delete_snapshot(directory_.store(), "one"));
  EXPECT_TRUE(list_snapshots(directory_.store())->empty());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.store() + "/snapshots"));
}

TEST_F(Snapshot, IsNeverWritten) {
  const ObjectId object = publish({{{1, 0, 0}, bytes_of(1, 20000)}});
  ASSERT_OK(index_->snapshot("kept"));
  const auto writing = Index::open(path_of("kept"), {});
  ASSERT_FALSE(writing.ok());
  EXPECT_EQ(writing.error().code, EROFS) << writing.error().text;
  const auto reader = open_snapshot("kept");
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->snapshot("of-it").error().code, EROFS);
  const Status deleted = delete_snapshot(directory_.store(), "kept");
  ASSERT_FALSE(deleted.ok()) << "it is open";
  EXPECT_EQ(deleted.error().code, EBUSY) << deleted.error().text;
  EXPECT_EQ(*reader->record(object, {1, 0, 0}), bytes_of(1, 20000));
}

TEST_F(Snapshot, NamesAreCheckedAndTakenOnce) {
  for (const std::string name : {"", ".", "..", ".x", "-x", "a/b", "a b", "\n", "snap\xc3\xa9"}) {
    EXPECT_EQ(index_->snapshot(name).error().code, EINVAL) << name;
    EXPECT_EQ(delete_snapshot(directory_.store(), name).error().code, EINVAL) << name;
  }
  EXPECT_EQ(index_->snapshot(std::string(101, 'a')).error().code, EINVAL);
  ASSERT_OK(index_->snapshot(std::string(100, 'a')));
  ASSERT_OK(index_->snapshot("2026-12-03_run.7"));
  EXPECT_EQ(index_->snapshot("2026-12-03_run.7").error().code, EEXIST);
  EXPECT_EQ(delete_snapshot(directory_.store(), "none").error().code, ENOENT);
}

TEST_F(Snapshot, WhatAnInterruptedOneLeftGoes) {
  publish({{{1, 0, 0}, bytes_of(1, 20000)}});
  for (const char* left : {"/.x.new/packs", "/.y.gone/db"}) {
    std::filesystem::create_directories(directory_.store() + "/snapshots" + left);
  }
  EXPECT_TRUE(list_snapshots(directory_.store())->empty());
  ASSERT_OK(index_->snapshot("x"));
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.store() + "/snapshots")) {
    EXPECT_EQ(entry.path().filename(), "x");
    ++entries;
  }
  EXPECT_EQ(entries, 1U);
}

// A snapshot whose list of tables a drive damaged must not come up with fewer files.
TEST_F(Snapshot, ALostTableIsFoundOut) {
  publish({{{1, 0, 0}, bytes_of(1, 20000)}});
  note("first");
  ASSERT_OK(index_->snapshot("x"));
  std::string mark = path_of("x") + "/db-tables";
  ASSERT_TRUE(std::filesystem::exists(mark));
  size_t cut = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_of("x") + "/db")) {
    if (entry.path().filename().string().starts_with("MANIFEST-")) {
      std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 3);
      ++cut;
    }
  }
  ASSERT_EQ(cut, 1U);
  IndexOptions options;
  options.read_only = true;
  EXPECT_FALSE(Index::open(path_of("x"), options).ok());
  EXPECT_EQ(*index_->note("note"), "first") << "the store has a manifest of its own";
}

}  // namespace
}  // namespace varve::index::testing
