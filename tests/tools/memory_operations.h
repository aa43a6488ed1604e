// A small fs::Operations in memory, to test the FUSE session alone.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "fs/operations.h"

namespace varve::fs {

/// Thread-safe; one lock for all. Counts lookups as the kernel does, so that tests see whether forgets balance.
class MemoryOperations : public Operations {
 public:
  MemoryOperations();

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

  // For tests.
  size_t node_count();
  size_t handle_count();
  std::string content(InodeNumber inode);
  void set_content(InodeNumber inode, std::string data);  ///< behind the kernel's back
  std::atomic<uint64_t> xattr_calls{0};
  std::atomic<int> flush_error{0};  ///< errno for the next flush
  std::atomic<bool> keep_cache{true};

 private:
  struct Node {
    Attributes attributes;
    std::string data;                                                  // content, or a link's target
    std::map<uint64_t, std::pair<std::string, InodeNumber>> children;  // by cookie
    std::map<std::string, std::string, std::less<>> xattrs;
    uint64_t lookups = 0;
    unsigned opens = 0;
    InodeNumber parent = 0;
  };

  Node* find(InodeNumber inode);
  Node* by_handle(uint64_t handle);
  std::pair<const uint64_t, std::pair<std::string, InodeNumber>>* child(Node& directory, std::string_view name);
  Result<Entry> add(const Caller& caller, InodeNumber parent, std::string_view name, uint32_t mode,
                    std::string_view data);
  uint64_t add_handle(InodeNumber inode);
  void drop_name(Node& directory, std::string_view name);
  void drop_if_unused(InodeNumber inode);
  void drop_handle(uint64_t handle);

  std::mutex mutex_;
  std::map<InodeNumber, Node> nodes_;
  std::map<uint64_t, InodeNumber> handles_;
  InodeNumber next_inode_ = 2;
  uint64_t next_handle_ = 1;
  uint64_t next_cookie_ = 3;
};

}  // namespace varve::fs
