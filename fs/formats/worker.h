// Recognition in a separate process with resource limits. The worker never opens the file: it asks for ranges over a
// socket and the daemon answers from its FileView, so staged, sealed and mixed files are all the same to it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "fs/formats/file_image.h"

namespace varve::fs {

/// The descriptor on which a worker finds its socket.
inline constexpr int kWorkerDescriptor = 3;

struct WorkerOptions {
  /// The varve binary; empty: /proc/self/exe. It is run as `program recognise-worker`, and must then return
  /// recogniser_worker_main(kWorkerDescriptor).
  std::string program;
  std::chrono::milliseconds time_limit{20000};  ///< for one file
  uint64_t memory_limit = uint64_t{2} << 30;    ///< RLIMIT_AS of the worker
  unsigned processes = 2;                       ///< at most so many at once
};

/// Thread-safe. Processes start on demand, serve one file after another, and are replaced when they die.
class RecogniserPool {
 public:
  explicit RecogniserPool(WorkerOptions options);
  ~RecogniserPool();
  RecogniserPool(const RecogniserPool&) = delete;
  RecogniserPool& operator=(const RecogniserPool&) = delete;

  /// Starts a process if none waits, so that the first call need not.
  void prepare();

  /// As fs::recognise, elsewhere. A crash, a time-out or a protocol error of the worker: EIO with a sentence (signal,
  /// limit); the next call gets a fresh process.
  Result<std::optional<Recognised>> recognise(std::string_view name, FileView& file,
                                              const std::optional<RawHint>& hint);

  /// As fs::make_image, elsewhere; errors as above.
  Result<FileImage> image(const ImageRequest& request, std::string_view name, FileView& file,
                          const std::optional<RawHint>& hint);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The worker's main loop: serves requests on the socket `fd` until it is closed. Returns the exit status.
int recogniser_worker_main(int fd);

}  // namespace varve::fs
