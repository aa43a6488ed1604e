// Every bound mode with every element type: promises kept, whatever the contents.
#include <filesystem>
#include <fstream>

#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

constexpr std::array kTypes = {DType::u8,  DType::i8,  DType::u16, DType::i16,  DType::u32, DType::i32,
                               DType::u64, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
const std::vector<Bound> kBounds = {{BoundMode::absolute, 0.01},
                                    {BoundMode::absolute, 2.5},
                                    {BoundMode::relative, 1e-2},
                                    {BoundMode::pointwise, 0.2},
                                    {BoundMode::pointwise, 1e-3},
                                    {BoundMode::psnr, 20},
                                    {BoundMode::psnr, 60},
                                    {BoundMode::absolute_and_relative, 0.1, 1e-2},
                                    {BoundMode::absolute_and_relative, 5, 1e-3},
                                    {BoundMode::ratio, 6},
                                    {BoundMode::bits, 0},
                                    {BoundMode::bits, 5},
                                    {BoundMode::bits, 20}};
const std::vector<Extents> kShapes = {{9000}, {40, 50}, {70, 90}, {3, 30, 40}, {20, 34, 41}, {2, 3, 25, 31}};

std::string describe(const Array& array, Content content) {
  return fmt::format("{} {} contents {} {}", name_of(array.spec.dtype), fmt::join(array.spec.shape, "x"),
                     static_cast<int>(content), to_string(array.spec.bound));
}

bool is_mapped_method(const Array& array) {
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  return codec.ok() && codec->info().absolute_bound > 0;
}

TEST(Modes, PromisesAreKept) {
  std::mt19937_64 random(31);
  for (const DType type : kTypes) {
    size_t bounded = 0;
    for (const Bound& bound : kBounds) {
      for (const Content content : kContents) {
        const Array array = make_array(type, kShapes.at(random() % kShapes.size()), content, bound, random());
        SCOPED_TRACE(describe(array, content));
        check_round_trip(array);
        bounded += is_mapped_method(array) ? 1 : 0;
        if (HasFailure()) {
          return;
        }
      }
    }
    EXPECT_GT(bounded, is_float(type) ? 40U : 10U) << name_of(type) << ": hardly anything was bounded";
  }
}

TEST(Modes, SeveralBricksAndTiles) {
  for (const DType type : kTypes) {
    for (const Bound& bound : {Bound{BoundMode::absolute, 2}, Bound{BoundMode::pointwise, 0.05}}) {
      for (const Content content : {Content::waves, Content::mask}) {
        const Array array = make_array(type, {70, 66, 130}, content, bound, 32);
        SCOPED_TRACE(describe(array, content));
        check_round_trip(array);
      }
    }
  }
}

// What was decoded, encoded again under the same absolute bound, decodes to the same bits.
TEST(Modes, EncodingAgainMovesNothing) {
  std::mt19937_64 random(33);
  for (const DType type : kTypes) {
    size_t moved = 0;
    for (const double bound : {0.011, 1.0, 4.0}) {
      for (const Content content : kContents) {
        Array array =
            make_array(type, kShapes.at(random() % kShapes.size()), content, {BoundMode::absolute, bound}, random());
        SCOPED_TRACE(describe(array, content));
        Bytes once;
        check_round_trip(array, &once);
        moved += once != array.data ? 1 : 0;
        array.data = once;
        Bytes twice;
        check_round_trip(array, &twice);
        EXPECT_TRUE(once == twice);
      }
    }
    EXPECT_GT(moved, 5U) << name_of(type);
  }
}

TEST(Modes, PsnrIsReached) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i16, DType::u32}) {
    for (const Content content : {Content::ramp, Content::waves}) {
      for (const double decibels : {20.0, 30.0}) {
        Array array = make_array(type, {34, 40, 42}, content, {BoundMode::psnr, decibels}, 34);
        SCOPED_TRACE(describe(array, content));
        Bytes decoded;
        check_round_trip(array, &decoded);
        EXPECT_GE(psnr_of(array, decoded), decibels);
      }
    }
  }
}

TEST(Modes, PreviewsAreClampedToTheType) {
  for (const DType type : {DType::u8, DType::i8, DType::u16, DType::f16}) {
    Array array = make_array(type, {70, 80, 90}, Content::waves, {BoundMode::relative, 0.0125}, 35);
    const size_t size = element_size(type);
    std::mt19937_64 random(36);
    for (size_t i = 0; i < array.count(); ++i) {  // steps between the type's extremes: interpolation overshoots
      const bool high = (i / 90 / 16 + i % 90 / 16) % 2 == 0;
      const uint64_t noise = random() % (size == 1 ? 4 : type == DType::f16 ? 20 : 600);
      uint64_t bits = high ? 255 - noise : noise;
      bits = type == DType::i8 ? (high ? 127 - noise : 0x80 + noise) : bits;
      bits = type == DType::u16 && high ? 65535 - noise : bits;
      bits = type == DType::f16 ? (high ? 0x7bff : 0xfbff) - noise : bits;
      std::memcpy(array.data.data() + i * size, &bits, size);
    }
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    ASSERT_TRUE(codec.ok());
    EXPECT_GT(codec->info().absolute_bound, 0) << name_of(type);
    auto store = encode_all(*codec, array);
    ASSERT_TRUE(store.ok());
    const auto full = decode_all(*codec, *store);
    for (uint8_t finest = 1; finest <= 3; ++finest) {
      const auto preview = decode_all(*codec, *store, finest);
      ASSERT_TRUE(preview.ok());
      size_t far = 0;
      for (size_t i = 0; i < array.count(); ++i) {
        // A value that wrapped around would be at the other end. Between the steps values may be anything.
        const size_t x = i % 90 % 16;
        const size_t y = i / 90 % 16;
        const bool inside = x % 8 == 0 && y % 8 == 0 && i / 7200 % 8 == 0;
        const bool same = std::memcmp(preview->data() + i * size, full->data() + i * size, size) == 0;
        far += inside && !same ? 1 : 0;
        if (type == DType::f16) {
          ASSERT_NE(element<uint16_t>(*preview, i) & 0x7c00, 0x7c00) << "infinite or NaN";
        }
      }
      EXPECT_EQ(far, 0U);
    }
  }
}

TEST(Modes, RatiosOfGeneratedArraysAreReached) {
  for (const DType type : {DType::f32, DType::f64, DType::u16}) {
    for (const double ratio : {8.0, 30.0}) {
      Array array = make_array(type, {64, 100, 120}, Content::waves, {BoundMode::ratio, ratio}, 36);
      std::mt19937_64 random(37);
      for (size_t i = 0; i < array.count(); ++i) {  // noise, or nothing but tables is left
        if (type == DType::f32) {
          const float value = element<float>(array.data, i) + 0.01F * static_cast<float>(random() % 100);
          std::memcpy(array.data.data() + 4 * i, &value, 4);
        } else if (type == DType::f64) {
          const double value = element<double>(array.data, i) + 0.01 * static_cast<double>(random() % 100);
          std::memcpy(array.data.data() + 8 * i, &value, 8);
        } else {
          const auto value = static_cast<uint16_t>(20000 + 100 * element<int16_t>(array.data, i) + random() % 2000);
          std::memcpy(array.data.data() + 2 * i, &value, 2);
        }
      }
      const size_t stored = check_round_trip(array);
      const double reached = static_cast<double>(array.data.size()) / static_cast<double>(stored);
      EXPECT_GT(reached, 0.9 * ratio) << name_of(type);
      EXPECT_LT(reached, 1.1 * ratio) << name_of(type);
    }
  }
}

TEST(Modes, BoundsThatCannotBeAppliedSayWhy) {
  const auto why = [](DType type, const Bound& bound) {
    const Array array = make_array(type, {60, 80}, Content::waves, bound, 38);
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    EXPECT_TRUE(codec.ok());
    EXPECT_EQ(codec->info().absolute_bound, 0);
    return codec->info().why;
  };
  EXPECT_NE(why(DType::i16, {BoundMode::absolute, 0.5}).find("finer than"), std::string::npos);
  EXPECT_NE(why(DType::i16, {BoundMode::bits, 4}).find("mantissa"), std::string::npos);
  EXPECT_NE(why(DType::f32, {BoundMode::absolute, 1e-12}).find("finer than"), std::string::npos);
  EXPECT_NE(why(DType::u8, {BoundMode::ratio, 1}).find("reaches"), std::string::npos);
  EXPECT_EQ(why(DType::f32, {}), "");
}

}  // namespace
}  // namespace varve::codec::testing
