// Checks a store that nobody has open: do its rows, its directories, its objects and its packs agree. What fs/ keeps in
// notes and layouts is checked by fs/check_layouts.h, through what is here. Used by one thread.
//
// Without repair nothing is written. With it, what has one right answer is written in batches of the tree, and checked
// again until nothing is left to write.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "index/index.h"

namespace varve::index {

struct Finding {
  enum class State : uint8_t {
    harmless,    ///< the next mount deals with it
    left,        ///< there is no one right answer
    repairable,  ///< a repair would put it right
    repaired,
  };
  State state = State::left;
  std::string kind;    ///< for programs: "entry", "links", "record", ...
  std::string where;   ///< a path in the file system where there is one, else what stands for it
  std::string what;    ///< what is wrong
  std::string remedy;  ///< what the repair does; where there is none, what a person can do
};

struct CheckCounts {
  uint64_t directories = 0, files = 0;  ///< files: everything that is no directory
  uint64_t objects = 0, records = 0, packs = 0, pack_bytes = 0;
};

class CheckState;

class StoreCheck {
 public:
  using Report = std::function<void(const Finding&)>;

  /// Takes the store's lock: EBUSY names the process that has it. ENOENT: no store. Other errors as Index::open.
  static Result<std::unique_ptr<StoreCheck>> open(const std::string& store, bool repair, Report report);
  ~StoreCheck();

  /// The database's files. False: they are damaged, which has been reported; nothing else can be told then, and
  /// nothing is repaired.
  Result<bool> check_database();
  /// Inodes, directories, attributes. `unlinked`: inodes that need no name, since a note says so.
  Status check_names(const std::unordered_set<InodeNumber>& unlinked);
  /// Objects, records and packs. After check_names().
  Status check_objects();
  CheckCounts counts() const;

  // For who knows what notes and layouts mean. After check_names(), but for notes().
  bool repairs() const;
  Device& device();
  const std::string& path() const;
  Status notes(std::string_view prefix, const std::function<bool(std::string_view key, std::string_view value)>& visit);
  Result<std::optional<Inode>> inode(InodeNumber number);
  /// Those that can be read, in order of their numbers.
  Status inodes(const std::function<Status(const Inode&)>& visit);
  /// Nothing: there is no layout of this object.
  Result<std::optional<std::string>> layout(ObjectId object);
  /// As Index::records; those that cannot be read are left out, check_objects() reports them.
  Status records(ObjectId object, const std::function<bool(const RecordInfo&)>& visit);
  /// The path of an inode, or "inode 12".
  std::string name_of(InodeNumber number);

  void report(Finding finding);
  /// Reports `finding` and, when repairing, erases the note, or notes.
  void drop_note(Finding finding, std::string_view key);
  void drop_notes(Finding finding, const std::vector<std::string>& keys);
  /// Reports `finding` and, when repairing, gives the inode this size.
  Status set_size(Finding finding, InodeNumber inode, uint64_t size);
  /// `used`, a cookie or the number of a staging file, must never be handed out again.
  Status require_cookie(uint64_t used);
  /// Writes what has been repaired. True if there was anything.
  Result<bool> write_repairs();
  /// Writes everything to the disk. Call last.
  Status close();

 private:
  explicit StoreCheck(std::unique_ptr<CheckState> state);
  std::unique_ptr<CheckState> state_;
};

}  // namespace varve::index
