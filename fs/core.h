// The implementation of fs::FileSystem. Its members are spread over files by what they do:
//   core.cpp        start, shut-down, helpers                  namespace.cpp   names: lookup, create, link, rename ...
//   file_io.cpp     open, read, write, truncate, seek, copy    sealing.cpp     when staged content is sealed, and the
//   switch attributes.cpp  attributes and extended attributes         views.cpp       the virtual files under .varve/
//   view_trees.cpp  the views that mirror the real tree               view_description.cpp  what .varve/stat/ says
//   image_views.cpp views whose files are made of the real ones
//   recovery.cpp    what a start finds of earlier runs
//   damage.cpp      what is given in place of damaged elements
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "fs/bound_views.h"
#include "fs/filesystem.h"
#include "fs/node.h"
#include "fs/policy_store.h"
#include "fs/scrub.h"
#include "fs/sealer.h"
#include "fs/view_images.h"

namespace varve::fs {

/// Sealed content that has the bytes of a file about to be sealed: the file is a copy and shares it.
struct Twin {
  std::shared_ptr<const Sealed> sealed;
  uint64_t stored = 0;
};

/// An open regular or virtual file. The handle that the kernel knows is its address.
struct Handle {
  NodePointer node;  ///< null: a virtual file that is no view of a real one
  bool writable = false;
  bool descriptor_closed = false;       ///< flush was called and no program wrote since; guarded by the node's lock
  InodeNumber virtual_inode = 0;        ///< 0: the real file
  uint8_t finest = 0;                   ///< levels below are interpolated
  bool exact_only = false;              ///< refuse what is not bit-exact
  std::optional<codec::Bound> bound;    ///< show the coarsest levels that keep it
  ViewImagePointer image;               ///< null: the node's own bytes
  std::shared_ptr<const Policy> rules;  ///< that let damaged elements be interpolated; null: they are EIO
  std::string path;                     ///< beside them: from the root
  std::mutex mutex;                     ///< guards the two below
  std::string content;                  ///< of a virtual file: what is read, or what was written
  bool changed = false;

  /// Reads give the node's bytes as they are, and not a view of them.
  bool shows_node() const { return finest == 0 && !bound && !image; }
};

class Core final : public FileSystem {
 public:
  Core(std::unique_ptr<index::Index> index, const FileSystemOptions& options);
  ~Core() override;
  Status start();
  void attach(KernelCache* cache) override { kernel_cache_ = cache; }
  void prepare() override {
    early_ = std::jthread([this] { recognisers_.prepare(); });
  }
  Result<std::string> path_of(InodeNumber number) override;
  InodeNumber inode_of_handle(uint64_t handle) override;
  bool is_writable(uint64_t handle) override;
  std::vector<InodeNumber> inodes_in_use() override;
  void drop_caches() override { cache_.clear(); }

  Result<Entry> lookup(const Caller& caller, InodeNumber parent, std::string_view name) override;
  void forget(InodeNumber inode, uint64_t count) override;
  Result<Attributes> get_attributes(const Caller& caller, InodeNumber inode) override;
  Result<Attributes> set_attributes(const Caller& caller, InodeNumber inode, const AttributeChange& change,
                                    std::optional<uint64_t> handle) override;
  Result<std::string> read_link(const Caller& caller, InodeNumber inode) override;
  Result<Entry> make_node(const Caller& caller, InodeNumber parent, std::string_view name, uint32_t mode,
                          uint64_t device) override;
  Result<Entry> make_directory(const Caller& caller, InodeNumber parent, std::string_view name, uint32_t mode) override;
  Result<Entry> make_symlink(const Caller& caller, InodeNumber parent, std::string_view name,
                             std::string_view target) override;
  Result<Entry> link(const Caller& caller, InodeNumber inode, InodeNumber new_parent,
                     std::string_view new_name) override;
  Status unlink(const Caller& caller, InodeNumber parent, std::string_view name) override;
  Status remove_directory(const Caller& caller, InodeNumber parent, std::string_view name) override;
  Status rename(const Caller& caller, InodeNumber parent, std::string_view name, InodeNumber new_parent,
                std::string_view new_name, uint32_t flags) override;

  Result<OpenFile> open(const Caller& caller, InodeNumber inode, int flags) override;
  Result<std::pair<Entry, OpenFile>> create(const Caller& caller, InodeNumber parent, std::string_view name,
                                            uint32_t mode, int flags) override;
  Result<size_t> read(const Caller& caller, uint64_t handle, uint64_t offset, std::span<std::byte> out) override;
  Result<size_t> write(const Caller& caller, uint64_t handle, uint64_t offset,
                       std::span<const std::byte> data) override;
  Status flush(const Caller& caller, uint64_t handle) override;
  void release(uint64_t handle) override;
  Status fsync(const Caller& caller, uint64_t handle, bool data_only) override;
  Status allocate(const Caller& caller, uint64_t handle, int mode, uint64_t offset, uint64_t length) override;
  Result<uint64_t> seek(const Caller& caller, uint64_t handle, uint64_t offset, int whence) override;
  Result<size_t> copy_range(const Caller& caller, uint64_t from_handle, uint64_t from_offset, uint64_t to_handle,
                            uint64_t to_offset, size_t length) override;

  Result<uint64_t> open_directory(const Caller& caller, InodeNumber inode) override;
  Status read_directory(const Caller& caller, uint64_t handle, uint64_t cookie,
                        const std::function<bool(const DirectoryEntry&)>& visit) override;
  void release_directory(uint64_t handle) override;
  Status fsync_directory(const Caller& caller, uint64_t handle) override;
  Result<FileSystemSpace> space(const Caller& caller) override;

  Status set_xattr(const Caller& caller, InodeNumber inode, std::string_view name, std::string_view value,
                   int flags) override;
  Result<std::string> get_xattr(const Caller& caller, InodeNumber inode, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(const Caller& caller, InodeNumber inode) override;
  Status remove_xattr(const Caller& caller, InodeNumber inode, std::string_view name) override;
  Status shut_down() override;

 private:
  // recovery.cpp
  Status recover();
  struct FoundStaging;
  Result<std::map<InodeNumber, FoundStaging>> find_staging();
  Status find_rows(FoundStaging& found, uint64_t id);
  Status erase_orphans(std::map<InodeNumber, FoundStaging>& staged);
  Status recover_staging(InodeNumber number, FoundStaging& found);
  static void erase_notes(index::Batch& batch, InodeNumber number, const FoundStaging& found);

  // core.cpp
  Status check_writable() const;
  /// Puts the inode as the next start is to find it: with the size of the sealed content as long as what is staged over
  /// it was not synced. The node's lock is held.
  static void put_inode(index::Batch& batch, const Node& node);
  /// Commits, buffered.
  Status commit(index::Batch batch) { return index_->commit(std::move(batch), index::Durability::buffered); }

  // namespace.cpp
  Result<index::Dentry> find(InodeNumber parent, std::string_view name);
  Status check_new_name(InodeNumber parent, std::string_view name);
  Result<NodePointer> add_entry(const Caller& caller, InodeNumber parent, std::string_view name, index::Inode inode);
  void put_entry(index::Batch& batch, Node& parent, std::string_view name, const index::Inode& child);
  void drop_entry(index::Batch& batch, Node& parent, const index::Dentry& entry);
  /// One link less; link_dropped() after the commit. The node's lock is held.
  void drop_link(index::Batch& batch, Node& node);
  void link_dropped(Node& node);
  void erase_content(index::Batch& batch, const Node& node);
  void content_erased(Node& node);
  Status remove_entry(Node& directory, const index::Dentry& entry, Node& node);
  Status check_replaceable(const Node& node, const Node& replaced);
  Status exchange(Node& from, const index::Dentry& source, Node& to, const index::Dentry& target);
  Status move_entry(Node& from, const index::Dentry& source, Node& to, std::string_view new_name,
                    const NodePointer& moved, const std::optional<index::Dentry>& replaced);
  Result<Entry> entry_of(const NodePointer& node);
  Status refuse_descendant(InodeNumber moved, InodeNumber directory);

  // file_io.cpp
  /// Merged content; the node's lock is held, shared at least. The range must lie inside the file.
  Status read_content(Node& node, uint64_t offset, std::span<std::byte> out, const ViewLevels& levels = {},
                      DamageHandler* damage = nullptr);
  Result<size_t> read_handle(Handle& open, uint64_t offset, std::span<std::byte> out, bool may_degrade);
  Result<OpenFile> open_node(const NodePointer& node, std::unique_ptr<Handle> handle, int flags);
  Status open_sealed(Node& node);
  static Status check_exact(const Node& node);
  /// For each array the level that keeps the handle's bound; empty without one, and while nothing is sealed. EIO: see
  /// levels_within(). The lock is held.
  static Result<std::vector<uint8_t>> bound_levels(const Node& node, const Handle& handle);
  Result<Staging*> staging_of(Node& node);
  Status note_unsynced(Node& node, uint64_t least);
  Status truncate(Node& node, uint64_t size);
  Status clear_content(Node& node);
  void drop_staging(Node& node);
  void content_changed(Node& node);
  bool share_content(Node& from, Node& to);
  Result<uint64_t> seek_sealed(const Sealed& sealed, uint64_t offset, bool data);

  // sealing.cpp
  void wait_for_seal(const NodePointer& node, NodeLock& lock);
  void queue_seal(const NodePointer& node);
  void run_queued_seal(const NodePointer& node);
  /// Seals now; the lock is held on entry and exit and given up in between.
  Status seal(const NodePointer& node, NodeLock& lock, bool require_arrays);
  Result<SealJob> make_seal_job(const NodePointer& node);
  Status switch_content(Node& node, SealOutcome& outcome);
  Status switch_to_twin(Node& node, const Twin& twin);
  static bool may_share(const Sealed& sealed, const FilePolicy& policy);
  void remember_opened(const NodePointer& node);
  /// A sealed file that was opened lately and has the same bytes.
  std::optional<Twin> find_twin(const SealJob& job);
  Status put_content(index::Batch& batch, Node& node, const std::shared_ptr<const Sealed>& sealed, uint64_t stored);
  void finish_seals();
  std::vector<std::string> unsealed_files();

  // damage.cpp
  /// For a read through a handle.
  class ReadDamage final : public DamageHandler {
   public:
    ReadDamage(Core& core, const Handle& handle) : core_(core), handle_(handle) {}
    bool may_interpolate(const Sealed& sealed, uint32_t array) override;
    void interpolated(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t finest,
                      const Error& reason) override;

   private:
    Core& core_;
    const Handle& handle_;
  };
  DegradedBricks damage_of(Node& node);
  Status put_damage(const Node& node);
  Status recheck_damage(Node& node);
  Status replace_damage(Node& node, DegradedBricks list);

  // attributes.cpp
  Attributes attributes_of(Node& node);
  static Status check_exists(const Node& node);
  Status commit_change(Node& node, index::Batch batch);
  Status apply_change(const NodePointer& node, const AttributeChange& change);
  Result<std::optional<codec::Bound>> inherited_bound(InodeNumber directory);
  Result<FilePolicy> policy_of(InodeNumber number);
  Status set_bound(Node& node, std::string_view text);
  Result<std::string> max_error_of(InodeNumber inode);
  Result<std::string> varve_attribute(const NodePointer& node, std::string_view name);
  Result<std::optional<std::string>> new_file_policy(InodeNumber parent, std::string_view name,
                                                     const std::optional<codec::Bound>& own);

  // zarr_chunks.cpp
  std::string short_text(InodeNumber directory, std::string_view name);
  /// How a file of numbers is to be read: as a rule says, or as the metadata of the Zarr array that it is a chunk of.
  /// No node's lock is held.
  std::optional<RawHint> raw_hint(const FilePolicy& policy, InodeNumber directory, std::string_view name,
                                  uint64_t size);

  // views.cpp
  Result<Entry> lookup_view(const Caller& caller, InodeNumber parent, std::string_view name);
  Result<Attributes> view_attributes(InodeNumber inode);
  Result<OpenFile> open_view(const Caller& caller, InodeNumber inode, int flags);
  Status read_view_directory(InodeNumber directory, uint64_t cookie,
                             const std::function<bool(const DirectoryEntry&)>& visit);
  Status check_view(const Handle& handle);
  Status close_view(Handle& handle);
  Status make_snapshot(std::string_view command);
  Result<std::string> list_snapshots() const;

  // view_trees.cpp
  Result<Entry> lookup_mirrored(InodeNumber parent, std::string_view name);
  Result<Attributes> mirrored_attributes(InodeNumber inode);
  Result<OpenFile> open_mirrored(InodeNumber inode, int flags);
  Status list_mirrored(InodeNumber directory, uint64_t cookie, const std::function<bool(const DirectoryEntry&)>& visit);
  bool keep_view_pages(const Node& node, InodeNumber view);
  void forget_view_pages(InodeNumber real);

  // image_views.cpp
  Result<ViewImagePointer> image_of(InodeNumber view, std::string_view name = {});
  Result<FileImage> make_view_image(const NodePointer& node, NodeLock& lock, View view);
  Result<size_t> read_image(Handle& open, uint64_t offset, std::span<std::byte> out, DamageHandler* damage);
  Result<index::Dentry> find_imaged(InodeNumber parent, std::string_view name);
  std::optional<std::string> imaged_name(View view, const index::Dentry& real);
  Result<uint8_t> region_level(View view);
  void forget_folder(InodeNumber inode, uint64_t count);

  // view_description.cpp
  Result<std::string> describe(InodeNumber real);
  std::string describe_reads() const;

  std::unique_ptr<index::Index> index_;
  const FileSystemOptions options_;
  const std::string staging_directory_;
  ThreadPool pool_;       ///< decodes and encodes
  ThreadPool seal_pool_;  ///< one file each
  BrickCache cache_;
  Reader reader_;
  RecogniserPool recognisers_;
  Sealer sealer_;
  PolicyStore policy_;
  BackgroundScrub scrub_;
  NodeTable nodes_;
  std::mutex namespace_mutex_;  ///< held by whatever changes directories
  std::atomic<KernelCache*> kernel_cache_{nullptr};

  std::mutex pending_mutex_;
  std::condition_variable pending_done_;
  std::unordered_map<InodeNumber, NodePointer> pending_;  ///< queued, running, or waiting for a retry
  size_t seals_in_flight_ = 0;

  std::mutex view_pages_mutex_;
  /// The object whose view the kernel may have pages of, for each view of a sealed file that was opened: by the real
  /// inode, then by the view's.
  std::map<std::pair<InodeNumber, InodeNumber>, index::ObjectId> view_pages_;

  ViewImageCache images_;
  ViewFolders regions_{View::region, kRegionViews, "regions"};
  ViewFolders bounds_{View::bound, kBoundViews, "bounds"};

  std::mutex opened_mutex_;
  std::deque<std::weak_ptr<Node>> opened_;  ///< sealed files opened for reading, latest first: copies come from them

  std::jthread early_;  ///< starts a recogniser; the last member, so that it ends first
};

/// The current time.
Time now();

}  // namespace varve::fs
