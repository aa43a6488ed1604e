#include "codec/geometry.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace varve::codec {
namespace {

Extents random_shape(std::mt19937_64& random) {
  constexpr std::array<uint64_t, 14> kExtents = {1, 1, 2, 3, 5, 7, 8, 9, 16, 17, 63, 64, 65, 130};
  Extents shape(random() % 6);
  for (uint64_t& extent : shape) {
    extent = kExtents.at(random() % kExtents.size());
  }
  return shape;
}

std::vector<uint8_t> random_axes(size_t rank, std::mt19937_64& random) {
  std::vector<uint8_t> axes(rank);
  std::iota(axes.begin(), axes.end(), uint8_t{0});
  std::shuffle(axes.begin(), axes.end(), random);
  axes.resize(std::min<size_t>(rank, 1 + random() % 3));
  std::sort(axes.begin(), axes.end());
  return axes;
}

void mark(const Extents& shape, const Box& box, std::vector<int>& seen) {
  Extents index = box.origin;
  while (element_count(box.shape) > 0) {
    uint64_t at = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      at = at * shape[axis] + index[axis];
    }
    ++seen.at(at);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == box.origin[axis - 1] + box.shape[axis - 1]) {
      --axis;
      index[axis] = box.origin[axis];
    }
    if (axis == 0) {
      return;
    }
  }
}

TEST(Geometry, BricksAndTilesCoverEveryElementOnce) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const Extents shape = random_shape(random);
    if (element_count(shape) > 300000) {
      continue;
    }
    const Geometry geometry = Geometry::make(shape, random_axes(shape.size(), random));
    ASSERT_TRUE(geometry.check().ok()) << geometry.check().error().text;
    std::vector<int> by_brick(element_count(shape), 0);
    std::vector<int> by_tile(element_count(shape), 0);
    size_t bricks = 0;
    for (uint64_t tile = 0; tile < geometry.tile_count(); ++tile) {
      mark(shape, geometry.tile_box(tile), by_tile);
      for (const uint64_t brick : geometry.bricks_of(tile)) {
        EXPECT_EQ(geometry.tile_of(brick), tile);
        EXPECT_LE(element_count(geometry.brick_box(brick).shape), kMaxBrickElements);
        mark(shape, geometry.brick_box(brick), by_brick);
        ++bricks;
      }
    }
    EXPECT_EQ(bricks, geometry.brick_count());
    EXPECT_TRUE(std::all_of(by_brick.begin(), by_brick.end(), [](int n) { return n == 1; }));
    EXPECT_TRUE(std::all_of(by_tile.begin(), by_tile.end(), [](int n) { return n == 1; }));
  }
}

TEST(Geometry, BricksInABoxAreThoseThatMeetIt) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    const Extents shape = random_shape(random);
    const Geometry geometry = Geometry::make(shape, random_axes(shape.size(), random));
    Box box{Extents(shape.size()), Extents(shape.size())};
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      box.origin[axis] = random() % shape[axis];
      box.shape[axis] = 1 + random() % (shape[axis] - box.origin[axis]);
    }
    std::vector<uint64_t> expected;
    for (uint64_t brick = 0; brick < geometry.brick_count(); ++brick) {
      const Box one = geometry.brick_box(brick);
      bool meets = true;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        meets = meets && one.origin[axis] < box.origin[axis] + box.shape[axis] &&
                box.origin[axis] < one.origin[axis] + one.shape[axis];
      }
      if (meets) {
        expected.push_back(brick);
      }
    }
    EXPECT_EQ(geometry.bricks_in(box), expected);
  }
}

TEST(Geometry, LargeArraysHaveTheNumbersOfTheDesign) {
  const Geometry cube = Geometry::make({512, 512, 512}, {0, 1, 2});
  EXPECT_EQ(cube.brick, (Extents{64, 64, 64}));
  EXPECT_EQ(cube.tile, (Extents{64, 512, 512}));
  EXPECT_EQ(cube.tile_count(), 8U);
  EXPECT_EQ(cube.brick_count(), 512U);
  const Geometry plane = Geometry::make({5000, 6000}, {0, 1});
  EXPECT_EQ(plane.brick, (Extents{256, 256}));
  EXPECT_EQ(plane.tile, (Extents{256, 2048}));
  const Geometry line = Geometry::make({1000000}, {0});
  EXPECT_EQ(line.brick, (Extents{65536}));
  EXPECT_EQ(line.tile, (Extents{524288}));
  const Geometry empty = Geometry::make({5, 0, 3}, {0, 1, 2});
  EXPECT_EQ(empty.tile_count(), 0U);
  EXPECT_EQ(empty.brick_count(), 0U);
  const Geometry scalar = Geometry::make({}, {});
  EXPECT_EQ(scalar.tile_count(), 1U);
  EXPECT_EQ(scalar.brick_count(), 1U);
}

}  // namespace
}  // namespace varve::codec
