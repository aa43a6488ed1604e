// varve export: ordinary files out of a store that is not mounted, or out of a snapshot.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>

#include "fs/note_keys.h"
#include "index/index.h"
#include "index/snapshot.h"
#include "tools/commands.h"
#include "tools/manifest.h"
#include "tools/mount_point.h"
#include "tools/report.h"
#include "tools/store_place.h"
#include "tools/transfer_plain.h"
#include "tools/transfer_store.h"

namespace varve::tools {
namespace {

struct Arguments {
  std::string from, to;
  unsigned jobs = 0;
};

struct Source {
  std::string directory;  ///< of the store, or of the snapshot
  StorePlace place;
};

/// What STORE[@SNAPSHOT] names.
Result<Source> find_source(const std::string& from) {
  std::error_code ignored;
  const size_t sign = from.rfind('@');
  if (sign != std::string::npos && !std::filesystem::exists(from, ignored)) {
    VARVE_ASSIGN(StorePlace place, find_store(from.substr(0, sign)));
    VARVE_ASSIGN(std::string directory, index::find_snapshot(place.store, from.substr(sign + 1)));
    return Source{std::move(directory), std::move(place)};
  }
  VARVE_ASSIGN(StorePlace place, find_store(from));
  if (place.mountpoint) {
    return Error{EBUSY, fmt::format("{} is mounted on {}: copy from there (cp -a, rsync -aHAX), unmount it first, or "
                                    "make a snapshot and name it, {}@NAME",
                                    place.store, *place.mountpoint, from)};
  }
  return Source{place.store, std::move(place)};
}

Status check_destination(const std::string& to, const Source& source) {
  for (const std::string& store : {source.place.store, source.directory}) {
    if (is_inside(to, store)) {
      return Error{EINVAL, fmt::format("{} lies inside the store {}: choose a place outside it", to, store)};
    }
  }
  if (is_inside(source.place.store, to)) {
    return Error{EINVAL, fmt::format("the store {} lies inside {}: a file that is exported could take the place of one "
                                     "of its own; choose another directory",
                                     source.place.store, to)};
  }
  if (source.place.mountpoint && is_inside(to, *source.place.mountpoint)) {
    return Error{EINVAL, fmt::format("{} lies inside {}, where the store itself is mounted: choose a place outside it",
                                     to, *source.place.mountpoint)};
  }
  return {};
}

/// Files whose last content is in staging, or was when the snapshot was made.
Result<std::unordered_set<fs::InodeNumber>> unsealed_files(index::Index& index) {
  std::unordered_set<fs::InodeNumber> found;
  for (const std::string_view prefix : {fs::kStagingNotes, fs::kUnsyncedNotes}) {
    VARVE_TRY(index.notes(prefix, [&](std::string_view key, std::string_view) {
      found.insert(fs::number_in(key, prefix).value_or(0));
      return true;
    }));
  }
  return found;
}

/// False: not all is there.
Result<bool> export_all(const Arguments& arguments) {
  VARVE_ASSIGN(const Source source, find_source(arguments.from));
  VARVE_ASSIGN(const std::string to, absolute_path(arguments.to));
  VARVE_TRY(check_destination(to, source));
  index::IndexOptions index_options;
  index_options.read_only = true;
  VARVE_ASSIGN(auto index, index::Index::open(source.directory, index_options));
  if (!index::is_snapshot(source.directory)) {
    VARVE_TRY(check_sealed(*index));
  }
  VARVE_ASSIGN(const auto unsealed, unsealed_files(*index));
  fs::FileSystemOptions options;
  options.read_only = true;
  options.interpolate_damage = false;
  VARVE_ASSIGN(const auto files, fs::FileSystem::create(std::move(index), options));
  TransferReport report("exporting");
  const Status done = [&]() -> Status {
    VARVE_ASSIGN(const auto target, PlainTarget::open(to));
    VARVE_ASSIGN(const auto root, store_source(*files, unsealed));
    transfer(root, target->root(), worker_count(arguments.jobs), report);
    return target->finish();
  }();
  static_cast<void>(files->shut_down());
  VARVE_TRY(done);
  report.summarize();
  return report.failures() == 0;
}

}  // namespace

void add_export(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("export", "Ordinary files from a store that is not mounted, or from a snapshot");
  command->footer(
      "The files are those that a mount shows, with their holes, links, modes, times and extended attributes; owners\n"
      "are set by root alone. One that cannot be read is named, and the others go on. What has its name in DEST is\n"
      "whole; start it again where it was stopped: files that are there with the same size and time of modification\n"
      "are kept. Files of DEST that the store has not are left alone.\n"
      "Exit status: 0 all are there, and on the disk; 1 not all; 2 wrong use or an error.\n"
      "Examples:\n  varve export ~/store /backup/plain\n  varve export ~/data@before-rerun /tmp/before");
  command
      ->add_option("STORE", arguments->from,
                   "The store's directory; with @NAME, a snapshot of it or of what is mounted there")
      ->required();
  command->add_option("DEST", arguments->to, "Directory to write to; made if it is not there")->required();
  command->add_option("--jobs", arguments->jobs, "Files at a time; 0: one a core")->check(CLI::Range(0, 256));
  command->callback([arguments, &status] {
    const auto whole = export_all(*arguments);
    status = !whole.ok() ? fail(whole.error()) : *whole ? kDone : kNo;
  });
}

}  // namespace varve::tools
