#include "tools/mount_point.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "fs/fuse_mount_table.h"

namespace varve::tools {
namespace {

constexpr size_t kLargestText = size_t{64} << 20;

std::string reason(int code) { return std::generic_category().message(code); }

}  // namespace

bool is_inside(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" ||
         (path.starts_with(directory) && path.size() > directory.size() && path[directory.size()] == '/');
}

Result<std::string> absolute_path(const std::string& path) {
  std::error_code problem;
  auto absolute = std::filesystem::absolute(path, problem);
  if (problem || path.empty()) {
    return Error{path.empty() ? EINVAL : problem.value(),
                 fmt::format("cannot make sense of the path \"{}\": name a file or directory", path)};
  }
  if (!absolute.has_filename() && absolute.has_relative_path()) {
    absolute = absolute.parent_path();  // a trailing slash
  }
  auto resolved = std::filesystem::weakly_canonical(absolute, problem);
  if (problem == std::errc::not_connected || problem == std::errc::connection_aborted ||
      problem == std::errc::io_error) {  // a dead mount or a damaged store: only what is above it can be resolved
    resolved = std::filesystem::weakly_canonical(absolute.parent_path(), problem) / absolute.filename();
  }
  if (problem) {
    return Error{problem.value(), fmt::format("cannot resolve the path {}: {}", path, problem.message())};
  }
  std::string text = resolved.lexically_normal().string();
  if (text.size() > 1 && text.ends_with('/')) {
    text.pop_back();
  }
  return text;
}

Result<MountedPath> find_mount(const std::string& path) {
  VARVE_ASSIGN(const std::string absolute, absolute_path(path));
  const fs::MountEntry* found = nullptr;
  const auto table = fs::mount_table();
  for (const fs::MountEntry& entry : table) {  // the longest match, and of equals the one on top
    if (is_inside(absolute, entry.mountpoint) &&
        (found == nullptr || entry.mountpoint.size() >= found->mountpoint.size())) {
      found = &entry;
    }
  }
  if (found == nullptr || found->type != fs::kMountType) {
    return Error{ENODEV,
                 fmt::format("{} is not in a Varve mount: mount its store first (varve mount STORE DIR)", path)};
  }
  MountedPath result{found->mountpoint, {}};
  if (absolute.size() > found->mountpoint.size()) {
    result.relative = absolute.substr(found->mountpoint.size() + 1);
  }
  return result;
}

bool is_store(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_regular_file(path + "/VERSION", code) && std::filesystem::is_directory(path + "/db", code);
}

Result<std::string> read_text(const std::string& path) {
  const int descriptor = path == "-" ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Error{errno, fmt::format("cannot open {}: {}", path, reason(errno))};
  }
  std::string text;
  std::array<char, 65536> buffer{};
  ssize_t count = 0;
  while ((count = ::read(descriptor, buffer.data(), buffer.size())) > 0 && text.size() <= kLargestText) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  const int code = errno;
  ::close(descriptor);
  if (count < 0) {
    return Error{code, fmt::format("cannot read {}: {}", path, reason(code))};
  }
  if (text.size() > kLargestText) {
    return Error{EFBIG, fmt::format("{} is larger than {} bytes: is it the right file?", path, kLargestText)};
  }
  return text;
}

}  // namespace varve::tools
