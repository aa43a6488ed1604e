// A disk that writes down what is done to it: below packs and staging, and below RocksDB. From the record, every state
// that a power cut could have left can be made afterwards (disk.py).
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "index/device.h"

namespace varve::crash {

/// What a line of the trace says. A file is named by a number that it keeps when it is renamed.
enum class Step : uint8_t {
  exists = 0,     ///< `file` is at `path` when the record begins; its content is known elsewhere
  create = 1,     ///< `file`, empty, at `path`
  write = 2,      ///< `data` at `a` of `file`
  truncate = 3,   ///< `file` has `a` bytes
  punch = 4,      ///< `b` bytes at `a` of `file` are zeros
  sync = 5,       ///< what was done to `file` by steps before number `a` is safe
  make = 6,       ///< a directory at `path`
  unlink = 7,     ///< `path` goes
  rename = 8,     ///< `path` is called `data` from now on
  sync_path = 9,  ///< names in the directory `path` that were given or taken by steps before number `a` are safe
};

/// Thread-safe. A step is written down once it is done and before its caller knows: what a step's number is smaller
/// than came later. A sync that begins while a write is under way says nothing about it.
///
/// TRACE: for each step u8 kind | u32 length of path | u64 file | u64 a | u64 b | u64 length of data | path | data,
/// little-endian. TRACE.count: u64, how many steps there are; programs map it to learn what came before what they do.
class Recorder {
 public:
  /// Ends the process if the files cannot be made.
  Recorder(std::string store, const std::string& trace);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  uint64_t count() const { return *count_; }
  /// The file at a path, a new number if there is none.
  uint64_t file_at(const std::string& path);
  /// A file was opened that may be made by that; `emptied`: of what it held, nothing is left.
  uint64_t opened(const std::string& path, bool existed, bool emptied);
  void file_step(Step step, uint64_t file, uint64_t a, uint64_t b = 0, std::span<const std::byte> data = {});
  void path_step(Step step, const std::string& path, uint64_t a = 0, const std::string& other = {});

 private:
  void add(Step step, uint64_t file, uint64_t a, uint64_t b, std::string_view path, std::span<const std::byte> data);
  std::string inside(const std::string& path) const;

  const std::string store_;
  int trace_ = -1;
  std::atomic<uint64_t>* count_ = nullptr;  ///< in the mapped TRACE.count
  std::mutex mutex_;
  std::map<std::string, uint64_t> files_;  ///< by path from the store
  uint64_t next_ = 1;
};

/// Syncs are written down and not done. `recorder` outlives both.
std::shared_ptr<index::Device> recording_device(Recorder& recorder);
std::shared_ptr<rocksdb::FileSystem> recording_file_system(Recorder& recorder);

}  // namespace varve::crash
