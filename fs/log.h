// The daemon's log: one line an event, to standard error (and so to the journal under systemd) or a file.
#pragma once

#include <string>
#include <string_view>

namespace varve::fs {

enum class LogLevel { error, warning, info, debug };

/// Thread-safe. Lines above the level set are dropped.
void log_line(LogLevel level, std::string_view text);
void set_log_level(LogLevel level);
/// Appends to a file from now on; a relative path is an error.
void set_log_file(const std::string& path);

}  // namespace varve::fs
