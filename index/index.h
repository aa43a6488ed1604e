// Inodes, directories, extended attributes, layouts and records on RocksDB and pack files.
//
// Namespace changes are gathered in a Batch and committed atomically. Records are written ahead under a new ObjectId,
// where nobody sees them, and become a file's content when the batch that publishes the object commits. Packs are
// synced before that batch. What a crash leaves of unpublished objects is removed at the next open.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"
#include "index/device.h"
#include "index/schema.h"

namespace rocksdb {
class FileSystem;
}

namespace varve::index {

/// Records smaller than this live in the tree, unless options say otherwise.
inline constexpr size_t kInlineLimit = 2048;

/// What a mount keeps of the disk for deletions, in bytes: the tree's log as tables, and the living half of a pack.
inline constexpr uint64_t kReserve = uint64_t{192} << 20;

struct IndexOptions {
  std::shared_ptr<Device> device;                    ///< null: posix_device()
  std::shared_ptr<rocksdb::FileSystem> file_system;  ///< null: RocksDB's default
  bool read_only = false;
  bool accept_loss = false;                   ///< opens a store that has lost changes which were promised; see open()
  uint64_t pack_limit = uint64_t{256} << 20;  ///< a pack is closed when an append would pass this
  size_t inline_limit = kInlineLimit;
  /// Bytes of the disk that are kept for deletions on a full disk; a sixteenth of a small disk. 0: what is there is
  /// used, and none is made.
  uint64_t reserve = 0;
};

/// Changes that commit together. Used by one thread; the order of calls is kept.
class Batch {
 public:
  Batch();
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;

  void put_inode(const Inode& inode);
  void erase_inode(InodeNumber inode);  ///< with its extended attributes
  /// The name must be free, or held under the same cookie: erase_dentry first when another entry has it.
  void put_dentry(InodeNumber parent, const Dentry& entry);
  void erase_dentry(InodeNumber parent, const Dentry& entry);
  void put_xattr(InodeNumber inode, std::string_view name, std::string_view value);
  void erase_xattr(InodeNumber inode, std::string_view name);
  /// Makes an object that ObjectWriter filled visible, with one reference and this layout.
  void publish(ObjectId object, std::string_view layout);
  void reference(ObjectId object);  ///< one more holder
  void release(ObjectId object);    ///< one less; at none, records and layout go (in the background)
  /// Small values of the caller's own under keys of its own ("staging/..." and the like).
  void put_note(std::string_view key, std::string_view value);
  void erase_note(std::string_view key);
  /// The batch is of a deletion: on a full disk it is committed by giving up what is reserved for that.
  void frees_space();
  bool empty() const;

 private:
  friend class Store;  // the implementation of Index
  struct Changes;
  std::unique_ptr<Changes> changes_;
};

enum class Durability {
  buffered,  ///< survives the process's death, not a power cut
  synced,    ///< on the disk when commit returns, and so is everything committed before. An error may be of the sync:
             ///< then the batch is committed, and a power cut may still undo it
};

/// Writes the records of one object that is not visible yet. Thread-safe. Destroyed without publish: the records are
/// removed. Must be destroyed before its Index.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual ObjectId object() const = 0;
  virtual Status put(const RecordKey& key, std::span<const std::byte> record) = 0;
  /// The record `key` of the published object `from` becomes record `key_here` of this object as well, without a copy.
  /// ENOENT if it does not exist.
  virtual Status share(ObjectId from, const RecordKey& key, const RecordKey& key_here) = 0;
  /// Bytes put or shared so far, headers included.
  virtual uint64_t stored() const = 0;
  /// Everything put so far is on the disk as far as packs go. Call before the batch that publishes.
  virtual Status finish() = 0;
};

struct RecordInfo {
  RecordKey key;
  uint64_t length = 0;    ///< stored bytes
  uint64_t checksum = 0;  ///< XXH3-64 of them
  /// The object and key that it was first put under; shared records keep them.
  ObjectId origin = 0;
  RecordKey origin_key;
};

struct IndexStatistics {
  uint64_t packs = 0, pack_bytes = 0, live_pack_bytes = 0;
  uint64_t tree_bytes = 0;  ///< estimate of the size of RocksDB's files
};

/// One store. Thread-safe. Exactly one process has a store open for writing: a lock file with its process id.
class Index {
 public:
  virtual ~Index() = default;

  /// Opens the store in directory `path`, making an empty one (with a root directory, mode 0755, owned by the caller)
  /// if the directory is absent or empty. Errors, each with a sentence: EBUSY (open elsewhere; names the process),
  /// ENOTEMPTY (a directory with other things in it), EPROTO (made by a newer format version), EUCLEAN
  /// (the log or the manifest is damaged: commits that were promised are lost; `accept_loss` goes on without them),
  /// EIO.
  static Result<std::unique_ptr<Index>> open(const std::string& path, const IndexOptions& options);

  virtual Result<std::optional<Inode>> inode(InodeNumber number) = 0;
  virtual Result<std::optional<Dentry>> lookup(InodeNumber parent, std::string_view name) = 0;
  /// Entries with cookie > `after`, ascending, until `visit` answers false. `visit` must not call the index's writers.
  virtual Status list(InodeNumber parent, uint64_t after, const std::function<bool(const Dentry&)>& visit) = 0;
  virtual Result<std::optional<std::string>> xattr(InodeNumber inode, std::string_view name) = 0;
  virtual Result<std::vector<std::string>> xattr_names(InodeNumber inode) = 0;
  virtual Result<std::optional<std::string>> note(std::string_view key) = 0;
  virtual Status notes(std::string_view prefix,
                       const std::function<bool(std::string_view key, std::string_view value)>& visit) = 0;

  virtual Result<std::string> layout(ObjectId object) = 0;
  /// ENOENT: no such record. EIO with a sentence that names the pack, the offset and what is wrong: the stored bytes
  /// fail their checksum or carry another identity.
  virtual Result<std::vector<std::byte>> record(ObjectId object, const RecordKey& key) = 0;
  /// In key order: region ascending, level descending, brick ascending.
  virtual Status records(ObjectId object, const std::function<bool(const RecordInfo&)>& visit) = 0;
  /// `frees_space`: it takes the place of more than it needs, so that it may use what is reserved for deletions.
  virtual Result<std::unique_ptr<ObjectWriter>> begin_object(bool frees_space = false) = 0;
  /// Writes the record `key` of a published object anew, with the bytes that `record` has: those that it had before
  /// they were damaged, by its checksum (EINVAL: they are others). ENOENT: no such record.
  virtual Status rewrite(ObjectId object, const RecordKey& key, std::span<const std::byte> record) = 0;

  virtual InodeNumber new_inode_number() = 0;
  virtual uint64_t new_cookie() = 0;

  /// All of it or, on an error, nothing (ENOENT, EINVAL: an object that is not there or not pending; EROFS; ENOSPC,
  /// EDQUOT, EIO of the disk). If only the sync failed, the batch is visible and may not survive a power cut. Packs of
  /// the objects that it publishes are synced first, whatever `durability` is. After an error of the disk, later
  /// commits work again as soon as the disk does.
  virtual Status commit(Batch batch, Durability durability) = 0;
  /// An error of the disk (ENOSPC, EDQUOT): what is reserved for deletions is not there, and until it is, all other
  /// batches and new objects fail with this. For whoever writes to the disk past the index.
  virtual Status check_room() = 0;
  /// For a deletion that met a full disk (`why`) past the index: gives up what is reserved. False: there is none.
  virtual bool give_up_reserve(const Error& why) = 0;
  /// The disk's space, without what is to be reserved.
  virtual Result<DeviceSpace> space() = 0;
  /// Everything committed so far is on the disk when this returns.
  virtual Status sync() = 0;

  /// Removes what no object holds any more: packs without live bytes, and, moving what lives, packs of which under
  /// half lives, and the emptiest others while over a fifth of what lives is dead; as far as the disk has room for what
  /// is moved. Runs in the background from time to time; here to be called at once. Returns bytes freed.
  virtual Result<uint64_t> collect() = 0;
  /// Makes snapshot `name` of all that was committed so far: see index/snapshot.h. Takes as long as the tree's memory
  /// takes to be written. EINVAL, EEXIST; ENOSPC, EIO and the like of the disk.
  virtual Status snapshot(const std::string& name) = 0;
  virtual Result<IndexStatistics> statistics() = 0;

  virtual Device& device() = 0;
  virtual MachineRun machine_run() const = 0;
  virtual const std::string& path() const = 0;
};

}  // namespace varve::index
