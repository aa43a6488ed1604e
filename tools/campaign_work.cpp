// A run's folder: its store, its mount, and the files in it.
#include "tools/campaign_work.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <random>
#include <system_error>
#include <thread>

#include "faults/control.h"
#include "fs/fuse_mount_table.h"
#include "tools/mount_point.h"

namespace varve::tools {
namespace {

namespace files = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kStartLimit = 60s;
constexpr auto kStopLimit = 120s;

Error system_error_of(std::string_view what, const std::error_code& code) {
  return {code.value() != 0 ? code.value() : EIO, fmt::format("{}: {}", what, code.message())};
}

std::string new_key() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}{:08x}", source(), source(), source());
}

/// Writes a control file: in effect when this returns.
Status write_control(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good() ? Status() : Status(Error{EIO, fmt::format("{} was refused: see the mount's log", path)});
}

}  // namespace

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string last_line(std::string_view text) {
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

Result<std::vector<std::string>> files_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code problem;
  for (files::recursive_directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
    if (it->symlink_status(problem).type() != files::file_type::directory && !problem) {
      found.push_back(it->path().lexically_relative(folder).string());
    }
  }
  std::ranges::sort(found);
  return problem ? Result<std::vector<std::string>>(system_error_of("cannot list " + folder, problem)) : found;
}

Kind kind_of(const std::string& path) {
  std::error_code problem;
  const auto itself = files::symlink_status(path, problem).type();
  if (itself == files::file_type::not_found) {
    return Kind::missing;
  }
  if (problem) {
    return Kind::unreadable;
  }
  if (files::status(path, problem).type() == files::file_type::regular) {
    return Kind::content;
  }
  return itself == files::file_type::symlink ? Kind::link : Kind::special;
}

std::string link_text(const std::string& path, const std::string& root) {
  std::error_code problem;
  const std::string text = files::read_symlink(path, problem).string();
  return is_inside(text, root) ? "{root}" + text.substr(root.size()) : text;
}

namespace {

void copy_one(const std::string& from, const std::string& to, const std::string& path, std::error_code& problem) {
  const std::string source = from + "/" + path;
  const std::string target = to + "/" + path;
  struct stat facts {};
  if (kind_of(source) == Kind::content) {
    files::copy_file(source, target, files::copy_options::overwrite_existing, problem);
  } else if (kind_of(source) == Kind::link) {
    const std::string text = files::read_symlink(source, problem).string();
    files::create_symlink(is_inside(text, from) ? to + text.substr(from.size()) : text, target, problem);
  } else if (::lstat(source.c_str(), &facts) != 0 || ::mknod(target.c_str(), facts.st_mode, facts.st_rdev) != 0) {
    problem.assign(errno, std::generic_category());
  }
}

}  // namespace

Status copy_tree(const std::string& from, const std::string& to) {
  std::error_code problem;
  files::create_directory(to, problem);
  std::string path;
  for (files::recursive_directory_iterator it(from, problem), end; !problem && it != end; it.increment(problem)) {
    path = it->path().lexically_relative(from).string();
    if (it->symlink_status(problem).type() == files::file_type::directory) {
      files::create_directory(to + "/" + path, it->path(), problem);
    } else if (!problem) {
      copy_one(from, to, path, problem);
    }
    if (problem) {
      break;
    }
  }
  if (problem && (problem.value() == EIO || problem.value() == ENOSPC)) {  // the library calls a full disk EIO
    return unwritten(to);
  }
  return problem ? Status(system_error_of(
                       fmt::format("cannot copy {} to {}", path.empty() ? from : from + "/" + path, to), problem))
                 : Status();
}

Result<Ending> run_word(std::string_view key, const Program& program, std::chrono::milliseconds limit,
                        const std::atomic<bool>& stop) {
  auto ended = tools::run(program, limit, &stop);
  if (stop) {
    return Error{EINTR, "interrupted; the same command goes on"};
  }
  return ended.ok()
             ? std::move(ended)
             : Error{ended.error().code, fmt::format("'{}': {}; programs are looked for in PATH, or by a path from "
                                                     "the mount's root or with {{here}}",
                                                     key, ended.error().text)};
}

CampaignRunner::Work::Work(const std::string& place)
    : folder(place), store(place + "/store"), root(place + "/mnt"), log(place + "/log"), key(new_key()) {
  std::error_code ignored;
  files::remove_all(folder, ignored);
  files::create_directories(root, ignored);
}

CampaignRunner::Work::~Work() {
  if (keep) {
    if (daemon) {
      static_cast<void>(stop());
    }
    return;
  }
  if (daemon) {  // nobody needs the store any more
    daemon->kill();
  }
  static_cast<void>(fs::unmount(root, true));  // a daemon that did not answer may have left a mount
  std::error_code ignored;
  files::remove_all(folder, ignored);
}

Status CampaignRunner::Work::tell(const std::string& command, const std::string& text) const {
  return write_control(control("faults/" + command), faults::Control::with_key(key, text));
}

Status CampaignRunner::Work::mount() {
  VARVE_ASSIGN(Child child, Child::start({{"/proc/self/exe", "mount", "-f", "--workers", "1", store, root},
                                          "",
                                          log,
                                          log,
                                          fmt::format("{}={}", faults::Control::kKeyVariable, key)}));
  daemon.emplace(std::move(child));
  const auto deadline = std::chrono::steady_clock::now() + kStartLimit;
  const std::string pid = fmt::format("{}\n", daemon->pid());
  while (text_of(control("pid")) != pid) {
    if (daemon->wait(0ms) || std::chrono::steady_clock::now() > deadline) {
      daemon.reset();
      return Error{EIO, fmt::format("cannot mount: {}", last_line(text_of(log)))};
    }
    std::this_thread::sleep_for(5ms);
  }
  return {};
}

void CampaignRunner::Work::let_go() {
  constexpr auto kPatience = 10s;
  journal = text_of(control("faults/journal"));
  auto disarm = Child::start({{"/proc/self/exe", "faults", "disarm", root},
                              "",
                              log,
                              log,
                              fmt::format("{}={}", faults::Control::kKeyVariable, key)});
  if (!disarm.ok() || !disarm->wait(kPatience)) {
    daemon->kill();
    daemon_died = true;
  }
}

std::optional<Ending> CampaignRunner::Work::stop() {
  static_cast<void>(fs::unmount(root, true));  // where that fails, nobody unmounts, and the daemon does not end
  auto ended = daemon->wait(kStopLimit);
  if (!ended) {
    daemon->kill();
  }
  return ended;
}

Status CampaignRunner::Work::mount_again() {
  static_cast<void>(fs::unmount(root, true));
  daemon.reset();
  return mount();
}

}  // namespace varve::tools
