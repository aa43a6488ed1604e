#include "index/check.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "index/check_state.h"

namespace varve::index {
namespace {

constexpr size_t kMostRounds = 16;
constexpr size_t kMostDepth = 4096;

struct CounterName {
  std::string_view name;
  uint64_t first;  ///< where it begins in a store that never wrote it
};
constexpr std::array<CounterName, 4> kCounters = {
    {{"next_inode", kRootInode + 1}, {"next_object", 1}, {"next_cookie", 3}, {"next_pack", 1}}};

uint64_t first_of(std::string_view counter) {
  const auto* const found = std::ranges::find(kCounters, counter, &CounterName::name);
  return found == kCounters.end() ? 0 : found->first;
}

}  // namespace

std::string_view type_name(uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "regular file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symbolic link";
    case S_IFCHR:
    case S_IFBLK:
      return "device";
    case S_IFIFO:
      return "pipe";
    case S_IFSOCK:
      return "socket";
    default:
      return "inode of no type";
  }
}

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += value >= 0x20 && value < 0x7f ? std::string(1, byte) : fmt::format("\\x{:02x}", value);
  }
  return text;
}

Result<std::optional<std::string>> CheckState::get(Family family, const std::string& key) {
  if (const auto found = pending.find({family, key}); found != pending.end()) {
    return found->second;
  }
  return tree->get(family, key);
}

void CheckState::put(Family family, std::string key, std::string value) {
  if (repair) {
    pending[{family, std::move(key)}] = std::move(value);
  }
}

void CheckState::erase(Family family, std::string key) {
  if (repair) {
    pending[{family, std::move(key)}] = std::nullopt;
  }
}

Result<bool> CheckState::write() {
  if (pending.empty()) {
    return false;
  }
  rocksdb::WriteBatch batch;
  for (const auto& [place, value] : pending) {
    if (value) {
      tree->put(batch, place.first, place.second, *value);
    } else {
      tree->erase(batch, place.first, place.second);
    }
  }
  VARVE_TRY(tree->write(batch));
  VARVE_TRY(tree->sync());
  pending.clear();
  named_directory_ = 0;
  names_.clear();
  return true;
}

Status CheckState::amend(InodeNumber number, const std::function<void(Inode&)>& change) {
  VARVE_ASSIGN(const auto value, get(Family::inode, number_key(number)));
  auto inode = value ? parse_inode(number, *value) : std::nullopt;
  if (inode) {
    change(*inode);
    put(Family::inode, number_key(number), inode_value(*inode));
  }
  return {};
}

/// What a later look finds again is reported once.
void CheckState::report(Finding finding) {
  if (finding.state == Finding::State::repairable && repair) {
    finding.state = Finding::State::repaired;
  }
  if (reported_.insert(finding.kind + '\0' + finding.where + '\0' + finding.what).second) {
    report_(finding);
  }
}

void CheckState::problem(std::string_view kind, std::string where, std::string what, std::string advice) {
  report({Finding::State::left, std::string(kind), std::move(where), std::move(what), std::move(advice)});
}

void CheckState::repairable(std::string_view kind, std::string where, std::string what, std::string remedy) {
  report({Finding::State::repairable, std::string(kind), std::move(where), std::move(what), std::move(remedy)});
}

void CheckState::harmless(std::string_view kind, std::string where, std::string what, std::string remedy) {
  report({Finding::State::harmless, std::string(kind), std::move(where), std::move(what), std::move(remedy)});
}

Status CheckState::require_counter(std::string_view name, uint64_t used) {
  VARVE_ASSIGN(const auto value, get(Family::meta, std::string(name)));
  const auto count = value ? parse_count(*value) : std::optional(first_of(name));
  if (count && *count > used) {
    return {};
  }
  repairable("counter", std::string(name),
             count ? fmt::format("it is {}, and {} is in use: numbers would be handed out twice", *count, used)
                   : std::string("its value is malformed"),
             fmt::format("it becomes {}", used + 1));
  put(Family::meta, std::string(name), count_value(used + 1));
  return {};
}

Result<uint64_t> CheckState::take_number(std::string_view name, uint64_t at_least) {
  VARVE_ASSIGN(const auto value, get(Family::meta, std::string(name)));
  const uint64_t number = std::max((value ? parse_count(*value) : std::nullopt).value_or(first_of(name)), at_least);
  put(Family::meta, std::string(name), count_value(number + 1));
  return number;
}

InodeFacts* CheckState::facts(InodeNumber number) {
  const auto found = inodes.find(number);
  return found == inodes.end() ? nullptr : &found->second;
}

Result<std::optional<Dentry>> CheckState::find_entry(InodeNumber parent, InodeNumber inode) {
  std::optional<Dentry> found;
  VARVE_TRY(tree->scan(Family::dentry, number_key(parent) + 'n', {},
                       [&](std::string_view key, std::string_view value) -> Result<bool> {
                         auto entry = parse_name_value(key.substr(9), value);
                         if (entry && entry->inode == inode) {
                           found = std::move(entry);
                         }
                         return !found;
                       }));
  return found;
}

std::string CheckState::name_of(InodeNumber number) {
  std::string unnamed = fmt::format("inode {}", number);
  std::string name;
  for (size_t depth = 0; number != kRootInode; ++depth) {
    const InodeFacts* known = facts(number);
    if (known == nullptr || known->named_in == 0 || depth == kMostDepth) {
      return unnamed;
    }
    if (named_directory_ != known->named_in) {
      names_.clear();
      named_directory_ = known->named_in;
      const Status read = tree->scan(Family::dentry, number_key(named_directory_) + 'n', {},
                                     [&](std::string_view key, std::string_view value) -> Result<bool> {
                                       if (const auto entry = parse_name_value(key.substr(9), value)) {
                                         names_[entry->inode] = entry->name;
                                       }
                                       return true;
                                     });
      if (!read.ok()) {
        return unnamed;
      }
    }
    name = fmt::format("/{}{}", names_[number], name);
    number = known->named_in;
  }
  return name.empty() ? "/" : name;
}

std::string CheckState::name_of_object(ObjectId object) {
  const auto found = holder.find(object);
  return found == holder.end() ? fmt::format("object {}", object)
                               : fmt::format("{} (object {})", name_of(found->second), object);
}

StoreCheck::StoreCheck(std::unique_ptr<CheckState> state) : state_(std::move(state)) {}
StoreCheck::~StoreCheck() = default;

Result<std::unique_ptr<StoreCheck>> StoreCheck::open(const std::string& store, bool repair, Report report) {
  std::error_code code;
  std::string path = std::filesystem::absolute(store, code).string();
  if (store.empty() || code) {
    return Error{ENOENT, fmt::format("'{}' is no path of a store", store)};
  }
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  auto state = std::make_unique<CheckState>(path, repair, std::move(report));
  VARVE_ASSIGN(const StoreState found, inspect_store(*state->device, path));
  if (found != StoreState::present) {
    return Error{ENOENT, fmt::format("{} holds no varve store; name the directory that varve mount was given", path)};
  }
  VARVE_ASSIGN(state->lock, StoreLock::take(path, !repair));
  return std::unique_ptr<StoreCheck>(new StoreCheck(std::move(state)));
}

Result<bool> StoreCheck::check_database() {
  const std::string database = state_->path + "/db";
  TreeOptions options{database, nullptr, state_->device, true, false, false};
  auto tree = Tree::open(options);
  const bool log_damaged = !tree.ok() && tree.error().code == EUCLEAN;
  if (log_damaged) {
    state_->problem("log", database, tree.error().text,
                    "nothing is repaired before you have decided about it; what follows is what is left");
    options.accept_loss = true;  // writes nothing: it is opened for reading
    tree = Tree::open(options);
  }
  if (!tree.ok()) {
    VARVE_ASSIGN(const bool whole, check_tables(*state_));
    if (whole) {
      state_->problem("database", database, tree.error().text, "restore the store from a copy");
    }
    return false;
  }
  state_->tree = *std::move(tree);
  VARVE_ASSIGN(const auto version, state_->tree->get(Family::meta, "version"));
  VARVE_TRY(check_version_row(version, database));
  VARVE_ASSIGN(const bool whole, check_tables(*state_));
  if (!whole || (log_damaged && state_->repair)) {
    return false;
  }
  if (state_->repair) {
    state_->tree.reset();
    options.read_only = false;
    VARVE_ASSIGN(state_->tree, Tree::open(options));
  }
  return true;
}

namespace {

/// Looks, writes what is to be repaired, and looks again.
Status in_rounds(CheckState& state, const std::function<Status()>& look) {
  for (size_t round = 0; round < kMostRounds; ++round) {
    VARVE_TRY(look());
    VARVE_ASSIGN(const bool wrote, state.write());
    if (!wrote) {
      return {};
    }
  }
  state.problem("repair", state.path, fmt::format("problems remain after {} rounds of repairs", kMostRounds),
                "restore the store from a copy, and report this");
  return {};
}

}  // namespace

Status StoreCheck::check_names(const std::unordered_set<InodeNumber>& unlinked) {
  return in_rounds(*state_, [&] { return check_names_once(*state_, unlinked); });
}

Status StoreCheck::check_objects() {
  return in_rounds(*state_, [&] { return check_objects_once(*state_); });
}

CheckCounts StoreCheck::counts() const { return state_->counts; }
bool StoreCheck::repairs() const { return state_->repair; }
Device& StoreCheck::device() { return *state_->device; }
const std::string& StoreCheck::path() const { return state_->path; }
std::string StoreCheck::name_of(InodeNumber number) { return state_->name_of(number); }
void StoreCheck::report(Finding finding) { state_->report(std::move(finding)); }

Status StoreCheck::notes(std::string_view prefix,
                         const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  return state_->tree->scan(
      Family::note, prefix, {},
      [&](std::string_view key, std::string_view value) -> Result<bool> { return visit(key, value); });
}

Result<std::optional<Inode>> StoreCheck::inode(InodeNumber number) {
  VARVE_ASSIGN(const auto value, state_->get(Family::inode, number_key(number)));
  return value ? parse_inode(number, *value) : std::optional<Inode>();
}

Status StoreCheck::inodes(const std::function<Status(const Inode&)>& visit) {
  return state_->tree->scan(Family::inode, {}, {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
    if (const auto inode = parse_inode(parse_number_key(key), value); inode) {
      VARVE_TRY(visit(*inode));
    }
    return true;
  });
}

Result<std::optional<std::string>> StoreCheck::layout(ObjectId object) {
  return state_->tree->get(Family::layout, number_key(object));
}

Status StoreCheck::records(ObjectId object, const std::function<bool(const RecordInfo&)>& visit) {
  return state_->tree->scan(
      Family::record, number_key(object), {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
        const auto identity = parse_record_key(key);
        const auto record = parse_record_value(value);
        return !identity || !record ||
               visit({identity->key, record->length, record->checksum, record->origin.object, record->origin.key});
      });
}

void StoreCheck::drop_note(Finding finding, std::string_view key) {
  drop_notes(std::move(finding), {std::string(key)});
}

void StoreCheck::drop_notes(Finding finding, const std::vector<std::string>& keys) {
  finding.state = Finding::State::repairable;
  report(std::move(finding));
  for (const std::string& key : keys) {
    state_->erase(Family::note, key);
  }
}

Status StoreCheck::set_size(Finding finding, InodeNumber inode, uint64_t size) {
  finding.state = Finding::State::repairable;
  report(std::move(finding));
  return state_->amend(inode, [size](Inode& changed) { changed.size = size; });
}

Status StoreCheck::require_cookie(uint64_t used) { return state_->require_counter("next_cookie", used); }

Result<bool> StoreCheck::write_repairs() { return state_->write(); }

Status StoreCheck::close() {
  if (state_->tree && state_->repair) {
    VARVE_TRY(state_->tree->flush());
    VARVE_TRY(state_->tree->sync());
  }
  state_->tree.reset();
  return {};
}

}  // namespace varve::index
