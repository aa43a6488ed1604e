#include "fs/formats/caching_view.h"

#include <gtest/gtest.h>

#include <random>

#include "views.h"

namespace varve::fs {
namespace {

TEST(CachingView, ReadsWhatTheFileHolds) {
  std::mt19937_64 random(3);
  for (size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{1000000}}) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random());
    }
    MemoryView file(bytes);
    CachingView cached(file);
    for (int i = 0; i < 500; ++i) {
      uint64_t offset = random() % (size + 1000);
      std::vector<std::byte> out(random() % 200000);
      auto got = cached.read(offset, out);
      ASSERT_TRUE(got.ok());
      size_t expected = offset >= size ? 0 : std::min<size_t>(out.size(), size - offset);
      ASSERT_EQ(*got, expected);
      ASSERT_TRUE(expected == 0 || std::memcmp(out.data(), bytes.data() + offset, expected) == 0);
    }
  }
}

TEST(CachingView, SmallReadsBecomeFewAndMemoryIsBounded) {
  MemoryView file(std::vector<std::byte>((CachingView::kMostBlocks + 10) * CachingView::kBlock));
  CachingView cached(file);
  std::array<std::byte, 8> out{};
  for (uint64_t offset = 0; offset + 8 <= 4 * CachingView::kBlock; offset += 8) {
    ASSERT_TRUE(cached.read(offset, out).ok());
  }
  EXPECT_EQ(file.reads, 4U);
  for (uint64_t block = 0; block < CachingView::kMostBlocks + 10; ++block) {
    ASSERT_TRUE(cached.read(block * CachingView::kBlock, out).ok());
  }
  EXPECT_EQ(file.reads, CachingView::kMostBlocks + 10);
  ASSERT_TRUE(cached.read(0, out).ok());  // the oldest went
  EXPECT_EQ(file.reads, CachingView::kMostBlocks + 11);
}

class FailingView : public FileView {
 public:
  uint64_t size() const override { return 100; }
  Result<size_t> read(uint64_t, std::span<std::byte>) override {
    ++reads;
    return Error{EIO, "broken"};
  }
  int reads = 0;
};

TEST(CachingView, ErrorsPassAndAreNotKept) {
  FailingView file;
  CachingView cached(file);
  std::array<std::byte, 8> out{};
  EXPECT_FALSE(cached.read(0, out).ok());
  EXPECT_FALSE(cached.read(0, out).ok());
  EXPECT_EQ(file.reads, 2);
}

}  // namespace
}  // namespace varve::fs
