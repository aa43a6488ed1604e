// The real fields of the test data, under several bounds.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

TEST(Fields, KeepTheirBounds) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA is not set: the real fields are NOT tested";
  }
  size_t tested = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(root) / "fields")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".f32" && extension != ".f64") {
      continue;
    }
    Array array;
    array.spec.dtype = extension == ".f32" ? DType::f32 : DType::f64;
    const std::string stem = entry.path().stem().string();
    std::istringstream dims(stem.substr(stem.rfind('_') + 1));
    std::string extent;
    while (std::getline(dims, extent, 'x')) {
      array.spec.shape.push_back(std::stoull(extent));
    }
    array.data.resize(array.count() * element_size(array.spec.dtype));
    if (array.data.size() > 1000000) {
      continue;  // the benchmark covers the larger ones
    }
    std::ifstream(entry.path(), std::ios::binary)
        .read(reinterpret_cast<char*>(array.data.data()), static_cast<std::streamsize>(array.data.size()));
    for (const Bound& bound : {Bound{}, Bound{BoundMode::relative, 1e-2}, Bound{BoundMode::relative, 1e-5}}) {
      SCOPED_TRACE(stem + " " + to_string(bound));
      array.spec.bound = bound;
      const size_t stored = check_round_trip(array);
      EXPECT_LT(stored, array.data.size());
      ++tested;
    }
  }
  EXPECT_GT(tested, 30U);
}

}  // namespace
}  // namespace varve::codec::testing
