// What is mounted where, from /proc/self/mountinfo, and the ways to take a mount off.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"

namespace varve::fs {

inline constexpr std::string_view kMountType = "fuse.varve";  ///< MountEntry::type of Varve's mounts

struct MountEntry {
  unsigned major = 0, minor = 0;  ///< of st_dev of everything inside
  std::string mountpoint;
  std::string type;    ///< "ext4", "fuse.varve", ...
  std::string source;  ///< of a Varve mount: the store
};

/// Parses the text of a mountinfo file; lines that make no sense are left out. In mount order.
std::vector<MountEntry> parse_mount_table(std::string_view text);
/// The mounts of this process's namespace; empty if /proc is not there.
std::vector<MountEntry> mount_table();
/// The topmost mount at exactly `path` (absolute, without symbolic links).
std::optional<MountEntry> mount_at(const std::string& path);
/// Is it this mount that is topmost at its directory?
bool is_topmost(const MountEntry& entry);

/// Ends the connection of a FUSE mount: whoever waits for its daemon, or asks it anything later, gets ENOTCONN. Asks
/// the mount nothing and does not wait. Through /sys/fs/fuse/connections, where whoever mounted may do so, else by
/// umount(2), for root, which takes the mount off as well where nobody uses it. EPERM with a sentence: neither can be
/// had.
Status abort_connection(const MountEntry& entry);

/// Unmounts `path`: by umount(2) for root, by fusermount3 otherwise. `lazily`: detach now even if busy. Errors: EBUSY,
/// EINVAL (nothing is mounted there), EPERM, ENOENT (no fusermount3), each with a sentence.
Status unmount(const std::string& path, bool lazily);

}  // namespace varve::fs
