// A file as the fault layer sees it from above: below a decorator, at either seam.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/result.h"

namespace varve::faults {

/// Not faulty itself. Used by one thread at a time.
class Medium {
 public:
  virtual ~Medium() = default;
  /// Bytes read: fewer than asked for only at the end of the file.
  virtual Result<size_t> read(uint64_t offset, std::span<std::byte> out) = 0;
  virtual Status write(uint64_t offset, std::span<const std::byte> data) = 0;
  virtual Result<uint64_t> size() = 0;
  virtual Status truncate(uint64_t size) = 0;
  /// What was written survives the daemon's death. At the device seam it does so by itself.
  virtual Status sync() { return {}; }
  /// A file that is written from front to back: its writer counts on every byte taking its place.
  virtual bool only_appends() const { return false; }
};

/// Opens a file of a seam by its path, for lost and late writes.
using Reopen = std::function<Result<std::unique_ptr<Medium>>(const std::string& path)>;

/// `length` bytes from `offset`, zeros past the end.
Result<std::vector<std::byte>> read_padded(Medium& file, uint64_t offset, uint64_t length);

}  // namespace varve::faults
