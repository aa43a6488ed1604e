// Snapshots: STORE/snapshots/NAME is a store by itself that shares its files with STORE (hard links) and is never
// written: a checkpoint of the tree, and the packs. What STORE removes or collects afterwards stays in it; packs only
// ever grow at their ends, beyond what a snapshot knows of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"
#include "index/schema.h"

namespace varve::index {

struct SnapshotFacts {
  std::string name;
  Time created;
  uint64_t own_bytes = 0;  ///< on the disk, that nothing else shares: what deleting it frees at once
};

/// Whether one of that name can be made. EINVAL with a sentence: a name is 1 to 100 letters, digits, '.', '_' and '-',
/// not with '.' or '-' first. EEXIST.
Status check_new_snapshot(const std::string& store, std::string_view name);
/// Its directory. EINVAL; ENOENT: there is none of that name.
Result<std::string> find_snapshot(const std::string& store, std::string_view name);
std::string snapshot_path(const std::string& store, std::string_view name);
/// Whether a directory is a snapshot, and so must not be written.
bool is_snapshot(const std::string& store);

/// Oldest first. ENOENT: there is no such store.
Result<std::vector<SnapshotFacts>> list_snapshots(const std::string& store);
/// EBUSY: it is mounted. Else as find_snapshot().
Status delete_snapshot(const std::string& store, std::string_view name);

/// A directory that becomes a snapshot by commit(), whole and on the disk; else nothing of it stays.
class SnapshotMaker {
 public:
  SnapshotMaker(std::string store, std::string name);
  ~SnapshotMaker();
  SnapshotMaker(const SnapshotMaker&) = delete;
  SnapshotMaker& operator=(const SnapshotMaker&) = delete;

  /// EEXIST: there is one of that name.
  Status begin();
  const std::string& path() const { return path_; }
  /// EXDEV, EMLINK and the like: the disk cannot share files.
  Status link_packs() const;
  Status commit();

 private:
  const std::string store_, name_, path_;
  bool begun_ = false;
};

}  // namespace varve::index
