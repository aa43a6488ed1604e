// The vocabulary of schedules, journals and status: seams, operations, kinds of files, models, and their names.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace varve::faults {

/// Where a fault stands: at what programs read and write, or at what the store's disk reads and writes.
enum class Seam : uint8_t { app, device };
inline constexpr std::array<std::string_view, 2> kSeamNames = {"app", "device"};

enum class Op : uint8_t {
  read,
  write,
  open,
  create,
  close,  ///< app: each close(2) of a file that was opened for writing; content models then change what is stored
  fsync,
  truncate,
  allocate,
  seek,
  lookup,
  getattr,
  setattr,
  readdir,
  mkdir,
  rmdir,
  unlink,
  rename,
  link,
  symlink,
  readlink,
  setxattr,
  getxattr,
  statfs,
};
inline constexpr std::array<std::string_view, 23> kOpNames = {
    "read",   "write",  "open",    "create",   "close",    "fsync",    "truncate", "allocate",
    "seek",   "lookup", "getattr", "setattr",  "readdir",  "mkdir",    "rmdir",    "unlink",
    "rename", "link",   "symlink", "readlink", "setxattr", "getxattr", "statfs"};
inline constexpr size_t kOps = kOpNames.size();

/// The operations that come at a seam, by number.
inline constexpr bool comes_at(Seam seam, Op op) {
  switch (op) {
    case Op::lookup:
    case Op::getattr:
    case Op::setattr:
    case Op::rmdir:
    case Op::link:
    case Op::symlink:
    case Op::readlink:
    case Op::setxattr:
    case Op::getxattr:
      return seam == Seam::app;
    default:
      return true;
  }
}

/// What a file of the store is.
enum class FileKind : uint8_t { none, wal, manifest, table, pack, staging, other };
inline constexpr std::array<std::string_view, 7> kFileKindNames = {"none", "wal",     "manifest", "table",
                                                                   "pack", "staging", "other"};
/// Of a path from the store's root, such as "packs/00000001.pack".
FileKind file_kind(std::string_view path);

enum class Model : uint8_t {
  count,  ///< nothing happens; matching operations are counted
  bit_flip,
  byte_corrupt,
  zero_block,
  stuck_page,
  shorn_write,
  torn_write,
  dropped_write,
  stale_read,
  misdirected_write,
  misdirected_read,
  unserializable_write,
  lost_sync,
  power_cut,
  latent_sector_error,
  read_disturb,
  retention,
  dead_device,
  crash,
  kill_caller,
  error,  ///< "errno" in schedules: a macro in C++
  delay,
  short_read,
  short_write,
  enospc_at,
};
inline constexpr std::array<std::string_view, 25> kModelNames = {"count",
                                                                 "bit_flip",
                                                                 "byte_corrupt",
                                                                 "zero_block",
                                                                 "stuck_page",
                                                                 "shorn_write",
                                                                 "torn_write",
                                                                 "dropped_write",
                                                                 "stale_read",
                                                                 "misdirected_write",
                                                                 "misdirected_read",
                                                                 "unserializable_write",
                                                                 "lost_sync",
                                                                 "power_cut",
                                                                 "latent_sector_error",
                                                                 "read_disturb",
                                                                 "retention",
                                                                 "dead_device",
                                                                 "crash",
                                                                 "kill_caller",
                                                                 "errno",
                                                                 "delay",
                                                                 "short_read",
                                                                 "short_write",
                                                                 "enospc_at"};

template <typename Enum, size_t N>
std::string_view name_in(const std::array<std::string_view, N>& names, Enum value) {
  return names[static_cast<size_t>(value)];
}
template <typename Enum, size_t N>
std::optional<Enum> find_in(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) {
      return static_cast<Enum>(i);
    }
  }
  return std::nullopt;
}
inline std::string_view name_of(Seam seam) { return name_in(kSeamNames, seam); }
inline std::string_view name_of(Op op) { return name_in(kOpNames, op); }
inline std::string_view name_of(FileKind kind) { return name_in(kFileKindNames, kind); }
inline std::string_view name_of(Model model) { return name_in(kModelNames, model); }

/// The one of `known` that `word` was probably meant to be: by letters that are wrong, missing, too many or swapped.
/// Empty: none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

/// "EIO" -> 5. Nothing: not an errno of Linux.
std::optional<int> errno_of(std::string_view name);
/// 5 -> "EIO"; a number without a name as digits.
std::string errno_name(int code);

}  // namespace varve::faults
