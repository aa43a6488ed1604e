#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codec/codec.h"

namespace varve::codec {
namespace {

TEST(Types, NamesGoBothWays) {
  for (unsigned number = 1; number <= 11; ++number) {
    const auto type = static_cast<DType>(number);
    const auto parsed = parse_dtype(name_of(type));
    ASSERT_TRUE(parsed.ok()) << name_of(type);
    EXPECT_EQ(*parsed, type);
    EXPECT_GT(element_size(type), 0U);
  }
  EXPECT_EQ(element_size(static_cast<DType>(0)), 0U);
  EXPECT_EQ(element_size(static_cast<DType>(12)), 0U);
  EXPECT_EQ(*parse_dtype("float32"), DType::f32);
  EXPECT_EQ(*parse_dtype("uint8"), DType::u8);
  EXPECT_EQ(parse_dtype("f128").error().code, EINVAL);
  EXPECT_EQ(parse_dtype("").error().code, EINVAL);
}

TEST(Types, BoundsGoBothWays) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(static_cast<double>(random() >> 11 | 1), static_cast<int>(random() % 200) - 150);
    for (const BoundMode mode : {BoundMode::absolute, BoundMode::relative}) {
      const Bound bound{mode, value};
      const auto parsed = parse_bound(to_string(bound));
      ASSERT_TRUE(parsed.ok()) << to_string(bound);
      EXPECT_EQ(*parsed, bound);
    }
  }
  EXPECT_EQ(to_string(Bound{}), "lossless");
  EXPECT_EQ(*parse_bound("lossless"), Bound{});
  EXPECT_EQ(*parse_bound("abs:0"), Bound{});
  EXPECT_EQ(*parse_bound("rel:1e-3"), (Bound{BoundMode::relative, 1e-3}));
  EXPECT_EQ(*parse_bound("abs:0.5"), (Bound{BoundMode::absolute, 0.5}));
}

TEST(Types, BadBoundsAreRefusedWithASentence) {
  for (const char* text : {"", "abs", "abs:", "abs:x", "abs:-1", "rel:nan", "rel:inf", "abs:1e999", "abs:1 ", " abs:1",
                           "0.5", "rel:1e-3x", "Abs:1", "lossless "}) {
    const auto parsed = parse_bound(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, EINVAL);
    EXPECT_NE(parsed.error().text.find(text), std::string::npos);
    EXPECT_NE(parsed.error().text.find("rel:"), std::string::npos);
  }
}

TEST(Bytes, AnyBytesComeBackAndNeverGrowMuch) {
  std::mt19937_64 random(2);
  for (const size_t size : {0U, 1U, 2U, 100U, 4096U, 100000U}) {
    for (const bool noise : {false, true}) {
      Bytes data(size);
      for (auto& byte : data) {
        byte = static_cast<std::byte>(noise ? random() : 7);
      }
      const Bytes record = encode_bytes(data);
      EXPECT_LE(record.size(), size + 16);
      Bytes back(size);
      ASSERT_TRUE(decode_bytes(record, back).ok());
      EXPECT_EQ(back, data);
      Bytes longer(size + 1);
      EXPECT_EQ(decode_bytes(record, longer).error().code, EBADMSG);
    }
  }
  Bytes out(4);
  EXPECT_EQ(decode_bytes({}, out).error().code, EBADMSG);
}

}  // namespace
}  // namespace varve::codec
