// The first error of several threads.
#pragma once

#include <mutex>

#include "codec/result.h"

namespace varve::fs {

/// Thread-safe.
class FirstError {
 public:
  void note(const Status& status) {
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      if (first_.ok()) {
        first_ = status.error();
      }
    }
  }
  Status take() { return first_; }

 private:
  std::mutex mutex_;
  Status first_;
};

}  // namespace varve::fs
