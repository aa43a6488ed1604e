// A file system core over a store in a temporary directory, driven without FUSE.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fs/core.h"

namespace varve::fs {

using Content = std::vector<std::byte>;

inline constexpr Caller kCaller{.uid = 0, .gid = 0, .umask = 022, .pid = 1};

class CoreTest : public testing::Test {
 protected:
  CoreTest() {
    std::string pattern = testing::TempDir() + "/core-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    start();
  }
  ~CoreTest() override {
    stop();
    std::filesystem::remove_all(directory_);
  }

  void start() {
    FileSystemOptions options;
    options.workers = 2;
    options.recogniser.program = VARVE_TEST_WORKER;
    auto index = index::Index::open(directory_ + "/store", index_options_);
    ASSERT_TRUE(index.ok()) << index.error().text;
    auto created = FileSystem::create(*std::move(index), options);
    ASSERT_TRUE(created.ok()) << created.error().text;
    files_ = *std::move(created);
  }
  void stop() {
    if (files_) {
      const Status ended = files_->shut_down();
      EXPECT_TRUE(ended.ok()) << ended.error().text;
      files_.reset();
    }
  }
  /// Unmount and mount again. Inode numbers stay.
  void restart() {
    stop();
    start();
  }

  /// Without shut_down() and without closing what is open: as a killed daemon leaves the store.
  void kill_daemon(uint64_t open_handle) {
    const std::unique_ptr<Handle> handle(reinterpret_cast<Handle*>(open_handle));
    files_.reset();
  }

  InodeNumber make_file(const std::string& name, InodeNumber parent = index::kRootInode) {
    auto made = files_->create(kCaller, parent, name, 0644, O_RDWR);
    EXPECT_TRUE(made.ok()) << made.error().text;
    files_->release(made->second.handle);
    return made->first.attributes.inode;
  }
  uint64_t open(InodeNumber inode, int flags) {
    auto opened = files_->open(kCaller, inode, flags);
    EXPECT_TRUE(opened.ok()) << opened.error().text;
    return opened->handle;
  }
  void close(uint64_t handle) {
    EXPECT_TRUE(files_->flush(kCaller, handle).ok());
    files_->release(handle);
  }
  void write(uint64_t handle, uint64_t offset, const Content& data) {
    const auto written = files_->write(kCaller, handle, offset, data);
    ASSERT_TRUE(written.ok()) << written.error().text;
    ASSERT_EQ(*written, data.size());
  }
  Content read_all(uint64_t handle, InodeNumber inode) {
    const auto attributes = files_->get_attributes(kCaller, inode);
    EXPECT_TRUE(attributes.ok());
    Content out(attributes->size);
    const auto got = files_->read(kCaller, handle, 0, out);
    EXPECT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(*got, out.size());
    return out;
  }
  Content sealed_content(InodeNumber inode) {
    const uint64_t handle = open(inode, O_RDONLY);
    Content out = read_all(handle, inode);
    close(handle);
    return out;
  }
  std::string attribute(InodeNumber inode, const std::string& name) {
    const auto value = files_->get_xattr(kCaller, inode, name);
    return value.ok() ? *value : "error: " + value.error().text;
  }
  void set_bound(InodeNumber inode, const std::string& bound) {
    const Status set = files_->set_xattr(kCaller, inode, "user.varve.bound", bound, 0);
    ASSERT_TRUE(set.ok()) << set.error().text;
  }

  std::string directory_;
  index::IndexOptions index_options_;  ///< of the next start()
  std::unique_ptr<FileSystem> files_;
};

}  // namespace varve::fs
