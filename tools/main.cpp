// The program `varve`: a subcommand a file, joined here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "faults/words.h"
#include "tools/commands.h"

namespace varve::tools {
namespace {

/// What is wrong with the words after `varve`, of which command, and where its options are told.
void print_usage_error(const CLI::App& app, const CLI::ParseError& problem) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  std::vector<std::string_view> known;
  std::vector<std::string> shown;
  for (const CLI::App* one : command->get_subcommands([](const CLI::App*) { return true; })) {
    if (!one->get_group().empty()) {  // else it is not for people
      known.emplace_back(one->get_name());
      shown.push_back(one->get_name());
    }
  }
  std::string what = problem.what();
  if (!shown.empty() && dynamic_cast<const CLI::RequiredError*>(&problem) != nullptr) {
    const std::vector<std::string> rest = command->remaining();
    const std::string_view near = rest.empty() ? "" : faults::nearest(rest.front(), known);
    what = fmt::format("{}{}: give one of {}",
                       rest.empty() ? "a command is missing" : fmt::format("no command \"{}\"", rest.front()),
                       near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near), fmt::join(shown, ", "));
  }
  fmt::print(stderr, "{}: {}\nRun {} --help for more information.\n", name, what, name);
}

int run(int argc, char** argv) {
  CLI::App app(
      "A file system for scientific arrays: mount a directory, write HDF5, NetCDF, npy or raw arrays there with "
      "any program,\nand they are stored compressed, exactly or within the error bound that you set.",
      "varve");
  app.footer(
      "Examples:\n"
      "  varve mount ~/store ~/data                          mount; the store is made if it is not there\n"
      "  setfattr -n user.varve.bound -v rel:1e-3 ~/data     how far values may move (none: not at all)\n"
      "  cp run.h5 ~/data; varve stat ~/data/run.h5          what it takes, array by array\n"
      "  varve verify run.h5 ~/data/run.h5                   is the bound kept, is the rest equal\n"
      "  varve preview ~/data/run.h5 -o run.png              a picture of it, from coarse levels\n"
      "  varve quality run.h5 ~/data/run.h5 --html q.html    PSNR, SSIM, spectra and more\n"
      "  varve web ~/data                                    look at its arrays in a browser\n"
      "  varve scrub ~/data                                  is everything stored still whole\n"
      "  ls ~/data/.varve                                    other views of all files: docs/PREVIEWS.md\n"
      "  getfattr -n user.varve.max_error ~/data/.varve/level/2/run.h5    how far such a view is off at most\n"
      "  varve snapshot create ~/data before-rerun           keep all files as they are now\n"
      "  varve umount ~/data\n"
      "  varve fsck ~/store                                  does the store agree with itself\n"
      "Exit status: 0 done; 1 the answer is no (verify, scrub, fsck, export); 2 wrong use or an error.");
  app.set_version_flag("--version", "varve " VARVE_VERSION);
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help for all subcommands");
  int status = kDone;
  for (const auto add : {add_mount,   add_umount, add_mkfs, add_stat,   add_policy, add_verify,          add_preview,
                         add_quality, add_web,    add_sync, add_scrub,  add_fsck,   add_snapshot,        add_send,
                         add_receive, add_export, add_gc,   add_faults, add_bench,  add_recognise_worker}) {
    add(app, status);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) {  // help, or the version
      return app.exit(problem) == 0 ? kDone : kFailed;
    }
    print_usage_error(app, problem);
    return kFailed;
  }
  return status;
}

bool is_mount_helper(std::string_view program) {
  return program.substr(program.rfind('/') + 1) == "mount.varve";  // npos + 1 is 0: no slash
}

}  // namespace
}  // namespace varve::tools

int main(int argc, char** argv) {
  try {
    return argc > 0 && varve::tools::is_mount_helper(argv[0]) ? varve::tools::mount_helper_main(argc, argv)
                                                              : varve::tools::run(argc, argv);
  } catch (const std::exception& problem) {  // of the standard library: memory is out, above all
    std::fprintf(stderr, "varve: %s\n", problem.what());
    return varve::tools::kFailed;
  }
}
