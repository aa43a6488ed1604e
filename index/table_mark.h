// Which tables the database must have, kept beside it: RocksDB's manifest, the list of them, ends early if a drive lost
// or changed a part of it, and then names tables that are no longer right without a sign of it.
#pragma once

#include <rocksdb/listener.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "index/device.h"

namespace varve::index {

/// Numbers of tables, written after each change of the manifest; those that a compaction is about to replace are taken
/// out, on the disk too, before it begins. So whatever is lost with the machine's power or the process, the manifest
/// that RocksDB wrote has all of them. One that cannot be written stays as it is. Thread-safe.
class TableMark final : public rocksdb::EventListener {
 public:
  /// The file PATH-tables, for the database at PATH.
  TableMark(std::shared_ptr<Device> device, std::string path);

  /// The promised tables; none: nothing is known.
  std::vector<uint64_t> promised() const { return read(); }
  /// Whether there is something that missing() could find.
  bool promises() const { return !read().empty(); }
  /// Of the promised tables, those that the database does not have. None where nothing is promised: another program
  /// has written the manifest since, or the mark is damaged.
  std::vector<uint64_t> missing(rocksdb::DB& database) const;
  /// The tables that there are now are promised.
  void promise(rocksdb::DB& database);

  void OnFlushCompleted(rocksdb::DB* database, const rocksdb::FlushJobInfo& job) override;
  void OnCompactionBegin(rocksdb::DB* database, const rocksdb::CompactionJobInfo& job) override;
  void OnCompactionCompleted(rocksdb::DB* database, const rocksdb::CompactionJobInfo& job) override;

 private:
  std::vector<uint64_t> read() const;
  uint64_t manifest() const;
  void write(rocksdb::DB& database, bool withdraws);

  std::shared_ptr<Device> device_;
  const std::string path_;
  std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<DeviceFile> file_;
  std::multiset<uint64_t> replaced_;  ///< by compactions that are under way
};

/// A table's number, from its file's name "/000012.sst"; 0: it has none.
uint64_t table_number(std::string_view name);

}  // namespace varve::index
