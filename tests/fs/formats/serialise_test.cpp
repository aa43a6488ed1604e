#include <gtest/gtest.h>

#include <random>

#include "fs/formats/check.h"
#include "views.h"

namespace varve::fs {
namespace {

ArrayRegion random_array(std::mt19937_64& random) {
  ArrayRegion array;
  array.name = std::string(random() % 20, static_cast<char>('a' + random() % 26));
  array.dtype = static_cast<codec::DType>(1 + random() % 11);
  array.big_endian = random() % 2 == 0;
  array.fortran_order = random() % 2 == 0;
  for (size_t axis = 0, rank = random() % 5; axis < rank; ++axis) {
    array.shape.push_back(1 + random() % 9);
    array.chunk_shape.push_back(1 + random() % 9);
  }
  uint64_t grid = *chunk_grid_size(array);
  for (uint64_t chunk = 0; chunk < grid; ++chunk) {
    if (random() % 3 != 0) {
      array.chunks.push_back({chunk, random() % 100000});
    }
  }
  for (size_t i = random() % 2 * (random() % 4); i > 0; --i) {
    const auto kind = static_cast<ChunkFilter::Kind>(i == 1 ? 2 : random() % 2);
    array.filters.push_back({kind, static_cast<uint32_t>(1 + random() % 9)});
  }
  for (size_t i = 0; i < array.chunks.size() && !array.filters.empty(); ++i) {
    array.stored.push_back({random() % 1000, static_cast<uint32_t>(random() % 8), 0});
  }
  for (size_t i = random() % 3; i > 0; --i) {
    array.fill_values.push_back(random());
  }
  array.keep_exact = random() % 2 == 0 ? "" : "coordinate";
  return array;
}

TEST(Serialise, ComesBackAsItWas) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    Recognised recognised{round % 2 == 0 ? "hdf5" : "", {}};
    for (size_t i = random() % 5; i > 0; --i) {
      recognised.arrays.push_back(random_array(random));
    }
    auto back = deserialise(serialise(recognised));
    ASSERT_TRUE(back.ok()) << back.error().text;
    EXPECT_EQ(back->format, recognised.format);
    EXPECT_EQ(back->arrays, recognised.arrays);
  }
}

TEST(Serialise, NoPrefixAndNoExtensionIsAccepted) {
  std::mt19937_64 random(5);
  Recognised recognised{"npy", {random_array(random), random_array(random)}};
  auto bytes = serialise(recognised);
  for (size_t length = 0; length < bytes.size(); ++length) {
    auto result = deserialise(std::span(bytes).first(length));
    ASSERT_FALSE(result.ok()) << length;
    EXPECT_EQ(result.error().code, EBADMSG);
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(deserialise(bytes).ok());
}

TEST(Serialise, FlippedBytesNeverYieldAnInconsistentArray) {
  std::mt19937_64 random(9);
  Recognised recognised{"hdf5", {random_array(random), random_array(random), random_array(random)}};
  auto original = serialise(recognised);
  for (size_t at = 0; at < original.size(); ++at) {
    for (int value : {0x01, 0x80, 0xff}) {
      auto bytes = original;
      bytes[at] ^= static_cast<std::byte>(value);
      auto result = deserialise(bytes);
      if (result.ok()) {
        for (const ArrayRegion& array : result->arrays) {
          EXPECT_TRUE(check_array(array).ok());
        }
      }
    }
  }
}

ArrayRegion simple(uint64_t offset, codec::Extents shape) {
  ArrayRegion array;
  array.name = "/a";
  array.dtype = codec::DType::u16;
  array.shape = array.chunk_shape = std::move(shape);
  array.chunks = {{0, offset}};
  return array;
}

TEST(Check, OverlapsAndOverhangsAreRefused) {
  auto check = [](std::vector<ArrayRegion> arrays, uint64_t size) {
    return check_arrays(Recognised{"x", std::move(arrays)}, size).ok();
  };
  EXPECT_TRUE(check({simple(0, {5}), simple(10, {5})}, 20));
  EXPECT_FALSE(check({simple(0, {5}), simple(9, {5})}, 20));
  EXPECT_FALSE(check({simple(9, {5}), simple(0, {5})}, 20));
  EXPECT_FALSE(check({simple(0, {5}), simple(0, {5})}, 20));
  EXPECT_FALSE(check({simple(10, {5}), simple(0, {5})}, 19));
  EXPECT_FALSE(check({simple(UINT64_MAX - 4, {5})}, 20));
  EXPECT_FALSE(check({simple(0, {uint64_t{1} << 63, 4})}, UINT64_MAX));
  EXPECT_FALSE(check({simple(0, {uint64_t{1} << 32, uint64_t{1} << 32})}, UINT64_MAX));
  EXPECT_FALSE(check({simple(0, {0})}, 20));
  ArrayRegion array = simple(0, {4, 4});
  array.chunk_shape = {2, 2};
  array.chunks = {{0, 0}, {3, 8}};
  EXPECT_TRUE(check({array}, 20));
  array.chunks = {{0, 0}, {4, 8}};
  EXPECT_FALSE(check({array}, 20));
  array.chunks = {{3, 8}, {0, 0}};
  EXPECT_FALSE(check({array}, 20));
  array.chunks = {{3, 8}, {3, 0}};
  EXPECT_FALSE(check({array}, 20));
  array.chunk_shape = {2};
  EXPECT_FALSE(check({array}, 20));
  array = simple(0, codec::Extents(33, 1));
  EXPECT_FALSE(check({array}, 20));
  array = simple(0, {2});
  array.dtype = static_cast<codec::DType>(99);
  EXPECT_FALSE(check({array}, 20));
}

}  // namespace
}  // namespace varve::fs
