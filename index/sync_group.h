// Many threads want one file synced: one of them does it for all. Thread-safe.
//
// A writer takes stamp() after its write; sync(stamp) returns once a sync that began after that moment has succeeded.
// A failed sync is final: the kernel reports a lost write once only, so a second try would say "fine" about bytes that
// are gone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "codec/result.h"

namespace varve::index {

class SyncGroup {
 public:
  uint64_t stamp() const { return started_.load(); }

  Status sync(uint64_t stamp, const std::function<Status()>& run) {
    std::unique_lock lock(mutex_);
    while (completed_ <= stamp) {
      if (broken_) {
        return *broken_;
      }
      if (running_) {
        changed_.wait(lock);
        continue;
      }
      running_ = true;
      const uint64_t number = started_.fetch_add(1) + 1;
      lock.unlock();
      Status status = run();
      lock.lock();
      running_ = false;
      if (status.ok()) {
        completed_ = number;
      } else {
        broken_ = status.error();
      }
      changed_.notify_all();
    }
    return {};
  }

  bool broken() {
    const std::lock_guard lock(mutex_);
    return broken_.has_value();
  }

  /// The file has been replaced by one whose content is known.
  void mend() {
    const std::lock_guard lock(mutex_);
    broken_.reset();
  }

 private:
  std::atomic<uint64_t> started_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t completed_ = 0;
  bool running_ = false;
  std::optional<Error> broken_;
};

}  // namespace varve::index
