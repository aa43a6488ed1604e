// The comparison behind `varve verify`, against a slow one that knows nothing of chunks and pieces.
#include "tools/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace varve::tools {
namespace {

class MemoryFile : public fs::FileView {
 public:
  explicit MemoryFile(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    const size_t count = offset < bytes_.size() ? std::min<size_t>(out.size(), bytes_.size() - offset) : 0;
    std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  std::vector<std::byte> bytes_;
};

template <typename T>
void put(std::vector<std::byte>& file, uint64_t offset, T value, bool big_endian) {
  std::array<std::byte, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  if (big_endian) {
    std::ranges::reverse(bytes);
  }
  std::ranges::copy(bytes, file.begin() + static_cast<ptrdiff_t>(offset));
}

fs::ArrayRegion contiguous(codec::DType dtype, codec::Extents shape, uint64_t offset) {
  fs::ArrayRegion array;
  array.dtype = dtype;
  array.shape = array.chunk_shape = std::move(shape);
  array.chunks = {{0, offset}};
  return array;
}

Comparison run(const std::vector<std::byte>& original, const std::vector<std::byte>& copy,
               const std::vector<fs::ArrayRegion>& arrays, const std::vector<codec::Bound>& bounds) {
  MemoryFile a(original);
  MemoryFile b(copy);
  std::vector<Demand> demands;
  demands.reserve(bounds.size());
  for (const codec::Bound& bound : bounds) {
    demands.push_back({bound, std::nullopt});
  }
  uint64_t advanced = 0;
  auto result = compare(a, b, arrays, demands, [&](uint64_t bytes) { advanced += bytes; });
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(advanced, original.size() == copy.size() ? original.size() : 0);
  return *std::move(result);
}

constexpr codec::Bound kTenth{codec::BoundMode::absolute, 0.1};

TEST(Comparison, HoldsEachElementToTheBoundWithoutSlack) {
  std::vector<std::byte> original(8 + 80);
  const auto array = contiguous(codec::DType::f64, {10}, 8);
  for (uint64_t i = 0; i < 10; ++i) {
    put(original, 8 + 8 * i, 0.0, false);
  }
  auto copy = original;
  put(copy, 8 + 24, 0.1, false);
  auto result = run(original, copy, {array}, {kTenth});
  EXPECT_TRUE(result.kept());
  EXPECT_EQ(result.arrays[0].max_error, 0.1);
  EXPECT_EQ(result.arrays[0].max_error_index, 3U);
  EXPECT_EQ(result.arrays[0].changed, 1U);
  EXPECT_EQ(result.bytes, 8U);
  put(copy, 8 + 24, std::nextafter(0.1, 1.0), false);
  EXPECT_FALSE(run(original, copy, {array}, {kTenth}).kept());
  put(copy, 8 + 24, 0.0, false);
  EXPECT_TRUE(run(original, copy, {array}, {codec::Bound{}}).kept());
  put(copy, 8 + 24, 1e-300, false);
  EXPECT_FALSE(run(original, copy, {array}, {codec::Bound{}}).kept()) << "lossless means equal";
}

TEST(Comparison, RelativeBoundsCountNeitherFillsNorInfinities) {
  for (const bool big : {false, true}) {
    auto array = contiguous(codec::DType::f32, {6}, 0);
    array.big_endian = big;
    const float fill = 1e20F;
    uint32_t bits = 0;
    std::memcpy(&bits, &fill, sizeof bits);
    array.fill_values = {bits};
    std::vector<std::byte> original(24);
    const std::array<float, 6> values = {
        0, 10, 5, fill, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    for (uint64_t i = 0; i < 6; ++i) {
      put(original, 4 * i, values[i], big);
    }
    const codec::Bound bound{codec::BoundMode::relative, 0.05};  // 0.5
    auto copy = original;
    put(copy, 8, 5.5F, big);
    auto result = run(original, copy, {array}, {bound});
    EXPECT_TRUE(result.kept());
    EXPECT_EQ(result.arrays[0].limit, 0.5);
    EXPECT_EQ(result.arrays[0].exact, 3U);
    EXPECT_NEAR(*result.arrays[0].psnr(), 20 * std::log10(10 / std::sqrt(0.25 / 3)), 1e-9);
    put(copy, 8, 5.6F, big);
    EXPECT_FALSE(run(original, copy, {array}, {bound}).kept());
    put(copy, 8, 5.0F, big);
    for (const uint64_t special : {3, 4, 5}) {  // one bit of a fill, an infinity, a NaN's payload
      auto damaged = copy;
      damaged[4 * special + (big ? 3 : 0)] ^= std::byte{1};
      result = run(original, damaged, {array}, {bound});
      EXPECT_FALSE(result.kept()) << special;
      EXPECT_EQ(result.arrays[0].exact_changed, 1U);
    }
    auto poisoned = copy;
    put(poisoned, 8, std::numeric_limits<float>::quiet_NaN(), big);
    EXPECT_FALSE(run(original, poisoned, {array}, {bound}).kept()) << "a value became NaN";
  }
}

TEST(Comparison, NegativeZeroIsAValueToKeep) {
  const auto array = contiguous(codec::DType::f64, {1}, 0);
  std::vector<std::byte> original(8);
  put(original, 0, -0.0, false);
  auto copy = original;
  put(copy, 0, 0.0, false);
  EXPECT_FALSE(run(original, copy, {array}, {kTenth}).kept());
  EXPECT_TRUE(run(copy, copy, {array}, {kTenth}).kept());
}

TEST(Comparison, IntegersAndSizesMustBeEqual) {
  const auto array = contiguous(codec::DType::i32, {4}, 0);
  const std::vector<std::byte> original(16);
  auto copy = original;
  copy[5] = std::byte{1};
  const auto result = run(original, copy, {array}, {codec::Bound{}});
  EXPECT_FALSE(result.kept());
  EXPECT_EQ(result.arrays[0].changed, 1U);
  copy.pop_back();
  EXPECT_FALSE(run(original, copy, {array}, {codec::Bound{}}).kept());
}

/// One array of `values`, its copy of `copied`, under `bound`.
template <typename T>
ArrayVerdict judge(codec::DType dtype, const std::vector<T>& values, const std::vector<T>& copied,
                   const codec::Bound& bound, bool big = false) {
  auto array = contiguous(dtype, {values.size()}, 0);
  array.big_endian = big;
  std::vector<std::byte> original(values.size() * sizeof(T));
  std::vector<std::byte> copy(original.size());
  for (size_t i = 0; i < values.size(); ++i) {
    put(original, i * sizeof(T), values[i], big);
    put(copy, i * sizeof(T), copied[i], big);
  }
  return run(original, copy, {array}, {bound}).arrays[0];
}

TEST(Comparison, PointwiseBoundsHoldEachElementToItself) {
  using codec::DType;
  const codec::Bound bound{codec::BoundMode::pointwise, 0.125};
  const auto kept = [&](double x, double y) { return judge<double>(DType::f64, {x, 1}, {y, 1}, bound).kept; };
  for (const double sign : {1.0, -1.0}) {
    EXPECT_TRUE(kept(sign * 8, sign * 9));
    EXPECT_TRUE(kept(sign * 8, sign * 7));
    EXPECT_FALSE(kept(sign * 8, sign * std::nextafter(9.0, 10.0)));
    EXPECT_FALSE(kept(sign * 8e-3, sign * 9.01e-3));
    EXPECT_FALSE(kept(sign * 8, sign * std::numeric_limits<double>::infinity()));
  }
  EXPECT_FALSE(kept(1, -1));
  EXPECT_FALSE(kept(0.0, -0.0));
  EXPECT_FALSE(kept(0.0, 1e-300));
  EXPECT_FALSE(kept(1e-300, 0.0));
  // 0.1 * x is no double: the verdict is that of the real numbers.
  const double x = 1 + 0x1p-52;
  const double tenth = 0.1;
  const double most = 1.1000000000000003;
  EXPECT_EQ(judge<double>(DType::f64, {x, 0}, {most, 0}, {codec::BoundMode::pointwise, tenth}).beyond,
            static_cast<long double>(most) - x > static_cast<long double>(tenth) * x ? 1U : 0U);
  const auto verdict = judge<float>(DType::f32, {1, 2, 4, 100}, {1.1F, 2.3F, 4, 113}, bound, true);
  EXPECT_EQ(verdict.beyond, 2U);
  EXPECT_EQ(verdict.changed, 3U);
  EXPECT_FALSE(verdict.kept);
  EXPECT_TRUE(judge<int16_t>(DType::i16, {-16, 0}, {-18, 0}, bound).kept);
  EXPECT_FALSE(judge<int16_t>(DType::i16, {-16, 0}, {-19, 0}, bound).kept);
  EXPECT_FALSE(judge<int16_t>(DType::i16, {-16, 0}, {-16, 1}, bound).kept);
}

TEST(Comparison, BitsLeaveHalfOfTheLastOne) {
  const codec::Bound bound{codec::BoundMode::bits, 3};
  const auto kept = [&](float x, float y) { return judge<float>(codec::DType::f32, {x}, {y}, bound).kept; };
  EXPECT_TRUE(kept(1.0625F, 1));
  EXPECT_TRUE(kept(1.99F, 2));
  EXPECT_FALSE(kept(1.07F, 1));
  EXPECT_TRUE(kept(-106.5F, -104));
  EXPECT_FALSE(kept(-109, -104));
  EXPECT_TRUE(kept(0x1p-148F, 0x1p-149F)) << "subnormals have the steps of the least normal numbers";
  EXPECT_FALSE(kept(0x1p-149F, 0));
}

TEST(Comparison, OtherModesHoldTheArray) {
  using codec::BoundMode;
  using codec::DType;
  const std::vector<double> values = {0, 10, 5, 5};
  const std::vector<double> copied = {0, 10, 5.5, 4.5};
  const auto kept = [&](const codec::Bound& bound) { return judge(DType::f64, values, copied, bound).kept; };
  EXPECT_TRUE(kept({BoundMode::absolute_and_relative, 0.5, 0.05}));
  EXPECT_FALSE(kept({BoundMode::absolute_and_relative, 0.49, 0.05}));
  EXPECT_FALSE(kept({BoundMode::absolute_and_relative, 0.5, 0.049}));
  const double decibels = 20 * std::log10(10 / std::sqrt(0.125));
  EXPECT_TRUE(kept({BoundMode::psnr, decibels - 1e-9}));
  EXPECT_FALSE(kept({BoundMode::psnr, decibels + 1e-9}));
  EXPECT_TRUE(judge(DType::f64, values, values, {BoundMode::psnr, 300}).kept);
}

TEST(Comparison, IntegersAndHalvesCanHaveBounds) {
  using codec::BoundMode;
  using codec::DType;
  const codec::Bound two{BoundMode::absolute, 2};
  for (const bool big : {false, true}) {
    EXPECT_TRUE(judge<uint16_t>(DType::u16, {65535, 0}, {65533, 2}, two, big).kept);
    EXPECT_FALSE(judge<uint16_t>(DType::u16, {65535, 0}, {65532, 2}, two, big).kept);
    constexpr int64_t kLarge = int64_t{1} << 62;
    EXPECT_TRUE(judge<int64_t>(DType::i64, {kLarge, -kLarge}, {kLarge - 2, 2 - kLarge}, two, big).kept);
    EXPECT_FALSE(judge<int64_t>(DType::i64, {kLarge, -kLarge}, {kLarge - 3, -kLarge}, two, big).kept);
    const std::vector<uint16_t> halves = {0x3c00, 0x4000, 0x7c00, 0x8000};  // 1, 2, infinity, -0
    const codec::Bound half{BoundMode::absolute, 0.5};
    EXPECT_TRUE(judge<uint16_t>(DType::f16, halves, {0x3e00, 0x3e00, 0x7c00, 0x8000}, half, big).kept);
    EXPECT_FALSE(judge<uint16_t>(DType::f16, halves, {0x3e01, 0x3e00, 0x7c00, 0x8000}, half, big).kept);
    EXPECT_FALSE(judge<uint16_t>(DType::f16, halves, {0x3c00, 0x4000, 0x7c00, 0}, half, big).kept);
    EXPECT_TRUE(judge<uint16_t>(DType::bf16, {0x3f80, 0x4000}, {0x3fc0, 0x3fc0}, half, big).kept);
    EXPECT_FALSE(judge<uint16_t>(DType::bf16, {0x3f80, 0x4000}, {0x3fc1, 0x3fc0}, half, big).kept);
  }
}

TEST(Comparison, ScalarsAndEmptyFilesWork) {
  EXPECT_TRUE(run({}, {}, {}, {}).kept());
  const auto scalar = contiguous(codec::DType::f32, {}, 4);
  std::vector<std::byte> original(12);
  auto copy = original;
  put(copy, 4, 0.05F, false);
  EXPECT_TRUE(run(original, copy, {scalar}, {kTenth}).kept());
  copy[3] = copy[11] = std::byte{9};
  const auto result = run(original, copy, {scalar}, {kTenth});
  EXPECT_EQ(result.bytes_different, 2U);
  EXPECT_EQ(result.first_difference, 3U);
  EXPECT_FALSE(result.kept());
}

/// Chunk grids of any shape: which elements are inside is found here by index arithmetic over the whole array.
TEST(Comparison, FindsTheElementsOfAnyChunkGrid) {
  std::mt19937 random(3);
  const auto pick = [&](uint64_t most) { return random() % most + 1; };
  for (int round = 0; round < 300; ++round) {
    fs::ArrayRegion array;
    array.dtype = codec::DType::f32;
    const size_t rank = pick(4);
    uint64_t chunks = 1;
    for (size_t axis = 0; axis < rank; ++axis) {
      array.shape.push_back(pick(7));
      array.chunk_shape.push_back(pick(array.shape.back() + 2));
      chunks *= (array.shape[axis] + array.chunk_shape[axis] - 1) / array.chunk_shape[axis];
    }
    const uint64_t chunk_elements = codec::element_count(array.chunk_shape);
    std::vector<std::byte> original(chunks * (chunk_elements * 4 + 4));
    std::vector<uint64_t> order(chunks);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::ranges::shuffle(order, random);
    for (uint64_t chunk = 0; chunk < chunks; ++chunk) {  // four bytes before each chunk belong to nobody
      array.chunks.push_back({chunk, order[chunk] * (chunk_elements * 4 + 4) + 4});
    }
    // Every float of the copy is moved by 0.05 wherever it lies; between the chunks nothing moves.
    auto copy = original;
    for (const fs::ChunkPlace& place : array.chunks) {
      for (uint64_t i = 0; i < chunk_elements; ++i) {
        put(copy, place.offset + 4 * i, 0.05F, false);
      }
    }
    const auto result = run(original, copy, {array}, {kTenth});
    const uint64_t inside = codec::element_count(array.shape);
    EXPECT_EQ(result.arrays[0].elements, inside);
    EXPECT_EQ(result.arrays[0].changed, inside);
    EXPECT_TRUE(result.arrays[0].kept);
    EXPECT_EQ(result.bytes, original.size() - 4 * inside);
    EXPECT_EQ(result.bytes_different > 0, chunks * chunk_elements > inside) << "padding is bytes";
  }
}

/// Larger than one piece: nothing is lost at the seams.
TEST(Comparison, PiecesJoinWithoutSeams) {
  constexpr uint64_t kCount = 3000001;
  const auto array = contiguous(codec::DType::f32, {kCount}, 6);
  std::vector<std::byte> original(6 + 4 * kCount + 5);
  auto copy = original;
  std::mt19937 random(5);
  uint64_t changed = 0;
  for (uint64_t i = 0; i < kCount; i += random() % 1000 + 1) {
    put(copy, 6 + 4 * i, 0.01F, false);
    ++changed;
  }
  const auto result = run(original, copy, {array}, {kTenth});
  EXPECT_EQ(result.arrays[0].changed, changed);
  EXPECT_EQ(result.arrays[0].elements, kCount);
  EXPECT_EQ(result.bytes, 11U);
  EXPECT_TRUE(result.kept());
}

}  // namespace
}  // namespace varve::tools
