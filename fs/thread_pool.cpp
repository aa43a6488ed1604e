#include "fs/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <memory>

namespace varve::fs {

ThreadPool::ThreadPool(unsigned threads) {
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadPool::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) {
      return;
    }
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void ThreadPool::parallel_for(size_t count, const std::function<void(size_t)>& body) {
  if (count <= 1) {
    if (count == 1) {
      body(0);
    }
    return;
  }
  // Shared with helpers that may start after this call has returned and then find nothing left to do.
  struct Loop {
    std::atomic<size_t> next{0};
    std::mutex mutex;
    std::condition_variable finished;
    size_t done = 0;
  };
  const auto loop = std::make_shared<Loop>();
  const auto run = [loop, count, &body] {
    size_t mine = 0;
    for (size_t i = loop->next++; i < count; i = loop->next++) {
      body(i);
      ++mine;
    }
    if (mine > 0) {
      const std::lock_guard lock(loop->mutex);
      loop->done += mine;
      loop->finished.notify_all();
    }
  };
  for (size_t i = 1; i < std::min(count, size() + 1); ++i) {
    submit(run);
  }
  run();
  std::unique_lock lock(loop->mutex);
  loop->finished.wait(lock, [&] { return loop->done == count; });
}

}  // namespace varve::fs
