#include "tools/campaign_folders.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "fs/fuse_mount_table.h"
#include "index/store_directory.h"
#include "tools/mount_point.h"

namespace varve::tools {
namespace {

namespace files = std::filesystem;

constexpr std::string_view kPrefix = "varve-campaign-";

std::string base_of(const std::string& wanted) {
  const char* temporary = std::getenv("TMPDIR");
  return !wanted.empty() ? wanted : temporary != nullptr ? temporary : "/tmp";
}

/// Kills the daemons of Varve's mounts below a folder, and unmounts. False: something is still mounted there.
bool end_mounts(const std::string& folder) {
  const auto absolute = absolute_path(folder);
  if (!absolute.ok()) {
    return false;
  }
  for (const fs::MountEntry& entry : fs::mount_table()) {
    if (!is_inside(entry.mountpoint, *absolute)) {
      continue;
    }
    const auto daemon = entry.type == fs::kMountType ? index::StoreLock::writer(entry.source) : std::nullopt;
    if (daemon.value_or(0) > 0) {
      ::kill(*daemon, SIGKILL);  // its fault may hold it up for as long as it likes
    }
    if (!fs::unmount(entry.mountpoint, true).ok()) {
      return false;
    }
  }
  return true;
}

/// Whether it is a scratch folder of ours whose campaign has ended without taking it away.
bool is_left_behind(const std::string& path) {
  const std::string number = path.substr(path.rfind('-') + 1);
  pid_t pid = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), pid);
  struct stat facts {};
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || pid <= 0 ||
      ::lstat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid() ||
      ::access((path + "/lock").c_str(), F_OK) != 0) {
    return false;
  }
  const bool alive = ::kill(pid, 0) == 0 || errno != ESRCH;
  return !alive && index::FileLock::take(path + "/lock", index::FileLock::Mode::shared).ok();
}

void clear_left_behind(const std::string& base) {
  std::error_code problem;
  for (files::directory_iterator it(base, problem), end; !problem && it != end; it.increment(problem)) {
    const std::string path = it->path().string();
    if (it->path().filename().string().starts_with(kPrefix) && is_left_behind(path) && end_mounts(path)) {
      std::error_code ignored;
      files::remove_all(path, ignored);
    }
  }
}

Status make(const std::string& path) {
  std::error_code problem;
  files::create_directories(path, problem);
  return problem ? Status(Error{problem.value(), fmt::format("cannot make {}: {}", path, problem.message())})
                 : Status();
}

}  // namespace

ScratchFolder::ScratchFolder(const std::string& wanted)
    : base_(base_of(wanted)), path_(fmt::format("{}/{}{}", base_, kPrefix, ::getpid())) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (lock_) {
    files::remove_all(path_, ignored);
  }
}

Status ScratchFolder::take() {
  clear_left_behind(base_);
  std::error_code problem;
  files::create_directory(path_, problem);
  if (problem) {
    return Error{problem.value(), fmt::format("cannot make {} for stores and mounts: {}; give another folder by "
                                              "--scratch",
                                              path_, problem.message())};
  }
  VARVE_ASSIGN(lock_, index::FileLock::take(path_ + "/lock", index::FileLock::Mode::exclusive));
  return {};
}

ResultsFolder::~ResultsFolder() {
  std::error_code ignored;
  if (lock_ && !files::exists(path_ + "/campaign.json", ignored)) {
    files::remove_all(path_ + "/golden", ignored);
    files::remove(path_ + "/lock", ignored);
    files::remove(path_, ignored);  // if nothing else is there
  }
}

Status ResultsFolder::take() {
  VARVE_TRY(make(path_));
  const std::string path = path_ + "/lock";
  auto lock = index::FileLock::take(path, index::FileLock::Mode::exclusive);
  if (!lock.ok()) {
    return lock.error().code != EBUSY
               ? lock.error()
               : Error{EBUSY, fmt::format("{} runs a campaign with results in {}: wait for it, or give another "
                                          "folder by --results",
                                          index::FileLock::holder(path), path_)};
  }
  lock_ = *std::move(lock);
  if (!end_mounts(path_ + "/kept")) {
    return Error{EBUSY, fmt::format("a run that was kept is still mounted below {}/kept: unmount it first", path_)};
  }
  return {};
}

Status ResultsFolder::prepare() const { return make(path_ + "/journals"); }

}  // namespace varve::tools
