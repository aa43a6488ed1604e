// What the parts of StoreCheck share: the open store, what is known of each inode, repairs that wait to be written.
// check.cpp: the store and its counters; check_names.cpp, check_objects.cpp, check_tables.cpp: what their names say.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "index/check.h"
#include "index/keys.h"
#include "index/packs.h"
#include "index/store_directory.h"
#include "index/tree.h"

namespace varve::index {

/// Of an inode: what its row says, and what the directories say.
struct InodeFacts {
  bool readable = true;  ///< its row could be parsed
  bool made = false;     ///< a directory whose inode a repair makes
  uint32_t mode = 0;
  uint32_t links = 0;
  uint64_t size = 0;
  InodeNumber parent = 0;
  ObjectId object = 0;

  InodeNumber named_in = 0;  ///< a directory that has a name of it; 0: none has
  uint32_t names = 0;        ///< entries that lead to it
  uint32_t subdirectories = 0;
  uint64_t entries = 0;
};

class CheckState {
 public:
  CheckState(std::string store, bool repairing, StoreCheck::Report reporter)
      : path(std::move(store)), repair(repairing), report_(std::move(reporter)) {}

  // Reads see the repairs that wait.
  Result<std::optional<std::string>> get(Family family, const std::string& key);
  void put(Family family, std::string key, std::string value);
  void erase(Family family, std::string key);
  Result<bool> write();
  /// Changes an inode's row.
  Status amend(InodeNumber number, const std::function<void(Inode&)>& change);

  void report(Finding finding);
  void problem(std::string_view kind, std::string where, std::string what, std::string advice);
  /// The caller then puts and erases what the remedy says.
  void repairable(std::string_view kind, std::string where, std::string what, std::string remedy);
  void harmless(std::string_view kind, std::string where, std::string what, std::string remedy);

  /// A counter must be above `used`.
  Status require_counter(std::string_view name, uint64_t used);
  Result<uint64_t> take_number(std::string_view name, uint64_t at_least);

  InodeFacts* facts(InodeNumber number);
  /// The entry of `parent` that leads to `inode`; nothing: none does.
  Result<std::optional<Dentry>> find_entry(InodeNumber parent, InodeNumber inode);
  std::string name_of(InodeNumber number);
  /// "object 7", with the file that holds it.
  std::string name_of_object(ObjectId object);

  const std::string path;
  const bool repair;
  std::shared_ptr<Device> device = posix_device();
  std::unique_ptr<StoreLock> lock;
  std::unique_ptr<Tree> tree;
  CheckCounts counts;
  std::unordered_map<InodeNumber, InodeFacts> inodes;
  std::unordered_map<ObjectId, InodeNumber> holder;  ///< one of the inodes that refer to an object
  std::map<std::pair<Family, std::string>, std::optional<std::string>> pending;  ///< nothing: erased

 private:
  StoreCheck::Report report_;
  std::set<std::string> reported_;
  InodeNumber named_directory_ = 0;  ///< whose names are in names_
  std::unordered_map<InodeNumber, std::string> names_;
};

/// "directory", "regular file", ...
std::string_view type_name(uint32_t mode);
/// A key or name as text without control characters.
std::string printable(std::string_view bytes);

/// One look at everything. When repairs wait afterwards, look again once they are written.
Status check_names_once(CheckState& state, const std::unordered_set<InodeNumber>& unlinked);
Status check_objects_once(CheckState& state);
/// Reads every table of the database, those in its directory when it cannot be opened. False: one is damaged, and has
/// been reported.
Result<bool> check_tables(CheckState& state);

}  // namespace varve::index
