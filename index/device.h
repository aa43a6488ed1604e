// The files that are not RocksDB's: packs and staging. Everything that Varve itself reads or writes in the store goes
// through this interface, so that faults and tests can stand between it and the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/result.h"

namespace varve::index {

/// An open file. All members may be called from several threads; overlapping writes are the caller's to order.
class DeviceFile {
 public:
  virtual ~DeviceFile() = default;
  /// Reads until `out` is full or the file ends; the result is the number of bytes read.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> out) = 0;
  /// Writes all of `data`, or fails (ENOSPC, EDQUOT, EIO); what was written before a failure is unspecified.
  virtual Status write(uint64_t offset, std::span<const std::byte> data) = 0;
  virtual Status truncate(uint64_t size) = 0;
  /// Frees [offset, offset + length), which reads as zeros from then on. Where the disk's file system cannot punch
  /// holes, zeros are written instead.
  virtual Status punch(uint64_t offset, uint64_t length) = 0;
  /// Reserves space so that later writes there do not fail with ENOSPC; does not change the size.
  virtual Status reserve(uint64_t offset, uint64_t length) = 0;
  /// Data and size are on the disk when this returns.
  virtual Status sync() = 0;
  virtual Result<uint64_t> size() = 0;
  /// Bytes allocated on the disk.
  virtual Result<uint64_t> allocated() = 0;
  /// First offset >= `offset` of data (`data` true) or of a hole (false), as lseek(2); ENXIO past the end.
  virtual Result<uint64_t> seek(uint64_t offset, bool data) = 0;
};

struct DeviceSpace {
  uint64_t block_size = 4096;
  uint64_t blocks = 0, blocks_free = 0, blocks_available = 0;  ///< in units of block_size
};

/// The disk's file system below the store. Paths are absolute. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  enum class Mode { read, write, create };  ///< read-only; read and write; read and write, made if absent
  virtual Result<std::unique_ptr<DeviceFile>> open(const std::string& path, Mode mode) = 0;
  virtual Status remove(const std::string& path) = 0;
  virtual Status make_directory(const std::string& path) = 0;  ///< success if it exists
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual Status sync_directory(const std::string& path) = 0;
  virtual Result<DeviceSpace> space(const std::string& path) = 0;
};

/// The operating system's files.
std::shared_ptr<Device> posix_device();

}  // namespace varve::index
