// A staging file against a model in memory; and what a drive does to it behind its back.
#include "fs/checked_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

namespace varve::fs {
namespace {

constexpr uint64_t kBlock = CheckedFile::kBlock;

class CheckedFileTest : public testing::Test {
 protected:
  CheckedFileTest() : path_(testing::TempDir() + "checked_file_" + std::to_string(::getpid())) {
    std::filesystem::remove(path_);
    reopen(0);
  }
  ~CheckedFileTest() override { std::filesystem::remove(path_); }

  void reopen(uint64_t unknown_below) {
    auto opened = index::posix_device()->open(path_, index::Device::Mode::create);
    ASSERT_TRUE(opened.ok());
    file_ = std::make_unique<CheckedFile>(std::move(*opened), path_, unknown_below);
  }
  std::vector<std::byte> random(size_t size) {
    std::vector<std::byte> bytes(size);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random_() % 4); });
    return bytes;
  }
  /// The drive changes a byte by itself.
  void damage(uint64_t offset) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int was = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(was ^ 1));
  }
  int read_code(uint64_t offset, size_t length) {
    std::vector<std::byte> out(length);
    const Status status = file_->read(offset, out);
    return status.ok() ? 0 : status.error().code;
  }
  void expect_content(const std::vector<std::byte>& model) {
    std::vector<std::byte> out(model.size() + 3 * kBlock, std::byte{9});
    const Status status = file_->read(0, out);
    ASSERT_TRUE(status.ok()) << status.error().text;
    std::vector<std::byte> expected = model;
    expected.resize(out.size());
    ASSERT_TRUE(out == expected);
  }

  std::string path_;
  std::unique_ptr<CheckedFile> file_;
  std::mt19937 random_{7};  // NOLINT(bugprone-random-generator-seed): the same every time
};

TEST_F(CheckedFileTest, HoldsWhatAModelHolds) {
  std::vector<std::byte> model;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t offset = random_() % (random_() % 3 == 0 ? 40 * kBlock : 3 * kBlock);
    const uint64_t length = 1 + random_() % (random_() % 2 == 0 ? 5 * kBlock : 300);
    const uint64_t aligned = random_() % 4 == 0 ? kBlock : 1;
    const uint64_t at = offset / aligned * aligned;
    const uint64_t n = (length + aligned - 1) / aligned * aligned;
    switch (random_() % 6) {
      case 0: {
        ASSERT_TRUE(file_->truncate(at).ok());
        model.resize(at);
        break;
      }
      case 1: {
        ASSERT_TRUE(file_->punch(at, n).ok());
        for (uint64_t i = at; i < std::min<uint64_t>(at + n, model.size()); ++i) {
          model[i] = std::byte{0};
        }
        break;
      }
      case 2: {
        if (random_() % 20 == 0) {
          reopen(model.size());
        }
        std::vector<std::byte> out(n);
        ASSERT_TRUE(file_->read(at, out).ok());
        for (uint64_t i = 0; i < n; ++i) {
          ASSERT_EQ(out[i], at + i < model.size() ? model[at + i] : std::byte{0});
        }
        break;
      }
      default: {
        const auto data = random(n);
        ASSERT_TRUE(file_->write(at, data).ok());
        model.resize(std::max<size_t>(model.size(), at + n));
        std::copy(data.begin(), data.end(), model.begin() + static_cast<ptrdiff_t>(at));
      }
    }
  }
  expect_content(model);
}

TEST_F(CheckedFileTest, AChangedByteCostsTheReadsOfItsBlock) {
  ASSERT_TRUE(file_->write(100, random(10 * kBlock)).ok());
  for (const uint64_t offset : {uint64_t{0}, uint64_t{99}, uint64_t{100}, kBlock - 1, 5 * kBlock, 10 * kBlock + 99}) {
    damage(offset);
    const uint64_t block = offset / kBlock;
    EXPECT_EQ(read_code(block * kBlock, 1), EIO) << offset;
    EXPECT_EQ(read_code(0, 11 * kBlock), EIO) << offset;
    EXPECT_EQ(read_code((block + 1) * kBlock, 2 * kBlock), 0) << offset;
    if (block > 0) {
      EXPECT_EQ(read_code(0, block * kBlock), 0) << offset;
    }
    damage(offset);  // back again
    EXPECT_EQ(read_code(0, 11 * kBlock), 0) << offset;
  }
}

TEST_F(CheckedFileTest, AByteInAHoleIsFoundToo) {
  ASSERT_TRUE(file_->write(6 * kBlock, random(10)).ok());
  damage(3 * kBlock + 5);
  EXPECT_EQ(read_code(3 * kBlock, 1), EIO);
  EXPECT_EQ(read_code(0, 3 * kBlock), 0);
}

TEST_F(CheckedFileTest, APartOfADamagedBlockCannotBeReplacedButAllOfIt) {
  ASSERT_TRUE(file_->write(0, random(4 * kBlock)).ok());
  damage(kBlock + 10);
  const Status part = file_->write(kBlock + 2000, random(100));
  ASSERT_FALSE(part.ok());
  EXPECT_EQ(part.error().code, EIO);
  EXPECT_TRUE(file_->write(kBlock, random(kBlock)).ok());
  EXPECT_EQ(read_code(0, 4 * kBlock), 0);
}

TEST_F(CheckedFileTest, WhatAnEarlierRunWroteIsTakenUntilItIsReplaced) {
  ASSERT_TRUE(file_->write(0, random(4 * kBlock)).ok());
  reopen(4 * kBlock);
  damage(kBlock);
  EXPECT_EQ(read_code(0, 4 * kBlock), 0);
  ASSERT_TRUE(file_->write(kBlock + 1, random(1)).ok());
  damage(kBlock);
  EXPECT_EQ(read_code(0, 4 * kBlock), EIO);
}

TEST_F(CheckedFileTest, HolesAreWhatNobodyWrote) {
  ASSERT_TRUE(file_->write(3 * kBlock, std::vector<std::byte>(kBlock)).ok());  // zeros, but written
  ASSERT_TRUE(file_->truncate(2000 * kBlock).ok());
  ASSERT_TRUE(file_->write(1500 * kBlock + 7, random(1)).ok());
  EXPECT_EQ(*file_->seek(0, true), 3 * kBlock);
  EXPECT_EQ(*file_->seek(3 * kBlock + 5, true), 3 * kBlock + 5);
  EXPECT_EQ(*file_->seek(3 * kBlock, false), 4 * kBlock);
  EXPECT_EQ(*file_->seek(4 * kBlock, true), 1500 * kBlock);
  EXPECT_EQ(*file_->seek(1501 * kBlock, false), 1501 * kBlock);
  EXPECT_EQ(file_->seek(1501 * kBlock, true).error().code, ENXIO);
  EXPECT_EQ(file_->seek(2000 * kBlock, false).error().code, ENXIO);
  ASSERT_TRUE(file_->punch(3 * kBlock - 5, kBlock + 10).ok());
  EXPECT_EQ(*file_->seek(0, true), 1500 * kBlock);
}

}  // namespace
}  // namespace varve::fs
