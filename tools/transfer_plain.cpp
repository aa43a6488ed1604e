#include "tools/transfer_plain.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace varve::tools {
namespace {

constexpr uint32_t kModeBits = 07777;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }  // NOLINT: it is one

 private:
  const int number_;
};

timespec timespec_of(const fs::Time& time) {
  return {static_cast<time_t>(time.seconds), static_cast<long>(time.nanoseconds)};
}

fs::Time time_of(const timespec& time) {
  return {.seconds = time.tv_sec, .nanoseconds = static_cast<uint32_t>(time.tv_nsec)};
}

fs::Attributes attributes_of(const struct stat& from) {
  fs::Attributes facts;
  facts.inode = from.st_ino;
  facts.mode = from.st_mode;
  facts.uid = from.st_uid;
  facts.gid = from.st_gid;
  facts.links = static_cast<uint32_t>(from.st_nlink);
  facts.device = S_ISBLK(from.st_mode) || S_ISCHR(from.st_mode) ? from.st_rdev : 0;
  facts.size = S_ISREG(from.st_mode) || S_ISLNK(from.st_mode) ? static_cast<uint64_t>(from.st_size) : 0;
  facts.accessed = time_of(from.st_atim);
  facts.modified = time_of(from.st_mtim);
  facts.changed = time_of(from.st_ctim);
  return facts;
}

/// How the kernel's calls that take no descriptor of O_PATH find what it is of.
std::string path_to(int node) { return fmt::format("/proc/self/fd/{}", node); }

bool is_root() { return ::geteuid() == 0; }

Result<std::vector<std::pair<std::string, std::string>>> xattrs_of(int node) {
  const std::string path = path_to(node);
  std::string names;
  for (;;) {
    const ssize_t length = ::listxattr(path.c_str(), nullptr, 0);
    if (length < 0 && errno == ENOTSUP) {
      return std::vector<std::pair<std::string, std::string>>();
    }
    names.resize(length < 0 ? 0 : static_cast<size_t>(length));
    const ssize_t got = length < 0 ? -1 : ::listxattr(path.c_str(), names.data(), names.size());
    if (got < 0 && errno != ERANGE) {
      return system_error("cannot list its extended attributes");
    }
    if (got >= 0) {
      names.resize(static_cast<size_t>(got));
      break;
    }
  }
  std::vector<std::pair<std::string, std::string>> found;
  for (size_t at = 0; at < names.size();) {
    const std::string name = names.c_str() + at;
    at += name.size() + 1;
    std::string value(XATTR_SIZE_MAX, '\0');
    const ssize_t got = ::getxattr(path.c_str(), name.c_str(), value.data(), value.size());
    if (got < 0) {
      return system_error(fmt::format("cannot read the extended attribute {}", shown(name)));
    }
    value.resize(static_cast<size_t>(got));
    found.emplace_back(name, std::move(value));
  }
  std::ranges::sort(found);
  return found;
}

Status set_xattrs(int node, const Metadata& wanted) {
  VARVE_ASSIGN(const auto there, xattrs_of(node));
  const std::string path = path_to(node);
  for (const auto& one : wanted.xattrs) {
    const bool allowed = is_root() || one.first.starts_with("user.");
    if (allowed && !std::ranges::binary_search(there, one) &&
        ::setxattr(path.c_str(), one.first.c_str(), one.second.data(), one.second.size(), 0) != 0) {
      return system_error(fmt::format("cannot set the extended attribute {}", shown(one.first)));
    }
  }
  for (const auto& [name, value] : there) {
    const bool stays = std::ranges::binary_search(wanted.xattrs, name, {}, [](const auto& one) { return one.first; });
    if (!stays && name.starts_with("user.") && ::removexattr(path.c_str(), name.c_str()) != 0) {
      return system_error(fmt::format("cannot remove the extended attribute {}", shown(name)));
    }
  }
  return {};
}

/// `node`: a descriptor, of O_PATH or another. Owner before the rest, which a change of owner may clear; the mode after
/// attributes, which it may forbid to write; times last.
Status set_metadata_of(int node, const Metadata& wanted) {
  struct stat now {};
  if (::fstat(node, &now) != 0) {
    return system_error("cannot look at it");
  }
  const fs::Attributes& facts = wanted.facts;
  const bool other_owner = now.st_uid != facts.uid || now.st_gid != facts.gid;
  if (is_root() && other_owner && ::fchownat(node, "", facts.uid, facts.gid, AT_EMPTY_PATH) != 0) {
    return system_error("cannot set its owner");
  }
  VARVE_TRY(set_xattrs(node, wanted));
  // Whoever copies another's program does not make it one that runs in their own name.
  const bool same_owner = is_root() || facts.uid == now.st_uid;
  const uint32_t mode = facts.mode & (same_owner ? kModeBits : kModeBits & ~uint32_t{S_ISUID | S_ISGID});
  const bool other_mode = (now.st_mode & kModeBits) != mode || (is_root() && other_owner);
  if (!S_ISLNK(now.st_mode) && other_mode && ::chmod(path_to(node).c_str(), mode) != 0) {
    return system_error("cannot set its mode");
  }
  const std::array<timespec, 2> times = {timespec_of(facts.accessed), timespec_of(facts.modified)};
  return ::utimensat(node, "", times.data(), AT_EMPTY_PATH) == 0 ? Status()
                                                                 : Status(system_error("cannot set its times"));
}

/// An open file, no longer than it lives.
class PlainFile final : public TargetFile {
 public:
  explicit PlainFile(int file) : file_(file) {}
  Status write(uint64_t offset, std::span<const std::byte> data) override {
    while (!data.empty()) {
      const ssize_t put = ::pwrite(file_, data.data(), data.size(), static_cast<off_t>(offset));
      if (put < 0 && errno != EINTR) {
        return system_error("cannot write");
      }
      const size_t done = put < 0 ? 0 : static_cast<size_t>(put);
      data = data.subspan(done);
      offset += done;
    }
    return {};
  }
  Status set_size(uint64_t size) override {
    return ::ftruncate(file_, static_cast<off_t>(size)) == 0 ? Status() : Status(system_error("cannot set its size"));
  }

 private:
  const int file_;
};

/// What a killed transfer left.
void empty(int folder) {
  DIR* const listing = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) {
    return;
  }
  while (const dirent* one = ::readdir(listing)) {
    ::unlinkat(folder, one->d_name, 0);  // "." and ".." are refused
  }
  ::closedir(listing);
}

int open_folder(int parent, const std::string& name) {
  return ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

}  // namespace

class PlainTarget::Folder final : public TargetFolder {
 public:
  Folder(PlainTarget& target, int descriptor, bool is_root)
      : target_(target), descriptor_(descriptor), is_root_(is_root) {}

  Result<std::optional<fs::Attributes>> look(const std::string& name) override {
    struct stat facts {};
    if (::fstatat(descriptor_, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT ? Result<std::optional<fs::Attributes>>(std::nullopt) : system_error("cannot look at it");
    }
    return std::optional(attributes_of(facts));
  }

  Result<std::shared_ptr<TargetFolder>> folder(const std::string& name) override {
    if (::mkdirat(descriptor_, name.c_str(), S_IRWXU) != 0) {
      struct stat facts {};
      if (errno != EEXIST) {
        return system_error("cannot make the directory");
      }
      // An earlier run may have made it read-only.
      if (::fstatat(descriptor_, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(facts.st_mode) &&
          (facts.st_mode & S_IRWXU) != S_IRWXU) {
        ::fchmodat(descriptor_, name.c_str(), (facts.st_mode & kModeBits) | S_IRWXU, 0);
      }
    }
    const int opened = open_folder(descriptor_, name);
    if (opened < 0) {
      return system_error("something else than a directory has its name");
    }
    return std::shared_ptr<TargetFolder>(std::make_shared<Folder>(target_, opened, false));
  }

  Status file(const std::string& name, const Metadata& wanted,
              const std::function<Status(TargetFile&)>& fill) override {
    const std::string part = next_part();
    const Descriptor out(
        ::openat(target_.unfinished_, part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (out < 0) {
      return system_error("cannot make it");
    }
    const Status made = [&]() -> Status {
      PlainFile file(out);
      VARVE_TRY(fill(file));
      VARVE_TRY(set_metadata_of(out, wanted));
      return ::fsync(out) == 0 ? Status() : Status(system_error("cannot sync it"));
    }();
    return settle(made, part, name);
  }

  Status symlink(const std::string& name, const std::string& leads_to, const Metadata& wanted) override {
    const std::string part = next_part();
    if (::symlinkat(leads_to.c_str(), target_.unfinished_, part.c_str()) != 0) {
      return system_error("cannot make the link");
    }
    return settle(set_by_name(target_.unfinished_, part, wanted), part, name);
  }

  Status special(const std::string& name, const Metadata& wanted) override {
    const std::string part = next_part();
    const mode_t mode = (wanted.facts.mode & S_IFMT) | S_IRUSR | S_IWUSR;
    if (::mknodat(target_.unfinished_, part.c_str(), mode, wanted.facts.device) != 0) {
      return system_error("cannot make the special file");
    }
    return settle(set_by_name(target_.unfinished_, part, wanted), part, name);
  }

  Status link(TargetFolder& other, const std::string& first, const std::string& name) override {
    const std::string part = next_part();
    const int from = static_cast<Folder&>(other).descriptor_;
    const bool made = ::linkat(from, first.c_str(), target_.unfinished_, part.c_str(), 0) == 0;
    return settle(made ? Status() : Status(system_error(fmt::format("cannot link it to {}", shown(first)))), part,
                  name);
  }

  Status set_metadata(const std::optional<std::string>& name, const Metadata& wanted) override {
    if (name) {
      return set_by_name(descriptor_, *name, wanted);
    }
    if (is_root_) {
      target_.drop_unfinished();
    }
    return set_metadata_of(descriptor_, wanted);
  }

 private:
  std::string next_part() { return std::to_string(++target_.last_); }

  static Status set_by_name(int folder, const std::string& name, const Metadata& wanted) {
    const Descriptor node(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    return node < 0 ? Status(system_error("cannot look at it")) : set_metadata_of(node, wanted);
  }

  /// Moves a part to its place, or removes it if `made` is an error.
  Status settle(const Status& made, const std::string& part, const std::string& name) {
    Status settled = made;
    if (settled.ok() && ::renameat(target_.unfinished_, part.c_str(), descriptor_, name.c_str()) != 0) {
      settled = system_error("cannot move it to its place");
    }
    ::unlinkat(target_.unfinished_, part.c_str(), 0);  // gone if it was moved, but for two names of one file
    return settled;
  }

  PlainTarget& target_;
  const Descriptor descriptor_;
  const bool is_root_;
};

Result<std::unique_ptr<PlainTarget>> PlainTarget::open(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return system_error(fmt::format("cannot make {}", path));
  }
  const int root = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    return system_error(fmt::format("cannot open {}", path));
  }
  const bool made = ::mkdirat(root, kUnfinished, S_IRWXU) == 0 || errno == EEXIST;
  const int unfinished = made ? open_folder(root, kUnfinished) : -1;
  if (unfinished < 0) {
    const Error problem = system_error(fmt::format("cannot make {}/{}", path, kUnfinished));
    ::close(root);
    return problem;
  }
  if (::flock(unfinished, LOCK_EX | LOCK_NB) != 0) {
    ::close(unfinished);
    ::close(root);
    return Error{EBUSY, fmt::format("another transfer writes to {}", path)};
  }
  empty(unfinished);
  return std::unique_ptr<PlainTarget>(new PlainTarget(root, unfinished));
}

PlainTarget::~PlainTarget() {
  drop_unfinished();
  ::close(unfinished_);
  ::close(root_);
}

/// Stays while there is something in it.
void PlainTarget::drop_unfinished() { ::unlinkat(root_, kUnfinished, AT_REMOVEDIR); }

std::shared_ptr<TargetFolder> PlainTarget::root() { return std::make_shared<Folder>(*this, ::dup(root_), true); }

Status PlainTarget::finish() {
  return ::syncfs(root_) == 0 ? Status() : Status(system_error("cannot sync what was written"));
}

}  // namespace varve::tools
