// The upper seam: stands between programs and the file system, and lets the injector change what passes. While nothing
// is armed for it, a call costs one relaxed load more.
#pragma once

#include "faults/injector.h"
#include "fs/filesystem.h"

namespace varve::faults {

/// setfattr -n user.varve.mark -v NAME on any file or directory of the mount: the program says where it is.
inline constexpr std::string_view kMarkAttribute = "user.varve.mark";

/// Thread-safe. `below` and `injector` must outlive it. The virtual files under .varve/ are never faulty.
class FaultyOperations final : public fs::Operations {
 public:
  FaultyOperations(fs::FileSystem& below, Injector& injector);
  /// Before the first request.
  void attach(fs::KernelCache* cache) { kernel_cache_ = cache; }

  Result<fs::Entry> lookup(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name) override;
  void forget(fs::InodeNumber inode, uint64_t count) override { below_.forget(inode, count); }
  Result<fs::Attributes> get_attributes(const fs::Caller& caller, fs::InodeNumber inode) override;
  Result<fs::Attributes> set_attributes(const fs::Caller& caller, fs::InodeNumber inode,
                                        const fs::AttributeChange& change, std::optional<uint64_t> handle) override;
  Result<std::string> read_link(const fs::Caller& caller, fs::InodeNumber inode) override;
  Result<fs::Entry> make_node(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name, uint32_t mode,
                              uint64_t device) override;
  Result<fs::Entry> make_directory(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name,
                                   uint32_t mode) override;
  Result<fs::Entry> make_symlink(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name,
                                 std::string_view target) override;
  Result<fs::Entry> link(const fs::Caller& caller, fs::InodeNumber inode, fs::InodeNumber new_parent,
                         std::string_view new_name) override;
  Status unlink(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name) override;
  Status remove_directory(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name) override;
  Status rename(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name, fs::InodeNumber new_parent,
                std::string_view new_name, uint32_t flags) override;

  Result<fs::OpenFile> open(const fs::Caller& caller, fs::InodeNumber inode, int flags) override;
  Result<std::pair<fs::Entry, fs::OpenFile>> create(const fs::Caller& caller, fs::InodeNumber parent,
                                                    std::string_view name, uint32_t mode, int flags) override;
  Result<size_t> read(const fs::Caller& caller, uint64_t handle, uint64_t offset, std::span<std::byte> out) override;
  Result<size_t> write(const fs::Caller& caller, uint64_t handle, uint64_t offset,
                       std::span<const std::byte> data) override;
  Status flush(const fs::Caller& caller, uint64_t handle) override;
  void release(uint64_t handle) override { below_.release(handle); }
  Status fsync(const fs::Caller& caller, uint64_t handle, bool data_only) override;
  Status allocate(const fs::Caller& caller, uint64_t handle, int mode, uint64_t offset, uint64_t length) override;
  Result<uint64_t> seek(const fs::Caller& caller, uint64_t handle, uint64_t offset, int whence) override;
  /// While armed, in pieces that are read and written here.
  Result<size_t> copy_range(const fs::Caller& caller, uint64_t from_handle, uint64_t from_offset, uint64_t to_handle,
                            uint64_t to_offset, size_t length) override;

  Result<uint64_t> open_directory(const fs::Caller& caller, fs::InodeNumber inode) override;
  Status read_directory(const fs::Caller& caller, uint64_t handle, uint64_t cookie,
                        const std::function<bool(const fs::DirectoryEntry&)>& visit) override;
  void release_directory(uint64_t handle) override { below_.release_directory(handle); }
  Status fsync_directory(const fs::Caller& caller, uint64_t handle) override;
  Result<fs::FileSystemSpace> space(const fs::Caller& caller) override;

  Status set_xattr(const fs::Caller& caller, fs::InodeNumber inode, std::string_view name, std::string_view value,
                   int flags) override;
  Result<std::string> get_xattr(const fs::Caller& caller, fs::InodeNumber inode, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(const fs::Caller& caller, fs::InodeNumber inode) override;
  Status remove_xattr(const fs::Caller& caller, fs::InodeNumber inode, std::string_view name) override;
  Status shut_down() override { return below_.shut_down(); }

 private:
  /// Nothing: no fault may touch it (virtual, or removed), or none is armed.
  using Path = std::optional<std::string>;
  Path path_of(fs::InodeNumber inode);
  Path path_of(fs::InodeNumber parent, std::string_view name);
  Path path_of_handle(uint64_t handle);
  template <typename T, typename Pass>
  Result<T> around(const fs::Caller& caller, Op op, const Path& path, const Pass& pass);

  Result<fs::InodeNumber> find(const std::string& path);
  Result<std::unique_ptr<Medium>> reopen(const std::string& path);
  void forget_pages(const std::string& path);
  void forget_caches();

  fs::FileSystem& below_;
  Injector& injector_;
  fs::KernelCache* kernel_cache_ = nullptr;
};

}  // namespace varve::faults
