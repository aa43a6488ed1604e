// The file system itself: fs::Operations over the index, staging and the codec. See ARCHITECTURE.md for the write path
// and the read path.
#pragma once

#include <chrono>
#include <memory>

#include "fs/control_folder.h"
#include "fs/formats/worker.h"
#include "fs/operations.h"
#include "index/index.h"

namespace varve::codec::cuda {
class SharedDevice;
}

namespace varve::fs {

struct FileSystemOptions {
  unsigned workers = 0;                        ///< threads that seal and decode; 0: one a core
  uint64_t cache_bytes = uint64_t{512} << 20;  ///< decoded bricks kept in memory
  std::chrono::milliseconds quiet{1000};       ///< fsync of a file not written for so long seals it
  bool read_only = false;
  bool show_views = false;         ///< list .varve in the root
  bool interpolate_damage = true;  ///< false: damaged elements are EIO, whatever the rules say of on_damage
  WorkerOptions recogniser;
  std::shared_ptr<codec::cuda::SharedDevice> device;  ///< encodes what it can of what is sealed, if there is one
  ControlFolder* control = nullptr;                   ///< shown under .varve/, if there is one
};

/// `create` starts threads; shut_down() ends them. The KernelCache may be attached later, before the first request.
class FileSystem : public Operations {
 public:
  using Operations::create;
  /// Takes the index; recovers what staging holds from an earlier run.
  static Result<std::unique_ptr<FileSystem>> create(std::unique_ptr<index::Index> index,
                                                    const FileSystemOptions& options);
  virtual void attach(KernelCache* cache) = 0;
  /// Starts a recogniser that the first look at a file would have to wait for. It keeps the standard streams that the
  /// process has now.
  virtual void prepare() = 0;

  // For layers above.
  /// From the mount's root, without a leading slash; "" for the root. ENOENT: no such inode.
  virtual Result<std::string> path_of(InodeNumber inode) = 0;
  /// Of an open file; 0 for a virtual one.
  virtual InodeNumber inode_of_handle(uint64_t handle) = 0;
  /// Was it opened for writing?
  virtual bool is_writable(uint64_t handle) = 0;
  /// Those that the kernel, an open file or unsealed data refers to.
  virtual std::vector<InodeNumber> inodes_in_use() = 0;
  /// Decoded data in memory goes; the next reads come from the store.
  virtual void drop_caches() = 0;
};

}  // namespace varve::fs
