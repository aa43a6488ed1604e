// Going to the background once the work has started well, and starting it again when it dies.
#pragma once

#include <functional>

#include "codec/result.h"

namespace varve::tools {

/// Tells whoever waits that the service is ready; what comes after is the log's.
using Ready = std::function<void()>;

/// Runs `service` in a child process with a session of its own and waits until it says that it is ready, or fails.
/// Before the first call to Ready it may print to standard error. To be called while there is one thread. The result is
/// that of the service's start; in the child this does not return.
Status run_in_background(const std::function<Status(const Ready&)>& service);

/// Runs `service` in a child process, and again whenever a signal ends it, until it ends by itself: then the result is
/// its own. `ready` is called when it is ready for the first time; `release` with the number of a child that was killed
/// and has not ended (is_held). SIGTERM, SIGINT and SIGHUP are handed on to the child. `in_background`: the child
/// leaves the terminal. An error: it did not start, or died too often (five times within a minute). To be called while
/// there is one thread.
Status supervise(const std::function<Status(const Ready&)>& service, const Ready& ready,
                 const std::function<void(int process)>& release, bool in_background);

/// Was the process killed, and has not ended? For a moment that is so of each; it stays so while the kernel holds one
/// of its threads.
bool is_held(int process);

/// Tells systemd (NOTIFY_SOCKET), if it started us, that the service is ready.
void notify_service_manager();

}  // namespace varve::tools
