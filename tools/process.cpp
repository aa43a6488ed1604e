#include "tools/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace varve::tools {
namespace {

/// posix_spawn's settings, freed at the end.
class Settings {
 public:
  Settings() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  }
  ~Settings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  void redirect(int descriptor, const std::string& path) {
    const char* target = path.empty() ? "/dev/null" : path.c_str();
    const int flags = descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND;
    posix_spawn_file_actions_addopen(&actions_, descriptor, target, flags, 0644);
  }
  void start_in(const std::string& directory) {
    if (!directory.empty()) {
      posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str());
    }
  }
  int spawn(pid_t& pid, std::vector<char*>& words, std::string variable) {
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      environment.push_back(*entry);
    }
    if (!variable.empty()) {
      environment.push_back(variable.data());
    }
    environment.push_back(nullptr);
    return posix_spawnp(&pid, words[0], &actions_, &attributes_, words.data(), environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// Sleeps until the process `handle` stands for has ended, or a while has passed (a short one without such a handle).
void await_end(int handle, std::chrono::steady_clock::time_point deadline) {
  constexpr auto kGlance = std::chrono::milliseconds(50);  // `stop` is looked at this often
  constexpr auto kBlind = std::chrono::milliseconds(1);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  const auto pause = std::clamp(left, std::chrono::milliseconds(0), handle >= 0 ? kGlance : kBlind);
  pollfd ended{handle, POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(pause.count()));
}

}  // namespace

Result<Child> Child::start(const Program& program) {
  Settings settings;
  settings.redirect(STDIN_FILENO, "");
  settings.redirect(STDOUT_FILENO, program.output);
  settings.redirect(STDERR_FILENO, program.errors);
  settings.start_in(program.directory);
  std::vector<std::string> copy = program.words;
  std::vector<char*> words;
  words.reserve(copy.size() + 1);
  for (std::string& word : copy) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  pid_t pid = 0;
  const int code = words.size() < 2 ? EINVAL : settings.spawn(pid, words, program.variable);
  if (code != 0) {
    return Error{code, fmt::format("cannot start {}: {}", copy.empty() ? "nothing" : copy[0],
                                   std::generic_category().message(code))};
  }
  return Child(pid);
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)), ended_(other.ended_), start_(other.start_) {}

Child::~Child() {
  if (pid_ != 0) {
    kill();
  }
}

std::optional<Ending> Child::wait(std::chrono::milliseconds limit, const std::atomic<bool>* stop) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int handle = -1;  // opened when there is something to wait for
  while (pid_ != 0) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    const auto now = std::chrono::steady_clock::now();
    if (ended == pid_ || (ended < 0 && errno != EINTR)) {
      ended_.emplace();
      ended_->status = ended == pid_ && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      ended_->signal = ended == pid_ && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      ended_->seconds = std::chrono::duration<double>(now - start_).count();
      ::kill(-pid_, SIGKILL);  // what it may have left behind
      pid_ = 0;
      break;
    }
    if (now >= deadline || (stop != nullptr && *stop)) {
      break;
    }
    handle = handle >= 0 ? handle : static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    await_end(handle, deadline);
  }
  if (handle >= 0) {
    ::close(handle);
  }
  return ended_;
}

Ending Child::kill() {
  if (pid_ != 0) {
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    ended_.emplace();
    ended_->signal = SIGKILL;
    ended_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    pid_ = 0;
  }
  return ended_.value_or(Ending());
}

Result<Ending> run(const Program& program, std::chrono::milliseconds limit, const std::atomic<bool>* stop) {
  VARVE_ASSIGN(Child child, Child::start(program));
  if (const auto ending = child.wait(limit, stop)) {
    return *ending;
  }
  Ending ending = child.kill();
  ending.timed_out = true;
  return ending;
}

}  // namespace varve::tools
