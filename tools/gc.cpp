// varve gc: space that nothing refers to any more is given back now, not when enough has come together.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "index/index.h"
#include "tools/commands.h"
#include "tools/mount_point.h"
#include "tools/report.h"
#include "tools/store_place.h"

namespace varve::tools {
namespace {

Status collect(const std::string& path) {
  VARVE_ASSIGN(const StorePlace place, find_store(path));
  if (place.mountpoint) {
    VARVE_ASSIGN(const std::string freed, read_text(*place.mountpoint + "/.varve/gc"));  // collects
    fmt::print("{} freed\n", human_size(std::strtoull(freed.c_str(), nullptr, 10)));
    return {};
  }
  VARVE_ASSIGN(const auto index, index::Index::open(place.store, {}));
  VARVE_ASSIGN(const uint64_t freed, index->collect());
  fmt::print("{} freed\n", human_size(freed));
  return {};
}

}  // namespace

void add_gc(CLI::App& app, int& status) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("gc", "Give back space of what was removed or written anew");
  command->footer("A mount does so by itself from time to time.\nExamples:\n  varve gc ~/data\n  varve gc /data/store");
  command->add_option("WHERE", *path, "The store, or any path in a mount of it")->required();
  command->callback([path, &status] { status = finish(collect(*path)); });
}

}  // namespace varve::tools
