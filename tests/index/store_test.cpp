// The store as a whole: making and opening one, its lock and version, namespace rows, batches, counters.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

Inode random_inode(std::mt19937_64& random, InodeNumber number) {
  Inode inode;
  inode.number = number;
  inode.mode = S_IFREG | static_cast<uint32_t>(random() % 4096);
  inode.uid = static_cast<uint32_t>(random());
  inode.size = random();
  inode.modified = {static_cast<int64_t>(random()), static_cast<uint32_t>(random() % 1000000000)};
  inode.target = std::string(random() % 20, 't');
  return inode;
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

using StoreBasics = StoreTest;

TEST_F(StoreBasics, NewStoreHasARoot) {
  const auto root = index_->inode(kRootInode);
  ASSERT_OK(root);
  ASSERT_TRUE(root->has_value());
  EXPECT_EQ((*root)->mode, static_cast<uint32_t>(S_IFDIR | 0755));
  EXPECT_EQ((*root)->uid, ::geteuid());
  EXPECT_EQ((*root)->links, 2U);
  EXPECT_EQ(index_->path(), directory_.store());
  const auto absent = index_->inode(99);
  ASSERT_OK(absent);
  EXPECT_FALSE(absent->has_value());
}

TEST_F(StoreBasics, RowsComeBackAfterReopening) {
  std::map<InodeNumber, Inode> inodes;
  std::map<std::pair<InodeNumber, std::string>, std::string> xattrs;
  std::map<std::string, std::string> notes;
  for (int i = 0; i < 300; ++i) {
    Batch batch;
    const Inode inode = random_inode(random_, index_->new_inode_number());
    batch.put_inode(inode);
    inodes[inode.number] = inode;
    for (uint64_t k = random_() % 4; k > 0; --k) {
      const std::string name = numbered("user.x", static_cast<uint64_t>(random_() % 10));
      const std::string value(random_() % 100, static_cast<char>(random_()));
      batch.put_xattr(inode.number, name, value);
      xattrs[{inode.number, name}] = value;
    }
    const std::string note = numbered("staging/", static_cast<uint64_t>(i));
    batch.put_note(note, std::string(i, 'n'));
    notes[note] = std::string(i, 'n');
    ASSERT_OK(index_->commit(std::move(batch), Durability::buffered));
  }
  for (int round = 0; round < 2; ++round) {
    for (const auto& [number, inode] : inodes) {
      const auto back = index_->inode(number);
      ASSERT_OK(back);
      EXPECT_EQ(*back, inode);
      std::set<std::string> names;
      for (const auto& [key, value] : xattrs) {
        if (key.first == number) {
          names.insert(key.second);
          const auto found = index_->xattr(number, key.second);
          ASSERT_OK(found);
          EXPECT_EQ(*found, value);
        }
      }
      const auto found = index_->xattr_names(number);
      ASSERT_OK(found);
      EXPECT_EQ(std::set<std::string>(found->begin(), found->end()), names);
    }
    std::map<std::string, std::string> seen;
    ASSERT_OK(index_->notes("staging/", [&](std::string_view key, std::string_view value) {
      seen.emplace(key, value);
      return true;
    }));
    EXPECT_EQ(seen, notes);
    const auto other = index_->note("other");
    ASSERT_OK(other);
    EXPECT_FALSE(other->has_value());
    reopen();
  }
}

TEST_F(StoreBasics, ErasingAnInodeTakesItsXattrsAndNoOthers) {
  Batch batch;
  for (const InodeNumber number : {5, 6, 7}) {
    batch.put_inode(random_inode(random_, number));
    batch.put_xattr(number, "user.a", "1");
  }
  ASSERT_OK(index_->commit(std::move(batch), Durability::buffered));
  Batch second;
  second.put_xattr(6, "user.b", "in the same batch");
  second.erase_inode(6);
  second.put_xattr(6, "user.after", "2");
  ASSERT_OK(index_->commit(std::move(second), Durability::buffered));
  const auto names = [&](InodeNumber number) { return *index_->xattr_names(number); };
  EXPECT_EQ(names(5), std::vector<std::string>{"user.a"});
  EXPECT_EQ(names(6), std::vector<std::string>{"user.after"});
  EXPECT_EQ(names(7), std::vector<std::string>{"user.a"});
  EXPECT_FALSE(index_->inode(6)->has_value());
}

TEST_F(StoreBasics, FailingBatchChangesNothing) {
  Batch batch;
  batch.put_note("a", "1");
  batch.release(12345);  // no such object
  const Status status = index_->commit(std::move(batch), Durability::synced);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ENOENT);
  EXPECT_FALSE(index_->note("a")->has_value());
  Batch unknown;
  unknown.put_note("b", "1");
  unknown.publish(777, "");
  EXPECT_EQ(index_->commit(std::move(unknown), Durability::synced).error().code, EINVAL);
  EXPECT_FALSE(index_->note("b")->has_value());
}

TEST_F(StoreBasics, NumbersAreNeverHandedOutTwice) {
  std::set<uint64_t> inodes;
  std::set<uint64_t> cookies;
  uint64_t last_cookie = 2;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 5000; ++i) {
      const InodeNumber inode = index_->new_inode_number();
      const uint64_t cookie = index_->new_cookie();
      EXPECT_GT(inode, kRootInode);
      EXPECT_TRUE(inodes.insert(inode).second);
      EXPECT_GT(cookie, last_cookie);
      last_cookie = cookie;
    }
    Batch batch;
    batch.put_note("used", "the numbers above");
    ASSERT_OK(index_->commit(std::move(batch), Durability::buffered));
    reopen();
  }
}

TEST_F(StoreBasics, SecondOpenIsRefusedAndNamesTheProcess) {
  const auto second = Index::open(directory_.store(), options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, EBUSY);
  EXPECT_NE(second.error().text.find(std::to_string(::getpid())), std::string::npos) << second.error().text;
  EXPECT_NE(second.error().text.find(directory_.store()), std::string::npos);
  IndexOptions reader;
  reader.read_only = true;
  EXPECT_EQ(Index::open(directory_.store(), reader).error().code, EBUSY);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto other = Index::open(directory_.store(), IndexOptions());
    ::_exit(!other.ok() && other.error().code == EBUSY ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close();
  open();  // and free again
}

TEST_F(StoreBasics, ReadOnlyReadsAndRefusesToWrite) {
  const RecordKey key{1, 0, 5};
  const Payload payload = random_bytes(random_, 9000);
  const ObjectId object = publish({{key, payload}}, "the layout");
  close();
  options_.read_only = true;
  open();
  EXPECT_EQ(*index_->layout(object), "the layout");
  EXPECT_EQ(*index_->record(object, key), payload);
  Batch batch;
  batch.put_note("a", "b");
  EXPECT_EQ(index_->commit(std::move(batch), Durability::buffered).error().code, EROFS);
  EXPECT_EQ(index_->begin_object().error().code, EROFS);
  EXPECT_EQ(index_->collect().error().code, EROFS);
  const auto second = Index::open(directory_.store(), options_);  // several readers may share it
  EXPECT_OK(second);
  IndexOptions absent = options_;
  EXPECT_EQ(Index::open(directory_.path() + "/none", absent).error().code, ENOENT);
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/none"));
}

TEST_F(StoreBasics, OtherVersionsAreRefused) {
  close();
  const std::string version = directory_.store() + "/VERSION";
  for (const auto& [text, code] : std::map<std::string, int>{
           {"varve store 3\n", EPROTO}, {"varve store 0\n", EPROTO}, {"something else\n", EPROTO}}) {
    write_file(version, text);
    const auto opened = Index::open(directory_.store(), options_);
    ASSERT_FALSE(opened.ok()) << text;
    EXPECT_EQ(opened.error().code, code);
    EXPECT_NE(opened.error().text.find("VERSION"), std::string::npos) << opened.error().text;
  }
  write_file(version, "varve store 1\n");
  open();
  std::string text;
  std::getline(std::ifstream(version), text);
  EXPECT_EQ(text, "varve store 2") << "what is opened for writing is raised";
}

TEST_F(StoreBasics, InterruptedMakingIsFinished) {
  const auto number = index_->new_inode_number();
  Batch batch;
  batch.put_inode(random_inode(random_, number));
  ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
  close();
  write_file(directory_.store() + "/VERSION", "varve st");
  open();
  EXPECT_TRUE(index_->inode(number)->has_value());  // what was there stays
  close();
  std::filesystem::remove(directory_.store() + "/VERSION");
  open();
  EXPECT_TRUE(index_->inode(number)->has_value());
}

TEST(StoreDirectory, ForeignDirectoryIsLeftAlone) {
  const TemporaryDirectory directory;
  write_file(directory.path() + "/thesis.tex", "years of work");
  const auto opened = Index::open(directory.path(), IndexOptions());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ENOTEMPTY);
  EXPECT_NE(opened.error().text.find("thesis.tex"), std::string::npos);
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    ++entries;
  }
  EXPECT_EQ(entries, 1U);
}

TEST(StoreDirectory, FreshDiskWithLostAndFoundIsEmpty) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() + "/lost+found");
  EXPECT_OK(Index::open(directory.path(), IndexOptions()));
}

TEST(StoreDirectory, MissingParentIsAnErrorNotAPath) {
  const TemporaryDirectory directory;
  const auto opened = Index::open(directory.path() + "/a/b/c", IndexOptions());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ENOENT);
}

TEST(StoreDirectory, DatabaseThatVanishedIsReported) {
  const TemporaryDirectory directory;
  EXPECT_OK(Index::open(directory.store(), IndexOptions()));
  std::filesystem::remove_all(directory.store() + "/db");
  const auto opened = Index::open(directory.store(), IndexOptions());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, EIO);
}

TEST(GoldenStore, VersionOneOpens) {
  const TemporaryDirectory directory;
  std::filesystem::copy(VARVE_INDEX_GOLDEN "/store-1", directory.store(), std::filesystem::copy_options::recursive);
  auto opened = Index::open(directory.store(), IndexOptions());
  ASSERT_OK(opened);
  Index& index = **opened;
  const auto entry = index.lookup(kRootInode, "golden.bin");
  ASSERT_OK(entry);
  ASSERT_TRUE(entry->has_value());
  const auto inode = index.inode((*entry)->inode);
  ASSERT_OK(inode);
  ASSERT_TRUE(inode->has_value());
  EXPECT_EQ((*inode)->size, 123456U);
  EXPECT_EQ((*inode)->target, "");
  EXPECT_EQ(*index.xattr((*entry)->inode, "user.varve.bound"), "rel:0.001");
  EXPECT_EQ(*index.layout((*inode)->object), "golden layout");
  EXPECT_EQ(*index.record((*inode)->object, {1, 3, 0}), bytes_of(1, 100));
  EXPECT_EQ(*index.record((*inode)->object, {1, 0, 0}), bytes_of(2, 3000));
  EXPECT_EQ(*index.note("golden"), "note");
}

/// Makes the golden store anew: VARVE_MAKE_GOLDEN=DIRECTORY index_store_test --gtest_filter=GoldenStore.Make
TEST(GoldenStore, Make) {
  const char* target = ::getenv("VARVE_MAKE_GOLDEN");
  if (target == nullptr) {
    GTEST_SKIP() << "set VARVE_MAKE_GOLDEN to a new directory to make a golden store there";
  }
  auto opened = Index::open(target, IndexOptions());
  ASSERT_OK(opened);
  Index& index = **opened;
  auto writer = index.begin_object();
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->put({1, 3, 0}, bytes_of(1, 100)));
  ASSERT_OK((*writer)->put({1, 0, 0}, bytes_of(2, 3000)));
  ASSERT_OK((*writer)->finish());
  Inode inode;
  inode.number = index.new_inode_number();
  inode.mode = S_IFREG | 0644;
  inode.links = 1;
  inode.size = 123456;
  inode.object = (*writer)->object();
  Batch batch;
  batch.put_inode(inode);
  batch.put_dentry(kRootInode, {"golden.bin", inode.number, S_IFREG, index.new_cookie()});
  batch.put_xattr(inode.number, "user.varve.bound", "rel:0.001");
  batch.put_note("golden", "note");
  batch.publish(inode.object, "golden layout");
  ASSERT_OK(index.commit(std::move(batch), Durability::synced));
}

}  // namespace
}  // namespace varve::index::testing
