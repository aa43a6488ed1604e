// The heart of the fault layer: an armed schedule meets operations. The decorators of both seams ask armed() - one
// relaxed load - and only then come here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "faults/armed.h"
#include "faults/journal.h"

namespace varve::faults {

struct InjectorOptions {
  std::string journal;           ///< path of the journal, on a disk that is not faulty
  fs::WorkerOptions recogniser;  ///< finds arrays, for rules that aim at them
};

/// Who does what to which file.
struct Call {
  Seam seam = Seam::app;
  Op op = Op::read;
  std::string path;
  int pid = 0;
};

/// Thread-safe. Lives as long as the decorators that use it.
class Injector {
 public:
  explicit Injector(const InjectorOptions& options);
  ~Injector();
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  /// The only cost while nothing is armed.
  bool armed(Seam seam) const { return (seams_.load(std::memory_order_relaxed) & bit(seam)) != 0; }

  // Control. Each returns once it is in effect: operations that begin later see it, those under the old schedule ended.
  Status arm(std::string_view schedule);
  /// What a journal recorded happens again, to the same operations by path and count. EBADMSG.
  Status replay(std::string_view journal);
  void disarm();
  std::string status() const;  ///< JSON
  std::string schedule() const;
  Result<std::string> journal() const { return journal_.text(); }
  /// A program's word for where it is, for from_mark and to_mark. EINVAL (check_mark).
  Status mark(const std::string& name);
  /// Does the armed schedule want this file's reads and writes as they are made, past the kernel's cache?
  bool bypasses_cache(const std::string& path) const;

  // Wiring, before the first operation.
  void set_reopen(Seam seam, Reopen reopen) { reopen_[static_cast<size_t>(seam)] = std::move(reopen); }
  /// Called after arming and disarming: the kernel must forget what it knows.
  void set_on_change(std::function<void()> action) { on_change_ = std::move(action); }
  /// Called when stored bytes changed behind the kernel's back.
  void set_on_stored(std::function<void(const std::string& path)> action) { on_stored_ = std::move(action); }

  // Operations while armed (and, harmlessly, while not).
  Result<size_t> read(const Call& call, Medium& file, uint64_t offset, std::span<std::byte> out);
  Result<size_t> write(const Call& call, Medium& file, uint64_t offset, std::span<const std::byte> data);
  Status close(const Call& call, Medium& file);
  Status fsync(const Call& call, const std::function<Status()>& pass);
  Status truncate(const Call& call, Medium& file, uint64_t size, const std::function<Status()>& pass);
  /// Any other operation: `pass` does it.
  Status around(const Call& call, const std::function<Status()>& pass);
  /// The same for one that gives something: pass() returns a Result<T>, T may be void.
  template <typename T, typename Pass>
  Result<T> around_result(const Call& call, const Pass& pass) {
    std::optional<Result<T>> result;
    const Status done = around(call, [&]() -> Status {
      result = pass();
      return result->ok() ? Status() : Status(result->error());
    });
    if (!done.ok()) {
      return done.error();
    }
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return result ? *std::move(result) : Result<T>(Error{EIO, "left out by a fault"});
    }
  }
  void renamed(Seam seam, const std::string& from, const std::string& to);
  void removed(Seam seam, const std::string& path);

 private:
  struct Turn;
  static unsigned bit(Seam seam) { return 1U << static_cast<unsigned>(seam); }
  std::shared_ptr<Armed> current() const;
  Status replace(const std::shared_ptr<Armed>& armed);
  Status carry_out_rest(Turn& turn);
  /// Writes the journal, waits, and ends a process if that is the fault.
  void before(Turn& turn);
  void after(Turn& turn);
  void release_held(Turn& turn, size_t newest, bool all);

  std::atomic<unsigned> seams_{0};
  mutable std::mutex mutex_;  ///< guards armed_
  std::shared_ptr<Armed> armed_;
  std::mutex control_mutex_;  ///< one change at a time
  fs::RecogniserPool recognisers_;
  Journal journal_;
  std::array<Reopen, 2> reopen_;
  std::function<void()> on_change_;
  std::function<void(const std::string&)> on_stored_;
};

}  // namespace varve::faults
