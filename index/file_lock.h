// A lock that processes hold on a file, which tells who has it. The kernel lets go of it when the process dies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "codec/result.h"

namespace varve::index {

/// Holds the lock while it lives.
class FileLock {
 public:
  enum class Mode : uint8_t {
    exclusive,  ///< makes the file, and writes this process's number into it
    shared,     ///< several at a time; the file must be there
  };
  /// EBUSY: another process has it. Else, with the reason: the file cannot be opened or locked (ENOENT, EACCES, EROFS,
  /// ENOLCK and so on).
  static Result<std::unique_ptr<FileLock>> take(const std::string& path, Mode mode);
  /// Who wrote its number there last: "process 12 (varve)"; "another process" if that is not known.
  static std::string holder(const std::string& path);
  /// The process that has it exclusively; 0: its number is not known; nothing: none has, as far as we see.
  static std::optional<int> writer(const std::string& path);

  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace varve::index
