// Real files and files made here, with bytes flipped and ends cut off, through the pool: whatever happens to the
// worker, the caller gets a checked result or an error, and the next good file is recognised.
#include <gtest/gtest.h>

#include "fs/formats/worker.h"
#include "hdf5_maker.h"

namespace varve::fs {
namespace {

constexpr auto kTime = std::chrono::seconds(10);

std::vector<std::byte> made_file(const ScratchFolder& folder, bool latest) {
  Hdf5Maker maker(folder.file("made.h5"), 0, latest);
  (void)maker.dataset("a", {.shape = {40, 40}, .chunk = {9, 9}});
  (void)maker.dataset("b", {.shape = {40, 4}, .chunk = {3, 4}, .unlimited = {H5S_UNLIMITED, 4}});
  (void)maker.dataset("c", {.type = H5T_IEEE_F64BE, .shape = {300}, .fill = 7});
  maker.text("a", "coordinates", "b c", true);
  maker.close();
  return read_whole(folder.file("made.h5"));
}

void damage(std::vector<std::byte>& bytes, std::mt19937_64& random) {
  if (random() % 5 == 0) {
    bytes.resize(random() % bytes.size());
  }
  for (uint64_t flips = 1 + random() % 8; flips > 0 && !bytes.empty(); --flips) {
    // Headers are at the front and around dataset ends; most flips go to the first few kilobytes.
    uint64_t reach = random() % 3 == 0 ? bytes.size() : std::min<uint64_t>(bytes.size(), 4096);
    std::byte& byte = bytes[random() % reach];
    byte = random() % 2 == 0 ? byte ^ static_cast<std::byte>(1U << (random() % 8)) : static_cast<std::byte>(random());
  }
}

/// Files made here and the small ones of `kinds` among the real ones.
std::vector<std::vector<std::byte>> originals_of(std::initializer_list<const char*> kinds) {
  ScratchFolder folder;
  std::vector<std::vector<std::byte>> originals{made_file(folder, false), made_file(folder, true)};
  for (const std::string& path : real_files(kinds)) {
    auto bytes = read_whole(path);
    if (bytes.size() < 200000) {
      originals.push_back(std::move(bytes));
    }
  }
  return originals;
}

WorkerOptions impatient() {
  WorkerOptions options;
  options.program = VARVE_GOOD_WORKER;
  options.time_limit = std::chrono::milliseconds(3000);
  return options;
}

TEST(Mutations, ImagesOfThemNeverHarmTheCaller) {
  const auto originals =
      originals_of({"hdf5", "netcdf", "npy", "h5", "fits", "nc", "nifti", "made/ckpt", "made/nifti"});
  RecogniserPool pool(impatient());
  std::mt19937_64 random(5);
  size_t made = 0, refused = 0;
  const ImageRequest coarse{ImageRequest::Kind::coarse, "", 1};
  const ImageRequest region{ImageRequest::Kind::region, "a[...]", 0};
  const auto end = std::chrono::steady_clock::now() + kTime;
  for (size_t files = 0; std::chrono::steady_clock::now() < end; ++files) {
    std::vector<std::byte> bytes = originals[files % originals.size()];
    damage(bytes, random);
    MemoryView file(std::move(bytes));
    const auto image = pool.image(files % 4 == 0 ? region : coarse, "mutant", file, std::nullopt);
    (image.ok() ? made : refused) += 1;
    ASSERT_TRUE(image.ok() || !image.error().text.empty());
  }
  EXPECT_GT(made, 10U);
  EXPECT_GT(refused, 10U);
  MemoryView good(originals[0]);
  const auto image = pool.image(region, "good.h5", good, std::nullopt);
  ASSERT_TRUE(image.ok()) << image.error().text;
  EXPECT_EQ(image->size, 128 + 40 * 40 * 4U);
}

TEST(Mutations, NeverHarmTheCaller) {
  const auto originals = originals_of({"hdf5", "netcdf", "npy", "h5", "fits", "nifti", "made/ckpt", "made/nifti"});
  RecogniserPool pool(impatient());
  std::mt19937_64 random(20240101);
  size_t files = 0, found = 0, refused = 0, died = 0, slow = 0;
  auto end = std::chrono::steady_clock::now() + kTime;
  while (std::chrono::steady_clock::now() < end) {
    std::vector<std::byte> bytes = originals[files++ % originals.size()];
    damage(bytes, random);
    uint64_t size = bytes.size();
    MemoryView file(std::move(bytes));
    auto result = pool.recognise("mutant.h5", file, std::nullopt);
    if (result.ok()) {
      found += *result ? 1 : 0;
      if (*result) {
        ASSERT_TRUE(check_arrays(**result, size).ok());
      }
    } else {
      ASSERT_FALSE(result.error().text.empty());
      bool dead = result.error().text.find("died of") != std::string::npos ||
                  result.error().text.find("exited with") != std::string::npos;
      died += dead ? 1 : 0;
      slow += result.error().text.find("took longer") != std::string::npos ? 1 : 0;
      refused += dead ? 0 : 1;
    }
  }
  std::printf("%zu mutants: %zu recognised, %zu refused, %zu killed the worker, %zu took too long\n", files, found,
              refused, died, slow);
  EXPECT_GT(files, 100U);
  EXPECT_GT(found, 0U);
  EXPECT_GT(refused, 0U);
  MemoryView good(originals[0]);
  auto result = pool.recognise("good.h5", good, std::nullopt);
  ASSERT_TRUE(result.ok() && *result);
  EXPECT_EQ((*result)->arrays.size(), 3U);
}

}  // namespace
}  // namespace varve::fs
