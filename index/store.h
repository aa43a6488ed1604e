// The one implementation of Index. open and reads: store.cpp; commit: commit.cpp; writing objects: object_writer.cpp;
// erasing and collecting: collector.cpp.
//
// Locks, in the order in which they are taken: a Pending's own, then commit_mutex_ (all writes to the tree, so that
// counts can be read, changed and written), then those inside Packs and Tree.
#pragma once

#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "index/batch.h"
#include "index/index.h"
#include "index/packs.h"
#include "index/reserve.h"
#include "index/store_directory.h"
#include "index/tree.h"

namespace varve::index {

/// An object between begin_object and publish. Its rows wait in memory, to go out with the batch that publishes; once
/// they are many they are written ahead, together with a marker by which the next open finds and erases them.
struct Pending {
  struct Touched {
    std::shared_ptr<Pack> pack;  ///< null if only shared records are there
    uint64_t stamp = 0;
    uint64_t pins = 0;
    int64_t live = 0;
  };
  ObjectId object = 0;
  std::mutex mutex;  ///< guards what follows
  std::map<std::string, std::string> rows;
  size_t row_bytes = 0;
  bool spilled = false;
  bool published = false;
  bool frees = false;  ///< constant: may use what is reserved for deletions
  std::map<uint32_t, Touched> packs;
  uint64_t stored = 0;
};

/// Numbers that are handed out without I/O. What commits hold is below a limit that the same or an earlier commit
/// wrote, so a crash skips numbers and never repeats one.
struct Counter {
  const char* name;
  std::atomic<uint64_t> next;
  uint64_t limit = 0;
};

class Store final : public Index {
 public:
  Store(std::string path, const IndexOptions& options);
  ~Store() override;
  Status start();

  Result<std::optional<Inode>> inode(InodeNumber number) override;
  Result<std::optional<Dentry>> lookup(InodeNumber parent, std::string_view name) override;
  Status list(InodeNumber parent, uint64_t after, const std::function<bool(const Dentry&)>& visit) override;
  Result<std::optional<std::string>> xattr(InodeNumber inode, std::string_view name) override;
  Result<std::vector<std::string>> xattr_names(InodeNumber inode) override;
  Result<std::optional<std::string>> note(std::string_view key) override;
  Status notes(std::string_view prefix,
               const std::function<bool(std::string_view key, std::string_view value)>& visit) override;
  Result<std::string> layout(ObjectId object) override;
  Result<std::vector<std::byte>> record(ObjectId object, const RecordKey& key) override;
  Status records(ObjectId object, const std::function<bool(const RecordInfo&)>& visit) override;
  Result<std::unique_ptr<ObjectWriter>> begin_object(bool frees_space) override;
  InodeNumber new_inode_number() override { return counters_[0].next++; }
  uint64_t new_cookie() override { return counters_[2].next++; }
  Status commit(Batch batch, Durability durability) override;
  Status check_room() override { return reserve_.check(); }
  bool give_up_reserve(const Error& why) override { return reserve_.give_up(why); }
  Result<DeviceSpace> space() override;
  Status sync() override;
  Result<uint64_t> collect() override;
  Status snapshot(const std::string& name) override;
  Status rewrite(ObjectId object, const RecordKey& key, std::span<const std::byte> record) override;
  Result<IndexStatistics> statistics() override;
  Device& device() override { return *device_; }
  MachineRun machine_run() const override { return tree_->machine_run(); }
  const std::string& path() const override { return path_; }

  // For ObjectWriter.
  Status put(Pending& pending, const RecordKey& key, std::span<const std::byte> record);
  Status share(Pending& pending, ObjectId from, const RecordKey& key, const RecordKey& key_here);
  Status finish(Pending& pending);
  void abandon(const std::shared_ptr<Pending>& pending);

 private:
  using LiveChanges = std::map<uint32_t, int64_t>;
  struct Assembly;
  struct Doomed {
    ObjectId object = 0;
    bool counted = false;  ///< its records count as live bytes: it was published once
  };
  struct Move {
    std::string key;
    std::string old_value;
    std::string new_value;
    RecordValue from, to;
  };

  // Opening.
  Status create_root();
  Status raise_version(uint64_t version);
  Status load_counters();
  Status load_live_bytes();
  Status find_doomed();

  // Committing; the caller holds commit_mutex_.
  Status ready_to_write(bool at_once = false);
  Status change_on_full_disk(const std::function<Status()>& change);
  Status apply(rocksdb::WriteBatch& batch, const LiveChanges& live);
  Status assemble(const std::vector<BatchStep>& steps, Assembly& assembly);
  Status erase_inode(InodeNumber inode, Assembly& assembly);
  Status publish(const BatchStep& step, Assembly& assembly);
  Status change_references(ObjectId object, int64_t change, Assembly& assembly);
  Status settle_references(Assembly& assembly);

  // Objects being written; the caller holds pending.mutex.
  Result<std::vector<std::shared_ptr<Pending>>> pendings_of(const std::vector<BatchStep>& steps);
  Status add_row(Pending& pending, std::string key, std::string value, const RecordValue& record);
  Status spill(Pending& pending);
  Status sync_packs(Pending& pending);
  void unpin_all(Pending& pending);

  // In the background.
  void run_collector();
  void doom(const std::vector<Doomed>& objects);
  Status erase_doomed();
  bool short_of_room();
  bool wasteful();
  std::map<uint32_t, PackFacts> choose_wasteful(uint32_t end, const std::set<uint32_t>& tried);
  Result<uint64_t> remove_dead_packs();
  Result<bool> erase_some(const Doomed& doomed);
  Result<bool> erase_rows(const Doomed& doomed);
  Status move_live(const std::map<uint32_t, PackFacts>& wasteful);
  Result<bool> gather_moves(const std::map<uint32_t, PackFacts>& wasteful, std::string& from, std::vector<Move>& moves);
  Status copy_records(std::vector<Move>& moves, std::map<std::pair<uint32_t, uint64_t>, RecordValue>& moved);
  Status switch_records(const std::vector<Move>& moves);

  Error malformed(std::string_view what, const std::string& name) const;
  Status writable() const;

  std::string path_;
  IndexOptions options_;
  std::shared_ptr<Device> device_;
  Reserve reserve_;  // has a lock of its own, which is taken last
  std::unique_ptr<StoreLock> lock_;
  std::unique_ptr<Tree> tree_;
  std::unique_ptr<Packs> packs_;

  std::array<Counter, 3> counters_ = {{{"next_inode", kRootInode + 1}, {"next_object", 1}, {"next_cookie", 3}}};
  uint64_t pack_number_written_ = 0;
  std::mutex commit_mutex_;

  std::mutex pending_mutex_;
  std::unordered_map<ObjectId, std::shared_ptr<Pending>> pending_;

  std::mutex collect_mutex_;  // one collection or erasure at a time; taken before commit_mutex_
  std::mutex work_mutex_;     // guards what follows
  std::condition_variable work_;
  std::deque<Doomed> doomed_;
  bool stopping_ = false;
  std::atomic<uint64_t> released_bytes_{0};
  std::thread collector_;
};

}  // namespace varve::index
