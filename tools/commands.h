// The subcommands of `varve`. Each adds itself to the command line and leaves its exit status in `status` when it runs.
//
// Exit statuses: 0 done; 1 the answer is no (verify: a bound broken or bytes different; export: not all files; fsck:
// problems are left); 2 wrong use or an error.
// Called as mount.varve: those of mount(8), 1 wrong use, 32 the mount failed.
#pragma once

#include <CLI/CLI.hpp>

namespace varve::tools {

inline constexpr int kDone = 0;
inline constexpr int kNo = 1;
inline constexpr int kFailed = 2;

void add_mount(CLI::App& app, int& status);
void add_umount(CLI::App& app, int& status);
void add_mkfs(CLI::App& app, int& status);
void add_stat(CLI::App& app, int& status);
void add_policy(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_preview(CLI::App& app, int& status);
void add_quality(CLI::App& app, int& status);
void add_web(CLI::App& app, int& status);
void add_sync(CLI::App& app, int& status);
void add_scrub(CLI::App& app, int& status);
void add_fsck(CLI::App& app, int& status);
void add_snapshot(CLI::App& app, int& status);
void add_send(CLI::App& app, int& status);
void add_receive(CLI::App& app, int& status);
void add_export(CLI::App& app, int& status);
void add_gc(CLI::App& app, int& status);
void add_faults(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
/// Hidden: what the recogniser pool starts.
void add_recognise_worker(CLI::App& app, int& status);

/// The program under the name mount.varve, as mount(8) calls it: mount.varve SOURCE DIR [-sfnv] [-N ns] [-t type]
/// [-o options].
int mount_helper_main(int argc, char** argv);

}  // namespace varve::tools
