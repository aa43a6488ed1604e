// Codes as differences: the kernels of every set against plain loops, and when the planner takes them.
#include "codec/difference.h"

#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

template <typename U>
struct Codes {
  std::vector<uint8_t> tokens;
  std::vector<U> wide;
  bool operator==(const Codes&) const = default;
};

template <typename U>
Codes<U> random_codes(size_t count, unsigned bits, bool with_uncoded, std::mt19937_64& random) {
  Codes<U> made;
  for (size_t i = 0; i < count; ++i) {
    if (with_uncoded && random() % 7 == 0) {
      made.tokens.push_back(random() % 2 == 0 ? kTokenExact : kTokenSpecial);
      continue;
    }
    const U u = static_cast<U>(random() >> (64 - 1 - random() % bits));
    made.tokens.push_back(static_cast<uint8_t>(token_of(u)));
    if (u >= kDirectCodes) {
      made.wide.push_back(u);
    }
  }
  return made;
}

template <typename U>
U signed_code(U u) {
  return static_cast<U>((u >> 1) ^ (U{0} - (u & 1)));
}

/// What FORMAT.md says, point by point.
template <typename U>
Codes<U> plain_differences(const Codes<U>& from, CodeSteps steps) {
  Codes<U> made;
  std::vector<U> codes;
  size_t next = 0;
  for (size_t i = 0; i < from.tokens.size(); ++i) {
    const uint8_t token = from.tokens[i];
    const U before = i / steps.step % steps.extent > 0 ? codes[i - steps.step] : 0;
    if (token < kTokenZero) {
      codes.push_back(before);
      made.tokens.push_back(token);
      continue;
    }
    const U u = token >= kFirstWideToken ? from.wide[next++] : static_cast<U>(token - kTokenZero);
    codes.push_back(signed_code(u));
    const U d = static_cast<U>(codes.back() - before);
    const U zigzag = static_cast<U>(d << 1) ^ static_cast<U>(U{0} - (d >> (8 * sizeof(U) - 1)));
    made.tokens.push_back(static_cast<uint8_t>(token_of(zigzag)));
    if (zigzag >= kDirectCodes) {
      made.wide.push_back(zigzag);
    }
  }
  return made;
}

template <typename W>
class Differences : public ::testing::Test {
 protected:
  void TearDown() override { use_kernels(nullptr); }
};
using WorkTypes = ::testing::Types<float, double, int32_t, int64_t>;
TYPED_TEST_SUITE(Differences, WorkTypes);

TYPED_TEST(Differences, AreWhatTheFormatSaysInEverySet) {
  using U = BitsOf<TypeParam>;
  std::mt19937_64 random(4);
  CodeDifferences<TypeParam> differences;
  for (size_t round = 0; round < 600; ++round) {
    const CodeSteps steps{1 + random() % 9, 1 + random() % (round % 2 == 0 ? 5 : 90)};
    const size_t count = steps.extent * steps.step * (1 + random() % 5);
    const auto bits = static_cast<unsigned>(1 + random() % (8 * sizeof(U)));
    const Codes<U> codes = random_codes<U>(count, bits, random() % 2 == 0, random);
    const Codes<U> expected = plain_differences(codes, steps);
    for (size_t set = 0; kernel_set(set) != nullptr; ++set) {
      SCOPED_TRACE(fmt::format("{}: {} points, {} of {} apart, {} bits", kernel_set(set)->name, count, steps.extent,
                               steps.step, bits));
      use_kernels(kernel_set(set));
      Codes<U> made = codes;
      made.tokens.resize(count + kSlackBytes);
      made.wide.resize(count + kSlackBytes);
      const size_t wide = differences.take(made.tokens.data(), count, steps, made.wide.data());
      ASSERT_EQ(wide, expected.wide.size());
      ASSERT_TRUE(std::equal(expected.tokens.begin(), expected.tokens.end(), made.tokens.begin()));
      ASSERT_TRUE(std::equal(expected.wide.begin(), expected.wide.end(), made.wide.begin()));
      ASSERT_EQ(differences.undo(made.tokens.data(), count, steps, made.wide.data()), codes.wide.size());
      ASSERT_TRUE(std::equal(codes.tokens.begin(), codes.tokens.end(), made.tokens.begin()));
      ASSERT_TRUE(std::equal(codes.wide.begin(), codes.wide.end(), made.wide.begin()));
    }
  }
}

std::string method_of(const Array& array) {
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  EXPECT_TRUE(codec.ok());
  return codec.ok() ? codec->info().method : "";
}

TEST(DifferencesArePlanned, WhereLayersAreAlikeAndNotForNoise) {
  const Bound bound{BoundMode::relative, 1e-3};
  for (const DType type : {DType::f32, DType::f64}) {
    for (const Extents& shape : {Extents{12, 60, 70}, Extents{12, 300, 520}}) {
      EXPECT_NE(method_of(make_array(type, shape, Content::layers, bound, 1)).find("differences along axis 0"),
                std::string::npos);
    }
    for (const Content content : {Content::noise, Content::specials, Content::huge_range}) {
      EXPECT_EQ(method_of(make_array(type, {12, 60, 70}, content, bound, 1)).find("differences"), std::string::npos);
    }
  }
}

/// Decoded again, the array keeps them: they are no part of what moves.
TEST(DifferencesArePlanned, ForDataThatWasDecodedOnce) {
  Array array = make_array(DType::f32, {12, 60, 70}, Content::layers, {BoundMode::absolute, 0.02}, 1);
  Bytes decoded;
  const size_t first = check_round_trip(array, &decoded);
  array.data = decoded;
  Bytes again;
  EXPECT_LT(static_cast<double>(check_round_trip(array, &again)), 1.02 * static_cast<double>(first));
  EXPECT_TRUE(again == decoded);
}

}  // namespace
}  // namespace varve::codec::testing
