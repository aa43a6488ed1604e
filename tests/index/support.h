// What the tests of index/ share: a store in a directory that goes away, random values, shorthand.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "index/index.h"

namespace varve::index::testing {

#define ASSERT_OK(expression)                          \
  do {                                                 \
    const auto& checked = (expression);                \
    ASSERT_TRUE(checked.ok()) << checked.error().text; \
  } while (false)

#define EXPECT_OK(expression)                          \
  do {                                                 \
    const auto& checked = (expression);                \
    EXPECT_TRUE(checked.ok()) << checked.error().text; \
  } while (false)

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "varve-index-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      ADD_FAILURE() << "cannot make " << name;
    }
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string store() const { return path_ + "/store"; }

 private:
  std::string path_;
};

/// "f" and 12: "f12".
inline std::string numbered(const char* name, uint64_t number) { return fmt::format("{}{}", name, number); }

using Payload = std::vector<std::byte>;

inline Payload random_bytes(std::mt19937_64& random, size_t size) {
  Payload bytes(size);
  for (auto& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

/// Bytes that only `seed` and `size` decide, so that a later process can check them.
inline Payload bytes_of(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  return random_bytes(random, size);
}

/// A test with an open store. pack_limit is small, so that packs change often.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }

  void open() {
    auto opened = Index::open(directory_.store(), options_);
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    index_ = *std::move(opened);
  }
  void close() { index_.reset(); }
  void reopen() {
    close();
    open();
  }

  /// An object with these records, published and synced. 0 if that failed.
  ObjectId publish(const std::vector<std::pair<RecordKey, Payload>>& records, const std::string& layout = "layout") {
    auto writer = index_->begin_object();
    EXPECT_OK(writer);
    if (!writer.ok()) {
      return 0;
    }
    for (const auto& [key, payload] : records) {
      EXPECT_OK((*writer)->put(key, payload));
    }
    EXPECT_OK((*writer)->finish());
    Batch batch;
    batch.publish((*writer)->object(), layout);
    const Status committed = index_->commit(std::move(batch), Durability::synced);
    EXPECT_OK(committed);
    return committed.ok() ? (*writer)->object() : 0;
  }

  void release(ObjectId object) {
    Batch batch;
    batch.release(object);
    EXPECT_OK(index_->commit(std::move(batch), Durability::synced));
  }

  std::string packs() const { return directory_.store() + "/packs"; }
  std::vector<std::string> pack_files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(packs())) {
      files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  std::mt19937_64 random_{20240607};
  TemporaryDirectory directory_;
  IndexOptions options_;
  std::unique_ptr<Index> index_;
};

}  // namespace varve::index::testing
