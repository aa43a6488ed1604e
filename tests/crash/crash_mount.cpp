// A mount as `varve mount -f` makes it, with small packs and, if a trace is asked for, a disk that writes down what is
// done to it. Also: `crash_mount --collect STORE`.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fs/filesystem.h"
#include "fs/formats/worker.h"
#include "fs/fuse_session.h"
#include "tests/crash/recorder.h"

namespace varve::crash {
namespace {

constexpr uint64_t kPackLimit = 1'000'000;  // so that packs are closed, emptied and removed while a test runs

Status serve(const std::string& store, const std::string& directory, const char* trace) {
  index::IndexOptions index_options;
  index_options.pack_limit = kPackLimit;
  std::unique_ptr<Recorder> recorder;
  if (trace != nullptr) {
    recorder = std::make_unique<Recorder>(store, trace);
    index_options.device = recording_device(*recorder);
    index_options.file_system = recording_file_system(*recorder);
  }
  VARVE_ASSIGN(auto index, index::Index::open(store, index_options));
  fs::FileSystemOptions options;
  options.cache_bytes = uint64_t{32} << 20;
  options.quiet = std::chrono::milliseconds(20);
  VARVE_ASSIGN(auto file_system, fs::FileSystem::create(std::move(index), options));
  fs::MountOptions mount_options;
  mount_options.mountpoint = directory;
  mount_options.source = store;
  VARVE_ASSIGN(const auto session, fs::FuseSession::mount(mount_options, *file_system));
  file_system->attach(&session->kernel_cache());
  file_system->prepare();
  const Status ended = session->serve();
  const Status shut = file_system->shut_down();
  return ended.ok() ? shut : ended;
}

/// Empties and removes packs, as a mount does in the background, and prints what is left of them.
Status collect(const std::string& store) {
  index::IndexOptions options;
  options.pack_limit = kPackLimit;
  VARVE_ASSIGN(const auto index, index::Index::open(store, options));
  VARVE_ASSIGN(const uint64_t freed, index->collect());
  VARVE_ASSIGN(const index::IndexStatistics statistics, index->statistics());
  fmt::print("{{\"freed\": {}, \"packs\": {}, \"bytes\": {}, \"live\": {}, \"limit\": {}}}\n", freed, statistics.packs,
             statistics.pack_bytes, statistics.live_pack_bytes, kPackLimit);
  return {};
}

int main(int argc, char** argv) {
  if (argc >= 2 && std::string_view(argv[1]) == "recognise-worker") {
    return fs::recogniser_worker_main(3);
  }
  if (argc != 3 && argc != 4) {
    fmt::print(stderr, "usage: crash_mount STORE DIR [TRACE] | crash_mount --collect STORE\n");
    return 2;
  }
  const Status done = std::string_view(argv[1]) == "--collect" ? collect(argv[2])
                                                               : serve(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
  if (!done.ok()) {
    fmt::print(stderr, "crash_mount: {}\n", done.error().text);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace varve::crash

int main(int argc, char** argv) { return varve::crash::main(argc, argv); }
