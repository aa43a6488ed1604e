// Mounts whose daemon was killed and cannot end: the kernel holds one of its threads until pages are free that a
// program waits for, which only the daemon could answer.
#pragma once

#include <string>

#include "codec/result.h"

namespace varve::tools {

/// The mount's own name where that can be had without asking its daemon; else `directory` made absolute.
Result<std::string> mountpoint_of(const std::string& directory);

/// If process `daemon` is held so, ends the connection of the Varve mount that is topmost at `mountpoint`, so that
/// programs get ENOTCONN, and waits, for some seconds, until it has ended. Asks the mount nothing.
void release_held_mount(const std::string& mountpoint, int daemon);
/// The same of the process that has the mount's store open for writing.
void release_held_mount(const std::string& mountpoint);

}  // namespace varve::tools
