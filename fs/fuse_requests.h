// FUSE requests -> fs::Operations: the table of handlers that libfuse calls. Only fuse_*.cpp include this.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <atomic>

#include "fs/operations.h"

namespace varve::fs {

/// What every handler needs; the session's user data. But for the counts, immutable while the session serves.
struct RequestContext {
  Operations* operations = nullptr;
  double attribute_timeout = 0;  ///< seconds
  std::atomic<uint64_t> writes_begun{0}, writes_ended{0};
};

/// Largest read and write in one request.
inline constexpr unsigned kLargestRequest = 1U << 20;

/// The handlers, for fuse_session_new with a RequestContext* as user data. They run in libfuse's worker threads, many
/// at once. The two lock handlers are absent on purpose: the kernel then keeps flock and POSIX locks itself.
const fuse_lowlevel_ops& request_handlers();

}  // namespace varve::fs
