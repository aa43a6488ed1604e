// Options of a mount, from the command line and in mount(8)'s style.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"

namespace varve::tools {

struct MountSettings {
  std::string store, directory;
  bool foreground = false;
  bool read_only = false;
  bool allow_other = false;
  bool show_views = false;     ///< .varve is listed in the root
  bool faults = true;          ///< false: no fault can be armed
  bool accept_loss = false;    ///< mount a store whose log has lost changes
  bool supervise = false;      ///< start the daemon again when it dies
  std::string fault_schedule;  ///< TOML, armed before the store is opened; empty: none
  unsigned workers = 0;        ///< 0: one a core
  std::string device = "cpu";  ///< see codec::cuda::parse_device
  uint64_t cache_bytes = uint64_t{512} << 20;
  std::string log_file;  ///< empty: standard error in the foreground, else STORE/varve.log
  std::string log_level = "info";
  std::vector<std::string> kernel_options;  ///< noatime, nodev, ...
  // For mount(8):
  bool sloppy = false;  ///< unknown options are ignored
  bool fake = false;    ///< check, but do not mount
};

/// Adds a list such as "ro,noatime,cache=1G" to the settings; the last of contradicting words wins. What /etc/fstab
/// holds for others (defaults, nofail, _netdev, noauto, user, x-..., comment=...) is ignored. An unknown word: EINVAL,
/// with its name and those near it.
Status parse_mount_options(std::string_view list, MountSettings& settings);

/// "1048576", "512K", "64M", "2GiB". EINVAL with a sentence.
Result<uint64_t> parse_size(std::string_view text);

/// mount(8)'s way: arguments without the program's name. EINVAL with a sentence.
Status parse_helper_arguments(const std::vector<std::string>& arguments, MountSettings& settings);

}  // namespace varve::tools
