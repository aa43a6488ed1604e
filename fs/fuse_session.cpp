#include "fs/fuse_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "fs/fuse_mount_table.h"
#include "fs/fuse_requests.h"
#include "fs/log.h"

namespace varve::fs {
namespace {

/// Threads that libfuse may start for each one it keeps: requests may wait (an open for a seal) and must not make
/// others wait too.
constexpr unsigned kBurstFactor = 8;
/// How long stopping waits for programs that keep writing.
constexpr std::chrono::seconds kWriteBackLimit{30};

// --- messages of libfuse --------------------------------------------------------------------------------------------

std::mutex library_mutex;
std::string library_line;      // in the making: libfuse sends some of its lines in pieces
std::string library_messages;  // since the last call of forget_library_messages

void take_library_message(fuse_log_level level, const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  const std::lock_guard lock(library_mutex);
  library_line += text.data();
  if (!library_line.ends_with('\n')) {
    return;
  }
  library_line.pop_back();
  std::ranges::replace(library_line, '\n', ' ');
  log_line(level <= FUSE_LOG_WARNING ? LogLevel::warning : LogLevel::debug, library_line);
  library_messages.append(library_messages.empty() ? "" : "; ").append(library_line);
  library_line.clear();
}

void forget_library_messages() {
  const std::lock_guard lock(library_mutex);
  library_line.clear();
  library_messages.clear();
}

std::string recent_library_messages() {
  const std::lock_guard lock(library_mutex);
  return library_messages.empty() ? std::string("no reason given") : library_messages;
}

// --- signals --------------------------------------------------------------------------------------------------------

std::atomic<int> stop_event{-1};  // an eventfd while a session serves

void on_stop_signal(int /*signal*/) {
  const int saved = errno;
  const int event = stop_event.load();
  if (event >= 0) {
    eventfd_write(event, 1);
  }
  errno = saved;
}

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};

/// The signals end in on_stop_signal as long as this lives; SIGPIPE in nothing.
class SignalHandlers {
 public:
  SignalHandlers() {
    struct sigaction action {};
    action.sa_handler = on_stop_signal;
    sigset_t unblocked;
    sigemptyset(&unblocked);
    for (size_t i = 0; i < kStopSignals.size(); ++i) {
      sigaction(kStopSignals[i], &action, &previous_[i]);
      sigaddset(&unblocked, kStopSignals[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &unblocked, &previous_mask_);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &previous_pipe_);
  }
  ~SignalHandlers() {
    for (size_t i = 0; i < kStopSignals.size(); ++i) {
      sigaction(kStopSignals[i], &previous_[i], nullptr);
    }
    pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
    sigaction(SIGPIPE, &previous_pipe_, nullptr);
  }
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  std::array<struct sigaction, kStopSignals.size()> previous_{};
  struct sigaction previous_pipe_ {};
  sigset_t previous_mask_{};
};

// --- invalidation ---------------------------------------------------------------------------------------------------

/// Tells the kernel to drop an inode's pages and attributes, from a thread of its own: the kernel may answer with
/// writes to the same inode before the call returns, which other threads then serve.
class Invalidator : public KernelCache {
 public:
  explicit Invalidator(fuse_session* session) : session_(session), thread_([this] { run(); }) {}
  ~Invalidator() override { close(); }
  Invalidator(const Invalidator&) = delete;
  Invalidator& operator=(const Invalidator&) = delete;

  void invalidate_inode(InodeNumber inode, bool pages) override {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) {
        return;
      }
      const auto [waiting, added] = waiting_.emplace(inode, pages);
      waiting->second = waiting->second || pages;
      if (!added) {
        return;
      }
      queue_.push_back(inode);
    }
    wake_.notify_one();
  }

  void settle() override {
    std::unique_lock lock(mutex_);
    told_.wait_for(lock, kPatience, [this] { return closed_ || (queue_.empty() && telling_ == 0); });
  }

  void take_mapped_writes(InodeNumber inode) override {
    invalidate_inode(inode, true);
    std::unique_lock lock(mutex_);
    told_.wait_for(lock, kPatience, [&] { return closed_ || (!waiting_.contains(inode) && telling_ != inode); });
  }

  /// Drops what is queued and waits for the call in progress. The session must be valid until then.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  static constexpr std::chrono::seconds kPatience{2};

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (closed_) {
        return;
      }
      const InodeNumber inode = queue_.front();
      queue_.pop_front();
      const bool pages = waiting_.at(inode);
      waiting_.erase(inode);
      telling_ = inode;
      lock.unlock();
      // A negative offset: attributes alone.
      const int result = fuse_lowlevel_notify_inval_inode(session_, inode, pages ? 0 : -1, 0);
      if (result != 0 && result != -ENOENT && result != -ENODEV) {  // not known to the kernel; unmounted
        log_line(LogLevel::warning, fmt::format("the kernel did not drop its pages of inode {}: {}; programs may see "
                                                "the values from before the file was sealed",
                                                inode, std::strerror(-result)));
      }
      lock.lock();
      telling_ = 0;
      told_.notify_all();
    }
  }

  fuse_session* session_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable told_;
  InodeNumber telling_ = 0;  ///< of which the kernel is being told; 0: none
  std::deque<InodeNumber> queue_;
  std::unordered_map<InodeNumber, bool> waiting_;  ///< what queue_ holds: pages too?
  bool closed_ = false;
  std::thread thread_;
};

// --- before mounting ------------------------------------------------------------------------------------------------

/// The mount point as an absolute path without symbolic links; a dead mount there is taken off first.
Result<std::string> prepare_mountpoint(const std::string& path) {
  struct stat status {};
  struct statvfs space {};
  // The kernel may answer stat() for a dead mount from its cache, but never statvfs().
  if (::stat(path.c_str(), &status) != 0 || ::statvfs(path.c_str(), &space) != 0) {
    int code = errno;
    if (code == ENOTCONN || code == ECONNABORTED) {
      log_line(LogLevel::warning, fmt::format("taking off the dead mount at {}", path));
      VARVE_TRY(unmount(path, true));
      code = ::stat(path.c_str(), &status) == 0 ? 0 : errno;
    }
    if (code == ENOENT) {
      return Error{ENOENT, fmt::format("the mount point {} does not exist: make it with mkdir", path)};
    }
    if (code != 0) {
      return Error{code, fmt::format("cannot reach the mount point {}: {}", path, std::strerror(code))};
    }
  }
  if (!S_ISDIR(status.st_mode)) {
    return Error{ENOTDIR, fmt::format("the mount point {} is not a directory: name one", path)};
  }
  std::array<char, PATH_MAX> resolved{};
  if (realpath(path.c_str(), resolved.data()) == nullptr) {
    return Error{errno, fmt::format("cannot resolve the mount point {}: {}", path, std::strerror(errno))};
  }
  if (geteuid() != 0 && access(resolved.data(), W_OK) != 0) {
    return Error{EACCES, fmt::format("no right to write to the mount point {}: mount on a directory of your own, or "
                                     "as root",
                                     path)};
  }
  return std::string(resolved.data());
}

Status check_device() {
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device >= 0) {
    ::close(device);
    return {};
  }
  switch (errno) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return Error{errno,
                   "there is no /dev/fuse: load the module (modprobe fuse) or, in a container, start it with "
                   "--device /dev/fuse --cap-add SYS_ADMIN"};
    case EACCES:
    case EPERM:
      return Error{errno, fmt::format("no right to open /dev/fuse ({}): mount as root, or let root run chmod 666 "
                                      "/dev/fuse; in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN",
                                      std::strerror(errno))};
    default:
      return Error{errno, fmt::format("cannot open /dev/fuse: {}", std::strerror(errno))};
  }
}

/// fusermount3 lets users share their mounts only where root has said so.
Status check_allow_other() {
  std::ifstream configuration("/etc/fuse.conf");
  for (std::string line; std::getline(configuration, line);) {
    if (line.starts_with("user_allow_other")) {
      return {};
    }
  }
  return Error{EPERM,
               "allow_other needs the line user_allow_other in /etc/fuse.conf (root can add it), or root: mount "
               "without allow_other"};
}

/// Commas and backslashes separate and escape in libfuse's option lists.
std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ',' || c == '\\') {
      result.push_back('\\');
    }
    result.push_back(c);
  }
  return result;
}

std::string option_list(const MountOptions& options) {
  std::string list = fmt::format("fsname={},subtype=varve,default_permissions", escape(options.source));
  list += options.read_only ? ",ro" : ",rw";
  if (options.allow_other || geteuid() == 0) {
    list += ",allow_other";
  }
  for (const std::string& option : options.kernel_options) {
    list.append(",").append(escape(option));
  }
  return list;
}

// --- the session ----------------------------------------------------------------------------------------------------

class Session : public FuseSession {
 public:
  Session(std::string mountpoint, const MountOptions& options, Operations& operations)
      : mountpoint_(std::move(mountpoint)), threads_(std::max(options.threads, 1U)) {
    context_.operations = &operations;
    context_.attribute_timeout = options.attribute_timeout;
  }

  ~Session() override {
    if (session_ != nullptr) {
      finish();
      fuse_session_destroy(session_);
    }
    if (event_ >= 0) {
      ::close(event_);
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status start(const MountOptions& options) {
    event_ = eventfd(0, EFD_CLOEXEC);
    if (event_ < 0) {
      return Error{errno, fmt::format("cannot mount {}: no more descriptors: {}", mountpoint_, std::strerror(errno))};
    }
    std::string program = "varve";
    std::string flag = "-o";
    std::string list = option_list(options);
    std::array<char*, 4> words = {program.data(), flag.data(), list.data(), nullptr};
    fuse_args arguments = FUSE_ARGS_INIT(3, words.data());
    session_ = fuse_session_new(&arguments, &request_handlers(), sizeof(fuse_lowlevel_ops), &context_);
    fuse_opt_free_args(&arguments);
    if (session_ == nullptr) {
      return Error{
          EINVAL, fmt::format("cannot mount {} with the options {}: {}", mountpoint_, list, recent_library_messages())};
    }
    errno = 0;
    if (fuse_session_mount(session_, mountpoint_.c_str()) != 0) {
      const int code = errno > 0 ? errno : EPERM;
      fuse_session_destroy(session_);
      session_ = nullptr;
      return Error{code, fmt::format("cannot mount {}: {}. Mounting takes root or the program fusermount3 (package "
                                     "fuse3); a container also needs --cap-add SYS_ADMIN",
                                     mountpoint_, recent_library_messages())};
    }
    mounted_ = true;
    entry_ = mount_at(mountpoint_);
    raise_read_ahead();
    invalidator_ = std::make_unique<Invalidator>(session_);
    return {};
  }

  Status serve() override {
    if (!mounted_) {
      return Error{EINVAL, fmt::format("{} is not mounted any more", mountpoint_)};
    }
    int result = 0;
    {
      const SignalHandlers handlers;
      stop_event.store(event_);
      serving_thread_ = pthread_self();
      std::thread watcher([this] { watch(); });
      fuse_loop_config* config = fuse_loop_cfg_create();
      fuse_loop_cfg_set_clone_fd(config, 0);
      fuse_loop_cfg_set_idle_threads(config, threads_);
      fuse_loop_cfg_set_max_threads(config, threads_ * kBurstFactor);
      result = fuse_session_loop_mt(session_, config);
      fuse_loop_cfg_destroy(config);
      ended_.store(true);
      eventfd_write(event_, 1);
      watcher.join();
      stop_event.store(-1);
    }
    finish();
    if (result < 0 && result != -ENODEV) {
      return Error{-result, fmt::format("serving {} ended early: {}", mountpoint_, std::strerror(-result))};
    }
    return {};
  }

  void stop() override { eventfd_write(event_, 1); }

  KernelCache& kernel_cache() override { return *invalidator_; }

 private:
  bool still_mounted() const { return entry_.has_value() && is_topmost(*entry_); }

  /// The kernel takes no more read-ahead than the mount's own setting, which only root can raise.
  void raise_read_ahead() const {
    if (entry_.has_value()) {
      std::ofstream(fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", entry_->major, entry_->minor)) << "4096\n";
    }
  }

  /// Waits for a reason to stop, then takes the mount off while the other threads still serve: what programs have
  /// mapped and dirtied reaches Operations first.
  void watch() {
    eventfd_t count = 0;
    while (eventfd_read(event_, &count) != 0 && errno == EINTR) {
    }
    if (ended_.load()) {
      return;
    }
    log_line(LogLevel::info, fmt::format("unmounting {}", mountpoint_));
    if (still_mounted()) {
      const Status status = unmount(mountpoint_, false);
      if (!status.ok()) {
        log_line(LogLevel::warning, status.error().text + "; unmounting all the same: they lose their open files");
        write_back();
        cut_off();
      }
    } else {
      cut_off();
    }
    fuse_session_exit(session_);
    while (!ended_.load()) {  // libfuse's main thread looks at the exit flag when a signal interrupts it
      pthread_kill(serving_thread_, SIGHUP);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  /// Has the kernel write what programs mapped and dirtied. Needs other threads to serve. On a FUSE mount syncfs sends
  /// the writes but does not wait for them: so this waits until they have come, and been served, and no more come.
  void write_back() const {
    const int directory = ::open(mountpoint_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
      return;
    }
    syncfs(directory);
    ::close(directory);
    const auto deadline = std::chrono::steady_clock::now() + kWriteBackLimit;
    uint64_t seen = 0;
    do {
      seen = context_.writes_begun;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    } while ((context_.writes_begun != seen || context_.writes_ended != seen) &&
             std::chrono::steady_clock::now() < deadline);
  }

  /// Ends the connection under programs that still use it.
  void cut_off() const {
    if (entry_.has_value()) {
      (void)abort_connection(*entry_);
    }
    if (still_mounted()) {
      (void)unmount(mountpoint_, true);
    }
  }

  /// Leaves neither a mount nor a thread behind.
  void finish() {
    if (!mounted_) {
      return;
    }
    mounted_ = false;
    if (still_mounted()) {
      cut_off();
    }
    invalidator_->close();
    fuse_session_unmount(session_);
  }

  const std::string mountpoint_;
  const unsigned threads_;
  RequestContext context_;
  fuse_session* session_ = nullptr;
  std::optional<MountEntry> entry_;
  std::unique_ptr<Invalidator> invalidator_;
  int event_ = -1;
  bool mounted_ = false;
  pthread_t serving_thread_{};
  std::atomic<bool> ended_{false};
};

}  // namespace

Result<std::unique_ptr<FuseSession>> FuseSession::mount(const MountOptions& options, Operations& operations) {
  fuse_set_log_func(take_library_message);
  forget_library_messages();
  VARVE_ASSIGN(std::string mountpoint, prepare_mountpoint(options.mountpoint));
  VARVE_TRY(check_device());
  if (options.allow_other && geteuid() != 0) {
    VARVE_TRY(check_allow_other());
  }
  auto session = std::make_unique<Session>(std::move(mountpoint), options, operations);
  VARVE_TRY(session->start(options));
  return std::unique_ptr<FuseSession>(std::move(session));
}

}  // namespace varve::fs
