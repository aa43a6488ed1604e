// What the fault layer costs while nothing is armed: the least time of a call with a decorator and without it, over
// what does next to nothing itself (a read past a file's end; a device that copies nothing), so that the difference is
// the decorator's. Then what a read and a write through a mount take, at their least, and the decorator's share of
// that: exit status 1 if it is above 0.5% anywhere.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "faults/faulty_device.h"
#include "faults/faulty_operations.h"
#include "fs/fuse_session.h"

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
double least(const Call& call, size_t calls = kCalls, int rounds = kRounds) {
  double best = 1e300;
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    for (size_t i = 0; i < calls; ++i) {
      if (!call(i)) {
        fmt::print(stderr, "a call failed\n");
        std::exit(1);
      }
    }
    const std::chrono::duration<double, std::nano> passed = Clock::now() - start;
    best = std::min(best, passed.count() / static_cast<double>(calls));
  }
  return best;
}

/// The difference.
double report(const char* name, double with, double without) {
  fmt::print("{}: {:.1f} ns with the decorator, {:.1f} ns without: {:+.1f} ns\n", name, with, without, with - without);
  return with - without;
}

/// Reads and writes of a file of a mount that serves `files`, past the kernel's cache; the decorator takes `cost` ns of
/// each. True: at most 0.5% everywhere.
bool shares(const std::string& folder, fs::Operations& files, double cost) {
  constexpr double kMost = 0.5;
  fs::MountOptions options;
  options.mountpoint = folder;
  options.source = "seam-bench";
  auto session = fs::FuseSession::mount(options, files);
  if (!session.ok()) {
    fmt::print("no mount, and so no shares: {}\n", session.error().text);
    return true;
  }
  std::thread serving([&] { static_cast<void>((*session)->serve()); });
  constexpr size_t kLargest = size_t{1} << 20;
  void* memory = std::aligned_alloc(4096, kLargest);
  std::memset(memory, 1, kLargest);
  bool small = true;
  {
    const int file = ::open((folder + "/mounted").c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    for (const size_t size : {size_t{4096}, kLargest}) {
      const size_t places = kSize / size;
      const auto offset = [&](size_t i) { return static_cast<off_t>(i % places * size); };
      const auto want = static_cast<ssize_t>(size);
      const size_t calls = size == 4096 ? 1000 : 20;
      const double put = least([&](size_t i) { return ::pwrite(file, memory, size, offset(i)) == want; }, calls, 30);
      const double got = least([&](size_t i) { return ::pread(file, memory, size, offset(i)) == want; }, calls, 30);
      for (const auto& [name, time] : {std::pair("write", put), std::pair("read", got)}) {
        const double share = 100 * cost / time;
        fmt::print("a {} of {} KiB through the mount: {:.0f} ns; the decorator is {:.3f}% of it\n", name, size / 1024,
                   time, share);
        small = small && share <= kMost;
      }
    }
    ::close(file);
  }
  std::free(memory);
  (*session)->stop();
  serving.join();
  fmt::print("{}\n", small ? "at most 0.5% everywhere" : "ABOVE 0.5%");
  return small;
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
  const double reading =
      report("read of no byte", least([&](size_t i) { return faulty.read(caller, handle, kSize + i, data).ok(); }),
             least([&](size_t i) { return files->read(caller, handle, kSize + i, data).ok(); }));
  const double writing =
      report("write of no byte", least([&](size_t) { return faulty.write(caller, handle, 0, {}).ok(); }),
             least([&](size_t) { return files->write(caller, handle, 0, {}).ok(); }));
  const double four = least([&](size_t i) { return files->read(caller, handle, i * 4096 % kSize, data).ok(); });
  fmt::print("a read of 4 KiB of a staged file, without FUSE: {:.0f} ns\n", four);
  files->release(handle);
  const std::string mountpoint = store + ".mnt";
  std::filesystem::create_directory(mountpoint);
  const bool small = shares(mountpoint, faulty, std::max(reading, writing));
  std::filesystem::remove(mountpoint);
  static_cast<void>(files->shut_down());
  files.reset();
  std::filesystem::remove_all(store);
  return filled && small ? 0 : 1;
}

}  // namespace
}  // namespace varve::faults

int main() { return varve::faults::run(); }
