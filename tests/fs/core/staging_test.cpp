// Staging against an array of bytes: in memory, in a file, and restored from a note.
#include "fs/staging.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "fs/note_keys.h"
#include "fs/serial.h"
#include "index/index.h"

namespace varve::fs {
namespace {

class StagingTest : public testing::TestWithParam<uint64_t> {
 protected:
  StagingTest() {
    std::string pattern = testing::TempDir() + "/staging-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~StagingTest() override { std::filesystem::remove_all(directory_); }

  /// The notes of a staging, as an index would have them, and what a start makes of them.
  class Notes {
   public:
    explicit Notes(const std::string& directory) {
      auto opened = index::Index::open(directory + "/store", index::IndexOptions());
      EXPECT_TRUE(opened.ok());
      index_ = *std::move(opened);
    }
    void put(Staging& staging, uint64_t run) {
      index::Batch batch;
      staging.put_notes(batch, 7, run);
      EXPECT_TRUE(index_->commit(std::move(batch), index::Durability::buffered).ok());
      staging.notes_put(run);
    }
    void erase(const Staging& staging) {
      index::Batch batch;
      staging.erase_notes(batch, 7);
      EXPECT_TRUE(index_->commit(std::move(batch), index::Durability::buffered).ok());
      size_t left = 0;
      EXPECT_TRUE(index_
                      ->notes("",
                              [&](std::string_view, std::string_view) {
                                ++left;
                                return true;
                              })
                      .ok());
      EXPECT_EQ(left, 0U);
    }
    Result<std::unique_ptr<Staging>> restore(index::Device& device, const std::string& directory, bool synced) {
      VARVE_ASSIGN(const auto text, index_->note(synced ? staging_note(7) : unsynced_note(7)));
      VARVE_ASSIGN(const StagingNote note, StagingNote::parse(text.value_or("")));
      std::vector<BlockRow> rows;
      for (const bool kind : {true, false}) {
        const std::string prefix = block_notes(kind, note.id);
        VARVE_TRY(index_->notes(prefix, [&](std::string_view key, std::string_view row) {
          if (kind || !synced) {
            rows.push_back({*number_in(key, prefix), kind, std::string(row)});
          }
          return true;
        }));
      }
      return Staging::restore(device, directory, note, rows);
    }

   private:
    std::unique_ptr<index::Index> index_;
  };

  std::shared_ptr<index::Device> device_ = index::posix_device();
  std::string directory_;
};

/// Over object 9 of 200,000 bytes, of which the second half is staged: in file 5, or in the note.
std::string version_one_note(bool in_file) {
  SerialWriter out;
  for (const uint64_t number : {5, 9, 200'000, 200'000, in_file ? 1 : 0}) {
    out.number(number);
  }
  if (!in_file) {
    out.text("data");
  }
  for (const uint64_t number : {1, 100'000, 100'000}) {
    out.number(number);
  }
  return out.take_text();
}

TEST_P(StagingTest, BehavesAsAFileThroughWritesTruncationsHolesAndRestores) {
  const uint64_t limit = GetParam();
  std::filesystem::create_directory(directory_ + "/staging");
  const std::string folder = directory_ + "/staging";
  Notes notes(directory_);
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    auto staging = std::make_unique<Staging>(*device_, folder, 100 + round, 0, 0);
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
          const bool synced = !staging->in_file() || random() % 2 == 0;
          if (synced) {
            ASSERT_TRUE(staging->sync().ok());
          }
          notes.put(*staging, synced ? 0 : 5);
          // What comes later and is not noted is not found.
          if (staging->in_file()) {
            ASSERT_TRUE(staging->write(offset, std::vector<std::byte>(length, std::byte{1})).ok());
          }
          staging.reset();
          auto back = notes.restore(*device_, folder, synced);
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
    notes.erase(*staging);
    staging->discard();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "discard() leaves no file";
}

INSTANTIATE_TEST_SUITE_P(Sizes, StagingTest, testing::Values(1000, 60000, 300000));

TEST_F(StagingTest, MalformedNotesAreRefused) {
  Staging staging(*device_, directory_, 1, 5, 100);
  ASSERT_TRUE(staging.write(10, std::vector<std::byte>(50)).ok());
  Notes notes(directory_);
  notes.put(staging, 0);
  const auto back = notes.restore(*device_, directory_, true);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)->base(), 5U);
  EXPECT_EQ((*back)->base_limit(), 100U);
  EXPECT_EQ((*back)->dirty(), staging.dirty());
  const std::string note = version_one_note(false);
  EXPECT_TRUE(StagingNote::parse(note).ok());
  for (size_t cut = 0; cut < note.size(); ++cut) {
    EXPECT_FALSE(StagingNote::parse(note.substr(0, cut)).ok());
  }
}

using Content = std::vector<std::byte>;

/// Bytes [0, length) of what is staged.
Content staged_bytes(Staging& staging, uint64_t length) {
  Content seen(length);
  EXPECT_TRUE(staging.read(0, seen).ok());
  return seen;
}

/// Stores of version 1 have staging files that hold the bytes as they are, without rows.
TEST_F(StagingTest, StagingOfVersionOneIsFound) {
  const std::string path = directory_ + "/" + staging_file_name(5);
  std::ofstream(path) << std::string(100'000, '\1') << std::string(100'000, '\2');
  auto note = StagingNote::parse(version_one_note(true));
  ASSERT_TRUE(note.ok());
  auto back = Staging::restore(*device_, directory_, *note, {});
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ((*back)->size(), 200'000U);
  EXPECT_EQ(staged_bytes(**back, 200'000)[150'000], std::byte{2});
  EXPECT_EQ((*back)->dirty().intervals().begin()->first, 100'000U);
  std::filesystem::resize_file(path, 120'000);  // a truncation that came later
  back = Staging::restore(*device_, directory_, *note, {});
  ASSERT_TRUE(back.ok());
  EXPECT_EQ((*back)->size(), 120'000U);
  EXPECT_EQ((*back)->base_limit(), 120'000U);
  EXPECT_EQ((*back)->dirty().intervals().rbegin()->second, 120'000U);
  std::filesystem::remove(path);
  EXPECT_FALSE(Staging::restore(*device_, directory_, *note, {}).ok()) << "the file is lost";
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
