// Every real HDF5, NetCDF-4 and npy file at hand: each array that is claimed holds what the HDF5 library reads.
#include "hdf5_maker.h"

namespace varve::fs {
namespace {

TEST(RealFiles, ClaimedElementsAreWhatTheLibraryReads) {
  auto files = real_files({"hdf5", "netcdf", "netcdf4", "h5", "nc", "made/hdf5", "made/netcdf"});
  if (files.empty()) {
    GTEST_SKIP() << "VARVE_TEST_DATA does not name a folder with hdf5/, netcdf/, ...: real files are NOT tested";
  }
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  size_t hdf5 = 0, arrays = 0;
  uint64_t elements = 0;
  for (const std::string& path : files) {
    MemoryView file(read_whole(path));
    auto result = recognise(std::filesystem::path(path).filename().string(), file, std::nullopt);
    if (!result.ok()) {  // only what the library itself does not open, such as a file that its writer did not close
      EXPECT_LT(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), 0) << path << ": " << result.error().text;
      std::printf("%s: %s\n", path.c_str(), result.error().text.c_str());
      continue;
    }
    EXPECT_EQ(result->has_value(), worth_recognising("name", file, std::nullopt)) << path;
    if (*result && (*result)->format == "hdf5") {
      ++hdf5;
      arrays += (*result)->arrays.size();
      elements += compare_with_hdf5(path, **result);
    }
  }
  EXPECT_GE(hdf5, 80U);
  EXPECT_GE(arrays, 800U);
  EXPECT_GE(elements, 1000000U);
  std::printf("%zu files, %zu of them HDF5, %zu arrays, %llu elements compared\n", files.size(), hdf5, arrays,
              static_cast<unsigned long long>(elements));
}

}  // namespace
}  // namespace varve::fs
