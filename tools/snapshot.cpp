// varve snapshot: a store as it was, kept in it.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "index/index.h"
#include "index/snapshot.h"
#include "tools/commands.h"
#include "tools/mount_point.h"
#include "tools/report.h"
#include "tools/store_place.h"

namespace varve::tools {
namespace {

struct Arguments {
  std::string where, name, directory;
};

Status create(const Arguments& arguments) {
  VARVE_ASSIGN(const StorePlace place, find_store(arguments.where));
  VARVE_TRY(index::check_new_snapshot(place.store, arguments.name));  // a mount would tell its errno alone
  if (place.mountpoint) {
    const std::string file = *place.mountpoint + "/.varve/snapshots";
    VARVE_TRY(write_control_file(
        file, "create " + arguments.name + "\n", "it is for the mount's owner and root", [&](int code) {
          return Error{code,
                       fmt::format("{}: {}; the mount's log says more", file, std::generic_category().message(code))};
        }));
  } else {
    VARVE_ASSIGN(const auto index, index::Index::open(place.store, {}));
    VARVE_TRY(index->snapshot(arguments.name));
  }
  fmt::print("snapshot {}: look into it by varve snapshot mount {} {} DIR\n", arguments.name, arguments.where,
             arguments.name);
  return {};
}

Status list(const Arguments& arguments) {
  VARVE_ASSIGN(const StorePlace place, find_store(arguments.where));
  VARVE_ASSIGN(const auto snapshots, index::list_snapshots(place.store));
  for (const index::SnapshotFacts& one : snapshots) {
    const std::time_t made = one.created.seconds;
    fmt::print("{:%Y-%m-%d %H:%M:%S}  {:>10}  {}\n", fmt::localtime(made), human_size(one.own_bytes), one.name);
  }
  return {};
}

Status remove(const Arguments& arguments) {
  VARVE_ASSIGN(const StorePlace place, find_store(arguments.where));
  return index::delete_snapshot(place.store, arguments.name);
}

/// Becomes `varve mount`.
Status mount(const Arguments& arguments) {
  VARVE_ASSIGN(const StorePlace place, find_store(arguments.where));
  VARVE_ASSIGN(const std::string path, index::find_snapshot(place.store, arguments.name));
  ::execl("/proc/self/exe", "varve", "mount", "-o", "ro", path.c_str(), arguments.directory.c_str(), nullptr);
  return Error{errno, fmt::format("cannot start varve mount: {}", std::generic_category().message(errno))};
}

}  // namespace

void add_snapshot(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("snapshot", "Keep a store as it is now; look into it later, or drop it");
  command->footer(
      "A snapshot takes moments to make and shares space with the store: it costs what changes afterwards. It has "
      "what\n"
      "was sealed; of a file that a program goes on writing, what was sealed last. It is a read-only store by itself.\n"
      "Examples:\n  varve snapshot create ~/data before-rerun\n  varve snapshot list ~/data\n"
      "  varve snapshot mount ~/data before-rerun /tmp/before\n  varve snapshot delete ~/data before-rerun");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, Status (*work)(const Arguments&)) {
    CLI::App* one = command->add_subcommand(name, what);
    one->add_option("WHERE", arguments->where, "The store, or any path in a mount of it")->required();
    if (work != &list) {
      one->add_option("NAME", arguments->name, "Of the snapshot: letters, digits, '.', '_' and '-'")->required();
    }
    if (work == &mount) {
      one->add_option("DIR", arguments->directory, "An empty directory")->required();
    }
    one->callback([arguments, work, &status] { status = finish(work(*arguments)); });
  };
  add("create", "Make one of all that was written so far", &create);
  add("list", "When each was made, and what deleting it would free at once", &list);
  add("delete", "Free what it alone holds", &remove);
  add("mount", "Look into it, read-only", &mount);
}

}  // namespace varve::tools
