#include "tools/mount_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>

#include "codec/cuda/device_codec.h"

namespace varve::tools {
namespace {

/// For libfuse, which hands them to the kernel.
constexpr std::array<std::string_view, 13> kKernelWords = {"noatime", "nodiratime",  "nosuid",   "suid",  "nodev",
                                                           "dev",     "noexec",      "exec",     "async", "sync",
                                                           "dirsync", "nosymfollow", "symfollow"};
/// For mount(8) and systemd, or without a meaning here.
constexpr std::array<std::string_view, 25> kIgnoredWords = {
    "defaults",   "nofail", "fail",  "_netdev",  "noauto",   "auto",       "user",        "nouser",        "users",
    "owner",      "group",  "atime", "diratime", "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime",
    "nolazytime", "silent", "loud",  "mand",     "nomand",   "iversion",   "noiversion"};
constexpr std::array<std::string_view, 6> kIgnoredPrefixes = {"x-", "X-", "comment=", "user=", "uhelper=", "helper="};
constexpr std::array<std::string_view, 13> kOwnWords = {
    "show_views", "supervise", "ro",       "rw",   "allow_other", "accept_loss", "faults",
    "nofaults",   "cache=",    "workers=", "log=", "log_level=",  "device="};
constexpr std::array<std::string_view, 4> kLogLevels = {"error", "warning", "info", "debug"};
constexpr unsigned kMostWorkers = 1024;

template <size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// Insertions, deletions and replacements between two words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

Error unknown(std::string_view word) {
  std::vector<std::string_view> near;
  const std::string_view name = word.substr(0, word.find('='));
  const auto consider = [&](std::string_view known) {
    const std::string_view bare = known.substr(0, known.find('='));
    if (distance(name, bare) <= std::max<size_t>(1, bare.size() / 3)) {
      near.push_back(known);
    }
  };
  std::ranges::for_each(kOwnWords, consider);
  std::ranges::for_each(kKernelWords, consider);
  std::ranges::for_each(kIgnoredWords, consider);
  const std::string advice =
      near.empty() ? fmt::format("Known: {}, {}", fmt::join(kOwnWords, ", "), fmt::join(kKernelWords, ", "))
                   : fmt::format("Did you mean {}?", fmt::join(near, " or "));
  return {EINVAL, fmt::format("unknown mount option \"{}\". {}", word, advice)};
}

Result<unsigned> parse_workers(std::string_view text) {
  unsigned value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value > kMostWorkers) {
    return Error{EINVAL, fmt::format("workers=\"{}\" is not a number of threads: give 0 (one a core) to {}", text,
                                     kMostWorkers)};
  }
  return value;
}

/// A word of our own with its value; nothing if it is none.
Result<bool> take_own(std::string_view word, MountSettings& settings) {
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  if (word == "ro" || word == "rw") {
    settings.read_only = word == "ro";
  } else if (word == "allow_other") {
    settings.allow_other = true;
  } else if (word == "show_views") {
    settings.show_views = true;
  } else if (word == "supervise") {
    settings.supervise = true;
  } else if (word == "accept_loss") {
    settings.accept_loss = true;
  } else if (word == "faults" || word == "nofaults") {
    settings.faults = word == "faults";
  } else if (name == "cache" && equals != std::string_view::npos) {
    VARVE_ASSIGN(settings.cache_bytes, parse_size(value));
  } else if (name == "workers" && equals != std::string_view::npos) {
    VARVE_ASSIGN(settings.workers, parse_workers(value));
  } else if (name == "device" && equals != std::string_view::npos) {
    VARVE_TRY(codec::cuda::parse_device(value));
    settings.device = value;
  } else if (name == "log" && !value.empty()) {
    settings.log_file = value;
  } else if (name == "log_level" && equals != std::string_view::npos) {
    if (!contains(kLogLevels, value)) {
      return Error{EINVAL, fmt::format("log_level=\"{}\" is none: give {}", value, fmt::join(kLogLevels, ", "))};
    }
    settings.log_level = value;
  } else {
    return false;
  }
  return true;
}

Status take_word(std::string_view word, MountSettings& settings) {
  VARVE_ASSIGN(const bool own, take_own(word, settings));
  if (own || contains(kIgnoredWords, word) ||
      std::ranges::any_of(kIgnoredPrefixes, [&](std::string_view prefix) { return word.starts_with(prefix); })) {
    return {};
  }
  if (contains(kKernelWords, word)) {
    settings.kernel_options.emplace_back(word);
    return {};
  }
  if (word == "remount") {
    return Error{EINVAL, "a Varve mount cannot be remounted: unmount it (varve umount DIR) and mount it again"};
  }
  return settings.sloppy ? Status() : Status(unknown(word));
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kUnits = "kmgt";
  unsigned shift = 0;
  bool known = unit.empty() || unit == "b";
  if (!known && kUnits.find(unit.front()) != std::string_view::npos) {
    shift = 10 * (static_cast<unsigned>(kUnits.find(unit.front())) + 1);
    const std::string_view rest = std::string_view(unit).substr(1);
    known = rest.empty() || rest == "b" || rest == "ib";
  }
  if (code != std::errc() || !known || value > (UINT64_MAX >> shift)) {
    return Error{EINVAL, fmt::format("\"{}\" is not a size: give bytes, or a number with K, M, G or T (512M)", text)};
  }
  return value << shift;
}

Status parse_mount_options(std::string_view list, MountSettings& settings) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) {
      VARVE_TRY(take_word(list.substr(0, comma), settings));
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return {};
}

Status parse_helper_arguments(const std::vector<std::string>& arguments, MountSettings& settings) {
  constexpr std::string_view kUsage = "use: mount.varve STORE DIR [-sfnv] [-N namespace] [-t type] [-o options]";
  std::vector<std::string> places;
  std::vector<std::string> lists;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with('-') || word.size() < 2) {
      places.push_back(word);
      continue;
    }
    for (size_t at = 1; at < word.size(); ++at) {
      const char flag = word[at];
      if (flag == 'o' || flag == 'N' || flag == 't') {  // the value: the rest of the word, or the next one
        const bool joined = at + 1 < word.size();
        if (!joined && i + 1 == arguments.size()) {
          return Error{EINVAL, fmt::format("-{} lacks its value; {}", flag, kUsage)};
        }
        const std::string value = joined ? word.substr(at + 1) : arguments[++i];
        if (flag == 'o') {
          lists.push_back(value);
        }
        break;
      }
      if (std::string_view("sfnvrw").find(flag) == std::string_view::npos) {
        return Error{EINVAL, fmt::format("unknown option -{}; {}", flag, kUsage)};
      }
      settings.sloppy |= flag == 's';
      settings.fake |= flag == 'f';
      settings.read_only = flag == 'r' || (flag != 'w' && settings.read_only);
    }
  }
  if (places.size() != 2) {
    return Error{EINVAL, fmt::format("a store and a directory are needed; {}", kUsage)};
  }
  settings.store = places[0];
  settings.directory = places[1];
  for (const std::string& list : lists) {
    VARVE_TRY(parse_mount_options(list, settings));
  }
  return {};
}

}  // namespace varve::tools
