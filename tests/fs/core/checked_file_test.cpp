// A staging file against a model in memory; and what a drive does to it behind its back.
#include "fs/checked_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace varve::fs {
namespace {

constexpr uint64_t kBlock = CheckedFile::kBlock;

class CheckedFileTest : public testing::Test {
 protected:
  CheckedFileTest() : path_(testing::TempDir() + "checked_file_" + std::to_string(::getpid())) {
    std::filesystem::remove(path_);
    make();
  }
  ~CheckedFileTest() override { std::filesystem::remove(path_); }

  void make() {
    auto opened = index::posix_device()->open(path_, index::Device::Mode::create);
    ASSERT_TRUE(opened.ok());
    file_ = std::make_unique<CheckedFile>(std::move(*opened), path_);
  }
  /// What a caller does with the rows, which are stored in `rows_`.
  void store_rows(bool synced) {
    file_->promise();
    for (const uint64_t group : file_->changed(synced)) {
      (synced ? rows_ : unsynced_rows_)[group] = file_->row(group);
    }
    file_->promised(synced);
    stored_size_ = file_->size();
    if (synced) {
      unsynced_rows_.clear();
    }
  }
  /// As a start does after a kill.
  void reopen() {
    make();
    for (const auto* rows : {&rows_, &unsynced_rows_}) {
      for (const auto& [group, row] : *rows) {
        ASSERT_TRUE(file_->load(group, row).ok());
      }
    }
    file_->set_size(stored_size_);
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
  std::map<uint64_t, std::string> rows_, unsynced_rows_;
  uint64_t stored_size_ = 0;
  std::mt19937 random_{7};  // NOLINT(bugprone-random-generator-seed): the same every time
};

TEST_F(CheckedFileTest, HoldsWhatAModelHolds) {
  std::vector<std::byte> model;
  std::vector<std::byte> stored;
  for (int step = 0; step < 6000; ++step) {
    const uint64_t offset = random_() % (random_() % 3 == 0 ? 300 * kBlock : 3 * kBlock);
    const uint64_t length = 1 + random_() % (random_() % 2 == 0 ? 5 * kBlock : 300);
    const uint64_t aligned = random_() % 4 == 0 ? kBlock : 1;
    const uint64_t at = offset / aligned * aligned;
    const uint64_t n = (length + aligned - 1) / aligned * aligned;
    switch (random_() % 9) {
      case 6: {
        if (random_() % 4 == 0) {
          ASSERT_TRUE(file_->sync().ok());
          store_rows(true);
          stored = model;
        }
        break;
      }
      case 7: {
        store_rows(false);
        stored = model;
        break;
      }
      case 8: {
        if (random_() % 4 == 0) {
          reopen();
          model = stored;
          ASSERT_NO_FATAL_FAILURE(expect_content(model)) << step;
        }
        break;
      }
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

TEST_F(CheckedFileTest, AChangedByteIsFoundByALaterRun) {
  ASSERT_TRUE(file_->write(0, random(10 * kBlock)).ok());
  ASSERT_TRUE(file_->sync().ok());
  store_rows(true);
  ASSERT_TRUE(file_->write(20 * kBlock, random(10 * kBlock)).ok());
  store_rows(false);
  for (const uint64_t block : {uint64_t{0}, uint64_t{9}, uint64_t{10}, uint64_t{19}}) {
    damage(block * kBlock + block);
    reopen();
    const uint64_t logical = block < 10 ? block : block + 10;
    for (uint64_t i = 0; i < 30; ++i) {
      EXPECT_EQ(read_code(i * kBlock, kBlock), i == logical ? EIO : 0) << block;
    }
    damage(block * kBlock + block);  // back again
  }
  rows_[0][5] ^= 1;
  make();
  const bool loaded = file_->load(0, rows_[0]).ok();
  EXPECT_TRUE(!loaded || read_code(0, 10 * kBlock) == EIO);
}

TEST_F(CheckedFileTest, MalformedRowsAreRefused) {
  ASSERT_TRUE(file_->write(kBlock, random(3 * kBlock)).ok());
  const std::string row = file_->row(0);
  for (size_t cut = 1; cut < row.size(); ++cut) {
    make();
    EXPECT_FALSE(file_->load(0, row.substr(0, cut)).ok()) << cut;
  }
  EXPECT_TRUE(file_->load(0, row).ok());
}

/// The same blocks again and again take the room of two, and of one more until the next sync.
TEST_F(CheckedFileTest, RoomIsUsedAgain) {
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(file_->write(0, random(8 * kBlock)).ok());
    ASSERT_TRUE(file_->sync().ok());
    store_rows(true);
  }
  EXPECT_LE(std::filesystem::file_size(path_), 24 * kBlock);
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

TEST_F(CheckedFileTest, AFileOfBeforeRowsIsTakenAsItIs) {
  const auto content = random(200 * kBlock + 77);
  std::ofstream(path_, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  make();
  ASSERT_TRUE(file_->adopt(content.size()).ok());
  expect_content(content);
  damage(kBlock);
  EXPECT_EQ(read_code(0, 4 * kBlock), EIO);
}

/// A disk whose first sync fails and takes what it was to write with it.
class ForgetfulFile final : public index::DeviceFile {
 public:
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    const size_t got = offset < content_.size() ? std::min<size_t>(out.size(), content_.size() - offset) : 0;
    std::copy_n(content_.begin() + static_cast<ptrdiff_t>(offset), got, out.begin());
    return got;
  }
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    content_.resize(std::max<size_t>(content_.size(), offset + data.size()));
    std::copy(data.begin(), data.end(), content_.begin() + static_cast<ptrdiff_t>(offset));
    dirty_.add(offset, offset + data.size());
    return {};
  }
  Status sync() override {
    if (std::exchange(fails_, false)) {
      dirty_.clear();
      return Error{EIO, "injected"};
    }
    for (const auto& [begin, end] : dirty_.intervals()) {
      safe_.add(begin, end);
    }
    return {};
  }
  Status truncate(uint64_t) override { return {}; }
  Status punch(uint64_t, uint64_t) override { return {}; }
  Status reserve(uint64_t, uint64_t) override { return {}; }
  Result<uint64_t> size() override { return content_.size(); }
  Result<uint64_t> allocated() override { return content_.size(); }
  Result<uint64_t> seek(uint64_t offset, bool) override { return offset; }

  IntervalSet safe_;

 private:
  std::vector<std::byte> content_;
  IntervalSet dirty_;
  bool fails_ = true;
};

TEST_F(CheckedFileTest, AfterASyncThatFailedTheNextOneWritesAgain) {
  auto device = std::make_unique<ForgetfulFile>();
  const ForgetfulFile& disk = *device;
  CheckedFile file(std::move(device), "forgetful");
  ASSERT_TRUE(file.write(0, random(5 * kBlock)).ok());
  EXPECT_FALSE(file.sync().ok());
  ASSERT_TRUE(file.sync().ok());
  EXPECT_TRUE(disk.safe_.covers(0, 5 * kBlock));
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
