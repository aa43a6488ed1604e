// Going to the background once the work has started well.
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

/// Tells systemd (NOTIFY_SOCKET), if it started us, that the service is ready.
void notify_service_manager();

}  // namespace varve::tools
