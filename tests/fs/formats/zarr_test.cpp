// Metadata of Zarr arrays, as zarr-python and others write them.
#include "fs/formats/zarr.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace varve::fs {
namespace {

using Values = std::vector<uint64_t>;

ZarrMetadata v2(const std::string& dtype, const std::string& chunks = "[4, 6]", const std::string& more = "") {
  return {"t",
          fmt::format(R"({{"zarr_format": 2, "shape": [40, 60], "chunks": {}, "dtype": {}, "compressor": null, )"
                      R"("filters": null, "order": "C", "fill_value": 0.0{}}})",
                      chunks, dtype, more),
          "", ""};
}

ZarrMetadata v3(const std::string& type, const std::string& codecs, const std::string& more = "") {
  return {"t", "", "",
          fmt::format(R"({{"zarr_format": 3, "node_type": "array", "shape": [40, 60], "data_type": "{}", )"
                      R"("chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [4, 6]}}}}, )"
                      R"("chunk_key_encoding": {{"name": "default"}}, "codecs": {}, "fill_value": 0{}}})",
                      type, codecs, more)};
}

constexpr const char* kLittle = R"([{"name": "bytes", "configuration": {"endian": "little"}}])";
constexpr const char* kBig = R"([{"name": "bytes", "configuration": {"endian": "big"}}])";

TEST(Zarr, NamesOfChunks) {
  for (const char* name : {"0", "17", "0.0", "10.2.333", "c", "c.0", "c.0.12", "0.0.1f2e.partial", "7.1f2e.partial"}) {
    EXPECT_TRUE(may_be_zarr_chunk(name)) << name;
  }
  for (const char* name : {"", ".", ".0", "0.", "0..1", "a", "c0", "cc", "c.", "data.bin", "1x2", "-1", ".zarray",
                           "zarr.json", ".zarray.1f2e.partial", ".partial", "0.x"}) {
    EXPECT_FALSE(may_be_zarr_chunk(name)) << name;
  }
}

TEST(Zarr, Version2) {
  EXPECT_EQ(zarr_hint(v2("\"<f4\""), 96), (RawHint{codec::DType::f32, false, {4, 6}}));
  EXPECT_EQ(zarr_hint(v2("\">f8\""), 192), (RawHint{codec::DType::f64, true, {4, 6}}));
  EXPECT_EQ(zarr_hint(v2("\"|u1\""), 24), (RawHint{codec::DType::u8, false, {4, 6}}));
  EXPECT_EQ(zarr_hint(v2("\"<c8\""), 192), (RawHint{codec::DType::f32, false, {4, 6, 2}}));
  EXPECT_EQ(zarr_hint(v2("\"<M8[ns]\""), 192)->keep_exact, "time");
  auto fortran = v2("\"<f4\"", "[2, 3, 4]", R"(, "order": "F")");
  RawHint wanted{codec::DType::f32, false, {4, 3, 2}};
  wanted.fortran_order = true;
  EXPECT_EQ(zarr_hint(fortran, 96), wanted);
  EXPECT_EQ(zarr_hint(v2("\"<f4\"", "[]"), 4), (RawHint{codec::DType::f32, false, {}}));
}

TEST(Zarr, Version3) {
  EXPECT_EQ(zarr_hint(v3("float32", kLittle), 96), (RawHint{codec::DType::f32, false, {4, 6}}));
  EXPECT_EQ(zarr_hint(v3("int16", kBig), 48), (RawHint{codec::DType::i16, true, {4, 6}}));
  EXPECT_EQ(zarr_hint(v3("uint8", R"([{"name": "bytes"}])"), 24), (RawHint{codec::DType::u8, false, {4, 6}}));
  EXPECT_EQ(zarr_hint(v3("bool", R"([{"name": "bytes"}])"), 24), (RawHint{codec::DType::u8, false, {4, 6}}));
  EXPECT_FALSE(zarr_hint(v3("float32", R"([{"name": "bytes"}])"), 96)) << "in which order?";
  EXPECT_FALSE(zarr_hint(v3("string", kLittle), 96));
  EXPECT_FALSE(
      zarr_hint(v3("float32", R"([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}])"), 96));
  EXPECT_FALSE(
      zarr_hint(v3("float32", R"([{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2]}}])"), 96));
}

TEST(Zarr, WhatIsSaidOfTheArray) {
  auto metadata = v2("\"<f4\"", "[4, 6]", R"(, "fill_value": 1e20)");
  EXPECT_EQ(zarr_hint(metadata, 96)->fill_values, Values{0x60ad78ec});
  metadata = v2("\"<i2\"", "[4, 6]", R"(, "fill_value": -1)");
  EXPECT_EQ(zarr_hint(metadata, 48)->fill_values, Values{0xffff});
  metadata = v2("\"<f4\"", "[4, 6]", R"(, "fill_value": "NaN")");
  EXPECT_EQ(zarr_hint(metadata, 96)->fill_values, Values{});
  const auto reason = [](const std::string& attributes) {
    auto of = v2("\"<f4\"");
    of.zattrs = attributes;
    return zarr_hint(of, 96)->keep_exact;
  };
  EXPECT_EQ(reason(R"({"scale_factor": 0.1})"), "packed");
  EXPECT_EQ(reason(R"({"units": "degrees_north"})"), "coordinate");
  EXPECT_EQ(reason(R"({"_ARRAY_DIMENSIONS": ["t", "x"]})"), "coordinate");
  EXPECT_EQ(reason(R"({"_ARRAY_DIMENSIONS": ["x", "t"]})"), "");
  EXPECT_EQ(reason("no JSON"), "");
  EXPECT_EQ(zarr_hint(v3("float32", kLittle, R"(, "dimension_names": ["t", null])"), 96)->keep_exact, "coordinate");
  const auto three = zarr_hint(v3("float32", kLittle, R"(, "attributes": {"missing_value": -9, "add_offset": 1})"), 96);
  EXPECT_EQ(three->keep_exact, "packed");
  EXPECT_EQ(three->fill_values, Values{0xc1100000});
}

TEST(Zarr, OthersAreNotRead) {
  EXPECT_FALSE(zarr_hint(v2("\"<f4\""), 95));
  EXPECT_FALSE(zarr_hint(v2("\"<f4\""), 192));
  for (const char* more :
       {R"(, "compressor": {"id": "zlib"})", R"(, "filters": [{"id": "delta"}])", R"(, "zarr_format": 1)",
        R"(, "chunks": null)", R"(, "chunks": [4, -6])", R"(, "chunks": [4, 0])", R"(, "chunks": [4.5, 6])",
        R"(, "chunks": [18446744073709551615, 4])"}) {
    EXPECT_FALSE(zarr_hint(v2("\"<f4\"", "[4, 6]", more), 96)) << more;
  }
  EXPECT_FALSE(zarr_hint(v2(R"([["x", "<f4"]])"), 96));
  EXPECT_FALSE(zarr_hint(v2("\"|S4\""), 96));
  EXPECT_FALSE(zarr_hint({}, 96));
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string(60000, '['),
        R"({"zarr_format": 2, "chunks": )" + std::string(30000, '[') + std::string(30000, ']') + "}",
        std::string("{\"zarr_format\": 2}")}) {
    EXPECT_FALSE(zarr_hint({"t", text, text, text}, 96));
  }
}

}  // namespace
}  // namespace varve::fs
