// The tree of a store that is not mounted: the file system itself, read-only, in this process.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "fs/filesystem.h"
#include "fs/note_keys.h"
#include "index/index.h"
#include "tools/web/array_tree.h"

namespace varve::tools {
namespace {

constexpr fs::Caller kCaller{};
constexpr uint64_t kSector = 512;

/// Inodes that were looked up, of which the file system counts how many know them.
class LookedUp {
 public:
  explicit LookedUp(fs::FileSystem& files) : files_(files) {}
  ~LookedUp() {
    for (auto inode = inodes_.rbegin(); inode != inodes_.rend(); ++inode) {
      files_.forget(*inode, 1);
    }
  }
  LookedUp(const LookedUp&) = delete;
  LookedUp& operator=(const LookedUp&) = delete;

  Result<fs::Attributes> next(fs::InodeNumber parent, const std::string& name) {
    VARVE_ASSIGN(const fs::Entry entry, files_.lookup(kCaller, parent, name));
    inodes_.push_back(entry.attributes.inode);
    return entry.attributes;
  }
  /// What the names lead to, from the root on.
  Result<fs::Attributes> walk(const Names& names) {
    VARVE_ASSIGN(fs::Attributes at, files_.get_attributes(kCaller, index::kRootInode));
    for (const std::string& name : names) {
      if (!S_ISDIR(at.mode)) {
        return Error{ENOTDIR, fmt::format("{} is not in a directory", name)};
      }
      VARVE_ASSIGN(at, next(at.inode, name));
    }
    return at;
  }

 private:
  fs::FileSystem& files_;
  std::vector<fs::InodeNumber> inodes_;
};

class StoredFile final : public fs::FileView {
 public:
  /// `known`: what leads to the open file.
  StoredFile(fs::FileSystem& files, std::unique_ptr<LookedUp> known, uint64_t handle, uint64_t size)
      : files_(files), known_(std::move(known)), handle_(handle), size_(size) {}
  ~StoredFile() override { files_.release(handle_); }
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    return files_.read(kCaller, handle_, offset, out);
  }

 private:
  fs::FileSystem& files_;
  const std::unique_ptr<LookedUp> known_;
  const uint64_t handle_, size_;
};

class StoreTree final : public ArrayTree {
 public:
  explicit StoreTree(std::unique_ptr<fs::FileSystem> files) : files_(std::move(files)) {}
  ~StoreTree() override { static_cast<void>(files_->shut_down()); }

  Result<TreeListing> list(const Names& directory, const std::string& part, size_t most) override {
    LookedUp known(*files_);
    VARVE_ASSIGN(const fs::Attributes at, known.walk(directory));
    VARVE_ASSIGN(const uint64_t handle, files_->open_directory(kCaller, at.inode));
    TreeListing listing;
    const Status read = files_->read_directory(kCaller, handle, 0, [&](const fs::DirectoryEntry& entry) {
      if (entry.name == "." || entry.name == ".." || (entry.type != S_IFREG && entry.type != S_IFDIR) ||
          entry.name.find(part) == std::string::npos) {
        return true;
      }
      listing.more = listing.entries.size() == most;
      if (!listing.more) {
        listing.entries.push_back({entry.name, entry.type == S_IFDIR, 0, 0});
      }
      return !listing.more;
    });
    files_->release_directory(handle);
    if (!read.ok()) {
      return read.error();
    }
    for (TreeEntry& entry : listing.entries) {
      LookedUp one(*files_);
      VARVE_ASSIGN(const fs::Attributes facts, one.next(at.inode, entry.name));
      entry.size = facts.size;
      entry.stored = facts.blocks * kSector;
    }
    std::ranges::sort(listing.entries, {}, &TreeEntry::name);
    return listing;
  }

  Result<std::unique_ptr<fs::FileView>> open(const Names& file) override {
    auto known = std::make_unique<LookedUp>(*files_);
    VARVE_ASSIGN(const fs::Attributes at, known->walk(file));
    if (!S_ISREG(at.mode)) {
      return Error{EISDIR, "not a regular file"};
    }
    VARVE_ASSIGN(const fs::OpenFile opened, files_->open(kCaller, at.inode, O_RDONLY));
    return std::unique_ptr<fs::FileView>(
        std::make_unique<StoredFile>(*files_, std::move(known), opened.handle, at.size));
  }

  Result<std::string> attribute(const Names& file, const std::string& name) override {
    LookedUp known(*files_);
    VARVE_ASSIGN(const fs::Attributes at, known.walk(file));
    return files_->get_xattr(kCaller, at.inode, name);
  }

  Result<std::string> version(const Names& file) override {
    LookedUp known(*files_);
    VARVE_ASSIGN(const fs::Attributes at, known.walk(file));
    return std::to_string(at.inode);  // nobody writes it
  }

  std::string advice() const override { return "varve scrub STORE names all that is damaged"; }

 private:
  const std::unique_ptr<fs::FileSystem> files_;
};

}  // namespace

Result<Names> parse_path(std::string_view path) {
  Names names;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    if (name.empty() || name == "." || name == ".." || name.find('\0') != std::string_view::npos ||
        end + 1 == path.size()) {
      return Error{EINVAL, "a path is names with '/' between them, none of them empty, \".\" or \"..\""};
    }
    if (names.empty() && name == ".varve") {
      return Error{ENOENT, "what is below .varve is not shown"};
    }
    names.emplace_back(name);
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return names;
}

Names in_view(std::initializer_list<std::string> view, const Names& file) {
  Names names = view;
  names.insert(names.end(), file.begin(), file.end());
  return names;
}

Result<std::unique_ptr<ArrayTree>> open_store_tree(const std::string& store, uint64_t cache_bytes) {
  index::IndexOptions index_options;
  index_options.read_only = true;
  auto index = index::Index::open(store, index_options);
  if (!index.ok()) {
    return index.error().code == EBUSY
               ? Error{EBUSY, index.error().text + "; of a mounted store, name the mounted directory"}
               : index.error();
  }
  uint64_t unsealed = 0;
  VARVE_TRY((*index)->notes(fs::kStagingNotes, [&](std::string_view, std::string_view) {
    ++unsealed;
    return true;
  }));
  if (unsealed > 0) {
    fmt::print(
        stderr,
        "varve: {} file{} written and not sealed when the store was last in use: shown as last sealed; mount the "
        "store once to seal\n",
        unsealed, unsealed == 1 ? " was" : "s were");
  }
  fs::FileSystemOptions options;
  options.read_only = true;
  options.cache_bytes = cache_bytes;
  VARVE_ASSIGN(auto files, fs::FileSystem::create(*std::move(index), options));
  return std::unique_ptr<ArrayTree>(std::make_unique<StoreTree>(std::move(files)));
}

}  // namespace varve::tools
