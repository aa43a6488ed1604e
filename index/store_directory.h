// The store's directory itself: who has it open, which format version it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "codec/result.h"
#include "index/device.h"
#include "index/file_lock.h"

namespace varve::index {

inline constexpr uint32_t kStoreVersion = 2;   ///< of stores that are made, or opened to be written
inline constexpr uint32_t kOldestVersion = 1;  ///< that can be opened; FORMAT.md says what differs

/// Holds STORE/LOCK while it lives. The kernel lets go of it when the process dies.
class StoreLock {
 public:
  /// EBUSY with the process's id and name if another has the store open. `shared`: several readers, no writer.
  static Result<std::unique_ptr<StoreLock>> take(const std::string& store, bool shared);
  /// The process that has the store open for writing; 0: its number is not known; nothing: none has, as far as we see.
  static std::optional<int> writer(const std::string& store);

 private:
  explicit StoreLock(std::unique_ptr<FileLock> lock) : lock_(std::move(lock)) {}
  std::unique_ptr<FileLock> lock_;
};

enum class StoreState { empty, present };

/// Looks at the directory without changing it. Absent, empty or half made: empty. ENOTEMPTY: it holds other things.
/// EPROTO: its format version is not ours.
Result<StoreState> inspect_store(Device& device, const std::string& store);

/// Does its VERSION name the version that is written?
Result<bool> version_is_ours(Device& device, const std::string& store);

/// The last step of making a store, or of raising its version.
Status write_version(Device& device, const std::string& store);

/// EPROTO with a sentence unless `version` is one that this program reads.
Status check_version(uint64_t version, const std::string& where);
/// The same for what the index database at `where` says; EUCLEAN: it says nothing, so a part of it is lost.
Status check_version_row(const std::optional<std::string>& row, const std::string& where);

}  // namespace varve::index
