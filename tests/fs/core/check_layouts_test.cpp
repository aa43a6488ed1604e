// What the check of layouts and notes finds in a store that the file system itself made.
#include "fs/check_layouts.h"

#include <fmt/format.h>

#include <fstream>

#include "fs/serial.h"
#include "fs/staging.h"
#include "index/keys.h"
#include "tests/fs/core/core_support.h"
#include "tests/index/check_support.h"

namespace varve::fs {
namespace {

using index::Family;
using index::Finding;
using State = Finding::State;

/// A .npy file of f4 values on a slope.
Content npy(uint64_t rows, uint64_t columns) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  header.resize(117, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00\x76\x00", 10);
  text += header;
  std::string bytes = text;
  for (uint64_t i = 0; i < rows * columns; ++i) {
    const float value = static_cast<float>(i % columns) * 0.25F + static_cast<float>(i / columns);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  const auto all = std::as_bytes(std::span(bytes));
  return {all.begin(), all.end()};
}

/// Of staged data in a file: its first 100,000 bytes over an object.
std::string note_text(uint64_t id, index::ObjectId base, uint64_t base_limit) {
  SerialWriter out;
  for (const uint64_t number : {id, base, base_limit, std::max<uint64_t>(base_limit, 100'000), uint64_t{2}, uint64_t{0},
                                uint64_t{1}, uint64_t{0}, uint64_t{100'000}}) {
    out.number(number);
  }
  return out.take_text();
}

class CheckLayouts : public CoreTest, protected index::testing::CheckedStore {
 protected:
  CheckLayouts() : CheckedStore(directory_ + "/store") {}

  /// Sealed: an array of several bricks, one of them rewritten in part, and plain bytes.
  void make_files() {
    set_bound(index::kRootInode, "rel:1e-3");
    array_ = make_file("array.npy");
    uint64_t handle = open(array_, O_RDWR);
    write(handle, 0, npy(600, 700));
    close(handle);
    plain_ = make_file("plain");
    handle = open(plain_, O_RDWR);
    write(handle, 0, Content(300'000, std::byte{7}));
    close(handle);
    restart();
    handle = open(array_, O_RDWR);
    write(handle, 400'000, Content(64, std::byte{1}));
    close(handle);
    stop();
    {
      const auto index = index::Index::open(directory_ + "/store", {});
      ASSERT_TRUE(index.ok() && (*index)->collect().ok());  // what the first seal wrote goes now, not in the background
    }
    auto opened = tree(true);
    const auto value = opened->get(Family::inode, index::number_key(array_));
    ASSERT_TRUE(value.ok() && value->has_value());
    object_ = index::parse_inode(array_, **value)->object;
    layout_ = **opened->get(Family::layout, index::number_key(object_));
    const auto layout = Layout::parse(layout_);
    ASSERT_TRUE(layout.ok());
    ASSERT_EQ(layout->arrays.size(), 1U);
    ASSERT_GT(layout->patch_size, 0U);
  }

  void erase_record(const index::RecordKey& key) {
    const std::string row = index::record_key(object_, key);
    kept_[row] = erase(Family::record, row);
  }
  void restore_records() {
    for (const auto& [row, value] : kept_) {
      set(Family::record, row, value);
    }
    kept_.clear();
  }

  /// Harmless findings too, if `all`.
  std::vector<Finding> check(bool repair, bool all = false) {
    return findings(
        repair, [](index::StoreCheck& store) { EXPECT_OK(check_store(store)); }, all);
  }
  void expect_repaired(const std::string& said) {
    EXPECT_NE(text(check(false)).find(said), std::string::npos) << text(check(false));
    const auto repaired = check(true);
    EXPECT_EQ(repaired.size(), 1U) << text(repaired);
    EXPECT_EQ(repaired.at(0).state, State::repaired);
    EXPECT_EQ(text(check(false)), "");
  }
  void expect_left(const std::string& said) {
    for (const bool repair : {false, true}) {
      const auto found = check(repair);
      EXPECT_EQ(found.size(), 1U) << text(found);
      EXPECT_EQ(found.at(0).state, State::left);
      EXPECT_NE(text(found).find(said), std::string::npos) << text(found);
    }
  }

  index::ObjectId object_of(InodeNumber inode) {
    return index::parse_inode(inode, **tree(true)->get(Family::inode, index::number_key(inode)))->object;
  }

  InodeNumber array_ = 0, plain_ = 0;
  index::ObjectId object_ = 0;
  std::string layout_;
  std::map<std::string, std::string> kept_;
};

TEST_F(CheckLayouts, ASoundStoreIsClean) {
  make_files();
  EXPECT_EQ(text(check(false, true)), "");
}

TEST_F(CheckLayouts, EveryRecordIsNeeded) {
  make_files();
  std::vector<index::RecordKey> keys;
  ASSERT_TRUE(tree(true)
                  ->scan(Family::record, index::number_key(object_), {},
                         [&](std::string_view key, std::string_view) -> Result<bool> {
                           keys.push_back(index::parse_record_key(key)->key);
                           return true;
                         })
                  .ok());
  ASSERT_GT(keys.size(), 20U);
  std::map<std::pair<uint32_t, uint8_t>, int> kinds;
  for (const index::RecordKey& key : keys) {
    if (kinds[{key.region, key.level}]++ > 0) {
      continue;  // one of each kind
    }
    erase_record(key);
    const auto found = check(false);
    const auto said = text(found);
    EXPECT_NE(said.find(fmt::format("record /array.npy: 1 of its {} records are missing", keys.size())),
              std::string::npos)
        << said;
    restore_records();
  }
  EXPECT_EQ(kinds.size(), 6U) << "levels 0 to 2, coarse levels, header bytes, patches";
  EXPECT_EQ(text(check(false)), "");
}

TEST_F(CheckLayouts, ALayoutThatCannotBeParsed) {
  make_files();
  set(Family::layout, index::number_key(object_), layout_.substr(0, layout_.size() / 2));
  expect_left("layout /array.npy");
}

TEST_F(CheckLayouts, ASizeThatIsNotTheContents) {
  make_files();
  auto inode = *index::parse_inode(plain_, **tree(true)->get(Family::inode, index::number_key(plain_)));
  inode.size = 5;
  set(Family::inode, index::number_key(plain_), index::inode_value(inode));
  expect_repaired("size /plain: its inode says 5 bytes, its content has 300000");
}

TEST_F(CheckLayouts, NotesOfNobody) {
  make_files();
  set(Family::note, "staging/00000000000000ff", "x");
  expect_repaired("inode 255 is no file");
  set(Family::note, "orphan/00000000000000ff", "");
  expect_repaired("inode 255 does not exist");
  set(Family::note, "orphan/?", "");
  expect_repaired("it names no inode");
  set(Family::note, "blocks/00000000000000ff/0000000000000000", "");
  set(Family::note, "unsynced-blocks/00000000000000ff/0000000000000003", "");
  expect_repaired("note staging/00000000000000ff: 1 note tells where its blocks lie, and no file has it");
  set(Family::note, fmt::format("orphan/{:016x}", plain_), "");
  expect_repaired("/plain: a note says that it was removed, and it has a name");
}

TEST_F(CheckLayouts, NotesOfStagedData) {
  make_files();
  const std::string key = fmt::format("staging/{:016x}", plain_);
  set(Family::note, key, "?");
  expect_left("staging /plain: the note about a file's staged data is malformed");
  set(Family::note, key, note_text(123, object_, 0));
  expect_left(fmt::format("belongs over object {}", object_));
}

TEST_F(CheckLayouts, NumbersOfStagingFilesAreNotGivenTwice) {
  make_files();
  std::ofstream(directory_ + "/store/staging/00000000000f0000") << "of nobody";
  EXPECT_EQ(text(check(false)), "") << "the next start removes it before it gives numbers";
  set(Family::note, fmt::format("staging/{:016x}", plain_), note_text(0xf0000, object_of(plain_), 300'000));
  expect_repaired(fmt::format("and {} is in use", 0xf0000));
}

/// Left for a person to look at, data that cannot be used stays.
TEST_F(CheckLayouts, AStartKeepsStagedDataThatItCannotUse) {
  make_files();
  std::ofstream(directory_ + "/store/staging/" + staging_file_name(12345)) << "of another version";
  set(Family::note, fmt::format("staging/{:016x}", plain_), note_text(12345, object_, 0));
  std::ofstream(directory_ + "/store/staging/00000000000000ff") << "of nobody";
  start();
  stop();
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/store/staging/" + staging_file_name(12345)));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/store/staging/00000000000000ff"));
}

TEST_F(CheckLayouts, ALostStagingFile) {
  make_files();
  start();
  const uint64_t handle = open(plain_, O_RDWR);
  write(handle, 0, Content(200'000, std::byte{9}));
  ASSERT_TRUE(files_->fsync(kCaller, handle, false).ok());
  kill_daemon(handle);
  EXPECT_EQ(text(check(false)), "");
  EXPECT_NE(text(check(false, true)).find("300000 bytes are staged"), std::string::npos) << text(check(false, true));
  std::filesystem::remove_all(directory_ + "/store/staging");
  expect_repaired("/plain: its staged data is lost");
  start();
  EXPECT_EQ(sealed_content(plain_), Content(300'000, std::byte{7}));
}

}  // namespace
}  // namespace varve::fs
