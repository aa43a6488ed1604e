// varve umount: takes a mount off and waits until its daemon has stored everything and ended.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "fs/fuse_mount_table.h"
#include "tools/commands.h"
#include "tools/mount_point.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

constexpr size_t kNamedUsers = 8;

/// A process to wait for, also if its number is used again. Closed at the end of its life.
class Process {
 public:
  explicit Process(pid_t pid) : descriptor_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  ~Process() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool known() const { return descriptor_ >= 0; }
  /// True when it has ended, false when the time is up first.
  bool wait(int milliseconds) const {
    pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, milliseconds) > 0;
  }

 private:
  int descriptor_;
};

/// Does any of the links of a process (its directory, its files) lead into `directory`?
bool uses(const std::filesystem::path& process, const std::string& directory) {
  std::error_code problem;
  for (const char* link : {"cwd", "root", "exe"}) {
    const auto target = std::filesystem::read_symlink(process / link, problem);
    if (!problem && target != "/" && is_inside(target.string(), directory)) {
      return true;
    }
  }
  for (std::filesystem::directory_iterator it(process / "fd", problem), end; !problem && it != end;
       it.increment(problem)) {
    std::error_code unreadable;
    const auto target = std::filesystem::read_symlink(it->path(), unreadable);
    if (!unreadable && is_inside(target.string(), directory)) {
      return true;
    }
  }
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path != std::string::npos && is_inside(line.substr(path), directory)) {
      return true;
    }
  }
  return false;
}

/// "python3 (812)", ...: processes that keep `directory` busy, as far as we may look.
std::vector<std::string> users_of(const std::string& directory) {
  const std::string self = std::to_string(getpid());  // which may have inherited a file
  std::vector<std::string> users;
  std::error_code problem;
  for (std::filesystem::directory_iterator it("/proc", problem), end; !problem && it != end; it.increment(problem)) {
    const std::string number = it->path().filename().string();
    if (number.find_first_not_of("0123456789") == std::string::npos && number != self && users.size() < kNamedUsers &&
        uses(it->path(), directory)) {
      std::ifstream file(it->path() / "comm");
      std::string name;
      std::getline(file, name);
      users.push_back(fmt::format("{} ({})", name, number));
    }
  }
  return users;
}

Status unmount(const std::string& directory) {
  VARVE_ASSIGN(const std::string path, absolute_path(directory));
  const auto entry = fs::mount_at(path);
  if (!entry.has_value() || entry->type != "fuse.varve") {
    return Error{EINVAL, fmt::format("{} is not the directory of a Varve mount: see findmnt -t fuse.varve", directory)};
  }
  // A daemon that died cannot say who it was; then there is nobody to wait for.
  const auto text = read_text(MountedPath{path, {}}.control("pid"));
  pid_t pid = 0;
  if (text.ok()) {
    std::from_chars(text->data(), text->data() + text->size(), pid);
  }
  const Process daemon(pid);
  if (Status status = fs::unmount(path, false); !status.ok()) {
    if (status.error().code != EBUSY) {
      return status;
    }
    const auto users = users_of(path);
    return Error{EBUSY,
                 fmt::format("{} is busy: {}. Close the files and leave the directory, then try again", directory,
                             users.empty() ? "a process of another user has files open there"
                                           : fmt::format("in use by {}", fmt::join(users, ", ")))};
  }
  if (!daemon.known()) {
    return {};
  }
  constexpr int kPatience = 2000;
  if (!daemon.wait(kPatience)) {
    if (isatty(STDERR_FILENO) != 0) {
      fmt::print(stderr, "storing what is left; this ends when everything is on the disk\n");
    }
    daemon.wait(-1);
  }
  return {};
}

}  // namespace

void add_umount(CLI::App& app, int& status) {
  auto directories = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("umount", "Unmount, and wait until everything is stored");
  command->footer(
      "Example:\n"
      "  varve umount ~/data\n"
      "When it returns, the store can be copied, moved, or mounted elsewhere. umount(8) and fusermount3 -u work too, "
      "but\n"
      "do not wait for the daemon.");
  command->add_option("DIR", *directories, "Directory of the mount")->required();
  command->callback([directories, &status] {
    status = kDone;
    for (const std::string& directory : *directories) {
      status = std::max(status, finish(unmount(directory)));
    }
  });
}

}  // namespace varve::tools
