// varve recognise-worker: the process in which recognisers parse untrusted files. Started by the daemon alone.
#include <CLI/CLI.hpp>

#include "fs/formats/worker.h"
#include "tools/commands.h"

namespace varve::tools {

void add_recognise_worker(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("recognise-worker", "Parse files for the daemon");
  command->group("");  // not in --help
  command->callback([&status] { status = fs::recogniser_worker_main(fs::kWorkerDescriptor); });
}

}  // namespace varve::tools
