// Every real file whose format is parsed here, with its end cut off and with bits flipped: what is recognised lies in
// the file and does not overlap, or there is a reason. (HDF5 goes through the worker: mutation_test.cpp.)
#include <gtest/gtest.h>

#include <random>

#include "fs/formats/formats.h"
#include "fs/formats/hdf5.h"
#include "views.h"

namespace varve::fs {
namespace {

/// The first bytes of a buffer.
class PrefixView : public FileView {
 public:
  PrefixView(const std::vector<std::byte>& bytes, size_t size) : bytes_(bytes), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    const size_t count = offset >= size_ ? 0 : std::min<uint64_t>(out.size(), size_ - offset);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(offset, size_)), count, out.begin());
    return count;
  }

 private:
  const std::vector<std::byte>& bytes_;
  size_t size_;
};

/// Byte by byte, without the code that is tested.
void expect_apart(const Recognised& found, uint64_t size) {
  std::vector<bool> taken(size);
  for (const ArrayRegion& array : found.arrays) {
    uint64_t bytes = codec::element_size(array.dtype);
    for (const uint64_t extent : array.chunk_shape) {
      bytes *= extent;
    }
    for (const ChunkPlace& place : array.chunks) {
      ASSERT_LE(place.offset, size);
      ASSERT_LE(bytes, size - place.offset);
      for (uint64_t at = place.offset; at < place.offset + bytes; ++at) {
        ASSERT_FALSE(taken[at]) << array.name << " shares the byte at " << at;
        taken[at] = true;
      }
    }
  }
}

struct Outcomes {
  size_t found = 0, refused = 0, nothing = 0;
};

void look(const std::string& name, const std::vector<std::byte>& bytes, size_t size, bool thoroughly,
          Outcomes& outcomes) {
  PrefixView file(bytes, size);
  if (has_hdf5_signature(file)) {
    return;
  }
  const auto result = recognise(name, file, std::nullopt);
  if (!result.ok()) {
    EXPECT_FALSE(result.error().text.empty());
    ++outcomes.refused;
  } else if (!*result) {
    ++outcomes.nothing;
  } else {
    ++outcomes.found;
    EXPECT_TRUE(worth_recognising(name, file, std::nullopt));
    if (thoroughly) {
      expect_apart(**result, size);
    }
  }
}

TEST(Damage, ArraysLieInTheFileAndApart) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA names no folder: real files are NOT tested";
  }
  std::mt19937_64 random(11);
  Outcomes whole, cut, flipped;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || entry.file_size() == 0) {
      continue;
    }
    std::vector<std::byte> bytes = read_whole(entry.path().string());
    SCOPED_TRACE(entry.path().string());
    PrefixView file(bytes, bytes.size());
    if (has_hdf5_signature(file) || !worth_recognising(name, file, std::nullopt)) {
      continue;
    }
    look(name, bytes, bytes.size(), true, whole);
    for (size_t i = 0; i < 40; ++i) {  // most of them near the start and the end, where the headers are
      const size_t span = i % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 4096);
      const size_t off = random() % span;
      look(name, bytes, i % 4 == 1 ? bytes.size() - 1 - off : off, i % 8 == 0, cut);
    }
    for (size_t i = 0; i < 150; ++i) {
      const size_t span = i % 3 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), i % 3 == 1 ? 512 : 6000);
      const size_t at = i % 6 == 4 ? bytes.size() - 1 - random() % span : random() % span;
      const std::byte was = bytes[at];
      bytes[at] ^= static_cast<std::byte>(1U << (random() % 8));
      look(name, bytes, bytes.size(), i % 15 == 0, flipped);
      bytes[at] = was;
    }
    ASSERT_FALSE(HasFailure());
  }
  for (const auto& [what, of] : {std::pair{"whole", whole}, {"cut", cut}, {"flipped", flipped}}) {
    std::printf("%s: %zu recognised, %zu refused, %zu nothing\n", what, of.found, of.refused, of.nothing);
  }
  EXPECT_GT(whole.found, 20U);
  EXPECT_GT(cut.refused, 100U);
  EXPECT_GT(flipped.found, 1000U);
}

}  // namespace
}  // namespace varve::fs
