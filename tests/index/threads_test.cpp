// Many threads at once. Meant for the thread sanitizer (preset tsan) as much as for its own checks.
#include <sys/stat.h>

#include <atomic>
#include <map>
#include <thread>

#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

class Threads : public StoreTest {
 protected:
  void SetUp() override {
    options_.pack_limit = 500000;
    StoreTest::SetUp();
  }

  static void run(int count, const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(count));
    for (int t = 0; t < count; ++t) {
      threads.emplace_back(body, t);
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
};

TEST_F(Threads, FillOneObjectTogether) {
  constexpr uint64_t kBricks = 400;
  auto writer = index_->begin_object();
  ASSERT_OK(writer);
  run(4, [&](int t) {
    for (uint64_t brick = 0; brick < kBricks; ++brick) {
      const uint64_t number = static_cast<uint64_t>(t) * kBricks + brick;
      EXPECT_OK((*writer)->put({1, static_cast<uint8_t>(t), brick}, bytes_of(number, 500 + number % 5000)));
      if (brick % 100 == 99) {
        EXPECT_OK((*writer)->finish());
      }
    }
  });
  ASSERT_OK((*writer)->finish());
  Batch batch;
  batch.publish((*writer)->object(), "");
  ASSERT_OK(index_->commit(std::move(batch), Durability::synced));
  run(4, [&](int t) {
    for (uint64_t brick = 0; brick < kBricks; ++brick) {
      const uint64_t number = static_cast<uint64_t>(t) * kBricks + brick;
      const auto back = index_->record((*writer)->object(), {1, static_cast<uint8_t>(t), brick});
      EXPECT_OK(back);
      EXPECT_TRUE(back.ok() && *back == bytes_of(number, 500 + number % 5000));
    }
  });
}

TEST_F(Threads, ReplaceShareReadAndCollectTogether) {
  constexpr int kWriters = 3;
  constexpr uint64_t kRounds = 60;
  std::atomic<int> running{kWriters};
  run(kWriters + 2, [&](int t) {
    if (t == kWriters) {
      while (running > 0) {
        EXPECT_OK(index_->collect());
      }
      return;
    }
    if (t == kWriters + 1) {
      while (running > 0) {
        for (int file = 0; file < kWriters; ++file) {
          const auto inode = index_->inode(1000 + static_cast<uint64_t>(file));
          EXPECT_OK(inode);
          if (inode.ok() && inode->has_value()) {
            const auto back = index_->record((*inode)->object, {1, 0, 0});
            EXPECT_TRUE(back.ok() ? *back == bytes_of((*inode)->size, 40000) : back.error().code == ENOENT);
          }
        }
      }
      return;
    }
    Inode inode;
    inode.number = 1000 + static_cast<uint64_t>(t);
    inode.mode = S_IFREG;
    for (uint64_t round = 1; round <= kRounds; ++round) {
      auto writer = index_->begin_object();
      EXPECT_OK(writer);
      if (inode.object != 0) {
        EXPECT_OK((*writer)->share(inode.object, {1, 0, 0}, {2, 0, 0}));
      }
      EXPECT_OK((*writer)->put({1, 0, 0}, bytes_of(round, 40000)));
      EXPECT_OK((*writer)->finish());
      Batch batch;
      if (inode.object != 0) {
        batch.release(inode.object);
      }
      inode.object = (*writer)->object();
      inode.size = round;
      batch.publish(inode.object, "");
      batch.put_inode(inode);
      batch.put_dentry(kRootInode, {numbered("f", index_->new_inode_number()), 5, S_IFREG, index_->new_cookie()});
      EXPECT_OK(index_->commit(std::move(batch), round % 8 == 0 ? Durability::synced : Durability::buffered));
      if (round > 1) {
        const auto shared = index_->record(inode.object, {2, 0, 0});
        EXPECT_TRUE(shared.ok() && *shared == bytes_of(round - 1, 40000));
      }
    }
    --running;
  });
  uint64_t entries = 0;
  ASSERT_OK(index_->list(kRootInode, 0, [&](const Dentry&) {
    ++entries;
    return true;
  }));
  EXPECT_EQ(entries, kWriters * kRounds);
  ASSERT_OK(index_->collect());
  EXPECT_EQ(index_->statistics()->live_pack_bytes, kWriters * 2 * (40000U + 56U));
}

TEST_F(Threads, SyncedCommitsShareTheirSyncs) {
  std::atomic<uint64_t> done{0};
  run(8, [&](int t) {
    for (int i = 0; i < 25; ++i) {
      Batch batch;
      batch.put_note(numbered("t", static_cast<uint64_t>(t)), std::to_string(i));
      EXPECT_OK(index_->commit(std::move(batch), Durability::synced));
      ++done;
    }
  });
  EXPECT_EQ(done, 200U);
  for (int t = 0; t < 8; ++t) {
    EXPECT_EQ(*index_->note(numbered("t", static_cast<uint64_t>(t))), "24");
  }
}

}  // namespace
}  // namespace varve::index::testing
