// Space comes back: dead packs go, mostly dead ones are emptied, whatever lives stays readable meanwhile.
#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "index/keys.h"
#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

class Collect : public StoreTest {
 protected:
  void SetUp() override {
    options_.pack_limit = 200000;
    StoreTest::SetUp();
  }

  /// What the tree says, for comparison with the counts kept.
  uint64_t live_by_walking(const std::vector<ObjectId>& objects) {
    uint64_t live = 0;
    for (const ObjectId object : objects) {
      EXPECT_OK(index_->records(object, [&](const RecordInfo& info) {
        live += info.length < options_.inline_limit ? 0 : info.length + kPackHeaderSize;
        return true;
      }));
    }
    return live;
  }
};

TEST_F(Collect, ReleasedObjectsGiveTheirSpaceBack) {
  std::vector<ObjectId> objects;
  for (uint64_t i = 0; i < 20; ++i) {
    objects.push_back(publish({{{1, 0, 0}, bytes_of(i, 50000)}, {{1, 3, 0}, bytes_of(i, 100)}}));
  }
  EXPECT_EQ(index_->statistics()->live_pack_bytes, live_by_walking(objects));
  for (const ObjectId object : objects) {
    release(object);
  }
  ASSERT_OK(index_->collect());
  EXPECT_EQ(index_->statistics()->live_pack_bytes, 0U);
  EXPECT_EQ(index_->statistics()->packs, 0U);
  EXPECT_TRUE(pack_files().empty());
  const ObjectId later = publish({{{1, 0, 0}, bytes_of(77, 50000)}});
  EXPECT_EQ(*index_->record(later, {1, 0, 0}), bytes_of(77, 50000));
}

TEST_F(Collect, MostlyDeadPacksAreEmptied) {
  std::map<ObjectId, uint64_t> kept;
  std::vector<ObjectId> kept_ids;
  for (uint64_t i = 0; i < 64; ++i) {
    const ObjectId object = publish({{{1, 0, i}, bytes_of(i, 20000)}});
    if (i % 8 == 3) {
      kept[object] = i;
      kept_ids.push_back(object);
    } else {
      release(object);
    }
  }
  // A copy shares one of the records that will move.
  auto writer = index_->begin_object();
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->share(kept_ids[0], {1, 0, 3}, {5, 0, 0}));
  ASSERT_OK((*writer)->finish());
  Batch batch;
  batch.publish((*writer)->object(), "copy");
  ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
  ASSERT_OK(index_->collect());
  const auto after = index_->statistics();
  EXPECT_LE(after->pack_bytes, 2 * after->live_pack_bytes + kPackHeaderSize) << "of 64 times 20056 written";
  const ObjectId copy = (*writer)->object();
  kept_ids.push_back(copy);
  writer->reset();
  EXPECT_EQ(after->live_pack_bytes, live_by_walking(kept_ids));
  for (int round = 0; round < 2; ++round) {
    for (const auto& [object, seed] : kept) {
      const auto back = index_->record(object, {1, 0, seed});
      ASSERT_OK(back);
      EXPECT_EQ(*back, bytes_of(seed, 20000));
    }
    EXPECT_EQ(*index_->record(copy, {5, 0, 0}), bytes_of(3, 20000));
    reopen();
    EXPECT_EQ(index_->statistics()->live_pack_bytes, after->live_pack_bytes);
  }
}

TEST_F(Collect, ReadersNeverNoticeIt) {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> reads{0};
  std::map<ObjectId, uint64_t> kept;
  for (uint64_t i = 0; i < 40; ++i) {
    const ObjectId object = publish({{{1, 0, 0}, bytes_of(i, 30000)}});
    if (i % 4 == 0) {
      kept[object] = i;
    }
  }
  std::vector<std::thread> readers;
  readers.reserve(2);
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        for (const auto& [object, seed] : kept) {
          const auto back = index_->record(object, {1, 0, 0});
          EXPECT_OK(back);
          if (back.ok()) {
            EXPECT_EQ(*back, bytes_of(seed, 30000));
          }
          ++reads;
        }
      }
    });
  }
  for (ObjectId object = 1; object <= 40; ++object) {
    if (!kept.contains(object)) {
      release(object);
    }
  }
  for (uint64_t round = 0; round < 15; ++round) {
    const ObjectId victim = publish({{{1, 0, 0}, bytes_of(round, 150000)}});
    release(victim);
    EXPECT_OK(index_->collect());
  }
  while (reads < 100) {
    std::this_thread::yield();
  }
  stop = true;
  for (auto& reader : readers) {
    reader.join();
  }
}

TEST_F(Collect, LittleIsDeadWhileObjectsAreReplacedAtRandom) {
  constexpr uint64_t kObjects = 500;
  constexpr uint64_t kReplaced = 3000;
  constexpr size_t kBytes = 20000;
  std::vector<ObjectId> objects;
  std::vector<uint64_t> seeds(kObjects);
  for (uint64_t i = 0; i < kObjects; ++i) {
    seeds[i] = i;
    objects.push_back(publish({{{1, 0, 0}, bytes_of(i, kBytes)}}));
  }
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < kReplaced; ++i) {
    const uint64_t at = random() % kObjects;
    release(objects[at]);
    seeds[at] = kObjects + i;
    objects[at] = publish({{{1, 0, 0}, bytes_of(seeds[at], kBytes)}});
  }
  const auto amplification = [&] {
    const auto now = index_->statistics();
    return static_cast<double>(now->pack_bytes) / static_cast<double>(now->live_pack_bytes);
  };
  const double live = static_cast<double>(kObjects * (kBytes + kPackHeaderSize));
  for (int i = 0;
       i < 1000 && (amplification() >= 1.3 || static_cast<double>(index_->statistics()->live_pack_bytes) > live); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  RecordProperty("amplification", std::to_string(amplification()));
  EXPECT_LT(amplification(), 1.3);
  EXPECT_EQ(static_cast<double>(index_->statistics()->live_pack_bytes), live);
  // Numbers of packs are never used again, and all but the last are full.
  const double appended =
      static_cast<double>(std::stoul(std::filesystem::path(pack_files().back()).filename())) * 200000.0;
  const double written = static_cast<double>((kObjects + kReplaced) * (kBytes + kPackHeaderSize));
  RecordProperty("appended_over_written", std::to_string(appended / written));
  EXPECT_LT(appended / written, 4.0);
  for (uint64_t i = 0; i < kObjects; ++i) {
    EXPECT_EQ(*index_->record(objects[i], {1, 0, 0}), bytes_of(seeds[i], kBytes));
  }
}

TEST_F(Collect, RunsByItselfOnceEnoughWasReleased) {
  for (uint64_t i = 0; i < 12; ++i) {
    release(publish({{{1, 0, 0}, bytes_of(i, 100000)}}));
  }
  for (int i = 0; i < 500 && index_->statistics()->pack_bytes > 400000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(index_->statistics()->pack_bytes, 400000U);
}

TEST_F(Collect, WhatIsBeingWrittenStays) {
  auto writer = index_->begin_object();
  ASSERT_OK(writer);
  for (uint64_t brick = 0; brick < 20; ++brick) {
    ASSERT_OK((*writer)->put({1, 0, brick}, bytes_of(brick, 50000)));
    ASSERT_OK(index_->collect());
  }
  ASSERT_OK((*writer)->finish());
  Batch batch;
  batch.publish((*writer)->object(), "");
  ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
  ASSERT_OK(index_->collect());
  for (uint64_t brick = 0; brick < 20; ++brick) {
    EXPECT_EQ(*index_->record((*writer)->object(), {1, 0, brick}), bytes_of(brick, 50000));
  }
}

TEST_F(Collect, SharingWhatTheOriginReleasesIsSafe) {
  for (uint64_t round = 0; round < 30; ++round) {
    const ObjectId origin = publish({{{1, 0, 0}, bytes_of(round, 60000)}});
    auto writer = index_->begin_object();
    ASSERT_OK(writer);
    ASSERT_OK((*writer)->share(origin, {1, 0, 0}, {1, 0, 0}));
    release(origin);
    ASSERT_OK(index_->collect());
    Batch batch;
    batch.publish((*writer)->object(), "");
    ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
    EXPECT_EQ(*index_->record((*writer)->object(), {1, 0, 0}), bytes_of(round, 60000));
    release((*writer)->object());
  }
}

TEST_F(Collect, ADamagedRecordIsNotMovedNorForgotten) {
  const ObjectId damaged = publish({{{1, 0, 0}, bytes_of(1, 50000)}});
  const ObjectId filler = publish({{{1, 0, 0}, bytes_of(2, 140000)}});
  release(filler);
  close();
  const std::string pack = pack_files().at(0);
  {
    std::fstream file(pack, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('x');
    file.put('y');
  }
  open();
  ASSERT_OK(index_->collect());
  ASSERT_OK(index_->collect());
  const auto back = index_->record(damaged, {1, 0, 0});
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().code, EIO);
  EXPECT_NE(back.error().text.find("checksum"), std::string::npos) << back.error().text;
  EXPECT_TRUE(std::filesystem::exists(pack));
}

}  // namespace
}  // namespace varve::index::testing
