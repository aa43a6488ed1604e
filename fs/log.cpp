#include "fs/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <mutex>
#include <shared_mutex>

namespace varve::fs {

namespace {

std::atomic<LogLevel> highest{LogLevel::info};
std::shared_mutex target_mutex;  // shared while a line is written, so that the descriptor stays open
int target = STDERR_FILENO;      // guarded by target_mutex

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return "error";
    case LogLevel::warning:
      return "warning";
    case LogLevel::info:
      return "info";
    default:
      return "debug";
  }
}

std::string now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  std::tm parts{};
  gmtime_r(&time.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, time.tv_nsec / 1'000'000);
}

/// File names may hold line breaks and escape sequences: nobody forges a log line or moves the cursor with them.
void append_escaped(std::string& line, std::string_view text) {
  for (char character : text) {
    auto c = static_cast<unsigned char>(character);
    if (c < 0x20 || c == 0x7f) {
      line += fmt::format("\\x{:02x}", c);
    } else {
      line.push_back(character);
    }
  }
}

}  // namespace

void log_line(LogLevel level, std::string_view text) {
  if (level > highest.load(std::memory_order_relaxed)) {
    return;
  }
  std::string line = now() + " ";
  line += name_of(level);
  line.push_back(' ');
  append_escaped(line, text);
  line.push_back('\n');
  std::shared_lock lock(target_mutex);
  // One call a line, so that lines of several threads do not mix. A log that cannot be written is nobody's error.
  [[maybe_unused]] ssize_t written = ::write(target, line.data(), line.size());
}

void set_log_level(LogLevel level) { highest.store(level, std::memory_order_relaxed); }

void set_log_file(const std::string& path) {
  if (!path.starts_with('/')) {
    log_line(LogLevel::error, fmt::format("the log file must have an absolute path, and {} is relative: the log stays "
                                          "where it is",
                                          path));
    return;
  }
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) {
    log_line(LogLevel::error,
             fmt::format("cannot open the log file {}: {}; the log stays where it is", path, std::strerror(errno)));
    return;
  }
  std::unique_lock lock(target_mutex);
  std::swap(target, fd);
  lock.unlock();
  if (fd != STDERR_FILENO) {
    ::close(fd);
  }
}

}  // namespace varve::fs
