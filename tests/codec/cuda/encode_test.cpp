// Kernels encode to the CPU's records.
#include <cstdlib>
#include <numeric>

#include "tests/codec/cuda/coded.h"
#include "tests/codec/cuda/device.h"
#include "tests/codec/fields.h"

namespace varve::codec::testing {
namespace {

class CudaEncode : public OnDevice {};

/// Encodes on both sides.
void compare(const Array& array, const Coded& coded, unsigned order, cuda::EncodeCounts& counts,
             std::set<std::string>* kinds = nullptr) {
  const auto device = make_device(order);
  std::vector<uint64_t> tiles(coded.codec.tile_count());
  std::iota(tiles.begin(), tiles.end(), uint64_t{0});
  const Box whole{Extents(array.spec.shape.size(), 0), array.spec.shape};
  std::vector<WorkErrors> errors;
  const bool measured = order % 2 == 0;
  const auto seen =
      device->encode(coded.settings, tiles, whole, array.data.data(), counts, measured ? &errors : nullptr);
  ASSERT_TRUE(seen.ok());
  ASSERT_EQ(errors.size(), measured ? tiles.size() : 0);
  const auto expected = encode_all(coded.codec, array);
  ASSERT_TRUE(expected.ok());
  Store store;
  for (const auto& records : *seen) {
    keep(records, store);
  }
  ASSERT_EQ(store.size(), expected->size());
  for (const auto& [id, record] : *expected) {
    ASSERT_TRUE(store[id] == record) << "level " << int{id.first} << " of " << id.second << ": "
                                     << fmt::format("{} bytes, not {}", store[id].size(), record.size());
  }
  for (uint64_t tile = 0; tile < tiles.size(); ++tile) {
    Bytes memory;
    const std::byte* elements =
        tile_elements(coded.settings.geometry, tile, array.data.data(), element_size(array.spec.dtype), memory);
    WorkErrors wanted;
    const auto records = encode_tile(coded.settings, tile, elements, false, &wanted);
    ASSERT_EQ(records->size(), seen->at(tile).size());
    for (size_t i = 0; i < records->size(); ++i) {
      ASSERT_EQ(records->at(i).id, seen->at(tile).at(i).id) << "the order";
    }
    if (measured) {
      EXPECT_EQ(errors[tile].most, wanted.most) << "tile " << tile;
      EXPECT_EQ(errors[tile].largest, wanted.largest) << "tile " << tile;
    }
  }
  if (kinds != nullptr) {
    note_kinds(coded, store, *kinds);
  }
}

TEST_F(CudaEncode, RandomArraysGiveTheSameRecords) {
  std::mt19937_64 random(47);
  std::set<std::string> kinds;
  cuda::EncodeCounts counts;
  int compared = 0;
  until_seen(kinds, kKindsOfBoth, [&](int round) {
    const auto [array, coded] = random_coded(random, round % 20 == 0 ? 150000 : 12000);
    if (cuda::why_unsupported(coded.settings) != cuda::Unsupported::no) {
      return;
    }
    SCOPED_TRACE(fmt::format("round {}: {}", round, describe(array, coded)));
    compare(array, coded, static_cast<unsigned>(random() % 1000), counts, &kinds);
    ++compared;
  });
  std::printf("%d arrays compared, %lu tiles by kernels, %lu by the CPU, with %s\n", compared, counts.device_tiles,
              counts.cpu_tiles, fmt::format("{}", fmt::join(kinds, "; ")).c_str());
  EXPECT_GE(compared, kRounds / 2);
  EXPECT_GT(counts.device_tiles, counts.cpu_tiles * 3);
}

// Infinities are exact elements, whose lists Zstandard packs to little: a device cannot know to how little.
TEST_F(CudaEncode, WhatDependsOnPackingIsTheCpus) {
  std::mt19937_64 random(53);
  uint64_t by_kernels = 0;
  for (int round = 0; round < 10; ++round) {
    Array array = make_array(DType::f32, {40, 30, 33}, Content::waves, {BoundMode::absolute, 1e-3}, random());
    Coded coded = plan(array);
    change(coded, random);
    const float infinity = std::numeric_limits<float>::infinity();
    for (size_t i = array.count() / 2; i < array.count(); ++i) {
      std::memcpy(array.data.data() + i * sizeof infinity, &infinity, sizeof infinity);
    }
    SCOPED_TRACE(describe(array, coded));
    cuda::EncodeCounts counts;
    compare(array, coded, 0, counts);
    EXPECT_GT(counts.cpu_tiles, 0U);
    by_kernels += counts.device_tiles;
  }
  EXPECT_GT(by_kernels, 0U);
}

TEST_F(CudaEncode, RealFields) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA names no test data";
  }
  int compared = 0;
  for_each_field(
      root,
      [&](const std::string& name, Array& array) {
        for (const double bound : {1e-2, 1e-4}) {
          array.spec.bound = {BoundMode::relative, bound};
          const Coded coded = plan(array);
          if (cuda::why_unsupported(coded.settings) != cuda::Unsupported::no) {
            continue;
          }
          SCOPED_TRACE(name + " " + describe(array, coded));
          cuda::EncodeCounts counts;
          compare(array, coded, 0, counts);
          ++compared;
        }
      },
      600000);
  std::printf("%d fields compared\n", compared);
  EXPECT_GE(compared, 20);
}

TEST_F(CudaEncode, LargerShapes) {
  for (const Extents& shape : std::vector<Extents>{{70, 130, 67}, {300, 2100}, {600000}, {3, 40, 70, 9}, {20000, 3}}) {
    for (const Content content : {Content::waves, Content::mask}) {
      const Array array = make_array(DType::f32, shape, content, {BoundMode::relative, 1e-4}, 5);
      const Coded coded = plan(array);
      ASSERT_EQ(cuda::why_unsupported(coded.settings), cuda::Unsupported::no);
      SCOPED_TRACE(describe(array, coded));
      cuda::EncodeCounts counts;
      compare(array, coded, 0, counts);
      EXPECT_EQ(counts.cpu_tiles, 0U);
    }
  }
}

}  // namespace
}  // namespace varve::codec::testing
