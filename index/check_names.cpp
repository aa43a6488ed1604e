// Inodes, the two rows of each directory entry, the tree that directories form, links, extended attributes.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "index/check_state.h"

namespace varve::index {
namespace {

constexpr size_t kMostName = 255;
constexpr uint64_t kFirstCookie = 3;
constexpr std::string_view kLostAndFound = "lost+found";

bool valid_name(InodeNumber parent, std::string_view name) {
  return !name.empty() && name.size() <= kMostName && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos &&
         (parent != kRootInode || name != ".varve");
}

/// The rows that speak of one name of a directory.
struct NameRows {
  bool by_name = false;         ///< there is a row by name
  std::optional<Dentry> named;  ///< what it says, if it can be parsed
  std::vector<Dentry> listed;   ///< rows by cookie
};

struct DirectoryRows {
  InodeNumber number = 0;
  std::map<std::string, NameRows> names;
  std::map<uint64_t, std::string> cookies;  ///< whose each cookie is, by the rows by cookie
};

class NameCheck {
 public:
  NameCheck(CheckState& state, const std::unordered_set<InodeNumber>& unlinked) : state_(state), unlinked_(unlinked) {}

  Status run() {
    VARVE_TRY(load_inodes());
    VARVE_TRY(check_entries());
    VARVE_TRY(check_tree());
    VARVE_TRY(adopt_nameless());
    VARVE_TRY(check_counts());
    VARVE_TRY(check_attributes());
    VARVE_TRY(state_.require_counter("next_inode", highest_inode_));
    return state_.require_counter("next_cookie", highest_cookie_);
  }

 private:
  Status load_inodes();
  Status check_root();
  Status check_entries();
  Status check_directory(const DirectoryRows& rows);
  Status check_name(const DirectoryRows& rows, const std::string& name, const NameRows& found);
  Status accept(InodeNumber parent, const Dentry& entry);
  Status check_tree();
  Status adopt_nameless();
  Status adopt(InodeNumber number);
  Status find_lost_and_found();
  Status check_counts();
  Status check_attributes();

  Result<bool> is_there(InodeNumber number, uint32_t type);
  Status make_directory(InodeNumber number, InodeNumber parent);
  void erase_entry(InodeNumber parent, const Dentry& entry);
  Status cut(InodeNumber number, std::string what);
  std::string place(InodeNumber parent, std::string_view name) {
    const std::string above = state_.name_of(parent);
    return (above == "/" ? "/" : above + "/") + printable(name);
  }

  CheckState& state_;
  const std::unordered_set<InodeNumber>& unlinked_;
  uint64_t highest_inode_ = kRootInode;
  uint64_t highest_cookie_ = kFirstCookie - 1;
  InodeNumber lost_and_found_ = 0;
};

Inode new_directory(InodeNumber number, InodeNumber parent, uint32_t mode) {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  Inode inode;
  inode.number = number;
  inode.mode = S_IFDIR | mode;
  inode.uid = ::geteuid();
  inode.gid = ::getegid();
  inode.links = 2;
  inode.parent = parent;
  inode.accessed = inode.modified = inode.changed = inode.created = {time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
  return inode;
}

Status NameCheck::load_inodes() {
  state_.inodes.clear();
  state_.holder.clear();
  state_.counts.directories = state_.counts.files = 0;
  VARVE_TRY(state_.tree->scan(Family::inode, {}, {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
    if (key.size() != 8) {
      state_.repairable("inode", fmt::format("inode row '{}'", printable(key)), "its key is no number",
                        "erases the row, which nothing can reach");
      state_.erase(Family::inode, std::string(key));
      return true;
    }
    const InodeNumber number = parse_number_key(key);
    highest_inode_ = std::max(highest_inode_, number);
    InodeFacts& facts = state_.inodes[number];
    const auto inode = parse_inode(number, value);
    facts.readable = inode.has_value();
    if (!inode) {
      state_.problem("inode", fmt::format("inode {}", number), "its row is malformed",
                     "restore the file from a copy, and report this, for the database's own checksums passed");
      return true;
    }
    facts.mode = inode->mode;
    facts.links = inode->links;
    facts.size = inode->size;
    facts.parent = inode->parent;
    facts.object = inode->object;
    if (inode->object != 0) {
      state_.holder[inode->object] = number;
    }
    ++(S_ISDIR(inode->mode) ? state_.counts.directories : state_.counts.files);
    return true;
  }));
  return check_root();
}

Status NameCheck::check_root() {
  const InodeFacts* root = state_.facts(kRootInode);
  if (root == nullptr) {
    state_.repairable("inode", "/", "the root's inode is missing", "makes it again, with mode 0700 and you as owner");
    return make_directory(kRootInode, kRootInode);
  }
  if (root->readable && !S_ISDIR(root->mode)) {
    state_.problem("inode", "/", fmt::format("the root is a {}", type_name(root->mode)),
                   "restore the store from a copy");
  }
  return {};
}

Status NameCheck::make_directory(InodeNumber number, InodeNumber parent) {
  state_.put(Family::inode, number_key(number), inode_value(new_directory(number, parent, 0700)));
  InodeFacts& facts = state_.inodes[number];
  facts = {};
  facts.made = true;
  facts.mode = S_IFDIR | 0700;
  facts.parent = parent;
  highest_inode_ = std::max(highest_inode_, number);
  return {};
}

/// Does the inode exist? A directory whose inode is lost while its entries are there is made again.
Result<bool> NameCheck::is_there(InodeNumber number, uint32_t type) {
  if (state_.facts(number) != nullptr) {
    return true;
  }
  if (type != S_IFDIR || number == 0) {
    return false;
  }
  bool has_entries = false;
  VARVE_TRY(state_.tree->scan(Family::dentry, number_key(number), {},
                              [&](std::string_view, std::string_view) -> Result<bool> {
                                has_entries = true;
                                return false;
                              }));
  if (has_entries) {
    state_.repairable("inode", fmt::format("inode {}", number), "a directory's inode is missing, its entries are there",
                      "makes it again, with mode 0700 and you as owner");
    VARVE_TRY(make_directory(number, 0));
  }
  return has_entries;
}

/// Reads the rows of all entries, a directory at a time.
Status NameCheck::check_entries() {
  DirectoryRows rows;
  const auto flush = [&]() -> Status {
    if (!rows.names.empty()) {
      VARVE_TRY(check_directory(rows));
    }
    rows = {};
    return {};
  };
  VARVE_TRY(
      state_.tree->scan(Family::dentry, {}, {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
        const bool by_name = key.size() >= 9 && key[8] == 'n';
        const bool by_cookie = key.size() == 17 && key[8] == 'c';
        const auto listed = by_cookie ? parse_cookie_row(key, value) : std::nullopt;
        if (!by_name && !listed) {
          state_.repairable("entry", fmt::format("row of an entry '{}'", printable(key)), "it is malformed",
                            "erases the row");
          state_.erase(Family::dentry, std::string(key));
          return true;
        }
        const InodeNumber parent = parse_number_key(key);
        if (parent != rows.number) {
          VARVE_TRY(flush());
          rows.number = parent;
        }
        if (by_name) {
          const std::string name(key.substr(9));
          NameRows& found = rows.names[name];
          found.by_name = true;
          found.named = parse_name_value(name, value);
          highest_cookie_ = std::max(highest_cookie_, found.named ? found.named->cookie : 0);
        } else {
          rows.names[listed->name].listed.push_back(*listed);
          rows.cookies[listed->cookie] = listed->name;
          highest_cookie_ = std::max(highest_cookie_, listed->cookie);
        }
        return true;
      }));
  return flush();
}

Status NameCheck::check_directory(const DirectoryRows& rows) {
  VARVE_ASSIGN(const bool there, is_there(rows.number, S_IFDIR));
  const InodeFacts* directory = state_.facts(rows.number);
  if (!there || (directory->readable && !S_ISDIR(directory->mode))) {
    state_.repairable("entry", fmt::format("{} entries of inode {}", rows.names.size(), rows.number),
                      there ? fmt::format("it is a {}", type_name(directory->mode)) : "it does not exist",
                      "erases them; what they lead to goes to /lost+found");
    for (const auto& [name, found] : rows.names) {
      state_.erase(Family::dentry, name_key(rows.number, name));
      for (const Dentry& entry : found.listed) {
        state_.erase(Family::dentry, cookie_key(rows.number, entry.cookie));
      }
    }
    return {};
  }
  for (const auto& [name, found] : rows.names) {
    VARVE_TRY(check_name(rows, name, found));
  }
  return {};
}

/// What is wrong with the rows of a name, which should all say what `entry` says. Empty: nothing.
std::string fault_of(const NameRows& found, const Dentry& entry) {
  const auto other = [&](const Dentry& row) {
    return row.inode != entry.inode || row.type != entry.type || row.cookie != entry.cookie;
  };
  if (!found.named) {
    return found.by_name ? "its row by name is malformed"
                         : "it is listed and cannot be opened: its row by name is missing";
  }
  if (found.listed.empty()) {
    return "it can be opened and is not listed: its row by cookie is missing";
  }
  if (found.listed.size() > 1) {
    return fmt::format("it is listed {} times", found.listed.size());
  }
  const Dentry& listed = found.listed.front();
  if (listed.inode != found.named->inode) {
    return fmt::format("its rows lead to different inodes, {} and {}", found.named->inode, listed.inode);
  }
  if (listed.cookie != found.named->cookie) {
    return fmt::format("its rows have different cookies, {} and {}", found.named->cookie, listed.cookie);
  }
  if (listed.cookie < kFirstCookie) {
    return fmt::format("its cookie is {}, with which it is not listed", listed.cookie);
  }
  if (other(*found.named) || other(listed)) {
    return fmt::format("its rows say {} and {}, its inode is a {}", type_name(found.named->type),
                       type_name(listed.type), type_name(entry.type));
  }
  return {};
}

Status NameCheck::check_name(const DirectoryRows& rows, const std::string& name, const NameRows& found) {
  const InodeNumber parent = rows.number;
  std::optional<Dentry> entry = found.named;
  bool there = false;
  if (entry) {
    VARVE_ASSIGN(there, is_there(entry->inode, entry->type));
  }
  for (size_t i = 0; i < found.listed.size() && !there; ++i) {
    entry = found.listed[i];
    VARVE_ASSIGN(there, is_there(entry->inode, entry->type));
  }
  const auto erase_rows = [&] {
    state_.erase(Family::dentry, name_key(parent, name));
    for (const Dentry& listed : found.listed) {
      state_.erase(Family::dentry, cookie_key(parent, listed.cookie));
    }
  };
  const bool valid = valid_name(parent, name);
  if (!there || !valid || entry->inode == kRootInode) {
    const std::string inode = entry ? fmt::format("inode {}", entry->inode) : "an inode";
    state_.repairable("entry", place(parent, name),
                      !valid   ? "no entry may have this name"
                      : !there ? fmt::format("it leads to {}, which does not exist", inode)
                               : std::string("it leads to the root"),
                      !valid ? fmt::format("erases it; {} goes to /lost+found", inode) : "erases it");
    erase_rows();
    return {};
  }
  const InodeFacts& facts = *state_.facts(entry->inode);
  entry->type = facts.readable ? facts.mode & S_IFMT : entry->type;
  // The row by name says under which cookie it is listed, unless another name is.
  const auto is_free = [&](uint64_t cookie) {
    const auto taken = rows.cookies.find(cookie);
    return cookie >= kFirstCookie && (taken == rows.cookies.end() || taken->second == name);
  };
  if (!is_free(entry->cookie)) {
    const auto listed = std::ranges::find_if(found.listed, [&](const Dentry& row) { return is_free(row.cookie); });
    if (listed != found.listed.end()) {
      entry->cookie = listed->cookie;
    } else {
      // Cookies of all directories are below the counter, or it is raised now.
      VARVE_ASSIGN(
          entry->cookie,
          state_.take_number("next_cookie", rows.cookies.empty() ? kFirstCookie : rows.cookies.rbegin()->first + 1));
    }
  }
  if (const std::string fault = fault_of(found, *entry); !fault.empty()) {
    state_.repairable("entry", place(parent, name), fault,
                      fmt::format("writes its rows anew, for inode {}", entry->inode));
    erase_rows();
    state_.put(Family::dentry, name_key(parent, name), name_value(*entry));
    state_.put(Family::dentry, cookie_key(parent, entry->cookie), cookie_value(*entry));
  }
  return accept(parent, *entry);
}

/// Counts an entry; a directory may have one alone.
Status NameCheck::accept(InodeNumber parent, const Dentry& entry) {
  InodeFacts& child = *state_.facts(entry.inode);
  InodeFacts& directory = *state_.facts(parent);
  if (entry.type == S_IFDIR && child.named_in != 0) {
    const bool keep_this = child.parent == parent && child.named_in != parent;
    Dentry spare = entry;
    InodeNumber spare_in = parent;
    if (keep_this) {
      VARVE_ASSIGN(const auto first, state_.find_entry(child.named_in, entry.inode));
      if (first) {
        spare = *first;
        spare_in = child.named_in;
      }
    }
    state_.repairable("entry", place(spare_in, spare.name),
                      fmt::format("directory {} has another name, and may have one alone", entry.inode),
                      "erases this one");
    erase_entry(spare_in, spare);
    if (spare_in != parent) {
      --state_.facts(spare_in)->entries;
      --state_.facts(spare_in)->subdirectories;
      child.named_in = parent;
      ++directory.entries;
      ++directory.subdirectories;
    }
    return {};
  }
  child.named_in = child.named_in == 0 || child.parent == parent ? parent : child.named_in;
  ++child.names;
  ++directory.entries;
  directory.subdirectories += entry.type == S_IFDIR ? 1 : 0;
  return {};
}

void NameCheck::erase_entry(InodeNumber parent, const Dentry& entry) {
  state_.erase(Family::dentry, name_key(parent, entry.name));
  state_.erase(Family::dentry, cookie_key(parent, entry.cookie));
}

/// Takes a directory's only name away.
Status NameCheck::cut(InodeNumber number, std::string what) {
  InodeFacts& facts = *state_.facts(number);
  VARVE_ASSIGN(const auto entry, state_.find_entry(facts.named_in, number));
  state_.repairable("tree", fmt::format("inode {}", number), std::move(what),
                    fmt::format("takes it out of inode {}; it goes to /lost+found", facts.named_in));
  if (entry) {
    erase_entry(facts.named_in, *entry);
  }
  InodeFacts& above = *state_.facts(facts.named_in);
  --above.entries;
  --above.subdirectories;
  facts.named_in = 0;
  facts.names = 0;
  return {};
}

/// Every directory lies below the root, and knows what it lies in.
Status NameCheck::check_tree() {
  std::unordered_map<InodeNumber, uint64_t> walk_of;  // by which walk a directory was seen first
  uint64_t walk = 0;
  std::vector<InodeNumber> loops;
  for (const auto& [start, begin] : state_.inodes) {
    if (!S_ISDIR(begin.mode) || walk_of.contains(start)) {
      continue;
    }
    ++walk;
    InodeNumber at = start;
    while (at != 0 && walk_of.try_emplace(at, walk).second) {
      const InodeFacts* facts = at == kRootInode ? nullptr : state_.facts(at);
      at = facts == nullptr ? 0 : facts->named_in;
    }
    if (at != 0 && walk_of[at] == walk) {
      loops.push_back(at);
    }
  }
  for (InodeNumber number : loops) {
    InodeNumber lowest = number;
    for (InodeNumber at = state_.facts(number)->named_in; at != number; at = state_.facts(at)->named_in) {
      lowest = std::min(lowest, at);
    }
    VARVE_TRY(cut(lowest, "this directory lies in itself"));
  }
  for (auto& [number, facts] : state_.inodes) {
    const InodeNumber parent = number == kRootInode ? kRootInode : facts.named_in;
    if (!facts.readable || !S_ISDIR(facts.mode) || parent == 0 || facts.parent == parent) {
      continue;
    }
    if (!facts.made) {
      state_.repairable("parent", state_.name_of(number),
                        fmt::format("its inode says that it lies in inode {}, it lies in {}", facts.parent, parent),
                        "sets it right");
    }
    facts.parent = parent;
    VARVE_TRY(state_.amend(number, [parent = parent](Inode& inode) { inode.parent = parent; }));
  }
  return {};
}

/// Finds or makes /lost+found (or lost+found.1, ..., when that name is no directory's).
Status NameCheck::find_lost_and_found() {
  for (unsigned attempt = 0; lost_and_found_ == 0; ++attempt) {
    const std::string name = attempt == 0 ? std::string(kLostAndFound) : fmt::format("{}.{}", kLostAndFound, attempt);
    VARVE_ASSIGN(const auto value, state_.get(Family::dentry, name_key(kRootInode, name)));
    const auto present = value ? parse_name_value(name, *value) : std::nullopt;
    if (present && present->type == S_IFDIR && state_.facts(present->inode) != nullptr) {
      lost_and_found_ = present->inode;
      return {};
    }
    if (value) {
      continue;
    }
    VARVE_ASSIGN(const InodeNumber number, state_.take_number("next_inode", highest_inode_ + 1));
    VARVE_ASSIGN(const uint64_t cookie, state_.take_number("next_cookie", highest_cookie_ + 1));
    VARVE_TRY(make_directory(number, kRootInode));
    highest_cookie_ = cookie;
    lost_and_found_ = number;
    InodeFacts& facts = *state_.facts(number);
    facts.links = 2;
    facts.named_in = kRootInode;
    facts.names = 1;
    const Dentry entry{name, number, S_IFDIR, cookie};
    state_.put(Family::dentry, name_key(kRootInode, name), name_value(entry));
    state_.put(Family::dentry, cookie_key(kRootInode, cookie), cookie_value(entry));
    InodeFacts& root = *state_.facts(kRootInode);
    ++root.entries;
    ++root.size;
    ++root.subdirectories;
    ++root.links;
    VARVE_TRY(state_.amend(kRootInode, [&](Inode& inode) {
      inode.size = root.size;
      inode.links = root.links;
    }));
  }
  return {};
}

Status NameCheck::adopt(InodeNumber number) {
  VARVE_TRY(find_lost_and_found());
  std::string name = fmt::format("{}", number);
  for (unsigned attempt = 1;; ++attempt) {
    VARVE_ASSIGN(const auto taken, state_.get(Family::dentry, name_key(lost_and_found_, name)));
    if (!taken) {
      break;
    }
    name = fmt::format("{}.{}", number, attempt);
  }
  VARVE_ASSIGN(const uint64_t cookie, state_.take_number("next_cookie", highest_cookie_ + 1));
  highest_cookie_ = cookie;
  InodeFacts& facts = *state_.facts(number);
  InodeFacts& above = *state_.facts(lost_and_found_);
  const Dentry entry{name, number, facts.mode & S_IFMT, cookie};
  state_.put(Family::dentry, name_key(lost_and_found_, name), name_value(entry));
  state_.put(Family::dentry, cookie_key(lost_and_found_, cookie), cookie_value(entry));
  const bool directory = S_ISDIR(facts.mode);
  ++above.entries;
  ++above.size;
  above.subdirectories += directory ? 1 : 0;
  above.links += directory ? 1 : 0;
  facts.named_in = lost_and_found_;
  facts.names = 1;
  facts.links = directory ? facts.links : 1;
  facts.parent = lost_and_found_;
  VARVE_TRY(state_.amend(number, [&](Inode& inode) {
    inode.links = facts.links;
    inode.parent = facts.parent;
  }));
  return state_.amend(lost_and_found_, [&](Inode& inode) {
    inode.size = above.size;
    inode.links = above.links;
  });
}

/// What no entry leads to and no note keeps gets an entry in /lost+found.
Status NameCheck::adopt_nameless() {
  std::vector<InodeNumber> nameless;
  for (const auto& [number, facts] : state_.inodes) {
    if (facts.named_in == 0 && number != kRootInode && facts.readable && !unlinked_.contains(number)) {
      nameless.push_back(number);
    }
  }
  std::ranges::sort(nameless);
  for (const InodeNumber number : nameless) {
    const InodeFacts& facts = *state_.facts(number);
    state_.repairable("lost", fmt::format("inode {}", number),
                      fmt::format("no entry leads to this {} ({} {})", type_name(facts.mode), facts.size,
                                  S_ISDIR(facts.mode) ? "entries" : "bytes"),
                      fmt::format("it becomes /lost+found/{}", number));
    if (state_.repair) {
      VARVE_TRY(adopt(number));
    }
  }
  return {};
}

Status NameCheck::check_counts() {
  for (auto& [number, facts] : state_.inodes) {
    if (!facts.readable || (facts.named_in == 0 && number != kRootInode && !unlinked_.contains(number))) {
      continue;
    }
    const bool directory = S_ISDIR(facts.mode);
    const uint32_t links = directory ? 2 + facts.subdirectories : facts.names;
    const uint64_t size = directory ? facts.entries : facts.size;
    if (facts.links != links && !facts.made) {
      const std::string why = directory ? fmt::format("2 and one for each of its {} directories", facts.subdirectories)
                                        : fmt::format("{} names lead to it", facts.names);
      state_.repairable("links", state_.name_of(number), fmt::format("it has {} links, and {}", facts.links, why),
                        fmt::format("sets them to {}", links));
    }
    if (facts.size != size && !facts.made) {
      state_.repairable("size", state_.name_of(number), fmt::format("it has {} entries and says {}", size, facts.size),
                        fmt::format("sets it to {}", size));
    }
    if (facts.links != links || facts.size != size) {
      VARVE_TRY(state_.amend(number, [&](Inode& inode) {
        inode.links = links;
        inode.size = size;
      }));
    }
  }
  return {};
}

Status NameCheck::check_attributes() {
  InodeNumber last = 0;
  return state_.tree->scan(Family::xattr, {}, {}, [&](std::string_view key, std::string_view) -> Result<bool> {
    const InodeNumber number = parse_number_key(key);
    if (key.size() > 8 && state_.facts(number) != nullptr) {
      return true;
    }
    if (number != last || key.size() <= 8) {
      last = number;
      state_.repairable("attribute",
                        key.size() > 8 ? fmt::format("inode {}", number) : fmt::format("row '{}'", printable(key)),
                        key.size() > 8 ? "it does not exist and has extended attributes"
                                       : "this row of an extended attribute is malformed",
                        "erases them");
    }
    state_.erase(Family::xattr, std::string(key));
    return true;
  });
}

}  // namespace

Status check_names_once(CheckState& state, const std::unordered_set<InodeNumber>& unlinked) {
  return NameCheck(state, unlinked).run();
}

}  // namespace varve::index
