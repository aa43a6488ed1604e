// Programs that a campaign starts.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "codec/result.h"

namespace varve::tools {

struct Program {
  std::vector<std::string> words;  ///< the program is looked for in PATH
  std::string directory;           ///< it starts there; empty: here
  std::string output, errors;      ///< files for its standard output and error; empty: nowhere
  std::string variable = {};       ///< "NAME=value", added to the environment; empty: none
};

struct Ending {
  int status = 0;  ///< exit status; meaningless if `signal` is not 0
  int signal = 0;  ///< that ended it
  bool timed_out = false;
  double seconds = 0;
};

/// A program in a process group of its own. Destroyed while it runs: the group is killed.
class Child {
 public:
  static Result<Child> start(const Program& program);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }
  /// How it ended, however often that is asked. Nothing: it still runs when the time is up or `stop` becomes true.
  std::optional<Ending> wait(std::chrono::milliseconds limit, const std::atomic<bool>* stop = nullptr);
  /// The whole group, at once.
  Ending kill();

 private:
  explicit Child(pid_t pid) : pid_(pid), start_(std::chrono::steady_clock::now()) {}
  pid_t pid_ = 0;  ///< 0: ended
  std::optional<Ending> ended_;
  std::chrono::steady_clock::time_point start_;
};

/// To its end, or kills it at the limit, or when `stop` becomes true (which counts as timed out).
Result<Ending> run(const Program& program, std::chrono::milliseconds limit, const std::atomic<bool>* stop = nullptr);

}  // namespace varve::tools
