// Rows are damaged one kind at a time: StoreCheck finds each, repairs what has one right answer, and changes nothing
// else.
#include "index/check.h"

#include <sys/stat.h>

#include <fstream>
#include <map>

#include "index/keys.h"
#include "tests/index/check_support.h"

namespace varve::index::testing {
namespace {

using State = Finding::State;
using Rows = std::map<std::pair<Family, std::string>, std::string>;

constexpr InodeNumber kDirectory = 2, kInner = 3, kFile = 4, kCopy = 5, kLink = 6;

class CheckTest : public StoreTest, protected CheckedStore {
 protected:
  CheckTest() : CheckedStore(directory_.store()) {}

  /// /a/ (2), /a/b/ (3), /a/file and /a/b/again (4: object 1), /copy (5: object 2, whose first record is object 1's),
  /// /a/b/symbolic (6).
  void SetUp() override {
    StoreTest::SetUp();
    first_ = publish({{{0, 0, 0}, bytes_of(1, 10000)}, {{1, 2, 7}, bytes_of(2, 100)}, {{1, 1, 7}, bytes_of(3, 5000)}});
    auto writer = index_->begin_object();
    ASSERT_OK(writer);
    ASSERT_OK((*writer)->share(first_, {0, 0, 0}, {0, 0, 0}));
    ASSERT_OK((*writer)->put({0, 0, 1}, bytes_of(4, 3000)));
    second_ = (*writer)->object();
    Batch batch;
    batch.publish(second_, "layout");
    put(batch, {kRootInode, S_IFDIR | 0755, 2 + 1, 2, kRootInode, 0});
    put(batch, {kDirectory, S_IFDIR | 0755, 2 + 1, 2, kRootInode, 0});
    put(batch, {kInner, S_IFDIR | 0755, 2, 2, kDirectory, 0});
    put(batch, {kFile, S_IFREG | 0644, 2, 10, kDirectory, first_});
    put(batch, {kCopy, S_IFREG | 0644, 1, 10, kRootInode, second_});
    put(batch, {kLink, S_IFLNK | 0777, 1, 4, kInner, 0});
    batch.put_dentry(kRootInode, {"a", kDirectory, S_IFDIR, 3});
    batch.put_dentry(kRootInode, {"copy", kCopy, S_IFREG, 4});
    batch.put_dentry(kDirectory, {"b", kInner, S_IFDIR, 3});
    batch.put_dentry(kDirectory, {"file", kFile, S_IFREG, 5});
    batch.put_dentry(kInner, {"again", kFile, S_IFREG, 6});
    batch.put_dentry(kInner, {"symbolic", kLink, S_IFLNK, 7});
    batch.put_xattr(kFile, "user.x", "value");
    for (int i = 0; i < 10; ++i) {
      index_->new_inode_number();
      index_->new_cookie();
    }
    ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
    writer->reset();
    close();
    sound_ = rows();
  }

  struct Made {
    InodeNumber number;
    uint32_t mode, links;
    uint64_t size;
    InodeNumber parent;
    ObjectId object;
  };
  static void put(Batch& batch, const Made& made) {
    Inode inode;
    inode.number = made.number;
    inode.mode = made.mode;
    inode.links = made.links;
    inode.size = made.size;
    inode.parent = made.parent;
    inode.object = made.object;
    batch.put_inode(inode);
  }

  Rows rows() {
    Rows found;
    const auto opened = tree(true);
    for (size_t family = 0; family < kFamilies; ++family) {
      EXPECT_OK(opened->scan(static_cast<Family>(family), {}, {},
                             [&](std::string_view key, std::string_view value) -> Result<bool> {
                               found[{static_cast<Family>(family), std::string(key)}] = value;
                               return true;
                             }));
    }
    return found;
  }
  void amend(InodeNumber number, const std::function<void(Inode&)>& change) {
    auto inode = parse_inode(number, sound_.at({Family::inode, number_key(number)}));
    ASSERT_TRUE(inode.has_value());
    change(*inode);
    set(Family::inode, number_key(number), inode_value(*inode));
  }

  std::vector<Finding> check(bool repair) {
    return findings(repair, [&](StoreCheck& store) {
      const auto whole = store.check_database();
      EXPECT_OK(whole);
      if (whole.ok() && *whole) {
        EXPECT_OK(store.check_names(unlinked_));
        EXPECT_OK(store.check_objects());
        EXPECT_OK(store.close());
      }
    });
  }

  /// The damage is found as `kind` at `where`, without a change; it is repaired, and then nothing is found.
  void expect_repair(const std::string& kind, const std::string& where, size_t count = 1) {
    const Rows damaged = rows();
    const auto found = check(false);
    ASSERT_EQ(found.size(), count) << text(found);
    EXPECT_EQ(found[0].kind, kind) << text(found);
    EXPECT_EQ(found[0].where, where) << text(found);
    EXPECT_EQ(found[0].state, State::repairable);
    EXPECT_EQ(rows(), damaged) << "a check wrote something";
    const auto repaired = check(true);
    EXPECT_EQ(repaired.size(), count) << text(repaired);
    for (const Finding& finding : repaired) {
      EXPECT_EQ(finding.state, State::repaired) << text({finding});
    }
    const auto again = check(false);
    EXPECT_TRUE(again.empty()) << text(again);
  }
  /// And every row is again as it was before the damage.
  void expect_restored(const std::string& kind, const std::string& where, size_t count = 1) {
    expect_repair(kind, where, count);
    EXPECT_EQ(rows(), sound_);
  }
  void expect_left(const std::string& kind, const std::string& where) {
    const Rows damaged = rows();
    for (const bool repair : {false, true}) {
      const auto found = check(repair);
      ASSERT_EQ(found.size(), 1U) << text(found);
      EXPECT_EQ(found[0].kind, kind) << text(found);
      EXPECT_EQ(found[0].where, where) << text(found);
      EXPECT_EQ(found[0].state, State::left);
      EXPECT_EQ(rows(), damaged);
    }
  }
  std::string name_row(InodeNumber parent, const std::string& name) {
    return sound_.at({Family::dentry, name_key(parent, name)});
  }
  std::string in_object(ObjectId object, const std::string& file) const {
    return fmt::format("{} (object {})", file, object);
  }

  ObjectId first_ = 0, second_ = 0;
  Rows sound_;
  std::unordered_set<InodeNumber> unlinked_;
};

TEST_F(CheckTest, ASoundStoreIsClean) {
  for (const bool repair : {false, true}) {
    const auto found = check(repair);
    EXPECT_TRUE(found.empty()) << text(found);
    EXPECT_EQ(rows(), sound_);
  }
}

TEST_F(CheckTest, AnOpenStoreIsRefused) {
  open();
  for (const bool repair : {false, true}) {
    const auto store = StoreCheck::open(directory_.store(), repair, [](const Finding&) {});
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.error().code, EBUSY);
    EXPECT_NE(store.error().text.find(fmt::format("{}", ::getpid())), std::string::npos) << store.error().text;
  }
}

TEST_F(CheckTest, NameWithoutCookieRow) {
  erase(Family::dentry, cookie_key(kDirectory, 5));
  expect_restored("entry", "/a/file");
}

TEST_F(CheckTest, CookieWithoutNameRow) {
  erase(Family::dentry, name_key(kInner, "symbolic"));
  expect_restored("entry", "/a/b/symbolic");
}

TEST_F(CheckTest, RowsOfOneNameThatDisagree) {
  set(Family::dentry, cookie_key(kDirectory, 5), cookie_value({"file", kCopy, S_IFREG, 5}));
  expect_restored("entry", "/a/file");
}

TEST_F(CheckTest, TheRowWhoseInodeExistsIsRight) {
  set(Family::dentry, name_key(kDirectory, "file"), name_value({"file", 99, S_IFREG, 5}));
  expect_restored("entry", "/a/file");
}

TEST_F(CheckTest, ANameListedTwice) {
  set(Family::dentry, cookie_key(kDirectory, 9), cookie_value({"file", kFile, S_IFREG, 9}));
  expect_restored("entry", "/a/file");
}

TEST_F(CheckTest, TwoNamesUnderOneCookie) {
  set(Family::dentry, name_key(kDirectory, "file"), name_value({"file", kFile, S_IFREG, 3}));
  erase(Family::dentry, cookie_key(kDirectory, 5));
  expect_repair("entry", "/a/file");
  open();
  std::vector<std::string> names;
  ASSERT_OK(index_->list(kDirectory, 2, [&](const Dentry& entry) {
    names.push_back(entry.name);
    return true;
  }));
  EXPECT_EQ(names, (std::vector<std::string>{"b", "file"}));
}

TEST_F(CheckTest, TypeOfAnEntry) {
  set(Family::dentry, name_key(kDirectory, "file"), name_value({"file", kFile, S_IFLNK, 5}));
  set(Family::dentry, cookie_key(kDirectory, 5), cookie_value({"file", kFile, S_IFLNK, 5}));
  expect_restored("entry", "/a/file");
}

TEST_F(CheckTest, MalformedRows) {
  set(Family::dentry, name_key(kDirectory, "file"), "?");
  expect_restored("entry", "/a/file");
  for (const Family family :
       {Family::inode, Family::dentry, Family::xattr, Family::layout, Family::record, Family::object, Family::pack}) {
    set(family, "?", "?");
    const auto found = check(false);
    ASSERT_EQ(found.size(), 1U) << text(found);
    check(true);
    EXPECT_EQ(rows(), sound_);
  }
}

TEST_F(CheckTest, AnEntryThatLeadsNowhere) {
  set(Family::dentry, name_key(kInner, "gone"), name_value({"gone", 99, S_IFREG, 8}));
  set(Family::dentry, cookie_key(kInner, 8), cookie_value({"gone", 99, S_IFREG, 8}));
  expect_restored("entry", "/a/b/gone");
}

TEST_F(CheckTest, AnImpossibleName) {
  set(Family::dentry, name_key(kInner, "x/y"), name_value({"x/y", kFile, S_IFREG, 8}));
  set(Family::dentry, cookie_key(kInner, 8), cookie_value({"x/y", kFile, S_IFREG, 8}));
  expect_restored("entry", "/a/b/x/y");
}

TEST_F(CheckTest, ADirectoryWithTwoNames) {
  set(Family::dentry, name_key(kInner, "up"), name_value({"up", kInner, S_IFDIR, 8}));
  set(Family::dentry, cookie_key(kInner, 8), cookie_value({"up", kInner, S_IFDIR, 8}));
  expect_restored("entry", "/a/b/up");
}

TEST_F(CheckTest, ParentOfADirectory) {
  amend(kInner, [](Inode& inode) { inode.parent = kRootInode; });
  expect_restored("parent", "/a/b");
}

TEST_F(CheckTest, LinksAndSizes) {
  amend(kFile, [](Inode& inode) { inode.links = 7; });
  expect_restored("links", "/a/file");
  amend(kDirectory, [](Inode& inode) { inode.links = 2; });
  expect_restored("links", "/a");
  amend(kRootInode, [](Inode& inode) { inode.size = 3; });
  expect_restored("size", "/");
}

TEST_F(CheckTest, AttributesOfNobody) {
  set(Family::xattr, xattr_key(99, "user.a"), "1");
  set(Family::xattr, xattr_key(99, "user.b"), "2");
  expect_restored("attribute", "inode 99");
}

TEST_F(CheckTest, AFileWithoutAName) {
  erase(Family::dentry, name_key(kInner, "symbolic"));
  erase(Family::dentry, cookie_key(kInner, 7));
  expect_repair("lost", "inode 6", 2);  // and the directory's size
  open();
  const auto folder = index_->lookup(kRootInode, "lost+found");
  ASSERT_TRUE(folder.ok() && folder->has_value());
  const auto entry = index_->lookup((*folder)->inode, "6");
  ASSERT_TRUE(entry.ok() && entry->has_value());
  EXPECT_EQ((*entry)->inode, kLink);
  const auto made = index_->inode((*folder)->inode);
  EXPECT_EQ((*made)->mode, S_IFDIR | 0700U);
  EXPECT_EQ((*made)->size, 1U);
  EXPECT_GE(index_->new_inode_number(), (*folder)->inode + 1);
}

TEST_F(CheckTest, AnUnlinkedFileNeedsNoName) {
  erase(Family::dentry, name_key(kInner, "symbolic"));
  erase(Family::dentry, cookie_key(kInner, 7));
  amend(kInner, [](Inode& inode) { inode.size = 1; });
  amend(kLink, [](Inode& inode) { inode.links = 0; });
  unlinked_.insert(kLink);
  EXPECT_TRUE(check(false).empty());
  unlinked_.clear();
  EXPECT_EQ(check(false).size(), 1U);
}

TEST_F(CheckTest, ADirectoryWithoutAName) {
  erase(Family::dentry, name_key(kRootInode, "a"));
  erase(Family::dentry, cookie_key(kRootInode, 3));
  const auto found = check(true);
  EXPECT_EQ(text(found).substr(0, 12), "lost inode 2") << text(found);
  EXPECT_TRUE(check(false).empty());
  open();
  const auto folder = index_->lookup(kRootInode, "lost+found");
  ASSERT_TRUE(folder.ok() && folder->has_value());
  EXPECT_EQ((*index_->lookup((*folder)->inode, "2"))->inode, kDirectory);
  EXPECT_EQ((*index_->lookup(kDirectory, "file"))->inode, kFile) << "what is below it stays there";
}

TEST_F(CheckTest, ALoopOfDirectories) {
  // /a moves into /a/b.
  erase(Family::dentry, name_key(kRootInode, "a"));
  erase(Family::dentry, cookie_key(kRootInode, 3));
  set(Family::dentry, name_key(kInner, "a"), name_value({"a", kDirectory, S_IFDIR, 8}));
  set(Family::dentry, cookie_key(kInner, 8), cookie_value({"a", kDirectory, S_IFDIR, 8}));
  const auto found = check(true);
  EXPECT_EQ(text(found).substr(0, 12), "tree inode 2") << text(found);
  for (const Finding& finding : found) {
    EXPECT_EQ(finding.state, State::repaired);
  }
  const auto again = check(false);
  EXPECT_TRUE(again.empty()) << text(again);
  open();
  EXPECT_EQ((*index_->lookup(kInner, "again"))->inode, kFile);
}

TEST_F(CheckTest, ALostInodeOfADirectory) {
  erase(Family::inode, number_key(kInner));
  expect_repair("inode", "inode 3");
  open();
  EXPECT_EQ((*index_->lookup(kInner, "again"))->inode, kFile);
  const auto made = index_->inode(kInner);
  EXPECT_EQ((*made)->mode, S_IFDIR | 0700U);
  EXPECT_EQ((*made)->parent, kDirectory);
  EXPECT_EQ((*made)->size, 2U);
}

TEST_F(CheckTest, ALostRoot) {
  erase(Family::inode, number_key(kRootInode));
  expect_repair("inode", "/");
  open();
  EXPECT_EQ((*index_->lookup(kRootInode, "a"))->inode, kDirectory);
}

TEST_F(CheckTest, AMalformedInode) {
  set(Family::inode, number_key(kLink), "?");
  expect_left("inode", "inode 6");
}

TEST_F(CheckTest, CountersInUse) {
  set(Family::meta, "next_inode", count_value(4));
  set(Family::meta, "next_cookie", count_value(3));
  set(Family::meta, "next_object", count_value(1));
  set(Family::meta, "next_pack", count_value(1));
  expect_repair("counter", "next_inode", 4);
  open();
  EXPECT_GT(index_->new_inode_number(), kLink);
  EXPECT_GT(index_->new_cookie(), 7U);
}

TEST_F(CheckTest, APackThatNoCommitHasNumbered) {
  std::ofstream(directory_.store() + "/packs/00000009.pack") << "begun, and then the daemon was killed";
  EXPECT_TRUE(check(false).empty()) << text(check(false));
  open();
  const ObjectId object = publish({{{1, 0, 0}, bytes_of(1, 5000)}});
  EXPECT_EQ(*index_->record(object, {1, 0, 0}), bytes_of(1, 5000));
}

TEST_F(CheckTest, HoldersOfAnObject) {
  set(Family::object, object_key(ObjectTag::published, first_), count_value(5));
  expect_restored("object", in_object(first_, "/a/file"));
  erase(Family::object, object_key(ObjectTag::published, second_));
  expect_restored("object", in_object(second_, "/copy"));
  set(Family::object, object_key(ObjectTag::dying, second_), "");
  expect_restored("object", in_object(second_, "/copy"));
  set(Family::object, object_key(ObjectTag::unpublished, second_), "");
  expect_restored("object", in_object(second_, "/copy"));
}

TEST_F(CheckTest, AnObjectThatNobodyHolds) {
  amend(kCopy, [](Inode& inode) { inode.object = 0; });
  expect_repair("object", fmt::format("object {}", second_));
  open();
  ASSERT_OK(index_->collect());
  close();
  EXPECT_TRUE(check(false).empty());
  EXPECT_FALSE(rows().contains({Family::record, record_key(second_, {0, 0, 1})})) << "its space is free";
  EXPECT_TRUE(rows().contains({Family::record, record_key(first_, {0, 0, 0})})) << "what it shared is not";
}

TEST_F(CheckTest, ALostLayout) {
  erase(Family::layout, number_key(first_));
  expect_left("layout", in_object(first_, "/a/file"));
}

TEST_F(CheckTest, LayoutAndRecordsOfNoObject) {
  set(Family::layout, number_key(77), "layout");
  expect_restored("layout", "object 77");
  set(Family::record, record_key(77, {0, 0, 0}), sound_.at({Family::record, record_key(first_, {0, 0, 0})}));
  set(Family::record, record_key(77, {0, 0, 1}), sound_.at({Family::record, record_key(first_, {1, 2, 7})}));
  expect_restored("record", "object 77");
}

TEST_F(CheckTest, PendingAndDyingObjectsAreNoFault) {
  set(Family::object, object_key(ObjectTag::unpublished, 70), "");
  set(Family::record, record_key(70, {0, 0, 0}), sound_.at({Family::record, record_key(first_, {0, 0, 0})}));
  set(Family::object, object_key(ObjectTag::dying, 71), "");
  EXPECT_TRUE(check(false).empty());
  open();
  ASSERT_OK(index_->collect());
  close();
  EXPECT_EQ(rows(), sound_) << "a start erases both";
}

TEST_F(CheckTest, LiveBytesOfAPack) {
  set(Family::pack, number_key(1), count_value(1));
  expect_restored("pack", "pack 1");
  erase(Family::pack, number_key(1));
  expect_restored("pack", "pack 1");
}

TEST_F(CheckTest, AMalformedRecord) {
  set(Family::record, record_key(first_, {1, 2, 7}), "?");
  expect_left("record", in_object(first_, "/a/file"));
}

TEST_F(CheckTest, ARecordThatIsNotInItsPack) {
  const auto key = record_key(first_, {1, 1, 7});
  auto record = parse_record_value(sound_.at({Family::record, key}));
  ASSERT_TRUE(record && record->packed);
  record->offset += 1;
  set(Family::record, key, record_value(*record));
  expect_left("record", in_object(first_, "/a/file"));
  record->offset = uint64_t{1} << 62;
  set(Family::record, key, record_value(*record));
  expect_left("record", in_object(first_, "/a/file"));
  record->pack = 12;
  set(Family::record, key, record_value(*record));
  const auto found = text(check(false));
  EXPECT_NE(found.find("pack 12, which is missing"), std::string::npos) << found;
}

TEST_F(CheckTest, APackThatLostItsEnd) {
  std::filesystem::resize_file(pack_files().front(), std::filesystem::file_size(pack_files().front()) - 1);
  expect_left("record", in_object(second_, "/copy"));
}

TEST_F(CheckTest, AHeaderThatChanged) {
  std::fstream file(pack_files().front(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20);
  file.put('?');
  file.close();
  const auto found = check(true);
  ASSERT_EQ(found.size(), 2U) << text(found);  // the record is shared
  EXPECT_EQ(found[0].where, in_object(first_, "/a/file"));
  EXPECT_EQ(found[1].where, in_object(second_, "/copy"));
  EXPECT_EQ(rows(), sound_);
}

TEST_F(CheckTest, APayloadIsNotRead) {
  std::fstream file(pack_files().front(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kPackHeaderSize + 20);
  file.put('?');
  file.close();
  EXPECT_TRUE(check(false).empty());
}

}  // namespace
}  // namespace varve::index::testing
