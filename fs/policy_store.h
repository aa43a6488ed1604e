// STORE/policy.toml: read, watched for changes by hand, replaced atomically.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "fs/policy.h"

namespace varve::fs {

/// Thread-safe.
class PolicyStore {
 public:
  explicit PolicyStore(std::string path) : path_(std::move(path)) {}

  /// Reads the file; absent means no rules. EINVAL with line and reason when it cannot be parsed.
  Status load();
  /// The rules in force. Looks at the file's time at most once a second; a file that became invalid is logged and
  /// the former rules stay.
  std::shared_ptr<const Policy> current();
  /// The file's text; "" when absent.
  std::string text();
  /// Parses, writes and puts in force; EINVAL, and nothing changes, when `text` cannot be parsed.
  Status replace(const std::string& text);

 private:
  struct Stamp {
    int64_t seconds = -1;
    int64_t nanoseconds = 0;
    int64_t size = 0;
    bool operator==(const Stamp&) const = default;
  };
  Stamp stamp() const;
  Status read_locked();

  const std::string path_;
  std::mutex mutex_;
  std::shared_ptr<const Policy> policy_ = std::make_shared<const Policy>();
  std::string text_;
  Stamp stamp_;
  std::chrono::steady_clock::time_point checked_{};
};

}  // namespace varve::fs
