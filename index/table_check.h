// The blocks of a table that RocksDB looks into before it has held them against their checksums: where it is built with
// assertions, a wrong byte at their end would end the process.
#pragma once

#include <string>

#include "codec/result.h"
#include "index/device.h"

namespace varve::index {

/// EUCLEAN, with a sentence: the block of properties of the table (RocksDB's table format 5 with XXH3), or the block
/// that says where it lies, is damaged. What is no such table, or ends early, is left to RocksDB, which refuses it.
Status check_table(Device& device, const std::string& path);

}  // namespace varve::index
