// The lower seam, second half: stands between RocksDB and the disk. See faulty_device.h.
#pragma once

#include "faults/faulty_device.h"

namespace rocksdb {
class FileSystem;
}

namespace varve::faults {

/// Thread-safe. `below`: null for RocksDB's default. `device`: opens the same files, for faults that reach beyond an
/// operation's own bytes. `injector` must outlive it and the files that it opened.
std::shared_ptr<rocksdb::FileSystem> faulty_tables(std::shared_ptr<rocksdb::FileSystem> below,
                                                   std::shared_ptr<index::Device> device, std::string store,
                                                   Injector& injector);

}  // namespace varve::faults
