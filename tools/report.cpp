#include "tools/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "tools/commands.h"

namespace varve::tools {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::milliseconds kPatience{500};  // work shorter than this shows no bar

}  // namespace

int fail(const Error& error) {
  fmt::print(stderr, "varve: {}\n", error.text);
  return kFailed;
}

int finish(const Status& status) { return status.ok() ? kDone : fail(status.error()); }

std::string human_size(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kUnits[unit]);
}

Progress::Progress(std::string what, uint64_t total_bytes)
    : what_(std::move(what)),
      total_(std::max<uint64_t>(total_bytes, 1)),
      visible_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      drawn_(start_ + kPatience - kRedraw) {}

Progress::~Progress() {
  if (dirty_) {
    fmt::print(stderr, "\r\x1b[K");
  }
}

void Progress::advance(uint64_t bytes) {
  done_ += bytes;
  const auto now = Clock::now();
  if (!visible_ || now < drawn_ + kRedraw) {
    return;
  }
  drawn_ = now;
  dirty_ = true;
  constexpr size_t kWidth = 30;
  const double part = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto rate = static_cast<uint64_t>(static_cast<double>(done_) / std::max(seconds, 1e-3));
  fmt::print(stderr, "\r{} [{:<{}}] {:3.0f}% {}/s\x1b[K", what_, std::string(static_cast<size_t>(part * kWidth), '#'),
             kWidth, part * 100, human_size(rate));
  std::fflush(stderr);
}

}  // namespace varve::tools
