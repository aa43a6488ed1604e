// Elements of arrays in chunks, near each other and far apart, in and out of order, padded and absent.
#include "fs/gather.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "fs/chunk_grid.h"

namespace varve::fs {
namespace {

/// A file of random bytes that counts what is read.
struct CountedFile {
  std::vector<std::byte> bytes;
  uint64_t reads = 0, length = 0;
  ReadContent read = [this](uint64_t offset, std::span<std::byte> out) -> Status {
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      return Error{EIO, "past the end"};
    }
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    ++reads;
    length += out.size();
    return {};
  };
  CountedFile(size_t size, std::mt19937_64& random) : bytes(size) {
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random());
    }
  }
};

/// One element after the other.
std::vector<uint32_t> expected(const ArrayRegion& region, const codec::Box& box, const CountedFile& file) {
  std::vector<uint32_t> elements;
  codec::Extents at(box.shape.size(), 0);
  do {
    uint64_t chunk = 0, inside = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const uint64_t index = box.origin[axis] + at[axis], step = region.chunk_shape[axis];
      chunk = chunk * ((region.shape[axis] + step - 1) / step) + index / step;
      inside = inside * step + index % step;
    }
    const ChunkPlace* place = find_chunk(region, chunk);
    uint32_t value = static_cast<uint32_t>(region.fill_values.at(0));
    if (place != nullptr) {
      std::memcpy(&value, file.bytes.data() + place->offset + inside * 4, 4);
      value = region.big_endian ? __builtin_bswap32(value) : value;
    }
    elements.push_back(value);
  } while (codec::next_index(at, box.shape));
  return elements;
}

TEST(Gather, RandomArraysOfAllArrangements) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    ArrayRegion region;
    region.dtype = codec::DType::f32;
    region.big_endian = random() % 2 == 0;
    region.fill_values = {7};
    for (size_t rank = random() % 4; rank > 0; --rank) {
      region.shape.push_back(1 + random() % 12);
      region.chunk_shape.push_back(1 + random() % 6);
    }
    uint64_t chunks = 1, bytes = 4;
    for (size_t axis = 0; axis < region.shape.size(); ++axis) {
      chunks *= (region.shape[axis] + region.chunk_shape[axis] - 1) / region.chunk_shape[axis];
      bytes *= region.chunk_shape[axis];
    }
    std::vector<uint64_t> slots(chunks);
    std::iota(slots.begin(), slots.end(), uint64_t{0});
    if (round % 3 == 0) {
      std::shuffle(slots.begin(), slots.end(), random);
    }
    const uint64_t step = bytes + (round % 4 == 0 ? 9000 : random() % 100);
    for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
      if (random() % 8 != 0) {
        region.chunks.push_back({chunk, slots[chunk] * step});
      }
    }
    CountedFile file((chunks - 1) * step + bytes, random);
    codec::Box box;
    for (const uint64_t extent : region.shape) {
      box.origin.push_back(random() % extent);
      box.shape.push_back(1 + random() % (extent - box.origin.back()));
    }
    const auto wanted = expected(region, box, file);
    std::vector<uint32_t> found(wanted.size());
    ASSERT_TRUE(gather_box(region, box, file.read, reinterpret_cast<std::byte*>(found.data())).ok());
    ASSERT_EQ(found, wanted) << round;
  }
}

TEST(Gather, SmallChunksNearEachOtherAreReadTogether) {
  std::mt19937_64 random(4);
  ArrayRegion region;
  region.dtype = codec::DType::f32;
  region.fill_values = {0};
  region.shape = {1000, 5};
  region.chunk_shape = {1, 5};
  for (const auto& [step, reads] : {std::pair{100U, 1U}, {9000U, 1000U}}) {
    region.chunks.clear();
    for (uint64_t record = 0; record < 1000; ++record) {
      region.chunks.push_back({record, record * step});
    }
    CountedFile file(999 * step + 20, random);
    const codec::Box box{{0, 0}, {1000, 5}};
    std::vector<uint32_t> found(5000);
    ASSERT_TRUE(gather_box(region, box, file.read, reinterpret_cast<std::byte*>(found.data())).ok());
    EXPECT_EQ(found, expected(region, box, file));
    EXPECT_EQ(file.reads, reads);
    EXPECT_EQ(file.length, reads == 1 ? file.bytes.size() : 20000U);
  }
}

TEST(Gather, AnErrorEndsIt) {
  ArrayRegion region;
  region.dtype = codec::DType::u8;
  region.shape = {100};
  region.chunk_shape = {1};
  for (uint64_t i = 0; i < 100; ++i) {
    region.chunks.push_back({i, i * 3});
  }
  std::vector<std::byte> out(100);
  const auto fail = [](uint64_t, std::span<std::byte>) -> Status { return Error{EIO, "a reason"}; };
  EXPECT_EQ(gather_box(region, {{0}, {100}}, fail, out.data()).error().code, EIO);
}

}  // namespace
}  // namespace varve::fs
