#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codec/codec.h"

namespace varve::codec {
namespace {

TEST(Types, NamesGoBothWays) {
  for (unsigned number = 1; number <= 12; ++number) {
    const auto type = static_cast<DType>(number);
    const auto parsed = parse_dtype(name_of(type));
    ASSERT_TRUE(parsed.ok()) << name_of(type);
    EXPECT_EQ(*parsed, type);
    EXPECT_GT(element_size(type), 0U);
  }
  EXPECT_EQ(element_size(static_cast<DType>(0)), 0U);
  EXPECT_EQ(element_size(static_cast<DType>(13)), 0U);
  EXPECT_EQ(*parse_dtype("float32"), DType::f32);
  EXPECT_EQ(*parse_dtype("uint8"), DType::u8);
  EXPECT_EQ(*parse_dtype("bfloat16"), DType::bf16);
  EXPECT_TRUE(is_float(DType::bf16));
  EXPECT_FALSE(is_float(DType::u16));
  EXPECT_EQ(mantissa_bits(DType::bf16), 7U);
  EXPECT_EQ(mantissa_bits(DType::i64), 0U);
  EXPECT_EQ(parse_dtype("f128").error().code, EINVAL);
  EXPECT_EQ(parse_dtype("").error().code, EINVAL);
}

/// Positive, of any size.
double random_value(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random() >> 11 | 1), static_cast<int>(random() % 200) - 150);
}

TEST(Types, BoundsGoBothWays) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const double value = random_value(random);
    const Bound bounds[] = {{BoundMode::absolute, value},
                            {BoundMode::relative, value},
                            {BoundMode::pointwise, value},
                            {BoundMode::psnr, value},
                            {BoundMode::absolute_and_relative, value, random_value(random)},
                            {BoundMode::ratio, 1 + value},
                            {BoundMode::bits, static_cast<double>(i % 53)}};
    for (const Bound& bound : bounds) {
      const auto parsed = parse_bound(to_string(bound));
      ASSERT_TRUE(parsed.ok()) << to_string(bound);
      EXPECT_EQ(*parsed, bound);
    }
  }
}

TEST(Types, BoundsAreReadAsWritten) {
  EXPECT_EQ(to_string(Bound{}), "lossless");
  EXPECT_EQ(*parse_bound("lossless"), Bound{});
  EXPECT_EQ(*parse_bound("rel:1e-3"), (Bound{BoundMode::relative, 1e-3}));
  EXPECT_EQ(*parse_bound("abs:0.5"), (Bound{BoundMode::absolute, 0.5}));
  EXPECT_EQ(*parse_bound("pwrel:1e-3"), (Bound{BoundMode::pointwise, 1e-3}));
  EXPECT_EQ(*parse_bound("psnr:60"), (Bound{BoundMode::psnr, 60}));
  EXPECT_EQ(*parse_bound("ratio:20"), (Bound{BoundMode::ratio, 20}));
  EXPECT_EQ(*parse_bound("bits:12"), (Bound{BoundMode::bits, 12}));
  const Bound both{BoundMode::absolute_and_relative, 0.1, 1e-3};
  EXPECT_EQ(*parse_bound("abs:0.1+rel:1e-3"), both);
  EXPECT_EQ(*parse_bound("rel:1e-3+abs:0.1"), both);
  EXPECT_EQ(to_string(both), "abs:0.1+rel:0.001");
  EXPECT_EQ(*parse_bound("abs:1e+3+rel:1e-3"), (Bound{BoundMode::absolute_and_relative, 1000, 1e-3}));
}

TEST(Types, ZeroMeansLossless) {
  for (const char* text : {"abs:0", "rel:0", "pwrel:0.0", "abs:0+rel:1e-3", "abs:1+rel:0"}) {
    const auto parsed = parse_bound(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, Bound{}) << text;
  }
  EXPECT_EQ(*parse_bound("bits:0"), (Bound{BoundMode::bits, 0})) << "signs and exponents are kept";
}

TEST(Types, BadBoundsAreRefusedWithASentence) {
  for (const char* text : {"",
                           "abs",
                           "abs:",
                           "abs:x",
                           "abs:-1",
                           "rel:nan",
                           "rel:inf",
                           "abs:1e999",
                           "abs:1 ",
                           " abs:1",
                           "0.5",
                           "rel:1e-3x",
                           "Abs:1",
                           "lossless ",
                           "pwrel:-1",
                           "pwrel:nan",
                           "psnr:0",
                           "psnr:-60",
                           "psnr:60dB",
                           "ratio:0",
                           "ratio:0.5",
                           "ratio:-2",
                           "ratio:inf",
                           "bits:53",
                           "bits:-1",
                           "bits:2.5",
                           "bits:",
                           "abs:1+rel:",
                           "abs:1+rel:x",
                           "abs:-0",
                           "abs:1+abs:1",
                           "rel:1+rel:1",
                           "abs:1+psnr:60",
                           "+rel:1",
                           "abs:1+rel:1+abs:1",
                           "abs:1rel:1",
                           "abs:+1",
                           "psnr:40+rel:1"}) {
    const auto parsed = parse_bound(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, EINVAL);
    EXPECT_NE(parsed.error().text.find(text), std::string::npos);
    EXPECT_NE(parsed.error().text.find("rel:V"), std::string::npos);
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
