#include "index/snapshot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "index/store_directory.h"

namespace varve::index {
namespace {

namespace files = std::filesystem;

constexpr std::string_view kFolder = "/snapshots";
constexpr std::string_view kMarker = "/SNAPSHOT";
constexpr size_t kLongestName = 100;

Error failure(std::string_view what, const std::string& path, const std::error_code& problem) {
  return Error{problem.value() != 0 ? problem.value() : EIO,
               fmt::format("cannot {} {}: {}", what, path, problem.message())};
}

Status sync_directory(const std::string& path) { return posix_device()->sync_directory(path); }

/// What an interrupted program left of one that was being made or deleted.
void clear_leftovers(const std::string& store) {
  std::error_code problem;
  for (files::directory_iterator it(store + std::string(kFolder), problem), end; !problem && it != end;
       it.increment(problem)) {
    if (it->path().filename().string().starts_with('.')) {
      std::error_code ignored;
      files::remove_all(it->path(), ignored);
    }
  }
}

/// Bytes of the files below that have no other name.
uint64_t own_bytes(const std::string& path) {
  constexpr uint64_t kSector = 512;
  uint64_t bytes = 0;
  std::error_code problem;
  for (files::recursive_directory_iterator it(path, problem), end; !problem && it != end; it.increment(problem)) {
    struct stat facts {};
    if (::lstat(it->path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 1) {
      bytes += static_cast<uint64_t>(facts.st_blocks) * kSector;
    }
  }
  return bytes;
}

Status check_name(std::string_view name) {
  constexpr std::string_view kKnown = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (name.empty() || name.size() > kLongestName || name[0] == '.' || name[0] == '-' ||
      name.find_first_not_of(kKnown) != std::string_view::npos) {
    return Error{EINVAL,
                 fmt::format("\"{}\" is no name of a snapshot: give 1 to {} letters, digits, '.', '_' or '-', a "
                             "letter, digit or '_' first",
                             name, kLongestName)};
  }
  return {};
}

}  // namespace

std::string snapshot_path(const std::string& store, std::string_view name) {
  return fmt::format("{}{}/{}", store, kFolder, name);
}

bool is_snapshot(const std::string& store) {
  std::error_code ignored;
  return files::exists(store + std::string(kMarker), ignored);
}

Status check_new_snapshot(const std::string& store, std::string_view name) {
  VARVE_TRY(check_name(name));
  std::error_code problem;
  if (files::exists(snapshot_path(store, name), problem)) {
    return Error{EEXIST,
                 fmt::format("{} has a snapshot {} already: give another name, or delete that one", store, name)};
  }
  return {};
}

Result<std::string> find_snapshot(const std::string& store, std::string_view name) {
  VARVE_TRY(check_name(name));
  std::string path = snapshot_path(store, name);
  return is_snapshot(path) ? Result<std::string>(std::move(path))
                           : Error{ENOENT, fmt::format("{} has no snapshot {}: see varve snapshot list", store, name)};
}

Result<std::vector<SnapshotFacts>> list_snapshots(const std::string& store) {
  std::error_code problem;
  std::vector<SnapshotFacts> found;
  const std::string folder = store + std::string(kFolder);
  if (!files::exists(folder, problem) && !problem) {
    return found;
  }
  for (files::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    const std::string path = it->path().string();
    struct stat facts {};
    if (is_snapshot(path) && ::stat((path + std::string(kMarker)).c_str(), &facts) == 0) {
      found.push_back({it->path().filename().string(),
                       {facts.st_mtim.tv_sec, static_cast<uint32_t>(facts.st_mtim.tv_nsec)},
                       own_bytes(path)});
    }
  }
  if (problem) {
    return failure("list", folder, problem);
  }
  std::ranges::sort(found, {}, [](const SnapshotFacts& one) {
    return std::tuple(one.created.seconds, one.created.nanoseconds, one.name);
  });
  return found;
}

Status delete_snapshot(const std::string& store, std::string_view name) {
  VARVE_ASSIGN(const std::string path, find_snapshot(store, name));
  {
    auto lock = StoreLock::take(path, false);
    if (!lock.ok()) {
      return lock.error().code == EBUSY ? Error{EBUSY, fmt::format("snapshot {} is in use: unmount it first", name)}
                                        : lock.error();
    }
  }
  const std::string gone = snapshot_path(store, fmt::format(".{}.gone", name));
  std::error_code problem;
  files::remove_all(gone, problem);
  files::rename(path, gone, problem);
  if (problem) {
    return failure("delete", path, problem);
  }
  VARVE_TRY(sync_directory(store + std::string(kFolder)));
  files::remove_all(gone, problem);
  return problem ? Status(failure("delete", gone, problem)) : Status();
}

SnapshotMaker::SnapshotMaker(std::string store, std::string name)
    : store_(std::move(store)), name_(std::move(name)), path_(snapshot_path(store_, fmt::format(".{}.new", name_))) {}

SnapshotMaker::~SnapshotMaker() {
  std::error_code ignored;
  if (begun_) {
    files::remove_all(path_, ignored);
  }
}

Status SnapshotMaker::begin() {
  VARVE_TRY(check_new_snapshot(store_, name_));
  clear_leftovers(store_);
  begun_ = true;
  std::error_code problem;
  files::create_directories(path_ + "/packs", problem);
  if (!problem && files::exists(store_ + "/policy.toml", problem)) {
    files::copy_file(store_ + "/policy.toml", path_ + "/policy.toml", problem);
  }
  return problem ? Status(failure("make", path_, problem)) : Status();
}

Status SnapshotMaker::link_packs() const {
  std::error_code problem;
  for (files::directory_iterator it(store_ + "/packs", problem), end; !problem && it != end; it.increment(problem)) {
    files::create_hard_link(it->path(), files::path(path_) / "packs" / it->path().filename(), problem);
    if (problem) {
      break;
    }
  }
  if (problem) {
    return Error{problem.value(),
                 fmt::format("cannot share the packs of {} with a snapshot: {}; the disk's file system "
                             "must have hard links",
                             store_, problem.message())};
  }
  return sync_directory(path_ + "/packs");
}

Status SnapshotMaker::commit() {
  for (const std::string_view name : {"/LOCK", "/SNAPSHOT"}) {
    const std::string path = path_ + std::string(name);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      return failure("make", path, {errno, std::generic_category()});
    }
    ::close(descriptor);
  }
  VARVE_TRY(write_version(*posix_device(), path_));  // and syncs the directory
  std::error_code problem;
  files::rename(path_, snapshot_path(store_, name_), problem);
  if (problem) {
    return failure("make", snapshot_path(store_, name_), problem);
  }
  begun_ = false;
  VARVE_TRY(sync_directory(store_ + std::string(kFolder)));
  return sync_directory(store_);
}

}  // namespace varve::index
