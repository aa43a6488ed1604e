// The small structures that the read and write paths rest on, against brute force.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>

#include "fs/box_copy.h"
#include "fs/brick_cache.h"
#include "fs/chunk_grid.h"
#include "fs/intervals.h"
#include "fs/layout.h"
#include "fs/thread_pool.h"

namespace varve::fs {
namespace {

using codec::Box;
using codec::DType;
using codec::element_count;
using codec::Extents;

TEST(Intervals, MatchASetOfOffsets) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    IntervalSet set;
    std::vector<bool> model(64);
    for (int step = 0; step < 40; ++step) {
      const uint64_t begin = random() % 64;
      const uint64_t end = begin + random() % (65 - begin);
      const bool add = random() % 3 != 0;
      add ? set.add(begin, end) : set.remove(begin, end);
      std::fill(model.begin() + static_cast<long>(begin), model.begin() + static_cast<long>(end), add);
      std::vector<bool> seen(64);
      uint64_t last = 0;
      bool first = true;
      for (const auto& [from, to] : set.intervals()) {
        ASSERT_LT(from, to);
        ASSERT_TRUE(first || from > last) << "not disjoint, or not merged";
        first = false;
        last = to;
        std::fill(seen.begin() + static_cast<long>(from), seen.begin() + static_cast<long>(to), true);
      }
      ASSERT_EQ(seen, model);
      const uint64_t low = random() % 64;
      const uint64_t high = low + random() % (65 - low);
      bool any = false;
      bool all = true;
      for (uint64_t i = low; i < high; ++i) {
        any = any || model[i];
        all = all && model[i];
      }
      ASSERT_EQ(set.intersects(low, high), any);
      ASSERT_EQ(set.covers(low, high), all);
      uint64_t at = low;
      set.split(low, high, [&](uint64_t from, uint64_t to, bool inside) {
        EXPECT_EQ(from, at);
        for (uint64_t i = from; i < to; ++i) {
          EXPECT_EQ(model[i], inside);
        }
        at = to;
        return true;
      });
      ASSERT_EQ(at, high);
    }
  }
}

Extents random_shape(std::mt19937& random, size_t rank, uint64_t limit) {
  Extents shape(rank);
  for (uint64_t& extent : shape) {
    extent = 1 + random() % limit;
  }
  return shape;
}

/// Indices of the n-th element in C order.
Extents index_of(uint64_t n, const Extents& shape) {
  Extents index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = n % shape[i];
    n /= shape[i];
  }
  return index;
}

uint64_t number_of(const Extents& index, const Extents& shape) {
  uint64_t n = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    n = n * shape[i] + index[i];
  }
  return n;
}

TEST(Boxes, ARunSplitsIntoBoxesInOrder) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const Extents shape = random_shape(random, random() % 5, 6);
    const uint64_t total = element_count(shape);
    const uint64_t begin = random() % (total + 1);
    const uint64_t end = begin + random() % (total - begin + 1);
    uint64_t at = begin;
    const auto boxes = boxes_of_run(shape, begin, end);
    ASSERT_LE(boxes.size(), shape.empty() ? 1U : 2 * shape.size() - 1);
    for (const Box& box : boxes) {
      for (uint64_t i = 0; i < element_count(box.shape); ++i, ++at) {
        Extents index = index_of(i, box.shape);
        for (size_t axis = 0; axis < index.size(); ++axis) {
          index[axis] += box.origin[axis];
        }
        ASSERT_EQ(number_of(index, shape), at);
      }
    }
    ASSERT_EQ(at, end);
  }
}

TEST(Boxes, CopyMovesExactlyThePart) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const size_t rank = random() % 5;
    const auto random_box = [&] {
      Box box{Extents(rank), random_shape(random, rank, 6)};
      for (uint64_t& origin : box.origin) {
        origin = random() % 4;
      }
      return box;
    };
    const Box from_box = random_box();
    const Box to_box = random_box();
    const Box part = intersection(from_box, to_box);
    std::vector<uint32_t> from(element_count(from_box.shape));
    for (size_t i = 0; i < from.size(); ++i) {
      from[i] = static_cast<uint32_t>(i + 1);
    }
    std::vector<uint32_t> to(element_count(to_box.shape), 0);
    copy_box(part, {&from_box, reinterpret_cast<std::byte*>(from.data())},
             {&to_box, reinterpret_cast<std::byte*>(to.data())}, sizeof(uint32_t));
    for (size_t i = 0; i < to.size(); ++i) {
      Extents index = index_of(i, to_box.shape);
      bool inside = true;
      for (size_t axis = 0; axis < rank; ++axis) {
        index[axis] += to_box.origin[axis];
        inside = inside && index[axis] >= from_box.origin[axis] &&
                 index[axis] < from_box.origin[axis] + from_box.shape[axis];
        index[axis] -= inside ? from_box.origin[axis] : 0;
      }
      ASSERT_EQ(to[i], inside ? from[number_of(index, from_box.shape)] : 0);
    }
  }
}

ArrayRegion random_region(std::mt19937& random) {
  ArrayRegion region;
  region.name = "/a";
  region.dtype = random() % 2 == 0 ? DType::f32 : DType::u8;
  const size_t rank = 1 + random() % 4;
  region.shape = random_shape(random, rank, 9);
  region.chunk_shape = random_shape(random, rank, 5);
  uint64_t chunks = 1;
  for (size_t i = 0; i < rank; ++i) {
    chunks *= (region.shape[i] + region.chunk_shape[i] - 1) / region.chunk_shape[i];
  }
  const uint64_t bytes = element_count(region.chunk_shape) * codec::element_size(region.dtype);
  std::vector<uint64_t> slots(chunks);
  for (uint64_t i = 0; i < chunks; ++i) {
    slots[i] = i;
  }
  std::shuffle(slots.begin(), slots.end(), random);
  for (uint64_t i = 0; i < chunks; ++i) {
    if (random() % 6 != 0) {
      region.chunks.push_back({i, slots[i] * (bytes + 7) + 3});
    }
  }
  return region;
}

TEST(Chunks, PaddingAndRangesMatchElementByElement) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const ArrayRegion region = random_region(random);
    const size_t element = codec::element_size(region.dtype);
    std::set<uint64_t> element_bytes;  // file offsets of all elements of the array
    for (const ChunkPlace& place : region.chunks) {
      const ChunkGeometry geometry(region, place.chunk);
      uint64_t padding = 0;
      for (uint64_t i = 0; i < element_count(geometry.shape()); ++i) {
        ASSERT_EQ(geometry.padding_before(i), padding);
        const Extents index = index_of(i, geometry.shape());
        bool valid = true;
        for (size_t axis = 0; axis < index.size(); ++axis) {
          valid = valid && geometry.origin()[axis] + index[axis] < region.shape[axis];
        }
        padding += valid ? 0 : 1;
        if (valid) {
          element_bytes.insert(place.offset + i * element);
        }
      }
      ASSERT_EQ(geometry.padding_bytes(), padding * element);
      ASSERT_EQ(geometry.padding_before(element_count(geometry.shape())), padding);
    }
    std::set<uint64_t> visited;
    for_each_file_range(region, {Extents(region.shape.size(), 0), region.shape}, [&](uint64_t offset, uint64_t length) {
      for (uint64_t i = 0; i < length; i += element) {
        EXPECT_TRUE(visited.insert(offset + i).second);
      }
    });
    ASSERT_EQ(visited, element_bytes);
  }
}

TEST(Layouts, SurviveSerialising) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    Layout layout;
    layout.size = 1 << 20;
    layout.format = "hdf5";
    layout.note = "a note";
    ArrayEntry entry;
    entry.region = random_region(random);
    entry.region.big_endian = random() % 2 == 0;
    entry.region.fill_values = {0x7fc00000, 42};
    entry.region.keep_exact = "coordinate";
    if (round % 2 == 0) {
      entry.region.filters = {{ChunkFilter::Kind::shuffle, 4}, {ChunkFilter::Kind::deflate, 9}};
      for (size_t i = 0; i < entry.region.chunks.size(); ++i) {
        entry.region.stored.push_back({1 + random() % 6, static_cast<uint32_t>(random() % 4), random()});
      }
      layout.deflater = "zlib 0";
    }
    entry.bound = round % 2 == 0 ? codec::Bound{codec::BoundMode::relative, 1e-3}
                                 : codec::Bound{codec::BoundMode::absolute_and_relative, 0.5, 1e-3};
    entry.why = "because";
    entry.codec = std::string("\0\1\2", 3);
    if (round % 3 != 0) {
      entry.errors.emplace().most = {1e-3, 0.1, 2.5, std::numeric_limits<double>::infinity()};
      entry.least = -1.5;
      entry.greatest = 3;
    }
    layout.arrays.push_back(entry);
    layout.holes.add(1 << 19, 1 << 20);
    layout.patched.add(10, 20);
    ASSERT_TRUE(layout.build_extents().ok());
    const std::string text = layout.serialise();
    const auto back = Layout::parse(text);
    ASSERT_TRUE(back.ok()) << back.error().text;
    EXPECT_EQ(back->arrays[0].region, entry.region);
    EXPECT_EQ(back->arrays[0].bound, entry.bound);
    EXPECT_EQ(back->arrays[0].codec, entry.codec);
    EXPECT_EQ(back->arrays[0].errors, entry.errors);
    EXPECT_EQ(back->arrays[0].least, entry.least);
    EXPECT_EQ(back->arrays[0].greatest, entry.greatest);
    EXPECT_EQ(back->extents, layout.extents);
    EXPECT_EQ(back->patched, layout.patched);
    EXPECT_EQ(back->deflater, layout.deflater);
    EXPECT_EQ(back->stream_size, layout.stream_size);
    uint64_t at = 0;
    for (const Extent& extent : back->extents) {
      ASSERT_EQ(extent.offset, at);
      at += extent.length;
    }
    ASSERT_EQ(at, layout.size);
    for (size_t cut = 0; cut < text.size(); ++cut) {
      EXPECT_FALSE(Layout::parse(text.substr(0, cut)).ok());
    }
    for (size_t i = 0; i < text.size(); ++i) {
      std::string bad = text;
      bad[i] = static_cast<char>(random());
      static_cast<void>(Layout::parse(bad));  // must not crash
    }
  }
}

// Version 1 ended an array with its codec, version 2 with errors. Neither named a library that deflates.
TEST(Layouts, OfEarlierVersionsAreRead) {
  Layout layout;
  layout.size = 1000;
  ArrayEntry entry;
  entry.region.name = "a";
  entry.region.shape = entry.region.chunk_shape = {100};
  entry.region.chunks = {{0, 20}};
  entry.codec = "codec";
  layout.arrays.push_back(entry);
  ASSERT_TRUE(layout.build_extents().ok());
  std::string text = layout.serialise();
  ASSERT_EQ(text[0], 3);
  ASSERT_EQ(text[1], 0);
  ASSERT_TRUE(text.ends_with(std::string(2, '\0')));  // no errors, no filters
  const size_t deflater = 2 + 2 + 1 + 1;              // behind the size of two bytes, format and note
  ASSERT_EQ(text[deflater], 0);
  text.erase(deflater, 1);
  for (const char version : {2, 1}) {
    text.pop_back();
    text[0] = version;
    const auto back = Layout::parse(text);
    ASSERT_TRUE(back.ok()) << back.error().text;
    EXPECT_FALSE(back->arrays[0].errors.has_value());
    EXPECT_TRUE(back->arrays[0].region.filters.empty());
    EXPECT_EQ(back->arrays[0].codec, "codec");
  }
  text[0] = 4;
  EXPECT_EQ(Layout::parse(text).error().code, EPROTO);
}

TEST(Layouts, OverlappingArraysAreRefused) {
  Layout layout;
  layout.size = 100;
  ArrayEntry entry;
  entry.region.dtype = DType::u8;
  entry.region.shape = entry.region.chunk_shape = {50};
  entry.region.chunks = {{0, 0}};
  layout.arrays = {entry, entry};
  layout.arrays[1].region.chunks = {{0, 49}};
  EXPECT_FALSE(layout.build_extents().ok());
  layout.arrays[1].region.chunks = {{0, 51}};
  EXPECT_FALSE(layout.build_extents().ok());
  layout.arrays[1].region.chunks = {{0, 50}};
  EXPECT_TRUE(layout.build_extents().ok());
}

TEST(Threads, ParallelForRunsEachIndexOnceEvenWhenNested) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> counts(64 * 64);
  pool.parallel_for(64, [&](size_t i) { pool.parallel_for(64, [&](size_t j) { ++counts[i * 64 + j]; }); });
  for (const auto& count : counts) {
    ASSERT_EQ(count.load(), 1);
  }
}

TEST(Cache, MakesAnEntryOnceForManyThreadsAndStaysWithinItsLimit) {
  BrickCache cache(10000);
  ThreadPool pool(4);
  std::atomic<int> made{0};
  pool.parallel_for(100, [&](size_t) {
    const auto data = cache.get({1, 1, 0, 7}, [&]() -> Result<codec::Bytes> {
      ++made;
      return codec::Bytes(100, std::byte{9});
    });
    ASSERT_TRUE(data.ok());
    ASSERT_EQ((*data)->size(), 100U);
  });
  EXPECT_EQ(made.load(), 1);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(cache.get({2, 1, 0, i}, [] { return Result<codec::Bytes>(codec::Bytes(1000)); }).ok());
  }
  int kept = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    kept += cache.contains({2, 1, 0, i}) ? 1 : 0;
  }
  EXPECT_GT(kept, 4);
  EXPECT_LE(kept, 10);
  EXPECT_TRUE(cache.contains({2, 1, 0, 99}));
  EXPECT_FALSE(cache.get({3, 0, 0, 0}, [] { return Result<codec::Bytes>(Error{EIO, "no"}); }).ok());
  EXPECT_FALSE(cache.contains({3, 0, 0, 0}));
}

}  // namespace
}  // namespace varve::fs
