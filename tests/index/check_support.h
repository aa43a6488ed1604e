// What the tests of checks share: rows of a store that nobody has open, and what a check says of it.
#pragma once

#include <rocksdb/write_batch.h>

#include <functional>

#include "index/check.h"
#include "index/tree.h"
#include "tests/index/support.h"

namespace varve::index::testing {

/// For a fixture to inherit.
class CheckedStore {
 protected:
  explicit CheckedStore(std::string path) : path_(std::move(path)) {}

  std::unique_ptr<Tree> tree(bool read_only) const {
    auto opened = Tree::open({path_ + "/db", nullptr, posix_device(), read_only, false, false});
    EXPECT_OK(opened);
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  void set(Family family, const std::string& key, const std::string& value) const {
    const auto opened = tree(false);
    rocksdb::WriteBatch batch;
    opened->put(batch, family, key, value);
    ASSERT_OK(opened->write(batch));
    ASSERT_OK(opened->flush());
  }
  /// What the row was. The test fails when there is none.
  std::string erase(Family family, const std::string& key) const {
    const auto opened = tree(false);
    const auto value = opened->get(family, key);
    if (!value.ok() || !value->has_value()) {
      ADD_FAILURE() << "there is no such row";
      return {};
    }
    rocksdb::WriteBatch batch;
    opened->erase(batch, family, key);
    EXPECT_OK(opened->write(batch));
    EXPECT_OK(opened->flush());
    return **value;
  }

  /// What `run` finds, harmless findings too, if `all`.
  std::vector<Finding> findings(bool repair, const std::function<void(StoreCheck&)>& run, bool all = false) const {
    std::vector<Finding> found;
    const auto store = StoreCheck::open(path_, repair, [&](const Finding& finding) {
      if (all || finding.state != Finding::State::harmless) {
        found.push_back(finding);
      }
    });
    EXPECT_OK(store);
    if (store.ok()) {
      run(**store);
    }
    return found;
  }
  static std::string text(const std::vector<Finding>& found) {
    std::string all;
    for (const Finding& finding : found) {
      all += fmt::format("{} {}: {}; {}\n", finding.kind, finding.where, finding.what, finding.remedy);
    }
    return all;
  }

 private:
  std::string path_;
};

}  // namespace varve::index::testing
