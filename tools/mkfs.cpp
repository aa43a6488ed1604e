// varve mkfs: makes an empty store.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "index/index.h"
#include "index/store_directory.h"
#include "tools/commands.h"
#include "tools/mount_point.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

Status make_store(const std::string& store) {
  VARVE_ASSIGN(const std::string path, absolute_path(store));
  std::error_code problem;
  const bool empty = !std::filesystem::exists(path, problem) || std::filesystem::is_empty(path, problem);
  if (problem) {
    return Error{problem.value(), fmt::format("cannot look into {}: {}; name a directory that you can write to", store,
                                              problem.message())};
  }
  if (!empty) {
    VARVE_ASSIGN(const auto state, index::inspect_store(*index::posix_device(), path));
    return Error{
        EEXIST,
        state == index::StoreState::present
            ? fmt::format("{} already holds a store: mount it (varve mount {} DIR), or remove it first", store, store)
            : fmt::format("{} is not empty: name an empty directory or a new one", store)};
  }
  VARVE_ASSIGN(const auto index, index::Index::open(path, {}));
  VARVE_TRY(index->sync());
  fmt::print("made an empty store in {}\n", store);
  return {};
}

}  // namespace

void add_mkfs(CLI::App& app, int& status) {
  auto store = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("mkfs", "Make an empty store (mount does so by itself)");
  command->footer("Example:\n  varve mkfs /data/store");
  command->add_option("STORE", *store, "A new or empty directory")->required();
  command->callback([store, &status] { status = finish(make_store(*store)); });
}

}  // namespace varve::tools
