// How much of each real file lies in arrays. floors.tsv says what must be found at least: path (a file, or a folder
// with all in it), format, per cent of the bytes; and why there is nothing, where that is so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "fs/formats/check.h"
#include "views.h"

namespace varve::fs {
namespace {

struct Found {
  std::string format = "bytes";  ///< of a folder's files: the first that has arrays
  uint64_t in_arrays = 0, size = 0;
  size_t arrays = 0;

  double percent() const { return size == 0 ? 0 : 100 * static_cast<double>(in_arrays) / static_cast<double>(size); }
};

void add_file(const std::filesystem::path& path, Found& found) {
  MemoryView file(read_whole(path.string()));
  found.size += file.size();
  const auto result = recognise(path.filename().string(), file, std::nullopt);
  if (!result.ok() || !*result) {
    return;
  }
  if (found.arrays == 0) {
    found.format = (*result)->format;
  }
  for (const ArrayRegion& array : (*result)->arrays) {
    for (const ChunkPlace& place : array.chunks) {
      found.in_arrays += stored_bytes(array, place);
    }
    ++found.arrays;
  }
}

Found look_at(const std::filesystem::path& path) {
  Found found;
  if (std::filesystem::is_regular_file(path)) {
    add_file(path, found);
    return found;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    add_file(file, found);
  }
  return found;
}

struct Floor {
  std::string format, why_nothing;
  double percent = 0;
};

std::map<std::string, Floor> read_floors() {
  std::map<std::string, Floor> floors;
  std::ifstream in(VARVE_FLOORS);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string path, percent;
    Floor floor;
    std::getline(fields, path, '\t');
    std::getline(fields, floor.format, '\t');
    std::getline(fields, percent, '\t');
    std::getline(fields, floor.why_nothing, '\t');
    if (!path.empty() && path[0] != '#') {
      floor.percent = std::stod(percent);
      floors.emplace(path, floor);
    }
  }
  return floors;
}

/// The paths of the data's MANIFEST.tsv, whose first line has the names of the columns.
std::vector<std::string> manifest(const std::string& root) {
  std::vector<std::string> paths;
  std::ifstream in(root + "/MANIFEST.tsv");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    paths.push_back(line.substr(0, line.find('\t')));
  }
  return paths;
}

TEST(RealFiles, AsMuchOfThemLiesInArraysAsShould) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA names no folder: real files are NOT tested";
  }
  const auto floors = read_floors();
  ASSERT_FALSE(floors.empty());
  uint64_t in_arrays = 0, size = 0;
  std::printf("arrays  bytes in them  of        per cent  format       file\n");
  for (const std::string& path : manifest(root)) {
    if (!std::filesystem::exists(std::string(root) + "/" + path)) {
      continue;
    }
    const Found found = look_at(std::string(root) + "/" + path);
    std::printf("%6zu  %13llu  %8llu  %8.2f  %-11s  %s\n", found.arrays,
                static_cast<unsigned long long>(found.in_arrays), static_cast<unsigned long long>(found.size),
                found.percent(), found.format.c_str(), path.c_str());
    in_arrays += found.in_arrays;
    size += found.size;
    const auto floor = floors.find(path);
    if (floor == floors.end()) {
      ADD_FAILURE() << path << ": floors.tsv does not say what must be found in it";
      continue;
    }
    if (floor->second.why_nothing.empty()) {
      EXPECT_EQ(found.format, floor->second.format) << path;
      EXPECT_GT(found.arrays, 0U) << path;
      EXPECT_GE(found.percent(), floor->second.percent) << path;
    }
  }
  std::printf("%llu of %llu bytes\n", static_cast<unsigned long long>(in_arrays),
              static_cast<unsigned long long>(size));
}

TEST(RealFiles, FieldsAreArraysThroughout) {
  const auto files = real_files({"fields"});
  if (files.empty()) {
    GTEST_SKIP() << "VARVE_TEST_DATA does not name a folder with fields/: real files are NOT tested";
  }
  size_t fields = 0;
  for (const std::string& path : files) {
    const auto extension = std::filesystem::path(path).extension();
    if (extension == ".f32" || extension == ".f64") {
      EXPECT_EQ(look_at(path).percent(), 100) << path;
      ++fields;
    }
  }
  EXPECT_GE(fields, 10U);
}

}  // namespace
}  // namespace varve::fs
