// varve web: a page on 127.0.0.1 that shows the arrays of a store or of a mounted directory.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "fs/log.h"
#include "tools/commands.h"
#include "tools/mount_options.h"
#include "tools/mount_point.h"
#include "tools/report.h"
#include "tools/web/web_api.h"

namespace varve::tools {
namespace {

struct Arguments {
  std::string path;
  std::string cache = "256M";
  uint16_t port = 0;
  bool open = false;
};

/// 128 random bits.
Result<std::string> make_token() {
  std::array<unsigned char, 16> bits{};
  if (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    return Error{errno, "the system gives no random numbers"};
  }
  std::string token;
  for (const unsigned char byte : bits) {
    token += fmt::format("{:02x}", byte);
  }
  return token;
}

/// While it lives, SIGINT and SIGTERM make its descriptor readable.
class StopSignals {
 public:
  StopSignals() {
    event_ = ::eventfd(0, EFD_CLOEXEC);
    struct sigaction action {};
    action.sa_handler = [](int) { ::eventfd_write(event_, 1); };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
  }
  ~StopSignals() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::close(event_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  int descriptor() const { return event_; }

 private:
  static inline int event_ = -1;
};

/// The user's browser, at an address that no other user may see: arguments of programs are public, so it is told a
/// file that leads there.
class Browser {
 public:
  Status open(const std::string& address) {
    const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
    std::string pattern = (runtime != nullptr ? std::string(runtime) : std::string("/tmp")) + "/varve-web-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      return Error{errno, fmt::format("--open: cannot make a folder like {}", pattern)};
    }
    folder_ = pattern;
    const std::string file = folder_ + "/open.html";
    std::ofstream(file) << fmt::format("<!doctype html><meta http-equiv=refresh content=\"0;url={}\">\n", address);
    // In a session of its own: it lives on when the page ends.
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_init(&actions);
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
    }
    std::string program = "xdg-open";
    std::string argument = file;
    const std::array<char*, 3> words = {program.data(), argument.data(), nullptr};
    pid_t pid = 0;
    const int code = posix_spawnp(&pid, program.c_str(), &actions, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code == 0 ? Status()
                     : Status(Error{code, fmt::format("--open: cannot start xdg-open: {}; open the address yourself",
                                                      std::generic_category().message(code))});
  }
  ~Browser() {
    std::error_code ignored;
    if (!folder_.empty()) {
      std::filesystem::remove_all(folder_, ignored);
    }
  }
  Browser() = default;
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

 private:
  std::string folder_;
};

Result<std::unique_ptr<ArrayTree>> open_tree(const Arguments& arguments) {
  VARVE_ASSIGN(const uint64_t cache, parse_size(arguments.cache));
  const std::string& path = arguments.path;
  if (find_mount(path).ok()) {
    return open_mounted_tree(path);
  }
  if (!is_store(path)) {
    return Error{ENOENT, fmt::format("{} is neither a store nor a directory in a mount: name one of them", path)};
  }
  return open_store_tree(path, cache);
}

Status web(const Arguments& arguments) {
  fs::set_log_level(fs::LogLevel::error);
  VARVE_ASSIGN(auto tree, open_tree(arguments));
  VARVE_ASSIGN(const std::string token, make_token());
  VARVE_ASSIGN(const auto server, HttpServer::listen(arguments.port));
  VARVE_ASSIGN(const std::string title, absolute_path(arguments.path));
  WebApi api(std::move(tree), title, token, server->port());
  const StopSignals signals;
  const std::string address = fmt::format("http://127.0.0.1:{}/#{}", server->port(), token);
  fmt::print("{}\n", address);
  std::fflush(stdout);
  Browser browser;
  if (arguments.open) {
    if (const Status opened = browser.open(address); !opened.ok()) {
      fmt::print(stderr, "varve: {}\n", opened.error().text);
    }
  }
  return server->serve(
      [&](const HttpRequest& request, const StillWanted& wanted) { return api.answer(request, wanted); },
      signals.descriptor());
}

}  // namespace

void add_web(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("web", "A page in the browser: files, arrays, slices from coarse to fine");
  command->footer(
      "Examples:\n"
      "  varve web ~/data                       a mounted directory; open the address that is printed\n"
      "  varve web ~/store                      a store that is not mounted, read-only\n"
      "  varve web --port 8000 --open ~/data    a port of your own; start the browser\n"
      "  ssh -L 8000:127.0.0.1:8000 HOST varve web --port 8000 data    from another machine: the ports must be equal\n"
      "The page is served on 127.0.0.1 alone, to whoever has the token in the address. Ctrl-C ends it.\n"
      "Exit status: 0 ended by SIGINT or SIGTERM; 2 wrong use or an error.");
  command->add_option("PATH", arguments->path, "A store that is not mounted, or a directory in a mount")->required();
  command->add_option("--port", arguments->port, "Listen there; 0: any that is free");
  command->add_flag("--open", arguments->open, "Open the page by xdg-open");
  command->add_option("--cache", arguments->cache, "Of a store: memory for decoded data, 256M unless said");
  command->callback([arguments, &status] { status = finish(web(*arguments)); });
}

}  // namespace varve::tools
