// SPECs of regions by NumPy's rules, and images that lie.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "fs/formats/array_image.h"

namespace varve::fs {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

RegionSpec::Part part_of(const std::string& spec, const codec::Extents& shape) {
  const auto parsed = RegionSpec::parse(spec);
  EXPECT_TRUE(parsed.ok()) << spec << ": " << parsed.error().text;
  const auto part = parsed->apply(shape);
  EXPECT_TRUE(part.ok()) << spec << ": " << part.error().text;
  return *part;
}

TEST(RegionSpec, SlicesAreThoseOfPython) {
  const std::vector<std::pair<std::string, SliceAxis>> cases = {
      {"[:]", {0, 1, 10}},      {"[3:]", {3, 1, 7}},     {"[:-3]", {0, 1, 7}},     {"[-4:-2]", {6, 1, 2}},
      {"[::3]", {0, 3, 4}},     {"[::-1]", {9, -1, 10}}, {"[::-4]", {9, -4, 3}},   {"[7:2:-2]", {7, -2, 3}},
      {"[5:100]", {5, 1, 5}},   {"[-100:4]", {0, 1, 4}}, {"[100:]", {0, 1, 0}},    {"[4:4]", {0, 1, 0}},
      {"[2:8:100]", {2, 1, 1}}, {"[-1]", {9, 1, 1}},     {"[0:-20:-1]", {0, 1, 1}}};
  for (const auto& [spec, axis] : cases) {
    EXPECT_EQ(part_of(spec, {10}).axes.front(), axis) << spec;
  }
  EXPECT_EQ(part_of("[:9223372036854775807:9223372036854775807]", {10}).axes.front(), (SliceAxis{0, 1, 1}));
}

TEST(RegionSpec, NamesAxesAndEllipsis) {
  EXPECT_EQ(RegionSpec::parse("run:u%3A%5b%25%2Fv[1]")->dataset, "run/u:[%/v");
  EXPECT_EQ(RegionSpec::parse(":run:u")->dataset, "run/u");
  EXPECT_EQ(RegionSpec::parse("")->dataset, "");
  EXPECT_EQ(RegionSpec::parse("u[1,:]")->level, 0);
  EXPECT_EQ(RegionSpec::parse("u[1,:]@3")->level, 3);
  EXPECT_EQ(RegionSpec::parse("u[1,:]@3")->indices.size(), 2);
  EXPECT_EQ(RegionSpec::parse("u@3")->dataset, "u@3");
  const auto part = part_of("u[1,...,2:5]", {4, 5, 6, 7});
  EXPECT_EQ(part.kept, (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(kept_shape(part), (codec::Extents{5, 6, 3}));
  EXPECT_EQ(part_of("u", {4, 5}).kept, (std::vector<bool>{true, true}));
  EXPECT_EQ(RegionSpec::parse("[0,0]")->apply({4}).error().code, ENOENT);
  EXPECT_EQ(RegionSpec::parse("[4]")->apply({4}).error().code, ENOENT);
  EXPECT_EQ(RegionSpec::parse("[0]")->apply({0}).error().code, ENOENT);
  for (const char* bad : {"[", "[]", "u[1", "[1::0]", "[x]", "[1,,2]", "[...,...]", "[1:2:3:4]", "%", "%zz", "%00",
                          "[99999999999999999999]", "[-9223372036854775808]"}) {
    EXPECT_EQ(RegionSpec::parse(bad).error().code, EINVAL) << bad;
  }
}

TEST(NpyHeader, IsWhatNumpyWrites) {
  const auto header = npy_header("<f4", false, {3});
  EXPECT_EQ(header.size() % 64, 0U);
  const std::string text(reinterpret_cast<const char*>(header.data()), header.size());
  EXPECT_EQ(text.substr(10, 59), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }  ");
  EXPECT_EQ(text.back(), '\n');
}

/// A sound image of a file of 1000 bytes.
FileImage sample() {
  FileImage image;
  image.size = 64 + 6 * 4;
  image.add_bytes(0, bytes_of("header"));
  ArrayRegion region;
  region.dtype = codec::DType::f32;
  region.shape = {10, 20};
  region.chunk_shape = {5, 20};
  region.chunks = {{0, 100}, {1, 500}};
  image.sources.push_back({region, {}});
  image.add_slice(64, 0, {{9, -4, 3}, {1, 18, 2}});
  EXPECT_TRUE(image.finish(1000).ok());
  return image;
}

TEST(FileImage, ComesBackFromItsBytes) {
  const FileImage image = sample();
  const auto again = deserialise_image(serialise(image), 1000);
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, image);
}

TEST(FileImage, LiesAreRefused) {
  const std::vector<std::function<void(FileImage&)>> lies = {
      [](FileImage& i) { i.size = 80; },
      [](FileImage& i) { i.size = uint64_t{1} << 61; },
      [](FileImage& i) { i.parts[1].offset = 3; },
      [](FileImage& i) { i.parts[1].offset = UINT64_MAX - 2; },
      [](FileImage& i) { i.parts[1].length = 20; },
      [](FileImage& i) { i.parts[0].length = 7; },
      [](FileImage& i) { i.parts[1].source = 1; },
      [](FileImage& i) { i.parts[1].axes.pop_back(); },
      [](FileImage& i) { i.parts[1].axes[0].start = 10; },
      [](FileImage& i) { i.parts[1].axes[0].step = 0; },
      [](FileImage& i) { i.parts[1].axes[0].step = -5; },
      [](FileImage& i) { i.parts[1].axes[0].step = INT64_MIN; },
      [](FileImage& i) { i.parts[1].axes[1].step = 19; },
      [](FileImage& i) { i.parts[1].axes[1].count = 0; },
      [](FileImage& i) { i.parts[1].axes[1].count = uint64_t{1} << 62; },
      [](FileImage& i) { i.sources[0].fill.resize(3); },
      [](FileImage& i) { i.sources[0].region.chunks[1].offset = 700; },
      [](FileImage& i) { i.sources[0].region.shape[0] = 0; },
  };
  for (size_t lie = 0; lie < lies.size(); ++lie) {
    FileImage image = sample();
    lies[lie](image);
    const auto again = deserialise_image(serialise(image), 1000);
    EXPECT_TRUE(!again.ok() && again.error().code == EBADMSG) << lie;
  }
  EXPECT_FALSE(deserialise_image(serialise(sample()), 899).ok());
}

TEST(FileImage, DamagedBytesAreRefusedOrSound) {
  const auto good = serialise(sample());
  std::mt19937 random(1);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(deserialise_image(std::span(good).first(i), 1000).ok()) << "cut at " << i;
    auto bad = good;
    bad[i] ^= static_cast<std::byte>(1U << random() % 8);
    if (auto image = deserialise_image(bad, 1000); image.ok()) {
      EXPECT_TRUE(image->finish(1000).ok());
    }
  }
}

}  // namespace
}  // namespace varve::fs
