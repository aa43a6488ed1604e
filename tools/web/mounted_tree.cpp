// The tree of a mounted directory, by system calls.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tools/comparison.h"
#include "tools/mount_point.h"
#include "tools/web/array_tree.h"

namespace varve::tools {
namespace {

constexpr uint64_t kSector = 512;
constexpr size_t kLongestAttribute = 65536;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

Error failure(const std::string& what) { return {errno, what + ": " + std::generic_category().message(errno)}; }

class MountedTree final : public ArrayTree {
 public:
  /// `below`: names from the mount's root to what is shown.
  MountedTree(Descriptor root, Names below) : root_(std::move(root)), below_(std::move(below)) {}

  Result<TreeListing> list(const Names& directory, const std::string& part, size_t most) override {
    VARVE_ASSIGN(Descriptor at, walk(directory, O_RDONLY | O_DIRECTORY));
    DIR* const stream = ::fdopendir(at.get());
    if (stream == nullptr) {
      return failure("cannot list it");
    }
    at.release();
    const auto closed = std::unique_ptr<DIR, int (*)(DIR*)>(stream, ::closedir);
    TreeListing listing;
    while (const dirent* entry = ::readdir(stream)) {
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || (name == ".varve" && directory.empty() && below_.empty()) ||
          name.find(part) == std::string::npos) {
        continue;
      }
      struct stat status {};
      if (::fstatat(::dirfd(stream), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
          (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))) {
        continue;  // gone already, or a link
      }
      if (listing.entries.size() == most) {
        listing.more = true;
        break;
      }
      listing.entries.push_back({name, S_ISDIR(status.st_mode), static_cast<uint64_t>(status.st_size),
                                 static_cast<uint64_t>(status.st_blocks) * kSector});
    }
    std::ranges::sort(listing.entries, {}, &TreeEntry::name);
    return listing;
  }

  Result<std::unique_ptr<fs::FileView>> open(const Names& file) override {
    VARVE_ASSIGN(Descriptor at, walk(file, O_RDONLY | O_NONBLOCK));
    VARVE_ASSIGN(auto opened, PlainFile::adopt(at.release(), file.empty() ? "the directory" : file.back(),
                                               PlainFile::Access::scattered));
    return std::unique_ptr<fs::FileView>(std::move(opened));
  }

  Result<std::string> attribute(const Names& file, const std::string& name) override {
    VARVE_ASSIGN(const Descriptor at, walk(file, O_RDONLY | O_NONBLOCK));
    std::string value(kLongestAttribute, '\0');
    const ssize_t length = ::fgetxattr(at.get(), name.c_str(), value.data(), value.size());
    if (length < 0) {
      return failure(name);
    }
    value.resize(static_cast<size_t>(length));
    return value;
  }

  Result<std::string> version(const Names& file) override {
    VARVE_ASSIGN(const Descriptor at, walk(file, O_PATH));
    struct stat status {};
    if (::fstat(at.get(), &status) != 0) {
      return failure("cannot look at it");
    }
    return fmt::format("{} {} {}.{} {}.{} {}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                       status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec, status.st_blocks);
  }

  std::string advice() const override { return "the log of the mount says more (STORE/varve.log)"; }

 private:
  /// Opens what the names lead to. Those that begin with .varve/VIEW (and a level, SPEC or bound, but for stat) go on
  /// from the mount's root; all others from the directory that is shown.
  Result<Descriptor> walk(const Names& names, int flags) const {
    Names all = names;
    const bool view = !names.empty() && names.front() == ".varve";
    const size_t into =
        view ? std::min(names.size(), names.size() > 1 && names[1] == "stat" ? size_t{2} : size_t{3}) : 0;
    all.insert(all.begin() + static_cast<ptrdiff_t>(into), below_.begin(), below_.end());
    Descriptor at(::openat(root_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (size_t i = 0; i < all.size() && at.get() >= 0; ++i) {
      const bool last = i + 1 == all.size();
      at = Descriptor(
          ::openat(at.get(), all[i].c_str(), (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC));
    }
    if (all.empty() && at.get() >= 0) {
      at = Descriptor(::openat(root_.get(), ".", flags | O_CLOEXEC));
    }
    if (at.get() < 0) {
      return failure("cannot open it");
    }
    return at;
  }

  const Descriptor root_;
  const Names below_;
};

}  // namespace

Result<std::unique_ptr<ArrayTree>> open_mounted_tree(const std::string& directory) {
  VARVE_ASSIGN(const MountedPath place, find_mount(directory));
  auto below = parse_path(place.relative);
  if (!below.ok()) {
    return Error{below.error().code, fmt::format("cannot show {}: {}", directory, below.error().text)};
  }
  Descriptor root(::open(place.mountpoint.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) {
    return failure(fmt::format("cannot open {}", place.mountpoint));
  }
  auto tree = std::make_unique<MountedTree>(std::move(root), *std::move(below));
  if (const auto listed = tree->list({}, "", 1); !listed.ok()) {
    return Error{listed.error().code, fmt::format("cannot show {}: {}; name a directory in a mount", directory,
                                                  std::generic_category().message(listed.error().code))};
  }
  return std::unique_ptr<ArrayTree>(std::move(tree));
}

}  // namespace varve::tools
