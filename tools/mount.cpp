// varve mount, and mount.varve for mount(8): joins index, file system and FUSE session, and serves.
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "codec/cuda/shared_device.h"
#include "faults/control.h"
#include "faults/faulty_operations.h"
#include "faults/faulty_tables.h"
#include "fs/filesystem.h"
#include "fs/fuse_session.h"
#include "fs/log.h"
#include "index/index.h"
#include "index/snapshot.h"
#include "tools/commands.h"
#include "tools/daemon.h"
#include "tools/held_mount.h"
#include "tools/mount_options.h"
#include "tools/mount_point.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

constexpr int kHelperUsage = 1;  // mount(8)'s exit statuses
constexpr int kHelperFailed = 32;

Status set_log(const MountSettings& settings) {
  constexpr std::array kLevels = {std::pair("error", fs::LogLevel::error), std::pair("warning", fs::LogLevel::warning),
                                  std::pair("info", fs::LogLevel::info), std::pair("debug", fs::LogLevel::debug)};
  const auto level = std::ranges::find_if(kLevels, [&](const auto& item) { return settings.log_level == item.first; });
  if (level == kLevels.end()) {
    return Error{EINVAL, fmt::format("no log level \"{}\": give error, warning, info or debug", settings.log_level)};
  }
  fs::set_log_level(level->second);
  return {};
}

/// Makes both paths absolute, and refuses what would wait for itself for ever.
Status check_places(MountSettings& settings) {
  VARVE_ASSIGN(settings.store, absolute_path(settings.store));
  VARVE_ASSIGN(settings.directory, absolute_path(settings.directory));
  if (is_inside(settings.store, settings.directory)) {
    return Error{EINVAL, fmt::format("the store {} lies inside the mount point {}: the mount would hide its own store; "
                                     "choose a directory outside it",
                                     settings.store, settings.directory)};
  }
  if (is_inside(settings.directory, settings.store)) {
    return Error{EINVAL, fmt::format("the mount point {} lies inside the store {}: choose a directory outside it",
                                     settings.directory, settings.store)};
  }
  if (!settings.log_file.empty()) {
    VARVE_ASSIGN(settings.log_file, absolute_path(settings.log_file));
    if (is_inside(settings.log_file, settings.directory)) {
      return Error{EINVAL, fmt::format("the log {} lies inside the mount point {}: choose a place outside it",
                                       settings.log_file, settings.directory)};
    }
  }
  return {};
}

/// SIGUSR2 disarms while it lives: the way for `varve faults disarm` when delayed operations hold all threads that
/// could take its command.
class DisarmSignal {
 public:
  explicit DisarmSignal(faults::Injector* injector) : injector_(injector) {
    event_ = eventfd(0, EFD_CLOEXEC);
    struct sigaction action {};
    action.sa_handler = [](int) { eventfd_write(event_, 1); };
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, nullptr);
    waiter_ = std::thread([this] {
      for (eventfd_t count = 0; !ended_;) {
        const bool asked = eventfd_read(event_, &count) == 0;
        if (asked && !ended_ && injector_ != nullptr) {
          injector_->disarm();
        }
      }
    });
  }
  ~DisarmSignal() {
    signal(SIGUSR2, SIG_IGN);
    ended_ = true;
    eventfd_write(event_, 1);
    waiter_.join();
    ::close(event_);
  }
  DisarmSignal(const DisarmSignal&) = delete;
  DisarmSignal& operator=(const DisarmSignal&) = delete;

 private:
  static inline int event_ = -1;
  faults::Injector* const injector_;
  std::atomic<bool> ended_{false};
  std::thread waiter_;
};

/// What was asked for, if it is there: VARVE_CUDA_PLUGIN, else the plug-in of this build or installation.
Result<std::shared_ptr<codec::cuda::SharedDevice>> open_device(const std::string& choice) {
  VARVE_ASSIGN(const auto device, codec::cuda::parse_device(choice));
  std::vector<std::string> plugins;
  if (const char* named = std::getenv("VARVE_CUDA_PLUGIN"); named != nullptr) {
    plugins.emplace_back(named);
  } else {
    std::error_code ignored;
    const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
    plugins = {folder / "codec/libvarve_cuda.so", folder / VARVE_PLUGIN_FOLDER / "libvarve_cuda.so"};
  }
  // Nobody asked "auto" for a device: where there is none, that is no news.
  const bool asked = device.kind == codec::cuda::DeviceChoice::Kind::cuda;
  const auto log = [asked](const std::string& text) {
    fs::log_line(asked ? fs::LogLevel::warning : fs::LogLevel::info, "device: " + text);
  };
  auto opened = codec::cuda::open_shared_device(device, plugins, log);
  if (opened != nullptr) {
    fs::log_line(fs::LogLevel::info, fmt::format("device: {} encodes what it can", opened->name()));
  }
  return opened;
}

/// The whole life of a mount.
Status serve(const MountSettings& settings, const Ready& ready) {
  index::IndexOptions index_options;
  index_options.read_only = settings.read_only;
  index_options.reserve = index::kReserve;
  index_options.accept_loss = settings.accept_loss;
  // The fault layer outlives everything that it stands between.
  faults::Injector injector({.journal = settings.store + "/faults.jsonl", .recogniser = {}});
  const char* key = std::getenv(faults::Control::kKeyVariable);
  faults::Control control(settings.faults ? &injector : nullptr, key != nullptr ? key : "");
  if (settings.faults) {
    index_options.device = faults::faulty_device(index::posix_device(), settings.store, injector);
    index_options.file_system = faults::faulty_tables(nullptr, index::posix_device(), settings.store, injector);
    if (!settings.fault_schedule.empty()) {
      VARVE_TRY(injector.arm(settings.fault_schedule));
    }
  }
  VARVE_ASSIGN(auto index, index::Index::open(settings.store, index_options));

  fs::FileSystemOptions options;
  options.control = &control;
  VARVE_ASSIGN(options.device, open_device(settings.device));
  options.workers = settings.workers;
  options.cache_bytes = settings.cache_bytes;
  options.read_only = settings.read_only;
  options.show_views = settings.show_views;
  VARVE_ASSIGN(auto file_system, fs::FileSystem::create(std::move(index), options));

  fs::MountOptions mount_options;
  mount_options.mountpoint = settings.directory;
  mount_options.source = settings.store;
  mount_options.read_only = settings.read_only;
  mount_options.allow_other = settings.allow_other;
  mount_options.threads = std::max(4U, settings.workers != 0 ? settings.workers : std::thread::hardware_concurrency());
  mount_options.kernel_options = settings.kernel_options;
  faults::FaultyOperations faulty(*file_system, injector);
  fs::Operations& served = settings.faults ? static_cast<fs::Operations&>(faulty) : *file_system;
  auto session = fs::FuseSession::mount(mount_options, served);
  if (!session.ok()) {
    (void)file_system->shut_down();
    return session.error();
  }
  file_system->attach(&(*session)->kernel_cache());
  faulty.attach(&(*session)->kernel_cache());
  ready();
  file_system->prepare();
  fs::log_line(fs::LogLevel::info, fmt::format("mounted {} on {}", settings.store, settings.directory));
  const Status ended = [&] {
    const DisarmSignal disarm_signal(settings.faults && key == nullptr ? &injector : nullptr);
    return (*session)->serve();
  }();
  const Status shut = file_system->shut_down();
  for (const Status& status : {ended, shut}) {
    if (!status.ok()) {
      fs::log_line(fs::LogLevel::error, status.error().text);
    }
  }
  if (options.device != nullptr) {
    fs::log_line(fs::LogLevel::info,
                 fmt::format("device: {} encoded {} tiles", options.device->name(), options.device->tiles()));
  }
  fs::log_line(fs::LogLevel::info, fmt::format("unmounted {}", settings.directory));
  return ended.ok() ? shut : ended;
}

/// By itself, or in a child that is started again when it dies.
Status serve_as_asked(const MountSettings& settings, const Ready& ready) {
  if (!settings.supervise) {
    return serve(settings, ready);
  }
  return supervise(
      [&](const Ready& started) {
        return serve(settings, [&] {
          if (!settings.log_file.empty()) {
            fs::set_log_file(settings.log_file);
          }
          started();
        });
      },
      ready, [&](int daemon) { release_held_mount(settings.directory, daemon); }, !settings.foreground);
}

Status serve_in_foreground(const MountSettings& settings) {
  if (!settings.log_file.empty()) {
    fs::set_log_file(settings.log_file);
  }
  return serve_as_asked(settings, [] { notify_service_manager(); });
}

Status serve_in_background(MountSettings settings) {
  if (settings.log_file.empty()) {
    settings.log_file = settings.store + "/varve.log";
  }
  return run_in_background([&](const Ready& ready) {
    // The log opens only now: before, messages are for whoever typed the command, and the store may not exist.
    return serve_as_asked(settings, [&] {
      fs::set_log_file(settings.log_file);
      ready();
    });
  });
}

Status read_schedule(const std::string& file, MountSettings& settings) {
  if (file.empty()) {
    return {};
  }
  if (!settings.faults) {
    return Error{EINVAL, "--faults and --no-faults contradict each other"};
  }
  VARVE_ASSIGN(settings.fault_schedule, read_text(file));
  const auto schedule = faults::Schedule::parse(settings.fault_schedule, file);
  return schedule.ok() ? Status() : Status(schedule.error());
}

Status mount(MountSettings settings) {
  VARVE_TRY(set_log(settings));
  if (const auto path = mountpoint_of(settings.directory); path.ok()) {
    release_held_mount(*path);  // before anything asks a mount that hangs
  }
  VARVE_TRY(check_places(settings));
  settings.read_only = settings.read_only || index::is_snapshot(settings.store);
  if (settings.fake) {
    return {};
  }
  return settings.foreground ? serve_in_foreground(settings) : serve_in_background(settings);
}

}  // namespace

void add_mount(CLI::App& app, int& status) {
  struct Arguments {
    MountSettings settings;
    std::vector<std::string> lists;
    std::string cache = "512M";
    std::string workers = "0";
    std::string device = "cpu";
    bool no_faults = false;
    bool accept_loss = false;
    std::string fault_file;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("mount", "Mount a store on a directory (the store is made if it is not there)");
  command->footer(
      "Examples:\n"
      "  varve mount ~/store ~/data\n"
      "  varve mount -o ro,noatime --cache 2G ~/store ~/data\n"
      "  varve mount -f --log-level debug ~/store ~/data     stay in the foreground, log to the terminal\n"
      "In /etc/fstab: /path/to/store /data varve defaults,nofail,cache=1G 0 0\n"
      "The log of a mount in the background is STORE/varve.log.");
  command->add_option("STORE", arguments->settings.store, "Directory that holds everything; absent or empty: made")
      ->required();
  command->add_option("DIR", arguments->settings.directory, "Directory to mount on")->required();
  command->add_flag("-f,--foreground", arguments->settings.foreground, "Stay in the foreground");
  command->add_option("-o", arguments->lists,
                      "Options as of mount(8): ro, noatime, nodev, allow_other, show_views, supervise, nofaults, "
                      "cache=SIZE, workers=N, log=FILE, ...");
  command->add_option("--faults", arguments->fault_file, "Arm this schedule before the store is opened (varve faults)");
  command->add_flag("--no-faults", arguments->no_faults, "Faults cannot be armed on this mount (see varve faults)");
  command->add_flag("--accept-loss", arguments->accept_loss,
                    "Mount a store whose log is damaged, without the changes that it has lost");
  command->add_flag("--supervise", arguments->settings.supervise,
                    "Start the daemon again within a second when it dies (five times a minute at most)");
  command->add_option("--workers", arguments->workers, "Threads that encode and decode; 0: one a core");
  command->add_option("--device", arguments->device,
                      "Where lossy arrays of floats are encoded: cpu, auto (a CUDA device if there is one), cuda or "
                      "cuda:N; the bytes are the same (docs/GPU.md)");
  command->add_option("--cache", arguments->cache, "Memory for decoded data: 512M, 2G, ...");
  command->add_option("--log", arguments->settings.log_file, "Log to this file");
  command->add_option("--log-level", arguments->settings.log_level, "error, warning, info or debug");
  command->callback([arguments, &status] {
    std::vector<std::string> lists = {"workers=" + arguments->workers, "cache=" + arguments->cache,
                                      "device=" + arguments->device};
    lists.insert(lists.end(), arguments->lists.begin(), arguments->lists.end());
    for (const std::string& list : lists) {
      if (const Status parsed = parse_mount_options(list, arguments->settings); !parsed.ok()) {
        status = fail(parsed.error());
        return;
      }
    }
    arguments->settings.faults = arguments->settings.faults && !arguments->no_faults;
    arguments->settings.accept_loss = arguments->settings.accept_loss || arguments->accept_loss;
    if (const Status read = read_schedule(arguments->fault_file, arguments->settings); !read.ok()) {
      status = fail(read.error());
      return;
    }
    status = finish(mount(arguments->settings));
  });
}

int mount_helper_main(int argc, char** argv) {
  MountSettings settings;
  if (const Status parsed = parse_helper_arguments({argv + 1, argv + argc}, settings); !parsed.ok()) {
    fail(parsed.error());
    return kHelperUsage;
  }
  const Status mounted = mount(settings);
  if (!mounted.ok()) {
    fail(mounted.error());
    return kHelperFailed;
  }
  return 0;
}

}  // namespace varve::tools
