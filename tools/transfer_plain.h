// Ordinary directories, to be written and read by transfer(). They are entered by their descriptors alone, so that no
// link that stands in them leads out.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tools/transfer.h"

namespace varve::tools {

/// A directory that is written, made if it is not there. Files are synced before they get their names; finish() for the
/// rest. Owners are set by root alone, extended attributes but user.* likewise.
class PlainTarget {
 public:
  /// EBUSY: another transfer writes there.
  static Result<std::unique_ptr<PlainTarget>> open(const std::string& path);
  ~PlainTarget();
  PlainTarget(const PlainTarget&) = delete;
  PlainTarget& operator=(const PlainTarget&) = delete;

  std::shared_ptr<TargetFolder> root();
  /// All is on the disk when this returns.
  Status finish();

 private:
  class Folder;
  PlainTarget(int root, int unfinished) : root_(root), unfinished_(unfinished) {}
  void drop_unfinished();

  const int root_, unfinished_;
  std::atomic<uint64_t> last_ = 0;  ///< names of unfinished things are numbers
};

}  // namespace varve::tools
