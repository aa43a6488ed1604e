#include "index/store_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "index/keys.h"

namespace varve::index {
namespace {

constexpr std::string_view kVersionPrefix = "varve store ";

std::string version_text(uint64_t version = kStoreVersion) { return fmt::format("{}{}\n", kVersionPrefix, version); }

Result<std::string> read_text(Device& device, const std::string& path) {
  VARVE_ASSIGN(const auto file, device.open(path, Device::Mode::read));
  std::string text(64, '\0');
  VARVE_ASSIGN(const size_t got, file->read(0, std::as_writable_bytes(std::span(text))));
  text.resize(got);
  return text;
}

}  // namespace

Result<std::unique_ptr<StoreLock>> StoreLock::take(const std::string& store, bool shared) {
  const std::string path = store + "/LOCK";
  auto lock = FileLock::take(path, shared ? FileLock::Mode::shared : FileLock::Mode::exclusive);
  if (lock.ok()) {
    return std::unique_ptr<StoreLock>(new StoreLock(*std::move(lock)));
  }
  const Error& error = lock.error();
  if (shared && error.code == ENOENT) {
    return std::unique_ptr<StoreLock>();  // a copy on a read-only disk: nobody can write it either
  }
  return Error{error.code,
               error.code == EBUSY
                   ? fmt::format("store {} is in use by {}; unmount it there first", store, FileLock::holder(path))
                   : fmt::format("{}; the store must be on a file system with locks, writable by you", error.text)};
}

std::optional<int> StoreLock::writer(const std::string& store) { return FileLock::writer(store + "/LOCK"); }

Status check_version(uint64_t version, const std::string& where) {
  if (version >= kOldestVersion && version <= kStoreVersion) {
    return {};
  }
  return Error{EPROTO,
               fmt::format("{} says format version {}, this program knows versions {} to {}; use {} varve", where,
                           version, kOldestVersion, kStoreVersion, version > kStoreVersion ? "a newer" : "an older")};
}

Status check_version_row(const std::optional<std::string>& row, const std::string& where) {
  const auto version = row ? parse_count(*row) : std::nullopt;
  return version ? check_version(*version, where)
                 : Status(Error{EUCLEAN, fmt::format("the index database {} has lost its format version, which every "
                                                     "store has: restore the store from a copy",
                                                     where)});
}

Result<StoreState> inspect_store(Device& device, const std::string& store) {
  auto names = device.list(store);
  if (!names.ok()) {
    return names.error().code == ENOENT ? Result<StoreState>(StoreState::empty) : names.error();
  }
  const std::string path = store + "/VERSION";
  if (std::find(names->begin(), names->end(), "VERSION") != names->end()) {
    VARVE_ASSIGN(const std::string text, read_text(device, path));
    const std::string ours = version_text();
    uint64_t version = 0;
    const char* digits = text.data() + std::min(text.size(), kVersionPrefix.size());
    const auto parsed = std::from_chars(digits, text.data() + text.size(), version);
    if (text.starts_with(kVersionPrefix) && parsed.ec == std::errc() && text.ends_with('\n')) {
      VARVE_TRY(check_version(version, path));
      if (text == version_text(version)) {
        return StoreState::present;
      }
    }
    if (!std::string_view(ours).starts_with(text)) {  // a beginning of it: whoever made the store was interrupted
      return Error{EPROTO, fmt::format("{} holds no version of a varve store; restore it (\"{}{}\") if this is one",
                                       path, kVersionPrefix, kStoreVersion)};
    }
  }
  for (const auto& name : *names) {
    constexpr std::array<std::string_view, 12> kOurs = {"VERSION",    "LOCK",        "db",         "packs",
                                                        "staging",    "policy.toml", "lost+found", "db-synced",
                                                        "db-written", "db-tables",   "snapshots",  "reserve"};
    if (std::find(kOurs.begin(), kOurs.end(), name) == kOurs.end()) {
      return Error{ENOTEMPTY, fmt::format("{} is no varve store and holds other things (such as {}); name an empty "
                                          "directory or a new one",
                                          store, name)};
    }
  }
  return StoreState::empty;
}

Result<bool> version_is_ours(Device& device, const std::string& store) {
  VARVE_ASSIGN(const std::string text, read_text(device, store + "/VERSION"));
  return text == version_text();
}

Status write_version(Device& device, const std::string& store) {
  VARVE_ASSIGN(const auto file, device.open(store + "/VERSION", Device::Mode::create));
  const std::string text = version_text();
  VARVE_TRY(file->write(0, std::as_bytes(std::span(text))));  // over another version's, in one step
  VARVE_TRY(file->truncate(text.size()));
  VARVE_TRY(file->sync());
  return device.sync_directory(store);
}

}  // namespace varve::index
