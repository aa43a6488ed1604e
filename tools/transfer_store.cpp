#include "tools/transfer_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fs/damage.h"

namespace varve::tools {
namespace {

constexpr fs::Caller kCaller{};

class StoreSourceFile final : public SourceFile {
 public:
  StoreSourceFile(fs::FileSystem& files, uint64_t handle) : files_(files), handle_(handle) {}
  ~StoreSourceFile() override { files_.release(handle_); }
  StoreSourceFile(const StoreSourceFile&) = delete;
  StoreSourceFile& operator=(const StoreSourceFile&) = delete;

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    return files_.read(kCaller, handle_, offset, out);
  }
  Result<std::optional<std::pair<uint64_t, uint64_t>>> data_after(uint64_t offset) override {
    const auto data = files_.seek(kCaller, handle_, offset, SEEK_DATA);
    if (!data.ok() && data.error().code == ENXIO) {
      return std::optional<std::pair<uint64_t, uint64_t>>();
    }
    VARVE_TRY(data);
    VARVE_ASSIGN(const uint64_t hole, files_.seek(kCaller, handle_, *data, SEEK_HOLE));
    return std::optional(std::pair(*data, hole));
  }
  Status check_unchanged() override { return {}; }  // nobody writes there

 private:
  fs::FileSystem& files_;
  const uint64_t handle_;
};

class StoreSourceNode final : public SourceNode {
 public:
  using Unsealed = std::unordered_set<fs::InodeNumber>;
  /// Takes the count of a lookup, but for the root.
  StoreSourceNode(fs::FileSystem& files, const Unsealed& unsealed, const fs::Attributes& facts)
      : files_(files), unsealed_(unsealed), facts_(facts) {}
  ~StoreSourceNode() override {
    if (facts_.inode != index::kRootInode) {
      files_.forget(facts_.inode, 1);
    }
  }
  StoreSourceNode(const StoreSourceNode&) = delete;
  StoreSourceNode& operator=(const StoreSourceNode&) = delete;

  const fs::Attributes& facts() const override { return facts_; }

  Result<Metadata> metadata() override {
    Metadata found{facts_, {}};
    VARVE_ASSIGN(std::vector<std::string> names, files_.list_xattrs(kCaller, facts_.inode));
    std::ranges::sort(names);
    std::erase(names, fs::kDamageAttribute);  // nothing interpolated is read here
    for (std::string& name : names) {
      VARVE_ASSIGN(std::string value, files_.get_xattr(kCaller, facts_.inode, name));
      found.xattrs.emplace_back(std::move(name), std::move(value));
    }
    return found;
  }

  Result<std::string> link_target() override { return files_.read_link(kCaller, facts_.inode); }

  Result<std::vector<std::string>> names() override {
    std::vector<std::string> names;
    VARVE_ASSIGN(const uint64_t handle, files_.open_directory(kCaller, facts_.inode));
    const Status read = files_.read_directory(kCaller, handle, 0, [&](const fs::DirectoryEntry& one) {
      if (one.name != "." && one.name != "..") {
        names.push_back(one.name);
      }
      return true;
    });
    files_.release_directory(handle);
    VARVE_TRY(read);
    std::ranges::sort(names);
    return names;
  }

  Result<std::shared_ptr<SourceNode>> child(const std::string& name) override {
    VARVE_ASSIGN(const fs::Entry found, files_.lookup(kCaller, facts_.inode, name));
    return std::shared_ptr<SourceNode>(std::make_shared<StoreSourceNode>(files_, unsealed_, found.attributes));
  }

  Result<std::unique_ptr<SourceFile>> open() override {
    if (unsealed_.contains(facts_.inode)) {
      return Error{EIO, "it was being written, and what was written is not here: it is left out"};
    }
    VARVE_ASSIGN(const fs::OpenFile opened, files_.open(kCaller, facts_.inode, O_RDONLY));
    return std::unique_ptr<SourceFile>(std::make_unique<StoreSourceFile>(files_, opened.handle));
  }

 private:
  fs::FileSystem& files_;
  const Unsealed& unsealed_;
  const fs::Attributes facts_;
};

}  // namespace

Result<std::shared_ptr<SourceNode>> store_source(fs::FileSystem& files,
                                                 const std::unordered_set<fs::InodeNumber>& unsealed) {
  VARVE_ASSIGN(const fs::Attributes root, files.get_attributes(kCaller, index::kRootInode));
  return std::shared_ptr<SourceNode>(std::make_shared<StoreSourceNode>(files, unsealed, root));
}

}  // namespace varve::tools
