// Directory listings: order, resumption, stability while others create and delete, size.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "tests/index/support.h"

namespace varve::index::testing {
namespace {

class Directory : public StoreTest {
 protected:
  Dentry entry(const std::string& name) { return {name, index_->new_inode_number(), S_IFREG, index_->new_cookie()}; }
  void add(const Dentry& entry) {
    Batch batch;
    batch.put_dentry(kRootInode, entry);
    EXPECT_OK(index_->commit(std::move(batch), Durability::buffered));
  }
  void remove(const Dentry& entry) {
    Batch batch;
    batch.erase_dentry(kRootInode, entry);
    EXPECT_OK(index_->commit(std::move(batch), Durability::buffered));
  }
};

TEST_F(Directory, EntriesAreFoundByNameAndListedInOrderOfCreation) {
  std::vector<Dentry> made;
  for (int i = 0; i < 200; ++i) {
    made.push_back(
        entry(numbered("name", static_cast<uint64_t>(random_() % 100000)) + numbered("-", static_cast<uint64_t>(i))));
    add(made.back());
  }
  for (const auto& one : made) {
    const auto found = index_->lookup(kRootInode, one.name);
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value());
    EXPECT_EQ((*found)->inode, one.inode);
    EXPECT_EQ((*found)->cookie, one.cookie);
  }
  EXPECT_FALSE(index_->lookup(kRootInode, "name")->has_value());
  EXPECT_FALSE(index_->lookup(kRootInode + 1, made[0].name)->has_value());
  for (const size_t start : {size_t{0}, size_t{1}, size_t{57}, size_t{199}, size_t{200}}) {
    size_t at = start;
    const uint64_t after = start == 0 ? 0 : made[start - 1].cookie;
    ASSERT_OK(index_->list(kRootInode, after, [&](const Dentry& found) {
      EXPECT_LT(at, made.size());
      EXPECT_EQ(found.name, made[at].name);
      EXPECT_EQ(found.inode, made[at].inode);
      EXPECT_EQ(found.type, made[at].type);
      EXPECT_EQ(found.cookie, made[at].cookie);
      ++at;
      return true;
    }));
    EXPECT_EQ(at, made.size());
  }
  ASSERT_OK(index_->list(kRootInode, UINT64_MAX, [](const Dentry&) {
    ADD_FAILURE();
    return true;
  }));
}

TEST_F(Directory, StableEntriesAreListedOnceWhileOthersComeAndGo) {
  std::set<std::string> stable;
  std::vector<Dentry> victims;
  for (int i = 0; i < 2000; ++i) {
    const Dentry one = entry((i % 2 == 0 ? "stays" : "goes") + std::to_string(i));
    add(one);
    if (i % 2 == 0) {
      stable.insert(one.name);
    } else {
      victims.push_back(one);
    }
  }
  std::atomic<bool> stop{false};
  std::thread churn([&] {
    std::mt19937_64 random(3);
    for (uint64_t i = 0; !stop; ++i) {
      if (!victims.empty() && random() % 2 == 0) {
        std::swap(victims[random() % victims.size()], victims.back());
        remove(victims.back());
        victims.pop_back();
      } else {
        victims.push_back(entry(numbered("new", static_cast<uint64_t>(i))));
        add(victims.back());
      }
    }
  });
  for (int round = 0; round < 20; ++round) {
    std::multiset<std::string> seen;
    uint64_t after = 0;
    for (bool more = true; more;) {
      more = false;
      size_t taken = 0;
      EXPECT_OK(index_->list(kRootInode, after, [&](const Dentry& found) {
        if (taken == 37) {
          more = true;
          return false;
        }
        ++taken;
        EXPECT_GT(found.cookie, after);
        after = found.cookie;
        seen.insert(found.name);
        return true;
      }));
    }
    for (const auto& name : stable) {
      EXPECT_EQ(seen.count(name), 1U) << name;
    }
    for (const auto& name : seen) {
      EXPECT_EQ(seen.count(name), 1U) << name;
    }
  }
  stop = true;
  churn.join();
}

TEST_F(Directory, FiftyThousandEntriesListInLinearTime) {
  constexpr int kEntries = 50000;
  const auto fill = [&](InodeNumber parent, int count) {
    for (int i = 0; i < count;) {
      Batch batch;
      for (int k = 0; k < 500; ++k, ++i) {
        batch.put_dentry(parent, entry(numbered("a-rather-long-name-of-a-file-", static_cast<uint64_t>(i))));
      }
      EXPECT_OK(index_->commit(std::move(batch), Durability::buffered));
    }
  };
  const auto seconds_to_list = [&](InodeNumber parent, size_t expected) {
    const auto begin = std::chrono::steady_clock::now();
    size_t seen = 0;
    uint64_t after = 0;
    for (bool more = true; more;) {
      more = false;
      size_t taken = 0;
      EXPECT_OK(index_->list(parent, after, [&](const Dentry& found) {
        if (taken == 100) {
          more = true;
          return false;
        }
        ++taken;
        ++seen;
        after = found.cookie;
        return true;
      }));
    }
    EXPECT_EQ(seen, expected);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  fill(10, kEntries);
  fill(11, kEntries / 10);
  reopen();
  const double small = seconds_to_list(11, kEntries / 10);
  const double large = seconds_to_list(10, kEntries);
  EXPECT_LT(large, 0.2 + 40 * small);  // quadratic would be 100 times
}

}  // namespace
}  // namespace varve::index::testing
