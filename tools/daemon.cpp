#include "tools/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "fs/log.h"

namespace varve::tools {
namespace {

std::string receive_all(int pipe) {
  std::string message;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
    if (count > 0) {
      message.append(buffer.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return message;
    }
  }
}

void close_terminal() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(null, descriptor);
  }
  ::close(null);
}

using Service = std::function<Status(const Ready&)>;

/// What is done in the child before the service runs, and when it is ready.
struct ChildSteps {
  void (*before)();
  void (*when_ready)();
};

/// The end of the pipe to whoever waits for this process, until that was told; -1: nobody waits.
int outcome_pipe = -1;

/// The errno (0: ready), then the text of the error.
void tell_outcome(int code, const std::string& text) {
  std::string message(sizeof code, '\0');
  std::memcpy(message.data(), &code, sizeof code);
  message += text;
  [[maybe_unused]] const ssize_t sent = ::write(outcome_pipe, message.data(), message.size());
  ::close(outcome_pipe);
  outcome_pipe = -1;
}

[[noreturn]] void be_child(int pipe, const Service& service, const ChildSteps& steps) {
  if (outcome_pipe >= 0) {
    ::close(outcome_pipe);  // its parent's: who waits at the other end waits until nobody has it any more
  }
  outcome_pipe = pipe;
  steps.before();
  bool started = false;
  const Status status = service([&] {
    started = true;
    steps.when_ready();
    tell_outcome(0, "");
  });
  if (!started && !status.ok()) {
    tell_outcome(status.error().code, status.error().text);
  }
  std::exit(status.ok() ? 0 : 1);
}

/// How the child ended.
int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// How the child ended; `release` is called, once, if it was killed and is held.
int wait_for_end(pid_t child, const std::function<void(int)>& release) {
  constexpr int kGlance = 200;  // milliseconds
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  bool released = handle < 0;
  pollfd ended{.fd = handle, .events = POLLIN, .revents = 0};
  while (!released && poll(&ended, 1, kGlance) <= 0) {
    if (is_held(child)) {
      release(child);
      released = true;
    }
  }
  if (handle >= 0) {
    ::close(handle);
  }
  return wait_for(child);
}

/// Runs the service in a child and waits until it is ready.
Result<pid_t> start_child(const Service& service, const ChildSteps& steps) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error{errno, fmt::format("cannot go to the background: {}", std::strerror(errno))};
  }
  const pid_t child = fork();
  if (child < 0) {
    const int code = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return Error{code, fmt::format("cannot go to the background: {}; free some memory, or use -f to stay in the "
                                   "foreground",
                                   std::strerror(code))};
  }
  if (child == 0) {
    ::close(ends[0]);
    be_child(ends[1], service, steps);
  }
  ::close(ends[1]);
  const std::string message = receive_all(ends[0]);
  ::close(ends[0]);
  int code = 0;
  if (message.size() < sizeof code) {
    const int status = wait_for(child);
    return Error{EIO, WIFSIGNALED(status) ? fmt::format("the daemon was killed by signal {} ({}) while it started",
                                                        WTERMSIG(status), strsignal(WTERMSIG(status)))
                                          : std::string("the daemon ended while it started: see the lines above")};
  }
  std::memcpy(&code, message.data(), sizeof code);
  if (code != 0) {
    wait_for(child);
    return Error{code, message.substr(sizeof code)};
  }
  return child;
}

/// The child of a supervisor, for its signals.
std::atomic<pid_t> supervised{0};
std::atomic<bool> asked_to_end{false};

void hand_on(int signal) {
  asked_to_end = true;
  if (const pid_t child = supervised; child > 0) {
    kill(child, signal);
  }
}

void hand_signals_on() {
  struct sigaction action {};
  action.sa_handler = hand_on;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    sigaction(signal, &action, nullptr);
  }
}

void take_signals_back() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    std::signal(signal, SIG_DFL);
  }
}

}  // namespace

Status run_in_background(const Service& service) {
  const ChildSteps steps{[] {
                           setsid();
                           [[maybe_unused]] const int changed = chdir("/");  // so that no directory stays busy
                         },
                         close_terminal};
  const auto child = start_child(service, steps);
  return child.ok() ? Status() : Status(child.error());
}

Status supervise(const Service& service, const Ready& ready, const std::function<void(int)>& release,
                 bool in_background) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kMostDeaths = 5;
  constexpr std::chrono::minutes kWithin{1};
  constexpr std::chrono::milliseconds kPause{100};
  hand_signals_on();
  const ChildSteps steps{take_signals_back, in_background ? close_terminal : [] {}};
  std::deque<Clock::time_point> deaths;
  for (bool first = true;; first = false) {
    auto child = start_child(service, steps);
    if (child.ok()) {
      supervised = *child;
      if (first) {
        ready();
      }
      const int status = wait_for_end(*child, release);
      supervised = 0;
      if (!WIFSIGNALED(status)) {
        return WEXITSTATUS(status) == 0 ? Status() : Status(Error{EIO, "the daemon ended with an error: see its log"});
      }
      child = Error{
          EIO, fmt::format("the daemon was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))};
    } else if (first) {
      return child.error();
    }
    deaths.push_back(Clock::now());
    while (deaths.front() + kWithin < deaths.back()) {
      deaths.pop_front();
    }
    if (asked_to_end || deaths.size() >= kMostDeaths) {
      return Error{child.error().code, fmt::format("{}; it is not started again{}", child.error().text,
                                                   asked_to_end ? "" : ", as it died five times within a minute")};
    }
    fs::log_line(fs::LogLevel::error, child.error().text + "; it is started again");
    std::this_thread::sleep_for(kPause);
  }
}

bool is_held(int process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  constexpr uint64_t kKilled = uint64_t{1} << (SIGKILL - 1);
  char state = ' ';
  uint64_t threads = 0;
  uint64_t pending = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string_view text(line);
    const std::string_view value = text.substr(std::min(text.find('\t') + 1, text.size()));
    uint64_t number = 0;
    if (text.starts_with("State:") && !value.empty()) {
      state = value.front();
    } else if (text.starts_with("Threads:")) {
      std::from_chars(value.data(), value.data() + value.size(), threads);
    } else if (text.starts_with("SigPnd:") || text.starts_with("ShdPnd:")) {
      std::from_chars(value.data(), value.data() + value.size(), number, 16);
      pending |= number;
    }
  }
  // The first thread can be gone while others are not; gone with no others, the process waits for its parent alone.
  return state == 'Z' ? threads > 1 : (pending & kKilled) != 0;
}

void notify_service_manager() {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || std::strlen(path) < 2 || std::strlen(path) >= sizeof address.sun_path) {
    return;
  }
  const size_t length = std::strlen(path);
  std::memcpy(address.sun_path, path, length);
  if (address.sun_path[0] == '@') {
    address.sun_path[0] = '\0';  // an abstract socket
  }
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    return;
  }
  constexpr std::string_view kReady = "READY=1";
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  ::sendto(socket, kReady.data(), kReady.size(), 0, reinterpret_cast<const sockaddr*>(&address), size);
  ::close(socket);
}

}  // namespace varve::tools
