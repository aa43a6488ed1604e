// What tools say: errors, sizes, progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "codec/result.h"

namespace varve::tools {

/// Prints "varve: <text>" to standard error; returns kFailed.
int fail(const Error& error);
/// kDone, or what fail() returns.
int finish(const Status& status);

/// "512 B", "1.5 KiB", "64 MiB".
std::string human_size(uint64_t bytes);

/// A bar on standard error while long work goes on; silent unless that is a terminal and the work takes a while.
class Progress {
 public:
  Progress(std::string what, uint64_t total_bytes);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const uint64_t total_;
  const bool visible_;
  const Clock::time_point start_;
  Clock::time_point drawn_;
  uint64_t done_ = 0;
  bool dirty_ = false;
};

}  // namespace varve::tools
