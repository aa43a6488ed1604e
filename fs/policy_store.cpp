#include "fs/policy_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "fs/log.h"

namespace varve::fs {

PolicyStore::Stamp PolicyStore::stamp() const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) {
    return {};
  }
  return {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size};
}

Status PolicyStore::read_locked() {
  stamp_ = stamp();
  std::ifstream in(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto parsed = Policy::parse(text);
  if (!parsed.ok()) {
    return Error{EINVAL, fmt::format("{}: {}", path_, parsed.error().text)};
  }
  policy_ = std::make_shared<const Policy>(*std::move(parsed));
  text_ = text;
  return {};
}

Status PolicyStore::load() {
  const std::lock_guard lock(mutex_);
  return read_locked();
}

std::shared_ptr<const Policy> PolicyStore::current() {
  const std::lock_guard lock(mutex_);
  const auto time = std::chrono::steady_clock::now();
  if (time - checked_ > std::chrono::seconds(1)) {
    checked_ = time;
    if (!(stamp() == stamp_)) {
      if (const Status read = read_locked(); !read.ok()) {
        log_line(LogLevel::error, fmt::format("the rules before stay in force: {}", read.error().text));
      }
    }
  }
  return policy_;
}

std::string PolicyStore::text() {
  current();
  const std::lock_guard lock(mutex_);
  return text_;
}

Status PolicyStore::replace(const std::string& text) {
  auto parsed = Policy::parse(text);
  if (!parsed.ok()) {
    return parsed.error();
  }
  const std::lock_guard lock(mutex_);
  const std::string temporary = path_ + ".new";
  const auto failed = [&](const char* what) {
    const int code = errno;
    return Error{code, fmt::format("cannot {} {}", what, temporary)};
  };
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    return failed("write");
  }
  const bool written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  if (::close(file) != 0 || !written) {
    return failed("write");
  }
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) {
    return failed("rename");
  }
  return read_locked();
}

}  // namespace varve::fs
