// The mount: FUSE requests -> fs::Operations. The implementation is the only file that includes libfuse.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/operations.h"

namespace varve::fs {

struct MountOptions {
  std::string mountpoint;
  std::string source;  ///< shown by mount(8) and df(1): the store's path
  bool read_only = false;
  bool allow_other = false;  ///< default for root
  unsigned threads = 4;
  double attribute_timeout = 60;            ///< seconds the kernel may keep names and attributes
  std::vector<std::string> kernel_options;  ///< passed on to mount: noatime, nosuid, nodev, ...
};

/// Mounts, and serves until unmounted or told to stop (SIGINT, SIGTERM, SIGHUP).
class FuseSession {
 public:
  /// Errors with a sentence each: no /dev/fuse, no right to mount, mount point missing, not a directory, not empty is
  /// allowed, a dead mount there (it is detached first).
  static Result<std::unique_ptr<FuseSession>> mount(const MountOptions& options, Operations& operations);
  virtual ~FuseSession() = default;

  /// Blocks until the mount is gone; then unmounts if needed. Does not call Operations::shut_down.
  virtual Status serve() = 0;
  virtual void stop() = 0;
  /// Valid as long as the session; safe from any thread that is not serving a request.
  virtual KernelCache& kernel_cache() = 0;
};

}  // namespace varve::fs
