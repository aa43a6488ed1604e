// varve policy: show, replace and try the rules that give arrays their bounds.
#include "fs/policy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "index/index.h"
#include "index/store_directory.h"
#include "tools/commands.h"
#include "tools/mount_point.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

constexpr const char* kBoundName = "user.varve.bound";

std::string reason(int code) { return std::generic_category().message(code); }

/// Where the rules are: in a mount, or in a store that is not mounted.
struct Place {
  std::optional<MountedPath> mount;
  std::string store;  ///< without a mount
  std::string policy_file() const { return mount ? mount->control("policy.toml") : store + "/policy.toml"; }
};

Result<Place> find_place(const std::string& path) {
  if (auto mounted = find_mount(path); mounted.ok()) {
    return Place{*std::move(mounted), {}};
  }
  VARVE_ASSIGN(const std::string store, absolute_path(path));
  std::error_code problem;
  if (!std::filesystem::is_directory(store, problem)) {
    return Error{ENOENT, fmt::format("{} is neither in a Varve mount nor a store: name a mounted directory, or the "
                                     "store itself",
                                     path)};
  }
  const auto state = index::inspect_store(*index::posix_device(), store);
  if (!state.ok() || *state != index::StoreState::present) {
    return Error{
        state.ok() ? ENOENT : state.error().code,
        fmt::format("{} is neither in a Varve mount nor a store: name a mounted directory, or the store itself", path)};
  }
  return Place{std::nullopt, store};
}

/// The text of the rules; none yet: empty.
Result<std::string> policy_text(const Place& place) {
  auto text = read_text(place.policy_file());
  if (!text.ok() && text.error().code == ENOENT) {
    return std::string();
  }
  return text;
}

Status show(const std::string& path) {
  VARVE_ASSIGN(const Place place, find_place(path));
  VARVE_ASSIGN(const std::string text, policy_text(place));
  if (text.empty()) {
    fmt::print("# No rules: every array is stored losslessly unless {} says otherwise.\n", kBoundName);
  }
  fmt::print("{}", text);
  return {};
}

Status write_all(int descriptor, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      return Error{errno, fmt::format("cannot write {}: {}", path, reason(errno))};
    }
    text.remove_prefix(count > 0 ? static_cast<size_t>(count) : 0);
  }
  return {};
}

/// Writes the virtual file; the mount checks the rules once more and takes all of them or none.
Status set_in_mount(const std::string& path, const std::string& text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (descriptor < 0) {
    return Error{errno, fmt::format("cannot open {}: {}; only the owner of the mount's root may change the rules", path,
                                    reason(errno))};
  }
  Status written = write_all(descriptor, path, text.empty() ? "\n" : text);  // what is not written is not obeyed
  if (::close(descriptor) != 0 && written.ok()) {
    return Error{errno, fmt::format("the mount refused the rules ({}): its log says why", reason(errno))};
  }
  return written;
}

/// Replaces the file in one step that survives a power cut. A mount of the store takes it up within seconds.
Status set_in_store(const std::string& store, const std::string& path, const std::string& text) {
  const std::string fresh = fmt::format("{}.{}.new", path, getpid());
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return Error{errno, fmt::format("cannot write into the store {}: {}", store, reason(errno))};
  }
  Status status = write_all(descriptor, fresh, text);
  if (status.ok() && ::fsync(descriptor) != 0) {
    status = Error{errno, fmt::format("cannot write {}: {}", fresh, reason(errno))};
  }
  ::close(descriptor);
  if (status.ok() && ::rename(fresh.c_str(), path.c_str()) != 0) {
    status = Error{errno, fmt::format("cannot replace {}: {}", path, reason(errno))};
  }
  if (!status.ok()) {
    ::unlink(fresh.c_str());
    return status;
  }
  return index::posix_device()->sync_directory(store);
}

Status set(const std::string& path, const std::string& file) {
  VARVE_ASSIGN(const Place place, find_place(path));
  VARVE_ASSIGN(const std::string text, read_text(file));
  if (const auto policy = fs::Policy::parse(text); !policy.ok()) {
    return Error{policy.error().code,
                 fmt::format("{} is refused, the rules stay as they were: {}", file, policy.error().text)};
  }
  return place.mount ? set_in_mount(place.policy_file(), text) : set_in_store(place.store, place.policy_file(), text);
}

struct Inherited {
  codec::Bound bound;
  std::string where;  ///< the file or directory that has the attribute
};

Result<std::optional<Inherited>> inherited_of(std::string_view text, const std::string& where) {
  auto bound = codec::parse_bound(text);
  if (!bound.ok()) {
    return Error{bound.error().code, fmt::format("{} of {}: {}", kBoundName, where, bound.error().text)};
  }
  return std::optional(Inherited{*bound, where});
}

/// The nearest user.varve.bound, from the file upwards to the mount's root.
Result<std::optional<Inherited>> inherited_in_mount(const std::string& mountpoint, const std::string& relative) {
  for (std::filesystem::path path = std::filesystem::path(mountpoint) / relative;; path = path.parent_path()) {
    std::array<char, 256> value{};
    const ssize_t length = ::getxattr(path.c_str(), kBoundName, value.data(), value.size());
    if (length >= 0) {
      return inherited_of({value.data(), static_cast<size_t>(length)}, path.string());
    }
    if (path == mountpoint || !path.has_relative_path()) {
      return std::optional<Inherited>();
    }
  }
}

Result<std::optional<Inherited>> inherited_in_store(const std::string& store, const std::string& relative) {
  index::IndexOptions options;
  options.read_only = true;
  VARVE_ASSIGN(const auto index, index::Index::open(store, options));
  std::optional<Inherited> nearest;
  std::string path = "/";
  index::InodeNumber inode = index::kRootInode;
  const std::filesystem::path parts(relative);
  for (auto part = parts.begin();; ++part) {
    VARVE_ASSIGN(const auto value, index->xattr(inode, kBoundName));
    if (value.has_value()) {
      VARVE_ASSIGN(nearest, inherited_of(*value, path));
    }
    if (part == parts.end()) {
      break;
    }
    VARVE_ASSIGN(const auto entry, index->lookup(inode, part->string()));
    if (!entry.has_value()) {
      break;
    }
    inode = entry->inode;
    path = (std::filesystem::path(path) / *part).string();
  }
  return nearest;
}

/// Prints the bound that a measurement in `relative` gets, and what gives it. The order is that of Policy::for_file.
void print_choice(const fs::Policy& policy, const std::string& relative, const std::string& dataset,
                  const std::optional<Inherited>& inherited) {
  const auto print_rule = [&](const fs::PolicyRule& rule) {
    fmt::print("{}\n  from the rule in line {}: path \"{}\"{}{}\n", codec::to_string(*rule.bound), rule.line, rule.path,
               rule.dataset.empty() ? "" : fmt::format(", dataset \"{}\"", rule.dataset),
               rule.integers ? ", integers too" : "");
  };
  for (const fs::PolicyRule& rule : policy.rules()) {
    if (rule.bound && !rule.dataset.empty() && fs::glob_match(rule.path, relative) &&
        fs::dataset_match(rule.dataset, dataset)) {
      print_rule(rule);
      return;
    }
  }
  if (inherited) {
    fmt::print("{}\n  from {} of {}\n", codec::to_string(inherited->bound), kBoundName, inherited->where);
    return;
  }
  for (const fs::PolicyRule& rule : policy.rules()) {
    if (rule.bound && rule.dataset.empty() && fs::glob_match(rule.path, relative)) {
      print_rule(rule);
      return;
    }
  }
  fmt::print("lossless\n  no rule matches, and there is no {} on the file or above it\n", kBoundName);
}

Status test(const std::string& where, const std::string& path, const std::string& dataset) {
  VARVE_ASSIGN(const Place place, find_place(where));
  std::string relative = path;
  if (place.mount) {
    if (path.starts_with('/')) {
      VARVE_ASSIGN(const std::string absolute, absolute_path(path));
      if (is_inside(absolute, place.mount->mountpoint)) {
        relative = absolute.substr(std::min(absolute.size(), place.mount->mountpoint.size() + 1));
      }
    } else if (!place.mount->relative.empty()) {
      relative = place.mount->relative + "/" + path;
    }
  }
  relative.erase(0, relative.find_first_not_of('/'));
  VARVE_ASSIGN(const std::string text, policy_text(place));
  VARVE_ASSIGN(const fs::Policy policy, fs::Policy::parse(text));
  VARVE_ASSIGN(const auto inherited, place.mount ? inherited_in_mount(place.mount->mountpoint, relative)
                                                 : inherited_in_store(place.store, relative));
  print_choice(policy, relative, dataset, inherited);
  if (policy.on_damage(relative, dataset) == fs::OnDamage::degrade) {
    fmt::print("  damaged elements are interpolated (on_damage = \"degrade\")\n");
  }
  if (dataset.empty()) {
    fmt::print("  for floating-point arrays of measurements; name a DATASET to try rules that name one\n");
  }
  return {};
}

}  // namespace

void add_policy(CLI::App& app, int& status) {
  struct Arguments {
    std::string place, file, path, dataset;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("policy", "Show, replace or try the rules that give arrays their error bounds");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  varve policy show ~/data\n"
      "  varve policy set ~/data rules.toml\n"
      "  varve policy test ~/data runs/7/out.h5 /fields/pressure\n"
      "A file of rules, the first that matches wins:\n"
      "  [[rule]]\n"
      "  path = \"runs/**/*.h5\"\n"
      "  dataset = \"/fields/*\"\n"
      "  bound = \"rel:1e-3\"\n"
      "on_damage = \"degrade\", at the top or in a rule, interpolates elements that a drive damaged; default: "
      "\"eio\".\n"
      "Bounds: abs:V, rel:V (of the range), abs:V+rel:V, pwrel:V (of each value), psnr:DB, ratio:R, bits:B (of the\n"
      "mantissa), lossless. Integers keep all their bits but where a rule has 'integers = true' or the dataset's "
      "name.");
  const auto place = [&](CLI::App* sub) {
    sub->add_option("PLACE", arguments->place, "A mounted directory, or a store")->required();
  };
  CLI::App* show_command = command->add_subcommand("show", "Print the rules in force");
  place(show_command);
  show_command->callback([arguments, &status] { status = finish(show(arguments->place)); });
  CLI::App* set_command =
      command->add_subcommand("set", "Check rules and put them in force for files written from now on");
  place(set_command);
  set_command->add_option("FILE", arguments->file, "The rules; - for standard input")->required();
  set_command->callback([arguments, &status] { status = finish(set(arguments->place, arguments->file)); });
  CLI::App* test_command = command->add_subcommand("test", "Say which bound a file gets, and what gives it");
  place(test_command);
  test_command->add_option("PATH", arguments->path, "Inside the mount; need not exist")->required();
  test_command->add_option("DATASET", arguments->dataset, "Name of an array in it, such as /group/pressure");
  test_command->callback(
      [arguments, &status] { status = finish(test(arguments->place, arguments->path, arguments->dataset)); });
}

}  // namespace varve::tools
