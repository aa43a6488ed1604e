// Staged data after the daemon was killed, after a power cut, and after the drive changed it meanwhile.
#include <fmt/format.h>

#include <fstream>

#include "fs/serial.h"
#include "index/keys.h"
#include "tests/fs/core/core_support.h"
#include "tests/index/check_support.h"

namespace varve::fs {
namespace {

using index::Family;

constexpr uint64_t kSize = 300'000;

class StagingRecovery : public CoreTest, protected index::testing::CheckedStore {
 protected:
  StagingRecovery() : CheckedStore(directory_ + "/store") {}

  /// Another run of the machine: what was not synced may be gone.
  void cut_power() { std::filesystem::remove(directory_ + "/store/db-written"); }
  /// Notes in the index.
  uint64_t notes() {
    uint64_t count = 0;
    const auto opened = tree(true);
    EXPECT_TRUE(opened
                    ->scan(Family::note, {}, {},
                           [&](std::string_view, std::string_view) -> Result<bool> {
                             ++count;
                             return true;
                           })
                    .ok());
    return count;
  }
  std::string staging_file() {
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/store/staging")) {
      return entry.path();
    }
    return {};
  }
  void change_byte(uint64_t offset) {
    std::fstream file(staging_file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int was = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(was ^ 0x10));
  }
  /// Reads piece by piece: how many give EIO. The others must be right.
  uint64_t damaged(InodeNumber inode, const Content& content) {
    constexpr uint64_t kPiece = 4096;
    const uint64_t handle = open(inode, O_RDONLY);
    uint64_t bad = 0;
    for (uint64_t at = 0; at < content.size(); at += kPiece) {
      Content piece(std::min<uint64_t>(kPiece, content.size() - at));
      const auto got = files_->read(kCaller, handle, at, piece);
      if (!got.ok()) {
        EXPECT_EQ(got.error().code, EIO);
        ++bad;
      } else {
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), content.begin() + static_cast<ptrdiff_t>(at))) << at;
      }
    }
    files_->release(handle);
    return bad;
  }
};

TEST_F(StagingRecovery, AChangedByteIsEioThereAndNowhereElse) {
  const Content content = index::testing::bytes_of(1, kSize);
  for (const uint64_t at : {uint64_t{0}, uint64_t{5000}, kSize - 1}) {
    const InodeNumber file = make_file(fmt::format("file{}", at));
    const uint64_t handle = open(file, O_RDWR);
    write(handle, 0, content);
    ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
    kill_daemon(handle);
    change_byte(at);
    start();
    EXPECT_EQ(damaged(file, content), 1U) << "it is not sealed with a wrong byte";
    restart();
    EXPECT_EQ(damaged(file, content), 1U);
    // Writing it again mends it.
    const uint64_t again = open(file, O_RDWR);
    write(again, 0, content);
    static_cast<void>(files_->flush(kCaller, again));
    files_->release(again);
    EXPECT_EQ(sealed_content(file), content);
    restart();
    EXPECT_EQ(staging_file(), "");
  }
}

TEST_F(StagingRecovery, WhatWasOverwrittenAfterASyncIsAsItWasThen) {
  const Content content = index::testing::bytes_of(2, kSize);
  for (const bool power : {false, true}) {
    const InodeNumber file = make_file(power ? "power" : "kill");
    const uint64_t handle = open(file, O_RDWR);
    write(handle, 0, content);
    ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
    write(handle, 1000, Content(100'000, std::byte{1}));
    AttributeChange shorter;
    shorter.size = 50'000;
    ASSERT_TRUE(files_->set_attributes(kCaller, file, shorter, handle).ok());
    write(handle, 200'000, Content(1000, std::byte{2}));
    kill_daemon(handle);
    if (power) {
      cut_power();
    }
    start();
    EXPECT_EQ(sealed_content(file), content);
  }
}

/// 16 MiB are noted without a sync: a kill finds them, a power cut does not take them for true.
TEST_F(StagingRecovery, WhatWasNotSyncedIsFoundAfterAKillAlone) {
  const Content content = index::testing::bytes_of(3, uint64_t{16} << 20);
  for (const bool power : {false, true}) {
    const InodeNumber file = make_file(power ? "power" : "kill");
    const uint64_t handle = open(file, O_RDWR);
    write(handle, 0, content);
    write(handle, content.size(), Content(1000, std::byte{5}));
    kill_daemon(handle);
    if (power) {
      cut_power();
      change_byte(100);
    }
    start();
    EXPECT_EQ(sealed_content(file), power ? Content() : content);
    restart();
    EXPECT_EQ(staging_file(), "");
  }
  stop();
  EXPECT_EQ(notes(), 0U);
}

/// What an earlier program staged, in a store of its version.
TEST_F(StagingRecovery, AStoreOfVersionOneIsRaisedAndItsStagingSealed) {
  const InodeNumber file = make_file("file");
  stop();
  std::ofstream(directory_ + "/store/VERSION") << "varve store 1\n";
  std::ofstream(directory_ + "/store/staging/0000000000000009") << std::string(200'000, 'x');
  SerialWriter note;
  for (const uint64_t number : {9, 0, 0, 200'000, 1, 1, 0, 200'000}) {
    note.number(number);
  }
  set(Family::note, fmt::format("staging/{:016x}", file), note.take_text());
  set(Family::meta, "version", index::count_value(1));
  start();
  EXPECT_EQ(sealed_content(file), Content(200'000, std::byte{'x'}));
  restart();
  EXPECT_EQ(staging_file(), "");
  stop();
  std::string text;
  std::getline(std::ifstream(directory_ + "/store/VERSION") >> std::ws, text);
  EXPECT_EQ(text, "varve store 2");
  EXPECT_EQ(notes(), 0U);
}

}  // namespace
}  // namespace varve::fs
