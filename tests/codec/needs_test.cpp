// What went wrong for people who use other compressors, by the kinds of the survey of their bug reports,
// and where each is tried here. "fs": tests of the folder fs/; "clients": real programs on a real mount.
//
// | kind       | what went wrong                         | tests                                                      |
// | ---------- | --------------------------------------- | ---------------------------------------------------------- |
// | A-01       | bound missed by a rounding, ramp + noise | Values.RampPlusNoiseInDoubleKeepsTheBoundExactly | | A-02
// | the same near 116.3                     | Values.NearOneHundredAndSixteen                            | | A-03 |
// small arrays, tight bound               | RoundTrip.AllSmallShapes                                   | | A-07       |
// a bound of 0                            | Needs.ABoundOfZeroIsLossless, Types.ZeroMeansLossless      | | A-08       |
// refuses its own stream elsewhere        | Needs.HeaderAndRecordsAreAllThatIsNeeded, Golden, Damage   | | A-09       |
// an extent of 1, 2, 3, 5 or 6 in 4-D     | Needs.OneShortAxisOfFour                                   | | A-10, A-29 |
// extents of 1                            | RoundTrip.ExtentsOfOneAnywhere; fs Hdf5Files.RandomShapesAndChunks | | A-11
// | accumulated fluxes                      | Values.AccumulatedFluxes, Fields                           | | A-15 |
// small integers                          | RoundTrip.EveryTypeAndContentAtAShapeOfSeveralBricks       | | A-16       |
// a wide range of exponents               | Values.LogUniformMagnitudes                                | | A-17       |
// NaN and infinities at the edges (UBSan) | Needs.PaddingOfNanAndInfinity, under scripts/sanitize.sh   | | A-18       |
// subnormals                              | Values.Subnormals                                          | | A-22       |
// missing values                          | Needs.AMaskIsWorthAFactorOfTwo, Values.AMaskCostsLittle    | | A-24       |
// sizes that are not 2^k + 1              | Needs.SidesUpToTwoHundred                                  | | A-26       |
// codes too large to quantize             | Values.RampsUnderTightBounds                               | | A-27       |
// output larger than the input            | Values.NoiseUnderATightBoundDoesNotGrow                    | | A-30       |
// Fortran order                           | clients numpy.save_load (its arrays have both orders)      | | A-31       |
// fewer than three axes                   | RoundTrip.ExtentsOfOneAnywhere (rank 0 on)                 | | A-33       |
// nearly all points are outliers          | Needs.NoiseFarAboveTheBound                                | | A-34       |
// drift when rewritten                    | Idempotence.*,
// RoundTrip.EncodingAgainMovesNothing; clients drift.* | | A-35       | big-endian data                         | fs
// Npy.HeaderVariants; clients hdf5.big_endian             | | A-36       | datasets of a few elements              |
// RoundTrip.TinyArraysCostAHandfulOfBytes; clients hdf5.tiny, tools.hdf5_tools | | A-37       | NaN, Inf or subnormals
// become zeros     | Needs.PaddingOfNanAndInfinity, Values.OneNanSpoilsNothing, Values.Subnormals | | A-38, A-39 |
// short axes before a long one            | Needs.ShortAxesBeforeALongOne; fs Hdf5Files.RandomShapesAndChunks | | A-41
// | automatic bounds of degenerate arrays   | Needs.ArraysWithoutARange                                  | | A-42 | a
// wrong hint about a raw file           | fs Raw.ByNameOnlyWhenTheSizeAgrees; clients numpy.raw_names |
#include <filesystem>
#include <fstream>

#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

TEST(Needs, ABoundOfZeroIsLossless) {
  for (const BoundMode mode : {BoundMode::absolute, BoundMode::relative}) {
    for (const Content content : kContents) {
      Array array = make_array(DType::f32, {60, 110}, content, {mode, 0}, 70);
      Bytes decoded;
      check_round_trip(array, &decoded);
      EXPECT_TRUE(decoded == array.data);
    }
  }
}

// What was written stands for itself: the encoder, its plan and its memory are gone. Another version says so.
TEST(Needs, HeaderAndRecordsAreAllThatIsNeeded) {
  Bytes header;
  Store store;
  Bytes expected;
  {
    const Array array = make_array(DType::f64, {20, 33, 47}, Content::mask, {BoundMode::relative, 1e-4}, 71);
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    ASSERT_TRUE(codec.ok());
    header = codec->header();
    store = *encode_all(*codec, array);
    expected = *decode_all(*codec, store);
  }
  const auto codec = ArrayCodec::parse(header);
  ASSERT_TRUE(codec.ok()) << codec.error().text;
  const auto decoded = decode_all(*codec, store);
  ASSERT_TRUE(decoded.ok()) << decoded.error().text;
  EXPECT_TRUE(*decoded == expected);
  header[0] = std::byte{0x80};  // what SZ2 read as version -128
  const auto other = ArrayCodec::parse(header);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, EBADMSG);
  EXPECT_NE(other.error().text.find("version"), std::string::npos) << other.error().text;
}

TEST(Needs, OneShortAxisOfFour) {
  for (const uint64_t extent : {1, 2, 3, 5, 6}) {
    for (size_t axis = 0; axis < 4; ++axis) {
      Extents shape = {19, 24, 20, 16};
      shape[axis] = extent;
      for (const Bound& bound : {Bound{BoundMode::relative, 1e-3}, Bound{}}) {
        SCOPED_TRACE(fmt::format("{}", fmt::join(shape, "x")));
        check_round_trip(make_array(DType::f32, shape, Content::waves, bound, extent));
      }
    }
  }
}

TEST(Needs, ShortAxesBeforeALongOne) {
  for (const Extents& shape : std::vector<Extents>{{2, 2, 2, 5000}, {2, 2, 100000}, {1, 16}, {1, 1, 1, 70000}}) {
    for (const DType type : {DType::f32, DType::i32}) {
      SCOPED_TRACE(fmt::format("{}", fmt::join(shape, "x")));
      check_round_trip(make_array(type, shape, Content::waves, {BoundMode::relative, 1e-3}, 72));
    }
  }
}

// Chunks at an array's ends are padded with NaN by zarr and the like; here half of every axis is.
TEST(Needs, PaddingOfNanAndInfinity) {
  for (const double padding : {std::nan(""), std::numeric_limits<double>::infinity(), -HUGE_VAL, 5e-324}) {
    for (const Bound& bound : {Bound{BoundMode::absolute, 1e-3}, Bound{BoundMode::relative, 1e-6}, Bound{}}) {
      std::vector<double> values(40 * 40 * 40, padding);
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t z = i / 1600;
        const size_t y = i / 40 % 40;
        const size_t x = i % 40;
        if (z < 20 && y < 20 && x < 20) {
          values[i] = std::cos(0.01 * static_cast<double>(x * z));
        }
      }
      SCOPED_TRACE(fmt::format("{} {}", padding, to_string(bound)));
      check_round_trip(array_of(values, {40, 40, 40}, bound));
    }
  }
}

TEST(Needs, SidesUpToTwoHundred) {
  std::mt19937_64 random(73);
  std::normal_distribution<double> normal;
  std::vector<double> values(200 * 200);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  for (uint64_t side = 1; side <= 200; ++side) {
    const Extents shape = {side, 1 + random() % 200};
    for (const Extents& turned : {shape, Extents{shape[1], shape[0]}}) {
      const std::vector<double> part(values.begin(), values.begin() + static_cast<ptrdiff_t>(element_count(turned)));
      SCOPED_TRACE(fmt::format("{}", fmt::join(turned, "x")));
      check_round_trip(array_of(part, turned, {BoundMode::absolute, 1e-7}));
    }
  }
}

TEST(Needs, NoiseFarAboveTheBound) {
  for (const double bound : {1e-6, 1e-7, 1e-9}) {
    const Array array = make_array(DType::f32, {256, 256}, Content::noise, {BoundMode::absolute, bound}, 74);
    EXPECT_LE(check_round_trip(array), array.data.size() + 1000);
  }
}

/// Bytes of a field under `bound` with land as a missing value, and with land left in as what an encoder cannot take
/// for one: forty values, each too rare.
std::pair<size_t, size_t> sizes_of_mask(std::vector<float> values, const Extents& shape, const Bound& bound,
                                        float land) {
  Bytes decoded;
  const size_t masked = check_round_trip(array_of(values, shape, bound), &decoded);
  size_t seen = 0;
  for (float& value : values) {
    if (value == land) {
      const size_t band = seen++ * 40 / values.size();
      value = -1000.0F - 5.0F * static_cast<float>(band);
    }
  }
  return {masked, check_round_trip(array_of(values, shape, bound))};
}

TEST(Needs, AMaskIsWorthAFactorOfTwo) {
  std::vector<float> values(300 * 400);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto y = static_cast<double>(i) / 400;
    const auto x = static_cast<double>(i % 400);
    const bool land = std::sin(x * 0.05) + std::cos(y * 0.06 + x * 0.01) > 0.6;
    values[i] = land ? -1e10F : static_cast<float>(290 + 10 * std::sin(y * 0.05) * std::cos(x * 0.04));
  }
  for (const double bound : {0.2, 0.02, 0.002}) {
    const auto [masked, left_in] = sizes_of_mask(values, {300, 400}, {BoundMode::absolute, bound}, -1e10F);
    EXPECT_GE(left_in, 2 * masked) << "bound " << bound;
  }
}

TEST(Needs, AMaskOfARealFieldIsWorthAFactorOfTwo) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA is not set: the real fields are NOT tested";
  }
  const Extents shape = {20, 180, 360};
  std::vector<float> values(element_count(shape));
  std::ifstream file(std::filesystem::path(root) / "fields" / "levitus_temp_20x180x360.f32", std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  ASSERT_TRUE(file.good());
  for (const double bound : {0.3, 0.03}) {
    const auto [masked, left_in] = sizes_of_mask(values, shape, {BoundMode::absolute, bound}, -1e10F);
    fmt::print("bound {}: {} bytes, {} with land left in\n", bound, masked, left_in);
    EXPECT_GE(left_in, 2 * masked) << "bound " << bound;
  }
}

// A range of nothing, or of no finite element, yields no bound: such arrays are lossless and cost next to nothing.
TEST(Needs, ArraysWithoutARange) {
  for (const float value : {0.0F, -0.0F, 17.25F, 1e-45F, std::nanf("3"), HUGE_VALF}) {
    for (const Extents& shape : std::vector<Extents>{{}, {1}, {3}, {100, 100}}) {
      const std::vector<float> values(element_count(shape), value);
      SCOPED_TRACE(fmt::format("{} {}", value, fmt::join(shape, "x")));
      Bytes decoded;
      const Array array = array_of(values, shape, {BoundMode::relative, 1e-2});
      EXPECT_LT(check_round_trip(array, &decoded), 400U);
      EXPECT_TRUE(decoded == array.data);
    }
  }
}

}  // namespace
}  // namespace varve::codec::testing
