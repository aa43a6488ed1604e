// varve sync: what was written is on the disk, sealed, when this returns.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <system_error>

#include "tools/commands.h"
#include "tools/mount_point.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

Status sync_path(const std::string& path) {
  VARVE_ASSIGN(const MountedPath place, find_mount(path));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Error{errno, fmt::format("cannot open {}: {}", path, std::generic_category().message(errno))};
  }
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0) {
    return Error{code, fmt::format("cannot make {} durable: {}; the mount's log says more", path,
                                   std::generic_category().message(code))};
  }
  VARVE_ASSIGN(const std::string answer, read_text(place.control("sync")));  // ends when all that waits is sealed
  return answer.starts_with("ok") ? Status() : Status(Error{EIO, fmt::format("{}: {}", path, answer)});
}

}  // namespace

void add_sync(CLI::App& app, int& status) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("sync", "Wait until everything written to a mount is sealed and on the disk");
  command->footer("Examples:\n  varve sync ~/data\n  varve sync ~/data/run7.h5 && varve stat ~/data/run7.h5");
  command->add_option("PATH", *path, "A file to make durable, or any directory of the mount")->required();
  command->callback([path, &status] { status = finish(sync_path(*path)); });
}

}  // namespace varve::tools
