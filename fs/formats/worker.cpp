// The daemon's side: starts workers, answers their reads, and ends them when they misbehave.
#include "fs/formats/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <utility>

#include "fs/formats/check.h"
#include "fs/formats/confine.h"
#include "fs/formats/worker_protocol.h"
#include "fs/log.h"

namespace varve::fs {

namespace {

constexpr size_t kLongestName = 4096;

/// A running worker. The destructor ends it.
class Worker {
 public:
  Worker(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  ~Worker() { end(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int fd() const { return fd_; }
  pid_t pid() const { return pid_; }

  /// Whether it waits for a request: nothing to read, not hung up.
  bool idle() const {
    pollfd entry{fd_, POLLIN | POLLRDHUP, 0};
    return ::poll(&entry, 1, 0) == 0;
  }

  /// Kills and reaps it. What waitpid said: 0 when it had been reaped elsewhere (SIGCHLD ignored).
  int end() {
    if (pid_ < 0) {
      return 0;
    }
    // It gets a moment to die of its own (a crash that is being written down), so that the status tells why.
    int status = 0;
    pid_t done = 0;
    for (int i = 0; i < 50 && (done = ::waitpid(pid_, &status, WNOHANG)) == 0 && hung_up(); ++i) {
      ::usleep(1000);
    }
    if (done == 0) {
      ::kill(pid_, SIGKILL);
      while ((done = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
      }
    }
    ::close(fd_);
    pid_ = -1;
    return done > 0 ? status : 0;
  }

 private:
  bool hung_up() const {
    pollfd entry{fd_, POLLRDHUP, 0};
    return ::poll(&entry, 1, 0) > 0;
  }

  pid_t pid_;
  int fd_;
};

/// The few variables that a worker may need; nothing else of the daemon's environment is its business.
std::vector<std::string> worker_environment() {
  std::vector<std::string> environment{"LC_ALL=C", "HDF5_PLUGIN_PRELOAD=::", "HDF5_USE_FILE_LOCKING=FALSE"};
  for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the daemon never sets variables
    if (value != nullptr) {
      environment.push_back(fmt::format("{}={}", name, value));
    }
  }
  return environment;
}

/// posix_spawn's two bags of settings, freed with their owner.
struct SpawnSettings {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

/// Standard input, output and error go nowhere (whoever started the daemon may wait for the end of what it prints), the
/// socket is kWorkerDescriptor, all else is closed; no
/// signal is blocked or ignored; a process group of its own keeps the terminal's Ctrl-C away.
int spawn(const std::string& program, int socket, pid_t& pid) {
  SpawnSettings settings;
  posix_spawn_file_actions_addopen(&settings.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&settings.actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&settings.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&settings.actions, socket, kWorkerDescriptor);
  posix_spawn_file_actions_addclosefrom_np(&settings.actions, kWorkerDescriptor + 1);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&settings.attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&settings.attributes, &signals);
  posix_spawnattr_setpgroup(&settings.attributes, 0);
  posix_spawnattr_setflags(&settings.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = program;
  std::string command = "recognise-worker";
  std::array<char*, 3> arguments{name.data(), command.data(), nullptr};
  std::vector<std::string> environment = worker_environment();
  std::vector<char*> pointers;
  pointers.reserve(environment.size() + 1);
  for (std::string& variable : environment) {
    pointers.push_back(variable.data());
  }
  pointers.push_back(nullptr);
  return ::posix_spawn(&pid, name.c_str(), &settings.actions, &settings.attributes, arguments.data(), pointers.data());
}

Result<std::unique_ptr<Worker>> start_worker(const std::string& program) {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return Error{errno, fmt::format("cannot make a socket for the recogniser: {}", std::strerror(errno))};
  }
  pid_t pid = -1;
  int code = spawn(program, sockets[1], pid);
  ::close(sockets[1]);
  if (code != 0) {
    ::close(sockets[0]);
    return Error{code, fmt::format("cannot run {} as the recogniser: {}. Files are kept as bytes until this is mended",
                                   program, std::strerror(code))};
  }
  return std::make_unique<Worker>(pid, sockets[0]);
}

std::string cause_of_death(int status) {
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    return signal == SIGXCPU ? "used more processor time than allowed"
                             : fmt::format("died of signal {} ({})", signal, ::strsignal(signal));
  }
  return WIFEXITED(status) ? fmt::format("exited with status {}", WEXITSTATUS(status)) : "ended";
}

/// The state of one conversation; `sound` says whether the worker can serve again.
struct Conversation {
  Worker& worker;
  FileView& file;
  Deadline deadline;
  bool sound = false;
  std::optional<Error> read_error;  ///< of the daemon's own file: matters more than what the worker makes of it
};

Status serve_read(Conversation& talk, std::span<const std::byte> payload, std::vector<std::byte>& buffer) {
  VARVE_ASSIGN(ReadRange range, decode_range(payload));
  buffer.resize(range.length);
  auto got = talk.file.read(range.offset, buffer);
  if (!got.ok()) {
    talk.read_error = got.error();
    return send_frame(talk.worker.fd(), FrameKind::failure, encode(got.error()), talk.deadline);
  }
  return send_frame(talk.worker.fd(), FrameKind::data, std::span(buffer).first(*got), talk.deadline);
}

/// Takes what the worker found: nothing, if there is nothing. An error: it is not what a worker says.
using Accept = std::function<Status(std::span<const std::byte> found)>;

Status converse(Conversation& talk, const Request& request, const Accept& accept) {
  VARVE_TRY(send_frame(talk.worker.fd(), FrameKind::request, encode(request), talk.deadline));
  std::vector<std::byte> buffer;
  while (true) {
    VARVE_ASSIGN(Frame frame, receive_frame(talk.worker.fd(), talk.deadline));
    switch (frame.kind) {
      case FrameKind::read:
        VARVE_TRY(serve_read(talk, frame.payload, buffer));
        break;
      case FrameKind::nothing:
        talk.sound = true;
        return {};
      case FrameKind::found:
        VARVE_TRY(accept(frame.payload));
        talk.sound = true;
        return {};
      case FrameKind::failure: {
        Error error = decode_error(frame.payload);
        talk.sound = error.code != EPROTO;
        return error;
      }
      default:
        return Error{EPROTO, "a message that no worker sends"};
    }
  }
}

}  // namespace

struct RecogniserPool::State {
  WorkerOptions options;
  std::mutex mutex;
  std::condition_variable freed;
  unsigned busy = 0;                          // guarded by mutex
  std::vector<std::unique_ptr<Worker>> idle;  // guarded by mutex
  std::atomic<bool> looked = false;           // whether workers are confined

  /// Waits for a free place; a worker that waits for work, or none.
  std::unique_ptr<Worker> enter() {
    std::unique_lock lock(mutex);
    freed.wait(lock, [&] { return busy < options.processes; });
    ++busy;
    std::unique_ptr<Worker> worker;
    while (!idle.empty() && !worker) {
      worker = std::move(idle.back());
      idle.pop_back();
      if (!worker->idle()) {
        worker.reset();
      }
    }
    return worker;
  }

  void leave(std::unique_ptr<Worker> worker) {
    std::lock_guard lock(mutex);
    --busy;
    if (worker) {
      idle.push_back(std::move(worker));
    }
    freed.notify_one();
  }

  Status run(std::unique_ptr<Worker>& worker, const Request& request, FileView& file, const Accept& accept);
  Status serve(Request request, FileView& file, const Accept& accept);
  void look_at(const Worker& worker);
};

/// A worker that has answered: tells, once, when the kernel does not confine it.
void RecogniserPool::State::look_at(const Worker& worker) {
  if (kConfines && !looked.exchange(true) && !is_confined(worker.pid())) {
    log_line(LogLevel::warning,
             "the kernel takes no filter of system calls (seccomp): the recogniser, which reads files "
             "that others wrote, runs without one");
  }
}

Status RecogniserPool::State::run(std::unique_ptr<Worker>& worker, const Request& request, FileView& file,
                                  const Accept& accept) {
  if (!worker) {
    VARVE_ASSIGN(worker, start_worker(options.program));
  }
  Conversation talk{*worker, file, std::chrono::steady_clock::now() + options.time_limit, false, std::nullopt};
  Status result = converse(talk, request, accept);
  if (talk.read_error) {
    worker.reset();
    return *talk.read_error;
  }
  if (talk.sound) {
    look_at(*worker);
    if (!result.ok() && result.error().code != ENOENT) {
      worker.reset();  // what a bad file left behind in the library is of no use to the next
    }
    return result;
  }
  const Error& error = result.error();
  int status = worker->end();
  worker.reset();
  std::string reason = error.code == ETIMEDOUT ? fmt::format("took longer than {} s", options.time_limit.count() / 1e3)
                       : error.code == ECONNRESET ? cause_of_death(status)
                                                  : "broke its protocol: " + error.text;
  return Error{EIO, fmt::format("the recogniser {} on {}; the file is kept as bytes", reason, request.name)};
}

RecogniserPool::RecogniserPool(WorkerOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->options.processes = std::max(1U, state_->options.processes);
  if (state_->options.program.empty()) {
    state_->options.program = "/proc/self/exe";
  }
}

RecogniserPool::~RecogniserPool() = default;

Status RecogniserPool::State::serve(Request request, FileView& file, const Accept& accept) {
  request.file_size = file.size();
  request.memory_limit = options.memory_limit;
  request.cpu_milliseconds = static_cast<uint64_t>(options.time_limit.count());
  std::unique_ptr<Worker> worker = enter();
  Status result = [&]() -> Status {
    try {
      return run(worker, request, file, accept);
    } catch (const std::bad_alloc&) {
      worker.reset();  // in the middle of a conversation
      return Error{ENOMEM, fmt::format("no memory to recognise {}; the file is kept as bytes", request.name)};
    }
  }();
  leave(std::move(worker));
  return result;
}

void RecogniserPool::prepare() {
  std::unique_ptr<Worker> worker = state_->enter();
  if (!worker) {
    auto started = start_worker(state_->options.program);
    worker = started.ok() ? std::move(*started) : nullptr;  // else the first call tries again, and tells
  }
  state_->leave(std::move(worker));
}

Result<std::optional<Recognised>> RecogniserPool::recognise(std::string_view name, FileView& file,
                                                            const std::optional<RawHint>& hint) {
  Request request;
  request.name = name.substr(0, kLongestName);
  request.hint = hint;
  std::optional<Recognised> out;
  VARVE_TRY(state_->serve(std::move(request), file, [&](std::span<const std::byte> found) -> Status {
    VARVE_ASSIGN(out, deserialise(found));
    return check_arrays(*out, file.size());
  }));
  return out;
}

Result<FileImage> RecogniserPool::image(const ImageRequest& wanted, std::string_view name, FileView& file,
                                        const std::optional<RawHint>& hint) {
  Request request;
  request.name = name.substr(0, kLongestName);
  request.hint = hint;
  request.image = wanted;
  std::optional<FileImage> out;
  VARVE_TRY(state_->serve(std::move(request), file, [&](std::span<const std::byte> found) -> Status {
    VARVE_ASSIGN(out, deserialise_image(found, file.size()));
    return {};
  }));
  return out ? Result<FileImage>(*std::move(out)) : Error{EIO, "the recogniser made no image"};
}

}  // namespace varve::fs
