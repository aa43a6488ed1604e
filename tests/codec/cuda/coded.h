// Arrays that kernels work on, as the CPU encodes them.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "codec/cuda/support.h"
#include "codec/record.h"
#include "codec/settings.h"
#include "tests/codec/arrays.h"

#include "tests/codec/cuda/device.h"

namespace varve::codec::testing {

/// Tests that are skipped where there is no device.
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (make_device() == nullptr) {
      GTEST_SKIP() << "there is no device";
    }
  }
};

struct Coded {
  ArrayCodec codec;
  Settings settings;
};

/// So many arrays are drawn; under a sanitizer, where each takes ten times as long, fewer.
#ifdef __SANITIZE_ADDRESS__
inline constexpr int kRounds = 100;
#else
inline constexpr int kRounds = 400;
#endif

/// As plan() has it.
inline Coded plan(const Array& array) {
  auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  EXPECT_TRUE(codec.ok());
  auto settings = read_header(codec->header());
  EXPECT_TRUE(settings.ok());
  return {*std::move(codec), *std::move(settings)};
}

/// With other settings than the best for it: any interpolation, differences along any axis, small bricks and tiles. Its
/// tables then lack tokens that occur.
inline void change(Coded& coded, std::mt19937_64& random) {
  Settings& settings = coded.settings;
  settings.interpolation = static_cast<Interpolation>(random() % 3);
  settings.schedule = static_cast<uint8_t>(random() % kSchedules);
  settings.difference_axis.reset();
  const size_t rank = settings.geometry.shape.size();
  if (random() % 2 == 0 && rank > 0) {
    settings.difference_axis = static_cast<uint8_t>(random() % rank);
  }
  Geometry& geometry = settings.geometry;
  for (size_t axis = 0; axis < rank && geometry.coarse_shift > 0; ++axis) {
    const bool predicted = geometry.grid_axis(axis).has_value();
    geometry.brick[axis] = predicted ? 8 * (1 + random() % 4) : 1 + random() % 5;
    geometry.tile[axis] = predicted ? geometry.brick[axis] * (1 + random() % 3) : geometry.brick[axis];
  }
  auto codec = ArrayCodec::parse(write_header(settings));
  ASSERT_TRUE(codec.ok());
  coded.codec = *std::move(codec);
}

inline Extents random_shape(std::mt19937_64& random, uint64_t limit) {
  constexpr std::array<uint64_t, 15> kExtents = {1, 2, 3, 5, 6, 7, 11, 15, 16, 17, 31, 63, 64, 65, 129};
  while (true) {
    Extents shape(1 + random() % 4);
    for (uint64_t& extent : shape) {
      extent = kExtents.at(random() % kExtents.size());
    }
    if (element_count(shape) <= limit) {
      return shape;
    }
  }
}

/// Makes every `step`th element another missing value, which is declared.
inline void add_missing_value(Array& array, size_t step) {
  const uint64_t bits =
      array.spec.dtype == DType::f32 ? std::bit_cast<uint32_t>(-7e19F) : std::bit_cast<uint64_t>(-7e19);
  const size_t size = element_size(array.spec.dtype);
  for (size_t i = 0; i < array.count(); i += step) {
    std::memcpy(array.data.data() + i * size, &bits, size);
  }
  array.spec.fill_values.push_back(bits);
}

/// An array of any contents and its codec; about a third are none that kernels work on.
inline std::pair<Array, Coded> random_coded(std::mt19937_64& random, uint64_t limit) {
  constexpr std::array kBounds = {Bound{BoundMode::absolute, 1e-5}, Bound{BoundMode::absolute, 0.25},
                                  Bound{BoundMode::relative, 1e-2}, Bound{BoundMode::relative, 1e-4},
                                  Bound{BoundMode::relative, 1e-6}, Bound{BoundMode::psnr, 60}};
  const Content content = kContents.at(random() % kContents.size());
  const DType type = random() % 2 == 0 ? DType::f32 : DType::f64;
  Array array = make_array(type, random_shape(random, limit), content, kBounds.at(random() % kBounds.size()), random());
  if (content == Content::fills || content == Content::mask) {
    add_missing_value(array, 7 + random() % 90);
  }
  Coded coded = plan(array);
  if (random() % 2 == 0 && coded.settings.scheme == Scheme::codes) {
    change(coded, random);
  }
  return {std::move(array), std::move(coded)};
}

inline std::string describe(const Array& array, const Coded& coded) {
  return fmt::format("{} {} {} {}", name_of(array.spec.dtype), fmt::join(array.spec.shape, "x"),
                     to_string(array.spec.bound), coded.codec.info().method);
}

/// What occurred in some records: so that a test can say that it saw everything.
inline void note_kinds(const Coded& coded, const Store& store, std::set<std::string>& kinds) {
  const Settings& settings = coded.settings;
  kinds.insert(fmt::format("interpolation {}", static_cast<int>(settings.interpolation)));
  if (settings.difference_axis.has_value()) {
    const bool grid = settings.geometry.grid_axis(*settings.difference_axis).has_value();
    kinds.insert(grid ? "differences along a predicted axis" : "differences along a batch axis");
  }
  if (settings.geometry.coarse_shift == 0) {
    kinds.insert("tiny");
  }
  if (coded.codec.tile_count() > 1) {
    kinds.insert("several tiles");
  }
  if (coded.codec.brick_count() > coded.codec.tile_count()) {
    kinds.insert("several bricks");
  }
  for (const auto& [id, record] : store) {
    const std::string where = id.first == kCoarseLevel ? "coarse" : "fine";
    const auto method = static_cast<Method>(record[0]);
    kinds.insert(fmt::format("{} method {}", where, static_cast<int>(method)));
    if (method == Method::tokens) {
      const auto flags = static_cast<unsigned>(record[1]);
      kinds.insert(fmt::format("{} lanes", 1U << (flags & 7U)));
      for (const unsigned flag : {8U, 16U, 32U, 64U}) {
        if ((flags & flag) != 0) {
          kinds.insert(fmt::format("{} list {}", where, flag));
        }
      }
    }
  }
}

/// What both an encoder's and a decoder's test must see.
inline const std::set<std::string> kKindsOfBoth = {"interpolation 0",
                                                   "interpolation 1",
                                                   "interpolation 2",
                                                   "differences along a predicted axis",
                                                   "differences along a batch axis",
                                                   "tiny",
                                                   "several tiles",
                                                   "several bricks",
                                                   "coarse method 0",
                                                   "coarse method 1",
                                                   "fine method 0",
                                                   "fine method 1",
                                                   "1 lanes",
                                                   "8 lanes",
                                                   "64 lanes",
                                                   "coarse list 8",
                                                   "coarse list 16",
                                                   "coarse list 32",
                                                   "coarse list 64",
                                                   "fine list 8",
                                                   "fine list 16",
                                                   "fine list 32",
                                                   "fine list 64"};

/// Calls visit(round) kRounds times, then on until `kinds` has all that is wanted, which rare ones may take a while.
template <typename Visit>
void until_seen(const std::set<std::string>& kinds, const std::set<std::string>& wanted, Visit&& visit) {
  const auto all = [&] { return std::ranges::includes(kinds, wanted); };
  for (int round = 0; round < (all() ? kRounds : 8 * kRounds) && !::testing::Test::HasFailure(); ++round) {
    visit(round);
  }
  EXPECT_TRUE(all()) << fmt::format("seen: {}; wanted: {}", fmt::join(kinds, "; "), fmt::join(wanted, "; "));
}

}  // namespace varve::codec::testing
