// The real fields of the test data, under several bounds.
#include "tests/codec/fields.h"

namespace varve::codec::testing {
namespace {

TEST(Fields, KeepTheirBounds) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA is not set: the real fields are NOT tested";
  }
  size_t tested = 0;
  const uint64_t most = 1000000;  // the benchmark covers the larger ones
  const auto test = [&](const std::string& name, Array& array) {
    for (const Bound& bound : {Bound{}, Bound{BoundMode::relative, 1e-2}, Bound{BoundMode::relative, 1e-5}}) {
      SCOPED_TRACE(name + " " + to_string(bound));
      array.spec.bound = bound;
      const size_t stored = check_round_trip(array);
      EXPECT_LT(stored, array.data.size());
      ++tested;
    }
  };
  for_each_field(root, test, most);
  EXPECT_GT(tested, 30U);
}

}  // namespace
}  // namespace varve::codec::testing
