#include "tools/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

namespace varve::tools {
namespace {

/// What the child sends: the errno (0: ready), then the text of the error.
void send_outcome(int pipe, int code, const std::string& text) {
  std::string message(sizeof code, '\0');
  std::memcpy(message.data(), &code, sizeof code);
  message += text;
  [[maybe_unused]] const ssize_t sent = ::write(pipe, message.data(), message.size());
  ::close(pipe);
}

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

[[noreturn]] void be_child(int pipe, const std::function<Status(const Ready&)>& service) {
  setsid();
  [[maybe_unused]] const int changed = chdir("/");  // so that no directory stays busy because of us
  bool started = false;
  const Status status = service([&] {
    started = true;
    close_terminal();
    send_outcome(pipe, 0, "");
  });
  if (!started && !status.ok()) {
    send_outcome(pipe, status.error().code, status.error().text);
  }
  std::exit(status.ok() ? 0 : 1);
}

}  // namespace

Status run_in_background(const std::function<Status(const Ready&)>& service) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error{errno, fmt::format("cannot go to the background: {}", std::strerror(errno))};
  }
  const pid_t child = fork();
  if (child < 0) {
    return Error{errno, fmt::format("cannot go to the background: {}; free some memory, or use -f to stay in the "
                                    "foreground",
                                    std::strerror(errno))};
  }
  if (child == 0) {
    ::close(ends[0]);
    be_child(ends[1], service);
  }
  ::close(ends[1]);
  const std::string message = receive_all(ends[0]);
  ::close(ends[0]);
  int code = 0;
  if (message.size() < sizeof code) {
    int status = 0;
    waitpid(child, &status, 0);
    return Error{EIO, WIFSIGNALED(status) ? fmt::format("the daemon was killed by signal {} ({}) while it started",
                                                        WTERMSIG(status), strsignal(WTERMSIG(status)))
                                          : std::string("the daemon ended while it started: see the lines above")};
  }
  std::memcpy(&code, message.data(), sizeof code);
  return code == 0 ? Status() : Status(Error{code, message.substr(sizeof code)});
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
