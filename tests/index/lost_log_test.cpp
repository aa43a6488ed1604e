// A log that the drive damaged ends early when it is replayed. Whoever opens the store is told, and nothing more is
// lost.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

constexpr uint64_t kCommits = 200;

class LostLog : public ::testing::Test {
 protected:
  /// Commits notes, some of them synced, in a process that dies without an orderly end.
  void write_and_die(bool last_is_synced) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto opened = Index::open(directory_.store(), {});
      for (uint64_t i = 0; opened.ok() && i < kCommits; ++i) {
        Batch batch;
        batch.put_note(numbered("n", i), std::string(300, 'x'));
        const bool synced = i % 10 == 9 && (last_is_synced || i + 20 < kCommits);
        if (!(*opened)->commit(std::move(batch), synced ? Durability::synced : Durability::buffered).ok()) {
          ::_exit(2);
        }
      }
      ::_exit(opened.ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  std::string log() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.store() + "/db")) {
      if (entry.path().extension() == ".log" && entry.file_size() > 0) {
        found = entry.path();
      }
    }
    return found;
  }
  void change_byte(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int was = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(was ^ 4));
  }
  static uint64_t notes_in(Index& index) {
    uint64_t count = 0;
    EXPECT_OK(index.notes("n", [&](std::string_view, std::string_view) { return ++count > 0; }));
    return count;
  }
  std::string kept() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_.store())) {
      if (entry.path().filename().string().starts_with("db-lost-")) {
        return entry.path();
      }
    }
    return "";
  }

  TemporaryDirectory directory_;
};

TEST_F(LostLog, AWholeLogOpens) {
  write_and_die(true);
  const auto opened = Index::open(directory_.store(), {});
  ASSERT_OK(opened);
  EXPECT_EQ(notes_in(**opened), kCommits);
}

TEST_F(LostLog, DamageIsToldAndNothingChanges) {
  write_and_die(true);
  const std::string path = log();
  const auto size = std::filesystem::file_size(path);
  for (const uint64_t offset : {uint64_t{2000}, size / 2, size - 40}) {
    change_byte(path, offset);
    for (const bool read_only : {false, true}) {
      IndexOptions options;
      options.read_only = read_only;
      const auto opened = Index::open(directory_.store(), options);
      ASSERT_FALSE(opened.ok()) << offset;
      EXPECT_EQ(opened.error().code, EUCLEAN);
      EXPECT_NE(opened.error().text.find("--accept-loss"), std::string::npos) << opened.error().text;
    }
    change_byte(path, offset);  // back again
  }
  const auto opened = Index::open(directory_.store(), {});
  ASSERT_OK(opened);
  EXPECT_EQ(notes_in(**opened), kCommits);
}

TEST_F(LostLog, LossIsAcceptedOnDemandAndTheLogIsKept) {
  write_and_die(true);
  const std::string path = log();
  const auto size = std::filesystem::file_size(path);
  change_byte(path, size / 2);
  IndexOptions options;
  options.accept_loss = true;
  {
    const auto opened = Index::open(directory_.store(), options);
    ASSERT_OK(opened);
    EXPECT_GT(notes_in(**opened), kCommits / 4);
    EXPECT_LT(notes_in(**opened), kCommits * 3 / 4);
    Batch batch;
    batch.put_note("after", "it");
    ASSERT_OK((*opened)->commit(std::move(batch), Durability::synced));
  }
  ASSERT_FALSE(kept().empty());
  EXPECT_EQ(std::filesystem::file_size(kept() + "/" + std::filesystem::path(path).filename().string()), size);
  ASSERT_OK(Index::open(directory_.store(), {}));  // from then on as always
}

TEST_F(LostLog, WhatWasOnlyWrittenIsMissedWhileTheMachineRuns) {
  write_and_die(false);
  std::filesystem::resize_file(log(), std::filesystem::file_size(log()) - 500);
  const auto opened = Index::open(directory_.store(), {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, EUCLEAN);
}

TEST_F(LostLog, WhatWasOnlyWrittenMayBeTornByAPowerCut) {
  write_and_die(false);
  std::filesystem::resize_file(log(), std::filesystem::file_size(log()) - 500);
  change_byte(directory_.store() + "/db-written", 8);  // as of another run of the machine
  const auto opened = Index::open(directory_.store(), {});
  ASSERT_OK(opened);
  EXPECT_GE(notes_in(**opened), kCommits - 30);
  EXPECT_LT(notes_in(**opened), kCommits);
}

TEST_F(LostLog, DamagedMarksPromiseNothing) {
  write_and_die(true);
  change_byte(log(), std::filesystem::file_size(log()) / 2);
  change_byte(directory_.store() + "/db-synced", 3);
  change_byte(directory_.store() + "/db-written", 3);
  ASSERT_OK(Index::open(directory_.store(), {}));
}

}  // namespace
}  // namespace varve::index::testing
