// Names through the core: what POSIX says of create, link, unlink, rename and directories.
#include <linux/fs.h>

#include <map>

#include "tests/fs/core/core_support.h"

namespace varve::fs {
namespace {

class Names : public CoreTest {
 protected:
  InodeNumber make_directory(const std::string& name, InodeNumber parent = index::kRootInode) {
    const auto made = files_->make_directory(kCaller, parent, name, 0755);
    EXPECT_TRUE(made.ok()) << made.error().text;
    return made->attributes.inode;
  }
  std::map<std::string, InodeNumber> list(InodeNumber directory) {
    std::map<std::string, InodeNumber> names;
    const auto handle = files_->open_directory(kCaller, directory);
    uint64_t last = 0;
    EXPECT_TRUE(files_
                    ->read_directory(kCaller, *handle, 0,
                                     [&](const DirectoryEntry& entry) {
                                       EXPECT_GT(entry.cookie, last);
                                       last = entry.cookie;
                                       EXPECT_TRUE(names.emplace(entry.name, entry.inode).second);
                                       return true;
                                     })
                    .ok());
    files_->release_directory(*handle);
    return names;
  }
  int rename(InodeNumber from, const std::string& name, InodeNumber to, const std::string& new_name,
             uint32_t flags = 0) {
    const Status renamed = files_->rename(kCaller, from, name, to, new_name, flags);
    return renamed.ok() ? 0 : renamed.error().code;
  }
  uint32_t links(InodeNumber inode) { return files_->get_attributes(kCaller, inode)->links; }
};

TEST_F(Names, DirectoriesCountTheirLinksAndKnowTheirParent) {
  const InodeNumber a = make_directory("a");
  const InodeNumber b = make_directory("b", a);
  EXPECT_EQ(links(a), 3U);
  EXPECT_EQ(list(b).at(".."), a);
  EXPECT_EQ(rename(a, "b", index::kRootInode, "c"), 0);
  EXPECT_EQ(links(a), 2U);
  EXPECT_EQ(list(b).at(".."), index::kRootInode);
  EXPECT_EQ(files_->remove_directory(kCaller, index::kRootInode, "missing").error().code, ENOENT);
  make_file("f", b);
  EXPECT_EQ(files_->remove_directory(kCaller, index::kRootInode, "c").error().code, ENOTEMPTY);
  EXPECT_EQ(files_->unlink(kCaller, index::kRootInode, "c").error().code, EISDIR);
  EXPECT_EQ(files_->remove_directory(kCaller, b, "f").error().code, ENOTDIR);
  EXPECT_TRUE(files_->unlink(kCaller, b, "f").ok());
  EXPECT_TRUE(files_->remove_directory(kCaller, index::kRootInode, "c").ok());
}

TEST_F(Names, RenameReplacesExchangesAndRefuses) {
  const InodeNumber a = make_file("a");
  const InodeNumber b = make_file("b");
  const InodeNumber d = make_directory("d");
  const InodeNumber e = make_directory("e", d);
  EXPECT_EQ(rename(1, "a", 1, "b", RENAME_NOREPLACE), EEXIST);
  EXPECT_EQ(rename(1, "a", 1, "missing", RENAME_EXCHANGE), ENOENT);
  EXPECT_EQ(rename(1, "a", 1, "b", RENAME_EXCHANGE), 0);
  EXPECT_EQ(list(1).at("a"), b);
  EXPECT_EQ(list(1).at("b"), a);
  EXPECT_EQ(rename(1, "a", 1, "d"), EISDIR);
  EXPECT_EQ(rename(1, "d", 1, "a"), ENOTDIR);
  EXPECT_EQ(rename(1, "d", e, "inside"), EINVAL);
  EXPECT_EQ(rename(1, "a", 1, "b"), 0);
  EXPECT_FALSE(list(1).contains("a"));
  EXPECT_EQ(list(1).at("b"), b);
  EXPECT_EQ(rename(1, "b", d, "b"), 0);
  EXPECT_EQ(list(d).at("b"), b);
  make_directory("empty");
  EXPECT_EQ(rename(1, "empty", 1, "d"), ENOTEMPTY);
  EXPECT_EQ(rename(d, "e", 1, "empty"), 0) << "onto an empty directory";
  EXPECT_EQ(links(d), 2U);
  restart();
  EXPECT_EQ(list(1).at("empty"), e);
}

TEST_F(Names, HardLinksShareOneFile) {
  const InodeNumber inode = make_file("a");
  ASSERT_TRUE(files_->link(kCaller, inode, 1, "b").ok());
  EXPECT_EQ(links(inode), 2U);
  EXPECT_EQ(rename(1, "a", 1, "b"), 0) << "two names of one file: nothing happens";
  EXPECT_EQ(list(1).size(), 4U);
  ASSERT_TRUE(files_->unlink(kCaller, 1, "a").ok());
  EXPECT_EQ(links(inode), 1U);
  EXPECT_EQ(files_->link(kCaller, 1, 1, "root").error().code, EPERM);
  restart();
  EXPECT_EQ(list(1).at("b"), inode);
}

TEST_F(Names, OddNamesAndTargets) {
  const std::string longest(255, 'n');
  make_file(longest);
  EXPECT_TRUE(files_->lookup(kCaller, 1, longest).ok());
  EXPECT_EQ(files_->create(kCaller, 1, longest + "n", 0644, O_RDWR).error().code, ENAMETOOLONG);
  EXPECT_EQ(files_->lookup(kCaller, 1, longest + "n").error().code, ENAMETOOLONG);
  make_file("\xff\xfe \n");
  EXPECT_TRUE(list(1).contains("\xff\xfe \n"));
  const auto link = files_->make_symlink(kCaller, 1, "s", "../target");
  EXPECT_EQ(*files_->read_link(kCaller, link->attributes.inode), "../target");
  EXPECT_EQ(files_->make_symlink(kCaller, 1, ".varve", "x").error().code, EEXIST);
  EXPECT_EQ(rename(1, "s", 1, ".varve"), EEXIST);
}

TEST_F(Names, ASetGroupDirectoryPassesItsGroupOn) {
  const InodeNumber d = make_directory("d");
  AttributeChange change;
  change.mode = 02775;
  change.gid = 77;
  ASSERT_TRUE(files_->set_attributes(kCaller, d, change, std::nullopt).ok());
  const InodeNumber file = make_file("f", d);
  const InodeNumber below = make_directory("below", d);
  EXPECT_EQ(files_->get_attributes(kCaller, file)->gid, 77U);
  EXPECT_EQ(files_->get_attributes(kCaller, below)->gid, 77U);
  EXPECT_EQ(files_->get_attributes(kCaller, below)->mode & 07777, 02755U);
}

TEST_F(Names, AttributesOfAllKindsSurviveARestart) {
  const InodeNumber inode = make_file("f");
  ASSERT_TRUE(files_->set_xattr(kCaller, inode, "user.a", "1", 0).ok());
  ASSERT_TRUE(files_->set_xattr(kCaller, inode, "user.empty", "", 0).ok());
  EXPECT_EQ(files_->set_xattr(kCaller, inode, "user.a", "2", 1).error().code, EEXIST);
  EXPECT_EQ(files_->set_xattr(kCaller, inode, "user.b", "2", 2).error().code, ENODATA);
  EXPECT_EQ(files_->set_xattr(kCaller, inode, "user.varve.typo", "2", 0).error().code, EINVAL);
  EXPECT_EQ(files_->set_xattr(kCaller, inode, "varve.policy", "2", 0).error().code, EPERM);
  restart();
  EXPECT_EQ(attribute(inode, "user.a"), "1");
  EXPECT_EQ(attribute(inode, "user.empty"), "");
  EXPECT_TRUE(files_->remove_xattr(kCaller, inode, "user.a").ok());
  EXPECT_EQ(files_->get_xattr(kCaller, inode, "user.a").error().code, ENODATA);
}

}  // namespace
}  // namespace varve::fs
