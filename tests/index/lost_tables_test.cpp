// A manifest that lost a part names fewer tables than there are. Whoever opens the store is told, and nothing more is
// lost.
#include <fstream>
#include <set>

#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

namespace files = std::filesystem;

class LostTables : public ::testing::Test {
 protected:
  std::string database() const { return directory_.store() + "/db"; }
  std::string mark() const { return database() + "-tables"; }
  /// Opens the store, commits notes, and closes it in order, which writes tables.
  void write_notes(uint64_t from, uint64_t count) {
    auto opened = Index::open(directory_.store(), {});
    ASSERT_OK(opened);
    for (uint64_t i = from; i < from + count; ++i) {
      Batch batch;
      batch.put_note(numbered("n", i), std::string(300, 'x'));
      ASSERT_OK((*opened)->commit(std::move(batch), Durability::buffered));
    }
  }
  std::string manifest() const {
    std::string name;
    std::ifstream(database() + "/CURRENT") >> name;
    return database() + "/" + name;
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : files::directory_iterator(database())) {
      if (!entry.path().filename().string().starts_with("LOG")) {
        found.insert(entry.path().filename());
      }
    }
    return found;
  }
  uint64_t notes_there(const IndexOptions& options = {}) {
    const auto opened = Index::open(directory_.store(), options);
    EXPECT_OK(opened);
    uint64_t count = 0;
    if (opened.ok()) {
      EXPECT_OK((*opened)->notes("n", [&](std::string_view, std::string_view) { return ++count > 0; }));
    }
    return count;
  }

  TemporaryDirectory directory_;
};

TEST_F(LostTables, ACutManifestIsToldAndNothingChanges) {
  write_notes(0, 50);
  const auto before = names();
  const auto size = files::file_size(manifest());
  files::copy_file(manifest(), directory_.store() + "/whole");
  for (const uint64_t cut : {uint64_t{60}, uint64_t{150}}) {
    files::resize_file(manifest(), size - cut);
    for (const bool read_only : {false, true}) {
      IndexOptions options;
      options.read_only = read_only;
      const auto opened = Index::open(directory_.store(), options);
      ASSERT_FALSE(opened.ok()) << cut;
      EXPECT_EQ(opened.error().code, EUCLEAN);
      EXPECT_NE(opened.error().text.find("manifest"), std::string::npos) << opened.error().text;
      EXPECT_NE(opened.error().text.find("--accept-loss"), std::string::npos) << opened.error().text;
    }
    EXPECT_EQ(names(), before);
    files::copy_file(directory_.store() + "/whole", manifest(), files::copy_options::overwrite_existing);
  }
  EXPECT_EQ(notes_there(), 50U);
}

TEST_F(LostTables, LossIsAcceptedOnDemandAndTheTablesAreKept) {
  write_notes(0, 50);
  const auto before = names();
  files::resize_file(manifest(), files::file_size(manifest()) - 60);
  IndexOptions options;
  options.accept_loss = true;
  EXPECT_EQ(notes_there(options), 0U);  // the last table that is written holds the notes
  std::set<std::string> kept;
  for (const auto& entry : files::directory_iterator(directory_.store())) {
    if (entry.path().filename().string().starts_with("db-lost-")) {
      for (const auto& one : files::directory_iterator(entry.path())) {
        kept.insert(one.path().filename());
        EXPECT_TRUE(before.contains(one.path().filename())) << one.path();
      }
    }
  }
  EXPECT_TRUE(std::ranges::any_of(kept, [](const std::string& name) { return name.ends_with(".sst"); }));
  EXPECT_TRUE(std::ranges::any_of(kept, [](const std::string& name) { return name.starts_with("MANIFEST-"); }));
  write_notes(100, 5);
  EXPECT_EQ(notes_there(), 5U);
}

TEST_F(LostTables, TablesThatCompactionsReplaceAreNoLoss) {
  for (uint64_t turn = 0; turn < 20; ++turn) {
    write_notes(turn * 40, 50);
  }
  EXPECT_EQ(notes_there(), 810U);
}

TEST_F(LostTables, AMarkThatIsDamagedOrOldSaysNothing) {
  write_notes(0, 10);
  files::copy_file(mark(), directory_.store() + "/old");
  for (uint64_t turn = 1; turn < 10; ++turn) {
    write_notes(turn * 10, 10);
  }
  files::copy_file(directory_.store() + "/old", mark(), files::copy_options::overwrite_existing);
  EXPECT_EQ(notes_there(), 100U);  // as if an older program, which writes none, had used the store meanwhile
  for (const uint64_t offset : {0, 7, 8, 16, 30}) {
    {
      std::fstream file(mark(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(offset));
      file.put('\x7f');
    }
    EXPECT_EQ(notes_there(), 100U) << offset;
  }
  files::resize_file(mark(), 20);
  EXPECT_EQ(notes_there(), 100U);
}

}  // namespace
}  // namespace varve::index::testing
