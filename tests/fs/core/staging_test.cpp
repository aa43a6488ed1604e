// Staging against an array of bytes: in memory, in a file, and restored from a note.
#include "fs/staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

namespace varve::fs {
namespace {

class StagingTest : public testing::TestWithParam<uint64_t> {
 protected:
  StagingTest() {
    std::string pattern = testing::TempDir() + "/staging-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~StagingTest() override { std::filesystem::remove_all(directory_); }

  std::shared_ptr<index::Device> device_ = index::posix_device();
  std::string directory_;
};

TEST_P(StagingTest, BehavesAsAFileThroughWritesTruncationsHolesAndRestores) {
  const uint64_t limit = GetParam();
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    auto staging = std::make_unique<Staging>(*device_, directory_, 100 + round, 0, 0);
    std::vector<std::byte> model;
    for (int step = 0; step < 100; ++step) {
      const uint64_t offset = random() % limit;
      const uint64_t length = 1 + random() % (limit / 4);
      switch (random() % 6) {
        case 0:
          ASSERT_TRUE(staging->truncate(offset).ok());
          model.resize(offset);
          break;
        case 1:
          ASSERT_TRUE(staging->punch(offset, length).ok());
          for (uint64_t i = offset; i < std::min<uint64_t>(offset + length, model.size()); ++i) {
            model[i] = std::byte{0};
          }
          break;
        case 2: {
          ASSERT_TRUE(staging->sync().ok());
          const std::string note = staging->note();
          staging.reset();
          auto back = Staging::restore(*device_, directory_, note);
          ASSERT_TRUE(back.ok()) << back.error().text;
          staging = *std::move(back);
          break;
        }
        default: {
          std::vector<std::byte> data(length);
          for (std::byte& byte : data) {
            byte = static_cast<std::byte>(random());
          }
          ASSERT_TRUE(staging->write(offset, data).ok());
          model.resize(std::max<size_t>(model.size(), offset + length));
          std::copy(data.begin(), data.end(), model.begin() + static_cast<long>(offset));
        }
      }
      ASSERT_EQ(staging->size(), model.size());
      std::vector<std::byte> seen(model.size());
      ASSERT_TRUE(staging->read(0, seen).ok());
      ASSERT_EQ(seen, model);
    }
    staging->discard();
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_)) << "discard() leaves no file";
}

INSTANTIATE_TEST_SUITE_P(Sizes, StagingTest, testing::Values(1000, 60000, 300000));

TEST_F(StagingTest, MalformedNotesAreRefused) {
  Staging staging(*device_, directory_, 1, 5, 100);
  ASSERT_TRUE(staging.write(10, std::vector<std::byte>(50)).ok());
  const std::string note = staging.note();
  for (size_t cut = 0; cut < note.size(); ++cut) {
    EXPECT_FALSE(Staging::restore(*device_, directory_, note.substr(0, cut)).ok());
  }
  const auto back = Staging::restore(*device_, directory_, note);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)->base(), 5U);
  EXPECT_EQ((*back)->base_limit(), 100U);
  EXPECT_EQ((*back)->dirty(), staging.dirty());
}

using Content = std::vector<std::byte>;

/// Bytes [0, length) of what is staged.
Content staged_bytes(Staging& staging, uint64_t length) {
  Content seen(length);
  EXPECT_TRUE(staging.read(0, seen).ok());
  return seen;
}

TEST_F(StagingTest, BeforeASyncNothingIsStagedOverWhatIsSealed) {
  const auto sealed_again = [&](const Staging& staging) {
    EXPECT_EQ(staging.size(), 200'000U);
    EXPECT_EQ(staging.base_limit(), 200'000U);
    EXPECT_TRUE(staging.dirty().empty());
  };
  auto staging = std::make_unique<Staging>(*device_, directory_, 3, 5, 200'000);
  ASSERT_TRUE(staging->truncate(150'000).ok());
  ASSERT_TRUE(staging->write(1000, Content(80'000, std::byte{1})).ok());
  const std::string note = staging->note_of_file();
  staging.reset();
  auto back = Staging::restore(*device_, directory_, note);
  ASSERT_TRUE(back.ok()) << back.error().text;
  sealed_again(**back);
  ASSERT_TRUE((*back)->write(0, Content(10, std::byte{2})).ok());
  EXPECT_EQ(staged_bytes(**back, 2000)[1500], std::byte{0}) << "what was not noted does not come back";
  back->reset();
  std::filesystem::remove(directory_ + "/" + staging_file_name(3));
  back = Staging::restore(*device_, directory_, note);
  ASSERT_TRUE(back.ok()) << "a power cut may leave the note and no file: " << back.error().text;
  sealed_again(**back);
}

TEST_F(StagingTest, WhatIsStagedOverNothingOutlivesAKillBeforeASync) {
  auto staging = std::make_unique<Staging>(*device_, directory_, 4, 0, 0);
  ASSERT_TRUE(staging->write(0, Content(100'000, std::byte{3})).ok());
  const std::string note = staging->note_of_file();
  ASSERT_TRUE(staging->write(100'000, Content(50'000, std::byte{4})).ok());
  staging.reset();
  const auto back = Staging::restore(*device_, directory_, note);
  ASSERT_TRUE(back.ok());
  ASSERT_EQ((*back)->size(), 150'000U);
  EXPECT_EQ(staged_bytes(**back, 150'000)[120'000], std::byte{4});
}

TEST_F(StagingTest, ATruncationAfterTheNoteIsSeenAsOne) {
  auto staging = std::make_unique<Staging>(*device_, directory_, 5, 9, 200'000);
  ASSERT_TRUE(staging->write(100'000, Content(100'000, std::byte{1})).ok());
  ASSERT_TRUE(staging->sync().ok());
  const std::string note = staging->note();
  ASSERT_TRUE(staging->truncate(120'000).ok());
  staging.reset();
  const auto back = Staging::restore(*device_, directory_, note);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)->size(), 120'000U);
  EXPECT_EQ((*back)->base_limit(), 120'000U);
  EXPECT_EQ((*back)->dirty().intervals().rbegin()->second, 120'000U);
}

TEST_F(StagingTest, AFileThatAnEarlierRunLeftIsEmptied) {
  {
    Staging earlier(*device_, directory_, 6, 0, 0);
    ASSERT_TRUE(earlier.write(0, Content(300'000, std::byte{1})).ok());
  }
  Staging staging(*device_, directory_, 6, 0, 0);
  ASSERT_TRUE(staging.write(200'000, Content(10, std::byte{2})).ok());
  const Content seen = staged_bytes(staging, 200'010);
  EXPECT_EQ(seen[100'000], std::byte{0});
  EXPECT_EQ(seen[200'005], std::byte{2});
}

}  // namespace
}  // namespace varve::fs
