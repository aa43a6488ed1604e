#include <gtest/gtest.h>

#include "fs/formats/raw.h"
#include "views.h"

namespace varve::fs {
namespace {

TEST(Raw, NamesThatSayWhatTheFileIs) {
  struct Case {
    const char* name;
    codec::DType dtype;
    codec::Extents shape;
  };
  for (const Case& each :
       {Case{"pressure_256x384x384.f32", codec::DType::f32, {256, 384, 384}},
        Case{"a-10x20.float64", codec::DType::f64, {10, 20}}, Case{"run.3.7x5.i16", codec::DType::i16, {7, 5}},
        Case{"_5.u8", codec::DType::u8, {5}}, Case{"x_1x1x1x1x1.int64", codec::DType::i64, {1, 1, 1, 1, 1}}}) {
    auto hint = raw_hint_of_name(each.name);
    ASSERT_TRUE(hint) << each.name;
    EXPECT_EQ(hint->dtype, each.dtype) << each.name;
    EXPECT_EQ(hint->shape, each.shape) << each.name;
    EXPECT_FALSE(hint->big_endian);
  }
}

TEST(Raw, NamesThatDoNot) {
  for (const char* name :
       {"", ".", "f32", ".f32", "x.f32", "x_.f32", "x_0x5.f32", "x_5x.f32", "x_x5.f32", "x_5xx5.f32", "x_5X5.f32",
        "x_5x5.dat", "x_5x5", "x_-5x5.f32x", "x_5x5.f33", "x_5 x5.f32", "x_99999999999999999999999.f32", "5x5.f32",
        "x_1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1.f32"}) {
    EXPECT_FALSE(raw_hint_of_name(name)) << name;
  }
}

TEST(Raw, ByNameOnlyWhenTheSizeAgrees) {
  MemoryView right(std::vector<std::byte>(4 * 3 * 5));
  auto found = recognise("x_3x5.f32", right, std::nullopt);
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_EQ((*found)->format, "raw");
  ASSERT_EQ((*found)->arrays.size(), 1U);
  EXPECT_EQ((*found)->arrays[0].shape, (codec::Extents{3, 5}));
  EXPECT_EQ((*found)->arrays[0].chunks, (std::vector<ChunkPlace>{{0, 0}}));
  for (size_t size : {0U, 59U, 61U, 120U}) {
    MemoryView wrong{std::vector<std::byte>(size)};
    auto nothing = recognise("x_3x5.f32", wrong, std::nullopt);
    ASSERT_TRUE(nothing.ok());
    EXPECT_FALSE(*nothing) << size;
  }
}

TEST(Raw, WrongHintSaysWhatWasDeclaredAndWhatIsThere) {
  RawHint hint{codec::DType::f64, true, {10, 10}};
  MemoryView right(std::vector<std::byte>(800));
  auto found = recognise("anything", right, hint);
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_TRUE((*found)->arrays[0].big_endian);
  MemoryView wrong(std::vector<std::byte>(400));
  auto error = recognise("anything", wrong, hint);
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.error().code, EINVAL);
  for (const char* part : {"anything", "f64", "[10, 10]", "800", "400"}) {
    EXPECT_NE(error.error().text.find(part), std::string::npos) << part << " in " << error.error().text;
  }
  hint.shape = codec::Extents(5, uint64_t{1} << 40);
  EXPECT_FALSE(recognise("anything", wrong, hint).ok());
}

TEST(Raw, AFormatWithAMagicNumberWinsOverAHint) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";
  std::string file = std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header + "abcd";
  MemoryView view{std::string_view(file)};
  auto found = recognise("x", view, RawHint{codec::DType::u8, false, {file.size()}});
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_EQ((*found)->format, "npy");
}

TEST(Raw, WorthRecognising) {
  MemoryView plain(std::string_view("just some text"));
  EXPECT_FALSE(worth_recognising("notes.txt", plain, std::nullopt));
  EXPECT_TRUE(worth_recognising("x_14.u8", plain, std::nullopt));
  EXPECT_TRUE(worth_recognising("notes.txt", plain, RawHint{codec::DType::u8, false, {14}}));
  EXPECT_TRUE(recognise("x_14.u8", plain, std::nullopt).ok());
  MemoryView empty(std::string_view(""));
  EXPECT_FALSE(worth_recognising("x_14.u8", empty, std::nullopt));
}

}  // namespace
}  // namespace varve::fs
