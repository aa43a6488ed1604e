// varve umount: takes a mount off and waits until its daemon has stored everything and ended.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "fs/fuse_mount_table.h"
#include "index/store_directory.h"
#include "tools/commands.h"
#include "tools/held_mount.h"
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

/// A file's first bytes, or nothing: it cannot be read, or not within a second. A mount whose daemon hangs answers
/// nothing, and whoever waits for it keeps it busy: so a process does that can be ended.
std::string text_soon(const std::string& path) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {};
  }
  const pid_t child = fork();
  if (child == 0) {
    const auto text = read_text(path);
    [[maybe_unused]] const ssize_t put = text.ok() ? ::write(ends[1], text->data(), text->size()) : 0;
    _exit(0);
  }
  ::close(ends[1]);
  constexpr int kPatience = 1000;
  std::array<char, 64> text{};
  pollfd waiting{.fd = ends[0], .events = POLLIN, .revents = 0};
  const bool came = child > 0 && poll(&waiting, 1, kPatience) > 0;
  const ssize_t got = came ? ::read(ends[0], text.data(), text.size()) : 0;
  ::close(ends[0]);
  if (child > 0) {
    ::kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return {text.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

pid_t daemon_of(const std::string& mountpoint) {
  const std::string text = text_soon(MountedPath{mountpoint, {}}.control("pid"));
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

/// Whom to wait for when the mount is off; 0: nobody, or nobody that can be named.
pid_t find_daemon(const fs::MountEntry& entry) {
  const pid_t answered = daemon_of(entry.mountpoint);
  if (answered > 0) {
    return answered;
  }
  // It is dead, hangs, or lets us not in: then the store tells, unless it is in use by another mount.
  const pid_t writer = index::StoreLock::writer(entry.source).value_or(0);
  for (const fs::MountEntry& other : fs::mount_table()) {
    if (writer > 0 && other.type == entry.type && other.source == entry.source &&
        other.mountpoint != entry.mountpoint && daemon_of(other.mountpoint) == writer) {
      return 0;
    }
  }
  return writer;
}

/// Until the daemon has ended and let the store go. ETIMEDOUT.
Status wait_for_store(const fs::MountEntry& entry, pid_t pid, const Process& daemon, std::chrono::seconds patience) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kStep{20};
  constexpr std::chrono::seconds kQuiet{2};
  const auto start = Clock::now();
  bool told = isatty(STDERR_FILENO) == 0;
  const auto held = [&] {
    return pid > 0 && ((daemon.known() && !daemon.wait(0)) || index::StoreLock::writer(entry.source) == pid);
  };
  while (held()) {
    const auto passed = Clock::now() - start;
    if (passed > patience) {
      return Error{ETIMEDOUT, fmt::format("{} is unmounted, but after {} s its daemon (process {}) still has the store "
                                          "{} open: what was written is being stored, or the daemon hangs. Wait for it "
                                          "(tail --pid={} -f /dev/null) before you mount or copy the store; "
                                          "{}/varve.log says what it does",
                                          entry.mountpoint, patience.count(), pid, entry.source, pid, entry.source)};
    }
    if (!told && passed > kQuiet) {
      fmt::print(stderr, "storing what is left; this ends when everything is on the disk\n");
      told = true;
    }
    if (!daemon.known() || daemon.wait(static_cast<int>(kStep.count()))) {
      std::this_thread::sleep_for(kStep);
    }
  }
  return {};
}

Status unmount(const std::string& directory, std::chrono::seconds patience) {
  VARVE_ASSIGN(const std::string path, mountpoint_of(directory));
  const auto entry = fs::mount_at(path);
  if (!entry.has_value() || entry->type != fs::kMountType) {
    return Error{EINVAL, fmt::format("{} is not the directory of a Varve mount: see findmnt -t fuse.varve", directory)};
  }
  release_held_mount(path);
  const pid_t pid = find_daemon(*entry);
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
  VARVE_TRY(wait_for_store(*entry, pid, daemon, patience));
  std::error_code problem;
  if (!std::filesystem::is_empty(entry->source + "/staging", problem) && !problem) {
    fmt::print(
        stderr,
        "note: some files could not be sealed, and are kept as they were written: {}/varve.log says why, and the "
        "next mount tries again\n",
        entry->source);
  }
  return {};
}

}  // namespace

void add_umount(CLI::App& app, int& status) {
  struct Arguments {
    std::vector<std::string> directories;
    uint32_t patience = 3600;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("umount", "Unmount, and wait until everything is stored");
  command->footer(
      "Example:\n"
      "  varve umount ~/data\n"
      "When it returns 0, the store can be copied, moved, or mounted elsewhere; it waits for a dead or hanging "
      "mount's\n"
      "daemon, too. umount(8) and fusermount3 -u work as well, but do not wait.");
  command->add_option("DIR", arguments->directories, "Directory of the mount")->required();
  command->add_option("--timeout", arguments->patience, "Seconds to wait for the daemon before it is an error")
      ->capture_default_str();
  command->callback([arguments, &status] {
    status = kDone;
    for (const std::string& directory : arguments->directories) {
      status = std::max(status, finish(unmount(directory, std::chrono::seconds(arguments->patience))));
    }
  });
}

}  // namespace varve::tools
