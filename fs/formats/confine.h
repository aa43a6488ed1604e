// What a recogniser's worker may ask of the kernel once it is at work.
#pragma once

#include <sys/types.h>

#include "codec/result.h"

namespace varve::fs {

/// Workers are confined, save in a process whose sanitizer writes reports: those read files and start programs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kConfines = false;
#else
inline constexpr bool kConfines = true;
#endif

/// Leaves this process, all threads, the system calls that computing and the conversation over open descriptors need:
/// no network, no new processes, no executable memory. Opening a file for reading fails with EACCES (libraries look for
/// settings, and go on without); every other call ends the process by SIGSYS. An error: the kernel refuses filters.
Status confine();

/// Whether such a filter is in force in a process.
bool is_confined(pid_t pid);

}  // namespace varve::fs
