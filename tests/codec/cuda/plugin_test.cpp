// The plug-in library as a program finds it, with a device or without.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>

#include "codec/cuda/device_codec.h"

namespace varve::codec::testing {
namespace {

cuda::OpenPlugin load() {
  void* const library = dlopen(VARVE_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library == nullptr ? nullptr : reinterpret_cast<cuda::OpenPlugin>(dlsym(library, cuda::kOpenPlugin));
}

TEST(CudaPlugin, OfAnotherBuildIsRefused) {
  const auto open = load();
  ASSERT_NE(open, nullptr);
  std::array<char, 200> error{};
  EXPECT_EQ(open("another", 0, error.data(), error.size()), nullptr);
  EXPECT_NE(std::string(error.data()).find("another build"), std::string::npos) << error.data();
  std::array<char, 10> small{};
  EXPECT_EQ(open("another", 0, small.data(), small.size()), nullptr);
  EXPECT_EQ(std::string(small.data()).size(), small.size() - 1);
}

TEST(CudaPlugin, ADeviceThatIsNotThereIsNamed) {
  const auto device = cuda::open_device(VARVE_CUDA_PLUGIN, 100000);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ENODEV);
  EXPECT_NE(device.error().text.find("no CUDA device"), std::string::npos) << device.error().text;
}

}  // namespace
}  // namespace varve::codec::testing
