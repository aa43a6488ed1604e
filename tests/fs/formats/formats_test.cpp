// The table of formats, and what holds for each of them.
#include "fs/formats/formats.h"

#include <gtest/gtest.h>

#include <set>

#include "views.h"

namespace varve::fs {
namespace {

TEST(Formats, TheTableHasEachNameOnce) {
  std::set<std::string_view> names;
  for (const Format& format : formats()) {
    EXPECT_FALSE(format.name.empty());
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
  }
  EXPECT_TRUE(names.contains("npy") && names.contains("hdf5"));
  EXPECT_EQ(formats().back().name, "raw") << "a magic number is worth more than a name";
}

TEST(Formats, MagicIsLookedForWithinTheStart) {
  MemoryView file(std::string_view("abcdef"));
  const Candidate candidate{"name", file.bytes(), file, std::nullopt};
  EXPECT_TRUE(candidate.has(0, "abc"));
  EXPECT_TRUE(candidate.has(3, "def"));
  EXPECT_FALSE(candidate.has(1, "abc"));
  EXPECT_FALSE(candidate.has(4, "efg"));
  EXPECT_FALSE(candidate.has(7, ""));
}

TEST(Formats, TextAndNoiseAreNotWorthALook) {
  for (const size_t size : {0U, 1U, 7U, 8U, 511U, 512U, 513U, 5000U}) {
    for (const unsigned step : {0U, 1U, 37U}) {
      std::vector<std::byte> bytes(size);
      for (size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>('a' + i * step % 97);
      }
      MemoryView file(std::move(bytes));
      EXPECT_FALSE(worth_recognising("notes.txt", file, std::nullopt)) << size << " " << step;
      EXPECT_LE(file.reads, 8U) << "a test for each file that is closed must be cheap";
      const auto found = recognise("notes.txt", file, std::nullopt);
      EXPECT_TRUE(found.ok() && !*found) << size << " " << step;
    }
  }
}

}  // namespace
}  // namespace varve::fs
