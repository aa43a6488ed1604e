// The ordered part of the store: RocksDB, its column families, its errors. Nobody else calls RocksDB's DB.
//
// Reads and sync() may be called from any thread. write() and recover() are for one thread at a time: the index holds
// its commit lock. After a failed write the database is reopened by recover(), since RocksDB's own Resume() leaves a
// torn record in the middle of its log.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"
#include "index/device.h"
#include "index/schema.h"
#include "index/sync_group.h"
#include "index/sync_mark.h"
#include "index/table_mark.h"

namespace varve::index {

/// Column families, in the order of their creation. Their names are on disk.
enum class Family : uint8_t { meta, inode, dentry, xattr, layout, record, object, pack, note };
inline constexpr size_t kFamilies = 9;

constexpr uint64_t kTreeMemory = uint64_t{64} << 20;

struct TreeOptions {
  std::string path;  ///< of RocksDB's directory
  std::shared_ptr<rocksdb::FileSystem> file_system;
  std::shared_ptr<Device> device;
  bool read_only = false;
  bool create = false;
  bool accept_loss = false;       ///< goes on without changes that the log does not give back
  uint64_t memory = kTreeMemory;  ///< bytes of changes that are in no table yet, and so at most in the log
};

/// What RocksDB said, as an errno and a sentence.
Error from_rocksdb(const rocksdb::Status& status, std::string_view what, const std::string& path);

class Tree {
 public:
  using Visit = std::function<Result<bool>(std::string_view key, std::string_view value)>;

  /// EUCLEAN: the log or the manifest is damaged, and changes or tables that must be there (see SyncMark, TableMark)
  /// are lost; nothing is written, so that what is left stays. With `accept_loss` a copy of the logs, manifests and
  /// lost tables is kept beside the tree, as PATH-lost-N.
  static Result<std::unique_ptr<Tree>> open(const TreeOptions& options);
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Result<std::optional<std::string>> get(Family family, std::string_view key);
  /// Rows whose key begins with `prefix` and is >= `from`, ascending, until `visit` answers false or fails. Rows
  /// written meanwhile are not seen.
  Status scan(Family family, std::string_view prefix, std::string_view from, const Visit& visit);

  void put(rocksdb::WriteBatch& batch, Family family, std::string_view key, std::string_view value) const;
  void erase(rocksdb::WriteBatch& batch, Family family, std::string_view key) const;
  /// Applies all or nothing. A process that dies afterwards does not undo it; a power cut may, until sync().
  Status write(rocksdb::WriteBatch& batch);
  /// Everything written before is on the disk.
  Status sync();

  /// After a failure: reopens the database if the disk lets it. True if it did, and then everything that was derived
  /// from reads must be read again. An error: writing is still not possible. `at_once`: not only from time to time, and
  /// however little room the disk has.
  Result<bool> recover(bool at_once = false);
  /// Moves everything out of the log into tables, so that the next open has nothing to replay.
  Status flush();
  /// A copy of the database at `path`, which must not exist, that shares its tables (hard links). For the thread that
  /// writes.
  Status checkpoint(const std::string& path);
  uint64_t size_estimate();

  MachineRun machine_run() const { return {mark_.run(), same_run_}; }

  /// A file of RocksDB with rows of one family.
  struct Table {
    std::string family, path;
    uint64_t rows = 0;  ///< deletions included
  };
  std::vector<Table> tables();

 private:
  class Guard;
  explicit Tree(TreeOptions options);
  Status open_database(bool read_only, bool create);
  Status check_loss();
  Status check_tables();
  Status check_properties();
  Result<bool> has_log();
  Status keep_lost(uint64_t sequence, const std::vector<uint64_t>& tables);
  void close_database();
  Error note_failure(const rocksdb::Status& status, std::string_view what);
  Status check_usable();
  rocksdb::ColumnFamilyHandle* handle(Family family) const { return handles_[static_cast<size_t>(family)]; }

  TreeOptions options_;
  std::unique_ptr<rocksdb::Env> environment_;
  std::unique_ptr<rocksdb::DB> database_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  SyncGroup syncs_;
  SyncMark mark_;
  bool same_run_ = false;
  std::shared_ptr<TableMark> tables_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable idle_;
  size_t users_ = 0;
  bool reopening_ = false;
  std::optional<Error> failure_;
  std::chrono::steady_clock::time_point next_try_;
};

}  // namespace varve::index
