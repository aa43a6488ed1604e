// What the mount says about a file: .varve/stat/PATH.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "codec/result.h"
#include "tools/mount_point.h"

namespace varve::tools {

/// The description of a regular file in a mount, as JSON. ENODEV: not in a mount; ENOENT; EISDIR for a directory.
Result<nlohmann::json> describe(const std::string& path);

}  // namespace varve::tools
