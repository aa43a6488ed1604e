// A lock on a file: who has it, and why it cannot be had.
#include "index/file_lock.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

namespace varve::index::testing {
namespace {

using Mode = FileLock::Mode;

class Lock : public ::testing::Test {
 protected:
  Lock() {
    std::string pattern = ::testing::TempDir() + "/lock-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/lock";
  }
  ~Lock() override { std::filesystem::remove_all(folder_); }
  std::string folder_, path_;
};

TEST_F(Lock, IsHeldByOneAndTellsWho) {
  EXPECT_EQ(FileLock::take(path_, Mode::shared).error().code, ENOENT) << "readers make none";
  EXPECT_EQ(FileLock::writer(path_), std::nullopt);
  auto first = FileLock::take(path_, Mode::exclusive);
  ASSERT_TRUE(first.ok()) << first.error().text;
  EXPECT_EQ(FileLock::writer(path_), ::getpid());
  for (const Mode mode : {Mode::exclusive, Mode::shared}) {
    const auto second = FileLock::take(path_, mode);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, EBUSY);
    EXPECT_NE(second.error().text.find(std::to_string(::getpid())), std::string::npos) << second.error().text;
  }
  first = Error{0, ""};
  EXPECT_EQ(FileLock::writer(path_), std::nullopt);
  const auto reader = FileLock::take(path_, Mode::shared);
  EXPECT_TRUE(reader.ok() && FileLock::take(path_, Mode::shared).ok());
  EXPECT_EQ(FileLock::take(path_, Mode::exclusive).error().code, EBUSY);
}

TEST_F(Lock, OtherFailuresAreNotCalledBusy) {
  const auto lost = FileLock::take(folder_ + "/none/lock", Mode::exclusive);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code, ENOENT);
  std::filesystem::create_directory(path_);
  const auto folder = FileLock::take(path_, Mode::exclusive);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, EISDIR);
  EXPECT_NE(folder.error().text.find("cannot lock " + path_), std::string::npos) << folder.error().text;
}

}  // namespace
}  // namespace varve::index::testing
