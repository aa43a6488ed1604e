#include "faults/faulty_operations.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

namespace varve::faults {
namespace {

const fs::Caller kSelf{};
constexpr size_t kCopyPiece = size_t{1} << 20;

/// An open file below the seam.
class HandleMedium final : public Medium {
 public:
  HandleMedium(fs::FileSystem& files, fs::Caller caller, fs::InodeNumber inode, uint64_t handle)
      : files_(files), caller_(caller), inode_(inode), handle_(handle) {}
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    return files_.read(caller_, handle_, offset, out);
  }
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    for (size_t done = 0; done < data.size();) {
      VARVE_ASSIGN(const size_t put, files_.write(caller_, handle_, offset + done, data.subspan(done)));
      done += put;
    }
    return {};
  }
  Result<uint64_t> size() override {
    VARVE_ASSIGN(const fs::Attributes attributes, files_.get_attributes(caller_, inode_));
    return attributes.size;
  }
  Status truncate(uint64_t size) override {
    fs::AttributeChange change;
    change.size = size;
    const auto changed = files_.set_attributes(caller_, inode_, change, handle_);
    return changed.ok() ? Status() : Status(changed.error());
  }
  Status sync() override { return files_.fsync(caller_, handle_, false); }

 private:
  fs::FileSystem& files_;
  fs::Caller caller_;
  fs::InodeNumber inode_;
  uint64_t handle_;
};

/// Opens the file for itself, and not before it must.
class InodeMedium final : public Medium {
 public:
  InodeMedium(fs::FileSystem& files, fs::InodeNumber inode) : files_(files), inode_(inode) {}
  ~InodeMedium() override {
    if (handle_) {
      static_cast<void>(files_.flush(kSelf, *handle_));
      files_.release(*handle_);
    }
  }
  InodeMedium(const InodeMedium&) = delete;
  InodeMedium& operator=(const InodeMedium&) = delete;

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    VARVE_TRY(open());
    return files_.read(kSelf, *handle_, offset, out);
  }
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    VARVE_TRY(open());
    return HandleMedium(files_, kSelf, inode_, *handle_).write(offset, data);
  }
  Result<uint64_t> size() override {
    VARVE_ASSIGN(const fs::Attributes attributes, files_.get_attributes(kSelf, inode_));
    return attributes.size;
  }
  Status truncate(uint64_t size) override {
    VARVE_TRY(open());
    return HandleMedium(files_, kSelf, inode_, *handle_).truncate(size);
  }

 private:
  Status open() {
    if (!handle_) {
      VARVE_ASSIGN(const fs::OpenFile opened, files_.open(kSelf, inode_, O_RDWR));
      handle_ = opened.handle;
    }
    return {};
  }

  fs::FileSystem& files_;
  fs::InodeNumber inode_;
  std::optional<uint64_t> handle_;
};

}  // namespace

FaultyOperations::FaultyOperations(fs::FileSystem& below, Injector& injector) : below_(below), injector_(injector) {
  injector.set_reopen(Seam::app, [this](const std::string& path) { return reopen(path); });
  injector.set_on_stored([this](const std::string& path) { forget_pages(path); });
  injector.set_on_change([this] { forget_caches(); });
}

// --- paths ----------------------------------------------------------------------------------------------------------

FaultyOperations::Path FaultyOperations::path_of(fs::InodeNumber inode) {
  if (!injector_.armed(Seam::app)) {
    return std::nullopt;
  }
  auto path = below_.path_of(inode);
  return path.ok() ? Path(*std::move(path)) : std::nullopt;
}

FaultyOperations::Path FaultyOperations::path_of(fs::InodeNumber parent, std::string_view name) {
  Path path = path_of(parent);
  if (path && path->empty()) {
    return name == ".varve" ? std::nullopt : Path(name);
  }
  return path ? Path(path->append("/").append(name)) : path;
}

FaultyOperations::Path FaultyOperations::path_of_handle(uint64_t handle) {
  if (!injector_.armed(Seam::app)) {
    return std::nullopt;
  }
  const fs::InodeNumber inode = below_.inode_of_handle(handle);
  return inode == 0 ? std::nullopt : path_of(inode);
}

template <typename T, typename Pass>
Result<T> FaultyOperations::around(const fs::Caller& caller, Op op, const Path& path, const Pass& pass) {
  if (!path) {
    return pass();
  }
  return injector_.around_result<T>({Seam::app, op, *path, caller.pid}, pass);
}

Result<fs::InodeNumber> FaultyOperations::find(const std::string& path) {
  fs::InodeNumber inode = index::kRootInode;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    VARVE_ASSIGN(const fs::Entry entry, below_.lookup(kSelf, inode, path.substr(at, end - at)));
    inode = entry.attributes.inode;
    below_.forget(inode, 1);
    at = end + 1;
  }
  return inode;
}

Result<std::unique_ptr<Medium>> FaultyOperations::reopen(const std::string& path) {
  VARVE_ASSIGN(const fs::InodeNumber inode, find(path));
  return std::unique_ptr<Medium>(std::make_unique<InodeMedium>(below_, inode));
}

void FaultyOperations::forget_pages(const std::string& path) {
  const auto inode = find(path);
  if (kernel_cache_ != nullptr && inode.ok()) {
    kernel_cache_->invalidate_inode(*inode, true);
  }
}

void FaultyOperations::forget_caches() {
  below_.drop_caches();
  if (kernel_cache_ != nullptr) {
    for (const fs::InodeNumber inode : below_.inodes_in_use()) {
      kernel_cache_->invalidate_inode(inode, true);
    }
    kernel_cache_->settle();
  }
}

// --- names and attributes -------------------------------------------------------------------------------------------

Result<fs::Entry> FaultyOperations::lookup(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name) {
  return around<fs::Entry>(caller, Op::lookup, path_of(parent, name),
                           [&] { return below_.lookup(caller, parent, name); });
}

Result<fs::Attributes> FaultyOperations::get_attributes(const fs::Caller& caller, fs::InodeNumber inode) {
  // The root's are asked for on the way to the control files, which a dead device must not take away.
  const Path path = inode == index::kRootInode ? Path() : path_of(inode);
  return around<fs::Attributes>(caller, Op::getattr, path, [&] { return below_.get_attributes(caller, inode); });
}

Result<fs::Attributes> FaultyOperations::set_attributes(const fs::Caller& caller, fs::InodeNumber inode,
                                                        const fs::AttributeChange& change,
                                                        std::optional<uint64_t> handle) {
  const Path path = path_of(inode);
  const auto pass = [&] { return below_.set_attributes(caller, inode, change, handle); };
  if (!path || !change.size) {
    return around<fs::Attributes>(caller, Op::setattr, path, pass);
  }
  std::optional<Result<fs::Attributes>> result;
  InodeMedium by_inode(below_, inode);
  HandleMedium by_handle(below_, caller, inode, handle.value_or(0));
  Medium& file = handle ? static_cast<Medium&>(by_handle) : by_inode;
  VARVE_TRY(injector_.truncate({Seam::app, Op::truncate, *path, caller.pid}, file, *change.size, [&]() -> Status {
    result = pass();
    return result->ok() ? Status() : Status(result->error());
  }));
  return result ? *std::move(result) : below_.get_attributes(caller, inode);
}

Result<std::string> FaultyOperations::read_link(const fs::Caller& caller, fs::InodeNumber inode) {
  return around<std::string>(caller, Op::readlink, path_of(inode), [&] { return below_.read_link(caller, inode); });
}

Result<fs::Entry> FaultyOperations::make_node(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name,
                                              uint32_t mode, uint64_t device) {
  return around<fs::Entry>(caller, Op::create, path_of(parent, name),
                           [&] { return below_.make_node(caller, parent, name, mode, device); });
}

Result<fs::Entry> FaultyOperations::make_directory(const fs::Caller& caller, fs::InodeNumber parent,
                                                   std::string_view name, uint32_t mode) {
  return around<fs::Entry>(caller, Op::mkdir, path_of(parent, name),
                           [&] { return below_.make_directory(caller, parent, name, mode); });
}

Result<fs::Entry> FaultyOperations::make_symlink(const fs::Caller& caller, fs::InodeNumber parent,
                                                 std::string_view name, std::string_view target) {
  return around<fs::Entry>(caller, Op::symlink, path_of(parent, name),
                           [&] { return below_.make_symlink(caller, parent, name, target); });
}

Result<fs::Entry> FaultyOperations::link(const fs::Caller& caller, fs::InodeNumber inode, fs::InodeNumber new_parent,
                                         std::string_view new_name) {
  return around<fs::Entry>(caller, Op::link, path_of(new_parent, new_name),
                           [&] { return below_.link(caller, inode, new_parent, new_name); });
}

Status FaultyOperations::unlink(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name) {
  const Path path = path_of(parent, name);
  VARVE_TRY(around<void>(caller, Op::unlink, path, [&] { return below_.unlink(caller, parent, name); }));
  if (path) {
    injector_.removed(Seam::app, *path);
  }
  return {};
}

Status FaultyOperations::remove_directory(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name) {
  return around<void>(caller, Op::rmdir, path_of(parent, name),
                      [&] { return below_.remove_directory(caller, parent, name); });
}

Status FaultyOperations::rename(const fs::Caller& caller, fs::InodeNumber parent, std::string_view name,
                                fs::InodeNumber new_parent, std::string_view new_name, uint32_t flags) {
  const Path from = path_of(parent, name);
  const Path to = path_of(new_parent, new_name);
  VARVE_TRY(around<void>(caller, Op::rename, from,
                         [&] { return below_.rename(caller, parent, name, new_parent, new_name, flags); }));
  if (from && to) {
    injector_.renamed(Seam::app, *from, *to);
  }
  return {};
}

// --- files ----------------------------------------------------------------------------------------------------------

Result<fs::OpenFile> FaultyOperations::open(const fs::Caller& caller, fs::InodeNumber inode, int flags) {
  const Path path = path_of(inode);
  VARVE_ASSIGN(fs::OpenFile opened,
               around<fs::OpenFile>(caller, Op::open, path, [&] { return below_.open(caller, inode, flags); }));
  opened.direct_io = opened.direct_io || (path && injector_.bypasses_cache(*path));
  return opened;
}

Result<std::pair<fs::Entry, fs::OpenFile>> FaultyOperations::create(const fs::Caller& caller, fs::InodeNumber parent,
                                                                    std::string_view name, uint32_t mode, int flags) {
  using Created = std::pair<fs::Entry, fs::OpenFile>;
  const Path path = path_of(parent, name);
  VARVE_ASSIGN(Created created, around<Created>(caller, Op::create, path,
                                                [&] { return below_.create(caller, parent, name, mode, flags); }));
  created.second.direct_io = created.second.direct_io || (path && injector_.bypasses_cache(*path));
  return created;
}

Result<size_t> FaultyOperations::read(const fs::Caller& caller, uint64_t handle, uint64_t offset,
                                      std::span<std::byte> out) {
  if (!injector_.armed(Seam::app)) {
    return below_.read(caller, handle, offset, out);
  }
  const Path path = path_of_handle(handle);
  if (!path) {
    return below_.read(caller, handle, offset, out);
  }
  HandleMedium file(below_, caller, below_.inode_of_handle(handle), handle);
  return injector_.read({Seam::app, Op::read, *path, caller.pid}, file, offset, out);
}

Result<size_t> FaultyOperations::write(const fs::Caller& caller, uint64_t handle, uint64_t offset,
                                       std::span<const std::byte> data) {
  if (!injector_.armed(Seam::app)) {
    return below_.write(caller, handle, offset, data);
  }
  const Path path = path_of_handle(handle);
  if (!path) {
    return below_.write(caller, handle, offset, data);
  }
  HandleMedium file(below_, caller, below_.inode_of_handle(handle), handle);
  return injector_.write({Seam::app, Op::write, *path, caller.pid}, file, offset, data);
}

Status FaultyOperations::flush(const fs::Caller& caller, uint64_t handle) {
  const Path path = path_of_handle(handle);
  Status faulty;
  if (path && below_.is_writable(handle)) {
    HandleMedium file(below_, caller, below_.inode_of_handle(handle), handle);
    faulty = injector_.close({Seam::app, Op::close, *path, caller.pid}, file);
  }
  const Status flushed = below_.flush(caller, handle);
  return faulty.ok() ? flushed : faulty;
}

Status FaultyOperations::fsync(const fs::Caller& caller, uint64_t handle, bool data_only) {
  const auto pass = [&] { return below_.fsync(caller, handle, data_only); };
  const Path path = path_of_handle(handle);
  return path ? injector_.fsync({Seam::app, Op::fsync, *path, caller.pid}, pass) : pass();
}

Status FaultyOperations::allocate(const fs::Caller& caller, uint64_t handle, int mode, uint64_t offset,
                                  uint64_t length) {
  return around<void>(caller, Op::allocate, path_of_handle(handle),
                      [&] { return below_.allocate(caller, handle, mode, offset, length); });
}

Result<uint64_t> FaultyOperations::seek(const fs::Caller& caller, uint64_t handle, uint64_t offset, int whence) {
  return around<uint64_t>(caller, Op::seek, path_of_handle(handle),
                          [&] { return below_.seek(caller, handle, offset, whence); });
}

Result<size_t> FaultyOperations::copy_range(const fs::Caller& caller, uint64_t from_handle, uint64_t from_offset,
                                            uint64_t to_handle, uint64_t to_offset, size_t length) {
  if (!injector_.armed(Seam::app)) {
    return below_.copy_range(caller, from_handle, from_offset, to_handle, to_offset, length);
  }
  std::vector<std::byte> piece(std::min(length, kCopyPiece));
  VARVE_ASSIGN(const size_t got, read(caller, from_handle, from_offset, piece));
  return got == 0 ? Result<size_t>(size_t{0}) : write(caller, to_handle, to_offset, std::span(piece).first(got));
}

// --- directories, space, extended attributes ------------------------------------------------------------------------

Result<uint64_t> FaultyOperations::open_directory(const fs::Caller& caller, fs::InodeNumber inode) {
  return around<uint64_t>(caller, Op::readdir, path_of(inode), [&] { return below_.open_directory(caller, inode); });
}

Status FaultyOperations::read_directory(const fs::Caller& caller, uint64_t handle, uint64_t cookie,
                                        const std::function<bool(const fs::DirectoryEntry&)>& visit) {
  return below_.read_directory(caller, handle, cookie, visit);
}

Status FaultyOperations::fsync_directory(const fs::Caller& caller, uint64_t handle) {
  return below_.fsync_directory(caller, handle);
}

Result<fs::FileSystemSpace> FaultyOperations::space(const fs::Caller& caller) {
  return around<fs::FileSystemSpace>(caller, Op::statfs, path_of(index::kRootInode),
                                     [&] { return below_.space(caller); });
}

Status FaultyOperations::set_xattr(const fs::Caller& caller, fs::InodeNumber inode, std::string_view name,
                                   std::string_view value, int flags) {
  if (name == kMarkAttribute) {
    return injector_.mark(std::string(value));
  }
  return around<void>(caller, Op::setxattr, path_of(inode),
                      [&] { return below_.set_xattr(caller, inode, name, value, flags); });
}

Result<std::string> FaultyOperations::get_xattr(const fs::Caller& caller, fs::InodeNumber inode,
                                                std::string_view name) {
  return around<std::string>(caller, Op::getxattr, path_of(inode),
                             [&] { return below_.get_xattr(caller, inode, name); });
}

Result<std::vector<std::string>> FaultyOperations::list_xattrs(const fs::Caller& caller, fs::InodeNumber inode) {
  return below_.list_xattrs(caller, inode);
}

Status FaultyOperations::remove_xattr(const fs::Caller& caller, fs::InodeNumber inode, std::string_view name) {
  return around<void>(caller, Op::setxattr, path_of(inode), [&] { return below_.remove_xattr(caller, inode, name); });
}

}  // namespace varve::faults
