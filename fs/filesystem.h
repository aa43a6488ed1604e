// The file system itself: fs::Operations over the index, staging and the codec. See ARCHITECTURE.md for the write path
// and the read path.
#pragma once

#include <chrono>
#include <memory>

#include "fs/formats/worker.h"
#include "fs/operations.h"
#include "index/index.h"

namespace varve::fs {

struct FileSystemOptions {
  unsigned workers = 0;                        ///< threads that seal and decode; 0: one a core
  uint64_t cache_bytes = uint64_t{512} << 20;  ///< decoded bricks kept in memory
  std::chrono::milliseconds quiet{1000};       ///< fsync of a file not written for so long seals it
  bool read_only = false;
  WorkerOptions recogniser;
};

/// `create` starts threads; shut_down() ends them. The KernelCache may be attached later, before the first request.
class FileSystem : public Operations {
 public:
  using Operations::create;
  /// Takes the index; recovers what staging holds from an earlier run.
  static Result<std::unique_ptr<FileSystem>> create(std::unique_ptr<index::Index> index,
                                                    const FileSystemOptions& options);
  virtual void attach(KernelCache* cache) = 0;
};

}  // namespace varve::fs
