// The real fields of the test data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/codec/arrays.h"

namespace varve::codec::testing {

/// Calls visit(name, array) for each float field under `root`/fields of at most `most` bytes; arrays are lossless.
template <typename Visit>
void for_each_field(const std::string& root, const Visit& visit, uint64_t most = UINT64_MAX) {
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
    if (array.data.size() > most) {
      continue;
    }
    std::ifstream(entry.path(), std::ios::binary)
        .read(reinterpret_cast<char*>(array.data.data()), static_cast<std::streamsize>(array.data.size()));
    visit(stem, array);
  }
}

}  // namespace varve::codec::testing
