// The seam for control: virtual files that a layer above the file system adds in a folder of its own under .varve/.
// Only root and the owner of the mount's root may enter it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codec/result.h"

namespace varve::fs {

/// Thread-safe. Must outlive the file system that it is given to.
class ControlFolder {
 public:
  virtual ~ControlFolder() = default;
  virtual std::string_view name() const = 0;
  /// Names of the files; the members below know them by their place in this list, which never changes.
  virtual const std::vector<std::string>& files() const = 0;
  /// What a program that opens the file reads.
  virtual Result<std::string> read(size_t file) = 0;
  /// A program has written `text` so far. An error, if nothing that it may still write could make it right, reaches
  /// write(2); what is written counts all the same at close.
  virtual Status check(size_t file, std::string_view text) = 0;
  /// A program wrote `text` and closed the file: in effect when this returns. An error reaches close(2).
  virtual Status write(size_t file, std::string_view text) = 0;
};

}  // namespace varve::fs
