// A change of names or attributes that the index cannot commit: refused, and nothing is different, in memory or in the
// store.
#include <fmt/format.h>
#include <linux/fs.h>

#include <functional>
#include <map>

#include "fs/check_layouts.h"
#include "tests/fs/core/core_support.h"
#include "tests/index/bad_disk.h"

namespace varve::fs {
namespace {

constexpr InodeNumber kRoot = index::kRootInode;

class FailedCommit : public CoreTest {
 protected:
  FailedCommit() {
    stop();
    index_options_.file_system = std::make_shared<index::testing::BadFileSystem>(trouble_);
    start();
    directory_inode_ = files_->make_directory(kCaller, kRoot, "directory", 0755)->attributes.inode;
    empty_ = files_->make_directory(kCaller, directory_inode_, "empty", 0755)->attributes.inode;
    for (const char* name : {"file", "other"}) {
      inodes_[name] = make_file(name, directory_inode_);
    }
    const uint64_t handle = open(inodes_["file"], O_RDWR);
    write(handle, 0, Content(300'000, std::byte{7}));
    EXPECT_TRUE(files_->fsync(kCaller, handle, false).ok());
    // More, over what is sealed: in a staging file that has a note.
    write(handle, 100'000, Content(200'000, std::byte{8}));
    EXPECT_TRUE(files_->fsync(kCaller, handle, false).ok());
    files_->release(handle);
    EXPECT_TRUE(files_->set_xattr(kCaller, inodes_["file"], "user.kept", "value", 0).ok());
  }

  /// Everything that a program can see: names, attributes, content.
  std::string state() {
    std::string text;
    const std::function<void(const std::string&, InodeNumber)> visit = [&](const std::string& path, InodeNumber inode) {
      const auto found = files_->get_attributes(kCaller, inode);
      ASSERT_TRUE(found.ok()) << path << ": " << found.error().text;
      text += fmt::format("{} {} {:o} {} {} {}.{}\n", path, inode, found->mode, found->links, found->size,
                          found->changed.seconds, found->changed.nanoseconds);
      if (S_ISREG(found->mode)) {
        const Content content = sealed_content(inode);
        text += fmt::format(
            "{}\n", std::hash<std::string_view>()({reinterpret_cast<const char*>(content.data()), content.size()}));
        text += attribute(inode, "user.kept") + '\n' + attribute(inode, "user.new") + '\n';
      }
      if (!S_ISDIR(found->mode)) {
        return;
      }
      std::map<std::string, InodeNumber> names;
      const auto handle = files_->open_directory(kCaller, inode);
      EXPECT_TRUE(files_
                      ->read_directory(kCaller, *handle, 0,
                                       [&](const DirectoryEntry& entry) {
                                         names.emplace(entry.name, entry.inode);
                                         return true;
                                       })
                      .ok());
      files_->release_directory(*handle);
      for (const auto& [name, child] : names) {
        if (name != "." && name != ".." && name != ".varve") {
          const auto looked = files_->lookup(kCaller, inode, name);
          EXPECT_TRUE(looked.ok() && looked->attributes.inode == child) << name;
          visit(path + "/" + name, child);
        }
      }
    };
    visit("", kRoot);
    return text;
  }

  void expect_clean() {
    std::string found;
    const auto store = index::StoreCheck::open(directory_ + "/store", false, [&](const index::Finding& finding) {
      if (finding.state != index::Finding::State::harmless) {
        found += finding.kind + " " + finding.where + ": " + finding.what + "\n";
      }
    });
    ASSERT_TRUE(store.ok()) << store.error().text;
    EXPECT_TRUE(check_store(**store).ok());
    EXPECT_EQ(found, "");
  }

  std::shared_ptr<index::testing::Trouble> trouble_ = std::make_shared<index::testing::Trouble>();
  InodeNumber directory_inode_ = 0;
  InodeNumber empty_ = 0;
  std::map<std::string, InodeNumber> inodes_;
};

TEST_F(FailedCommit, ChangesNothing) {
  const InodeNumber file = inodes_["file"];
  const auto number = [](const auto& result) { return result.ok() ? 0 : result.error().code; };
  const std::vector<std::pair<std::string, std::function<int()>>> operations = {
      {"create", [&] { return number(files_->create(kCaller, directory_inode_, "new", 0644, O_RDWR)); }},
      {"mkdir", [&] { return number(files_->make_directory(kCaller, directory_inode_, "new", 0755)); }},
      {"symlink", [&] { return number(files_->make_symlink(kCaller, directory_inode_, "new", "target")); }},
      {"mknod", [&] { return number(files_->make_node(kCaller, directory_inode_, "new", S_IFIFO | 0600, 0)); }},
      {"link", [&] { return number(files_->link(kCaller, file, kRoot, "new")); }},
      {"rename", [&] { return number(files_->rename(kCaller, directory_inode_, "file", kRoot, "new", 0)); }},
      {"rename over",
       [&] { return number(files_->rename(kCaller, directory_inode_, "other", directory_inode_, "file", 0)); }},
      {"exchange",
       [&] { return number(files_->rename(kCaller, directory_inode_, "file", kRoot, "directory", RENAME_EXCHANGE)); }},
      {"exchange in one directory",
       [&] {
         return number(files_->rename(kCaller, directory_inode_, "file", directory_inode_, "empty", RENAME_EXCHANGE));
       }},
      {"chmod",
       [&] {
         AttributeChange change;
         change.mode = 0600;
         return number(files_->set_attributes(kCaller, file, change, std::nullopt));
       }},
      {"truncate to nothing",
       [&] {
         AttributeChange change;
         change.size = 0;
         return number(files_->set_attributes(kCaller, file, change, std::nullopt));
       }},
      {"setxattr", [&] { return number(files_->set_xattr(kCaller, file, "user.new", "value", 0)); }},
      {"removexattr", [&] { return number(files_->remove_xattr(kCaller, file, "user.kept")); }},
      {"rmdir", [&] { return number(files_->remove_directory(kCaller, directory_inode_, "empty")); }},
      {"unlink", [&] { return number(files_->unlink(kCaller, directory_inode_, "file")); }},
  };
  const std::string before = state();
  for (const auto& [name, operation] : operations) {
    trouble_->code = EIO;
    EXPECT_EQ(operation(), name == "exchange" ? EINVAL : EIO) << name;
    trouble_->code = 0;
    // The first write after the failure opens the database again, which Debian's RocksDB may refuse for a while.
    for (int i = 0; i < 50 && !files_->set_xattr(kCaller, empty_, "user.tried", name, 0).ok(); ++i) {
      ::usleep(20'000);
    }
    ASSERT_TRUE(files_->remove_xattr(kCaller, empty_, "user.tried").ok()) << name;
    std::string after = state();
    const auto drop_empty = [](std::string text) {  // its time of change is of this test's doing
      const size_t at = text.find("/directory/empty ");
      return text.erase(at, text.find('\n', at) - at);
    };
    ASSERT_EQ(drop_empty(after), drop_empty(before)) << name;
  }
  stop();
  expect_clean();
  start();
  EXPECT_EQ(sealed_content(file).size(), 300'000U);
  for (const char* name : {"file", "other"}) {
    EXPECT_TRUE(files_->unlink(kCaller, directory_inode_, name).ok()) << name;
  }
  EXPECT_TRUE(files_->remove_directory(kCaller, directory_inode_, "empty").ok());
  EXPECT_TRUE(files_->remove_directory(kCaller, kRoot, "directory").ok());
  stop();
  expect_clean();
}

/// A kill between the two finds a file that is whole or a file that is gone.
TEST_F(FailedCommit, StagedDataOutlivesTheRemovalThatFailed) {
  restart();  // seals what is staged
  const InodeNumber file = inodes_["other"];
  const uint64_t handle = open(file, O_RDWR);
  write(handle, 0, Content(150'000, std::byte{9}));
  const auto staged = [&] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory_ + "/store/staging")) {
      ++count;
    }
    return count;
  };
  ASSERT_EQ(staged(), 1U);
  EXPECT_TRUE(files_->unlink(kCaller, directory_inode_, "other").ok());
  trouble_->code = EIO;
  EXPECT_TRUE(files_->flush(kCaller, handle).ok());
  files_->release(handle);
  EXPECT_EQ(staged(), 1U);
  trouble_->code = 0;
  stop();
  expect_clean();
  start();
  EXPECT_EQ(staged(), 0U);
  stop();
  expect_clean();
}

/// A power cut must not bring back the promise that an fsync made without the file that holds what it promised.
TEST_F(FailedCommit, WhatRemovesSyncedStagingIsSafeFirst) {
  AttributeChange emptied;
  emptied.size = 0;
  const std::vector<std::pair<std::string, std::function<Status()>>> removals = {
      {"truncate",
       [&] {
         return Status(files_->set_attributes(kCaller, inodes_["file"], emptied, {}).ok() ? Status() : Error{EIO, ""});
       }},
      {"rename over", [&] { return files_->rename(kCaller, directory_inode_, "other", directory_inode_, "file", 0); }},
      {"unlink", [&] { return files_->unlink(kCaller, directory_inode_, "file"); }},
  };
  restart();
  for (const auto& [name, removal] : removals) {
    const InodeNumber inode = name == "unlink" ? inodes_["other"] : inodes_["file"];
    const uint64_t handle = open(inode, O_RDWR);
    write(handle, 0, Content(150'000, std::byte{9}));
    ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
    const uint64_t before = trouble_->syncs;
    ASSERT_TRUE(removal().ok()) << name;
    if (name != "truncate") {
      EXPECT_EQ(trouble_->syncs, before) << name << ": while it is open, it is still there";
    }
    close(handle);
    EXPECT_GT(trouble_->syncs, before) << name;
  }
}

}  // namespace
}  // namespace varve::fs
