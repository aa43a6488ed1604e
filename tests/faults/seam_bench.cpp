// What the fault layer costs while nothing is armed: the least time of a call with a decorator and without it, over
// what does next to nothing itself (a read past a file's end; a device that copies nothing), so that the difference is
// the decorator's. For comparison: the same file's reads of 4 KiB, whose cost in a mount comes on top of FUSE's.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "faults/faulty_device.h"
#include "faults/faulty_operations.h"

namespace varve::faults {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kCalls = 20000;
constexpr int kRounds = 200;
constexpr uint64_t kSize = uint64_t{4} << 20;

class NoFile final : public index::DeviceFile {
 public:
  Result<size_t> read(uint64_t, std::span<std::byte> out) override { return out.size(); }
  Status write(uint64_t, std::span<const std::byte>) override { return {}; }
  Status truncate(uint64_t) override { return {}; }
  Status punch(uint64_t, uint64_t) override { return {}; }
  Status reserve(uint64_t, uint64_t) override { return {}; }
  Status sync() override { return {}; }
  Result<uint64_t> size() override { return kSize; }
  Result<uint64_t> allocated() override { return kSize; }
  Result<uint64_t> seek(uint64_t, bool) override { return kSize; }
};

class NoDevice final : public index::Device {
 public:
  Result<std::unique_ptr<index::DeviceFile>> open(const std::string&, Mode) override {
    return std::unique_ptr<index::DeviceFile>(std::make_unique<NoFile>());
  }
  Status remove(const std::string&) override { return {}; }
  Status make_directory(const std::string&) override { return {}; }
  Result<std::vector<std::string>> list(const std::string&) override { return std::vector<std::string>(); }
  Status sync_directory(const std::string&) override { return {}; }
  Result<index::DeviceSpace> space(const std::string&) override { return index::DeviceSpace(); }
};

/// Nanoseconds a call: the least of many rounds, since whatever disturbs only adds.
template <typename Call>
double least(const Call& call) {
  double best = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (size_t i = 0; i < kCalls; ++i) {
      if (!call(i)) {
        fmt::print(stderr, "a call failed\n");
        std::exit(1);
      }
    }
    const std::chrono::duration<double, std::nano> passed = Clock::now() - start;
    best = std::min(best, passed.count() / kCalls);
  }
  return best;
}

void report(const char* name, double with, double without) {
  fmt::print("{}: {:.1f} ns with the decorator, {:.1f} ns without: {:+.1f} ns\n", name, with, without, with - without);
}

int run() {
  Injector injector({.journal = "/dev/null", .recogniser = {}});
  std::vector<std::byte> data(4096);
  NoDevice none;
  auto bare = *none.open("", index::Device::Mode::read);
  auto decorated = *faulty_device(std::make_shared<NoDevice>(), "", injector)->open("", index::Device::Mode::read);
  report("device read", least([&](size_t i) { return decorated->read(i, data).ok(); }),
         least([&](size_t i) { return bare->read(i, data).ok(); }));

  std::string store = std::filesystem::temp_directory_path() / "seam-bench-XXXXXX";
  store = ::mkdtemp(store.data());
  auto files = *fs::FileSystem::create(*index::Index::open(store, {}), {});
  FaultyOperations faulty(*files, injector);
  const fs::Caller caller;
  const uint64_t handle = files->create(caller, index::kRootInode, "x", S_IFREG | 0644, O_RDWR)->second.handle;
  const bool filled = files->write(caller, handle, 0, std::vector<std::byte>(kSize)).ok();
  report("read of no byte", least([&](size_t i) { return faulty.read(caller, handle, kSize + i, data).ok(); }),
         least([&](size_t i) { return files->read(caller, handle, kSize + i, data).ok(); }));
  const double four = least([&](size_t i) { return files->read(caller, handle, i * 4096 % kSize, data).ok(); });
  fmt::print("a read of 4 KiB of a staged file, without FUSE: {:.0f} ns\n", four);
  files->release(handle);
  static_cast<void>(files->shut_down());
  files.reset();
  std::filesystem::remove_all(store);
  return filled ? 0 : 1;
}

}  // namespace
}  // namespace varve::faults

int main() { return varve::faults::run(); }
