// A fixed number of worker threads with one queue.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace varve::fs {

/// Thread-safe. Tasks must not throw. The destructor runs what is queued, then joins.
class ThreadPool {
 public:
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void submit(std::function<void()> task);
  /// Calls body(0) ... body(count - 1), in the calling thread and in idle workers; returns when all are done. May be
  /// called from a task: the caller alone can do all the work, so it never waits for a free worker.
  void parallel_for(size_t count, const std::function<void(size_t)>& body);
  size_t size() const { return threads_.size(); }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace varve::fs
