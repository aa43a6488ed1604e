// What is said of the errors of level views is true, and never less for a coarser level.
#include "codec/labels.h"
#include "tests/codec/fields.h"

namespace varve::codec::testing {
namespace {

/// What a view of an array shows: of integers the nearest point of the level.
Result<Bytes> view_of(const ArrayCodec& codec, const Store& store, uint8_t level) {
  VARVE_ASSIGN(Bytes seen, decode_all(codec, store, level));
  if (is_float(codec.dtype()) || level == 0) {
    return seen;
  }
  const size_t size = element_size(codec.dtype());
  for (uint64_t brick = 0; brick < codec.brick_count(); ++brick) {
    const Box box = codec.brick_box(brick);
    Bytes part(element_count(box.shape) * size);
    copy_box(codec.shape(), size, box, seen.data(), part.data());
    repeat_samples(box.shape, codec.level_steps(level), size, part.data());
    put_box(codec.shape(), size, box, part.data(), seen.data());
  }
  return seen;
}

/// What was said of an array's views, and what is so.
struct Errors {
  LevelErrors stated;
  LevelErrors real;
};

/// `whole`: in one go, else tile by tile.
Errors errors_of(Array array, bool whole, bool exact = false) {
  Errors out;
  array.spec.measure = true;
  Store store;
  std::optional<ArrayCodec> codec;
  if (whole) {
    auto encoded = ArrayCodec::encode_array(array.spec, reader_of(array));
    EXPECT_TRUE(encoded.ok());
    codec = encoded->codec;
    EXPECT_EQ(encoded->errors.size(), encoded->tiles.size());
    for (size_t tile = 0; tile < encoded->tiles.size(); ++tile) {
      keep(encoded->tiles[tile], store);
      out.stated.merge(encoded->errors[tile]);
    }
  } else {
    codec = *ArrayCodec::plan(array.spec, reader_of(array));
    for (uint64_t tile = 0; tile < codec->tile_count(); ++tile) {
      const Box box = codec->tile_box(tile);
      Bytes data(element_count(box.shape) * element_size(array.spec.dtype));
      copy_box(array.spec.shape, element_size(array.spec.dtype), box, array.data.data(), data.data());
      Measurement measure{array.spec.fill_values, {}};
      const auto records = codec->encode_tile(tile, data.data(), exact, &measure);
      const auto plain = codec->encode_tile(tile, data.data(), exact);
      EXPECT_TRUE(records.ok() && plain.ok());
      EXPECT_EQ(records->size(), plain->size());
      for (size_t i = 0; i < records->size(); ++i) {
        EXPECT_TRUE((*records)[i].data == (*plain)[i].data) << "measuring changes the records";
      }
      keep(*records, store);
      out.stated.merge(measure.errors);
    }
  }
  const std::vector<uint64_t> missing = missing_values(array);
  for (uint8_t level = 0; level <= kCoarseLevel; ++level) {
    const auto seen = view_of(*codec, store, level);
    EXPECT_TRUE(seen.ok()) << seen.error().text;
    out.real.most.at(level) = largest_error(array, *seen, missing);
  }
  return out;
}

void expect_true(const Errors& errors) {
  for (size_t level = 0; level <= kCoarseLevel; ++level) {
    EXPECT_LE(errors.real.most.at(level), errors.stated.most.at(level)) << "level " << level;
    EXPECT_FALSE(std::isnan(errors.stated.most.at(level)));
    if (level > 0) {
      EXPECT_GE(errors.stated.most.at(level), errors.stated.most.at(level - 1)) << "level " << level;
    }
  }
}

TEST(Levels, StatedErrorsAreTrue) {
  std::mt19937_64 random(5);
  const std::array<Extents, 4> shapes = {Extents{18, 30, 70}, {70, 270}, {9001}, {3, 2, 33, 40}};
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i16, DType::u64}) {
    for (const Content content : kContents) {
      for (const Bound& bound : {Bound{}, Bound{BoundMode::relative, 1e-2}, Bound{BoundMode::relative, 1e-5},
                                 Bound{BoundMode::pointwise, 1e-2}, Bound{BoundMode::bits, 6}}) {
        if (bound.mode == BoundMode::bits && !is_float(type)) {
          continue;
        }
        const Extents& shape = shapes.at(random() % shapes.size());
        const Array array = make_array(type, shape, content, bound, random());
        SCOPED_TRACE(fmt::format("{} {} axes, content {}, {}", name_of(type), shape.size(), static_cast<int>(content),
                                 to_string(bound)));
        expect_true(errors_of(array, true));
        expect_true(errors_of(array, false, random() % 4 == 0));
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

// Extents around those of bricks and of the points of levels: each parity has faces of its own.
TEST(Levels, StatedErrorsAreTrueForEveryExtent) {
  for (uint64_t extent = 2; extent <= 70; ++extent) {
    for (const Extents& shape : {Extents{17, extent, 72 - extent}, Extents{extent, 97}, Extents{4096 + extent}}) {
      if (element_count(shape) < kCoarseLevel) {
        continue;
      }
      for (const Content content : {Content::waves, Content::noise}) {
        const Array array = make_array(DType::f32, shape, content, {BoundMode::relative, 1e-3}, extent);
        SCOPED_TRACE(extent);
        expect_true(errors_of(array, true));
      }
    }
  }
}

TEST(Levels, LosslessArraysAreExactAtLevelZero) {
  for (const DType type : {DType::f32, DType::f16, DType::u16}) {
    const Errors errors = errors_of(make_array(type, {60, 61, 62}, Content::waves, {}, 9), true);
    EXPECT_EQ(errors.stated.most[0], 0);
    EXPECT_GT(errors.stated.most[1], 0);
  }
}

TEST(Levels, LevelZeroStatesTheBoundAndNothingOfExactTiles) {
  const Array array = make_array(DType::f32, {60, 61, 62}, Content::waves, {BoundMode::absolute, 1e-3}, 9);
  EXPECT_EQ(errors_of(array, true).stated.most[0], 1e-3);
  EXPECT_EQ(errors_of(array, false, true).stated.most[0], 0);
}

TEST(Levels, ArraysWithoutLevelsAreExact) {
  const Errors errors = errors_of(make_array(DType::f32, {10, 11, 12}, Content::waves, {}, 9), true);
  for (const double error : errors.stated.most) {
    EXPECT_EQ(error, 0);
  }
}

// A bound that a field's views are far below is of no use.
TEST(Levels, StatedErrorsOfFieldsAreTrueAndNotFarAbove) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA is not set: the real fields are NOT tested";
  }
  std::array<std::vector<double>, kCoarseLevel + 1> above;
  size_t tested = 0;
  for_each_field(root, [&](const std::string& name, Array& array) {
    for (const Bound& bound : {Bound{}, Bound{BoundMode::relative, 1e-3}}) {
      SCOPED_TRACE(name + " " + to_string(bound));
      array.spec.bound = bound;
      const Errors errors = errors_of(array, true);
      expect_true(errors);
      ++tested;
      for (size_t level = 1; level <= kCoarseLevel; ++level) {
        const double real = errors.real.most.at(level);
        const double ratio = real > 0 ? errors.stated.most.at(level) / real : 1;
        above.at(level).push_back(ratio);
        if (ratio > 20) {
          std::printf("%s level %zu: %g stated, %g\n", (name + " " + to_string(bound)).c_str(), level,
                      errors.stated.most.at(level), real);
        }
      }
    }
  });
  EXPECT_GT(tested, 80U);
  for (size_t level = 1; level <= kCoarseLevel; ++level) {
    std::sort(above.at(level).begin(), above.at(level).end());
    const double median = above.at(level)[above.at(level).size() / 2];
    std::printf("level %zu: stated is %.2f times the largest error in the median, %.2f at most\n", level, median,
                above.at(level).back());
    EXPECT_LT(median, 8) << "level " << level;
  }
}

}  // namespace
}  // namespace varve::codec::testing
