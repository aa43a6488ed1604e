// Stores that are not mounted, to be read and written by transfer(): the file system itself, in this process.
#pragma once

#include <memory>
#include <unordered_set>

#include "fs/filesystem.h"
#include "tools/transfer.h"

namespace varve::tools {

/// The root of what is read. Files of `unsealed` are EIO: what was written to them cannot be read. Both outlive it.
Result<std::shared_ptr<SourceNode>> store_source(fs::FileSystem& files,
                                                 const std::unordered_set<fs::InodeNumber>& unsealed);

}  // namespace varve::tools
