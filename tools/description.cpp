#include "tools/description.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace varve::tools {

Result<nlohmann::json> describe(const std::string& path) {
  VARVE_ASSIGN(const MountedPath place, find_mount(path));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return Error{errno, fmt::format("cannot look at {}: {}", path, std::generic_category().message(errno))};
  }
  if (S_ISDIR(status.st_mode)) {
    return Error{EISDIR, fmt::format("{} is a directory: name a file", path)};
  }
  VARVE_ASSIGN(const std::string text, read_text(place.control("stat/" + place.relative)));
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return Error{EPROTO, fmt::format("the mount's description of {} makes no sense: are this program and the mount of "
                                     "the same version?",
                                     path)};
  }
  return json;
}

}  // namespace varve::tools
