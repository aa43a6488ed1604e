#include "index/store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "index/keys.h"
#include "index/snapshot.h"

namespace varve::index {
namespace {

constexpr std::string_view kVersionKey = "version";
constexpr std::string_view kNextPackKey = "next_pack";
constexpr int kReadTries = 16;
constexpr uint64_t kLeastMemory = uint64_t{4} << 20;
constexpr uint64_t kLeastPack = uint64_t{8} << 20;

Time now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return {time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
}

}  // namespace

Result<std::unique_ptr<Index>> Index::open(const std::string& path, const IndexOptions& options) {
  std::error_code code;
  const auto absolute = std::filesystem::absolute(path, code);  // the process may change its directory later
  if (path.empty() || code) {
    return Error{path.empty() ? ENOENT : code.value(), fmt::format("'{}' is no path of a store", path)};
  }
  auto store = std::make_unique<Store>(absolute.string(), options);
  VARVE_TRY(store->start());
  return std::unique_ptr<Index>(std::move(store));
}

Store::Store(std::string path, const IndexOptions& options)
    : path_(std::move(path)),
      options_(options),
      device_(options.device ? options.device : posix_device()),
      reserve_(device_, path_, options.read_only ? 0 : options.reserve) {
  while (path_.size() > 1 && path_.ends_with('/')) {
    path_.pop_back();
  }
}

Store::~Store() {
  if (collector_.joinable()) {
    {
      const std::lock_guard lock(work_mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    collector_.join();
  }
  if (tree_ && !options_.read_only) {
    (void)tree_->flush();  // if it fails, the next open replays the log
  }
}

Error Store::malformed(std::string_view what, const std::string& name) const {
  return Error{EIO, fmt::format("the {} of {} in the index database of store {} is malformed; restore the store from "
                                "a copy, and report this, for the database's own checksums passed",
                                what, name, path_)};
}

Status Store::writable() const {
  if (options_.read_only) {
    return Error{EROFS, fmt::format("store {} is open for reading only", path_)};
  }
  return {};
}

Status Store::start() {
  VARVE_ASSIGN(StoreState state, inspect_store(*device_, path_));
  if (!options_.read_only && is_snapshot(path_)) {
    return Error{EROFS, fmt::format("{} is a snapshot and is never written: mount it with -o ro", path_)};
  }
  if (options_.read_only && state == StoreState::empty) {
    return Error{ENOENT, fmt::format("{} holds no varve store; open it for writing once to make one", path_)};
  }
  if (!options_.read_only) {
    VARVE_TRY(device_->make_directory(path_));
  }
  VARVE_ASSIGN(lock_, StoreLock::take(path_, options_.read_only));
  VARVE_ASSIGN(state, inspect_store(*device_, path_));  // again: another process may have made it meanwhile
  const bool create = state == StoreState::empty;
  if (!options_.read_only) {
    VARVE_TRY(device_->make_directory(path_ + "/packs"));
    VARVE_TRY(device_->make_directory(path_ + "/db"));
  }
  TreeOptions tree_options{path_ + "/db", options_.file_system, device_,    options_.read_only,
                           create,        options_.accept_loss, kTreeMemory};
  reserve_.measure();
  if (reserve_.size() != 0) {
    // What is reserved has room for the log as tables, and for the living half of a pack.
    tree_options.memory = std::clamp(reserve_.size() / 2, kLeastMemory, kTreeMemory);
    options_.pack_limit = std::min(options_.pack_limit, std::max(reserve_.size() * 3 / 2, kLeastPack));
  }
  auto tree = Tree::open(tree_options);
  if (!tree.ok() && !options_.read_only && means_full(tree.error()) && reserve_.give_up(tree.error())) {
    tree = Tree::open(tree_options);
  }
  VARVE_ASSIGN(tree_, std::move(tree));
  VARVE_ASSIGN(packs_, Packs::open(device_, path_ + "/packs", options_.pack_limit));
  if (create) {
    VARVE_TRY(create_root());
    VARVE_TRY(write_version(*device_, path_));
  }
  VARVE_ASSIGN(const auto version, tree_->get(Family::meta, kVersionKey));
  VARVE_TRY(check_version_row(version, path_ + "/db"));
  if (!options_.read_only && !create) {
    VARVE_TRY(raise_version(*parse_count(*version)));
  }
  VARVE_ASSIGN(const auto root, tree_->get(Family::inode, number_key(kRootInode)));
  if (!root) {
    return Error{EUCLEAN, fmt::format("the index database of store {} has lost the root directory: restore the store "
                                      "from a copy, or make what can be found reachable by varve fsck --repair",
                                      path_)};
  }
  VARVE_TRY(load_counters());
  VARVE_TRY(load_live_bytes());
  if (!options_.read_only) {
    VARVE_TRY(find_doomed());
    reserve_.make();
    for (const auto& [number, facts] : packs_->facts()) {
      if (facts.live * 2 < facts.size) {
        released_bytes_ += facts.size - facts.live;  // what earlier runs left to collect
      }
    }
    collector_ = std::thread([this] { run_collector(); });
  }
  return {};
}

Status Store::create_root() {
  Inode root;
  root.number = kRootInode;
  root.mode = S_IFDIR | 0755;
  root.uid = ::geteuid();
  root.gid = ::getegid();
  root.links = 2;
  root.parent = kRootInode;
  root.accessed = root.modified = root.changed = root.created = now();
  rocksdb::WriteBatch batch;
  VARVE_ASSIGN(const auto present, tree_->get(Family::inode, number_key(kRootInode)));
  if (!present) {  // else the making of this store was interrupted just before its last step
    tree_->put(batch, Family::inode, number_key(kRootInode), inode_value(root));
  }
  tree_->put(batch, Family::meta, kVersionKey, count_value(kStoreVersion));
  VARVE_TRY(tree_->write(batch));
  return tree_->sync();
}

/// From here on an older program could not read what is written. The row first: whoever sees the file sees it too.
Status Store::raise_version(uint64_t version) {
  VARVE_ASSIGN(const bool raised, version_is_ours(*device_, path_));
  if (version == kStoreVersion && raised) {
    return {};
  }
  rocksdb::WriteBatch batch;
  tree_->put(batch, Family::meta, kVersionKey, count_value(kStoreVersion));
  VARVE_TRY(tree_->write(batch));
  VARVE_TRY(tree_->sync());
  return write_version(*device_, path_);
}

Status Store::load_counters() {
  for (auto& counter : counters_) {
    VARVE_ASSIGN(const auto value, tree_->get(Family::meta, counter.name));
    if (value) {
      const auto count = parse_count(*value);
      if (!count) {
        return malformed("counter", counter.name);
      }
      counter.next = counter.limit = *count;
    }
  }
  VARVE_ASSIGN(const auto value, tree_->get(Family::meta, kNextPackKey));
  if (value) {
    const auto count = parse_count(*value);
    if (!count || *count > UINT32_MAX) {
      return malformed("counter", "next_pack");
    }
    packs_->skip_to(static_cast<uint32_t>(*count));
    pack_number_written_ = *count;
  }
  return {};
}

Status Store::load_live_bytes() {
  packs_->clear_live();
  return tree_->scan(Family::pack, {}, {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
    const uint64_t number = parse_number_key(key);
    const auto live = parse_count(value);
    if (key.size() != 8 || number > UINT32_MAX || !live) {
      return malformed("live bytes", fmt::format("pack {}", number));
    }
    packs_->set_live(static_cast<uint32_t>(number), *live);
    return true;
  });
}

/// What an earlier run left: objects never published, and objects released whose records were not all erased.
Status Store::find_doomed() {
  std::vector<Doomed> found;
  for (const ObjectTag tag : {ObjectTag::unpublished, ObjectTag::dying}) {
    const std::string prefix(1, static_cast<char>(tag));
    VARVE_TRY(tree_->scan(Family::object, prefix, {}, [&](std::string_view key, std::string_view) -> Result<bool> {
      const auto object = parse_object_key(key);
      if (!object) {
        return malformed("marker", "an object");
      }
      found.push_back({*object, tag == ObjectTag::dying});
      return true;
    }));
  }
  doom(found);
  return {};
}

Result<std::optional<Inode>> Store::inode(InodeNumber number) {
  VARVE_ASSIGN(const auto value, tree_->get(Family::inode, number_key(number)));
  if (!value) {
    return std::optional<Inode>();
  }
  auto inode = parse_inode(number, *value);
  if (!inode) {
    return malformed("attributes", fmt::format("inode {}", number));
  }
  return inode;
}

Result<std::optional<Dentry>> Store::lookup(InodeNumber parent, std::string_view name) {
  VARVE_ASSIGN(const auto value, tree_->get(Family::dentry, name_key(parent, name)));
  if (!value) {
    return std::optional<Dentry>();
  }
  auto entry = parse_name_value(name, *value);
  if (!entry) {
    return malformed("directory entry", fmt::format("'{}' in inode {}", name, parent));
  }
  return entry;
}

Status Store::list(InodeNumber parent, uint64_t after, const std::function<bool(const Dentry&)>& visit) {
  if (after == UINT64_MAX) {
    return {};
  }
  return tree_->scan(Family::dentry, cookie_prefix(parent), cookie_key(parent, after + 1),
                     [&](std::string_view key, std::string_view value) -> Result<bool> {
                       const auto entry = parse_cookie_row(key, value);
                       if (!entry) {
                         return malformed("directory entry", fmt::format("a name in inode {}", parent));
                       }
                       return visit(*entry);
                     });
}

Result<std::optional<std::string>> Store::xattr(InodeNumber inode, std::string_view name) {
  return tree_->get(Family::xattr, xattr_key(inode, name));
}

Result<std::vector<std::string>> Store::xattr_names(InodeNumber inode) {
  std::vector<std::string> names;
  const std::string prefix = number_key(inode);
  VARVE_TRY(tree_->scan(Family::xattr, prefix, {}, [&](std::string_view key, std::string_view) -> Result<bool> {
    names.emplace_back(key.substr(prefix.size()));
    return true;
  }));
  return names;
}

Result<std::optional<std::string>> Store::note(std::string_view key) { return tree_->get(Family::note, key); }

Status Store::notes(std::string_view prefix,
                    const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  return tree_->scan(Family::note, prefix, {},
                     [&](std::string_view key, std::string_view value) -> Result<bool> { return visit(key, value); });
}

Result<std::string> Store::layout(ObjectId object) {
  VARVE_ASSIGN(auto value, tree_->get(Family::layout, number_key(object)));
  if (!value) {
    return Error{ENOENT, fmt::format("store {} has no object {}", path_, object)};
  }
  return *std::move(value);
}

Result<std::vector<std::byte>> Store::record(ObjectId object, const RecordKey& key) {
  std::string last;
  for (int tries = 0;; ++tries) {
    VARVE_ASSIGN(auto value, tree_->get(Family::record, record_key(object, key)));
    if (!value) {
      return Error{ENOENT, fmt::format("store {} has no record ({})", path_, describe({object, key}))};
    }
    const auto record = parse_record_value(*value);
    if (!record) {
      return malformed("value", fmt::format("record ({})", describe({object, key})));
    }
    if (!record->packed) {
      if (checksum_of(record->payload) != record->checksum) {
        return malformed("checksum", fmt::format("record ({})", describe({object, key})));
      }
      const auto bytes = std::as_bytes(std::span(record->payload));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }
    auto payload = packs_->read(*record);
    // The collector may have moved the record between the two steps; then the tree knows better by now.
    if (payload.ok() || payload.error().code != ENOENT) {
      return payload;
    }
    if (*value == last || tries == kReadTries) {
      return Error{EIO,
                   fmt::format("record ({}) cannot be read, its pack is missing: {}; restore the store from a copy",
                               describe({object, key}), payload.error().text)};
    }
    last = std::move(*value);
  }
}

Status Store::records(ObjectId object, const std::function<bool(const RecordInfo&)>& visit) {
  return tree_->scan(
      Family::record, number_key(object), {}, [&](std::string_view key, std::string_view value) -> Result<bool> {
        const auto identity = parse_record_key(key);
        const auto record = parse_record_value(value);
        if (!identity || !record) {
          return malformed("record list", fmt::format("object {}", object));
        }
        return visit({identity->key, record->length, record->checksum, record->origin.object, record->origin.key});
      });
}

Status Store::sync() {
  VARVE_TRY(writable());
  {
    const std::lock_guard lock(commit_mutex_);
    VARVE_TRY(ready_to_write());
  }
  return tree_->sync();
}

Result<DeviceSpace> Store::space() {
  VARVE_ASSIGN(DeviceSpace space, device_->space(path_));
  const uint64_t missing = reserve_.missing() / std::max<uint64_t>(space.block_size, 1);
  space.blocks_free -= std::min(space.blocks_free, missing);
  space.blocks_available -= std::min(space.blocks_available, missing);
  return space;
}

Result<IndexStatistics> Store::statistics() {
  IndexStatistics statistics;
  for (const auto& [number, facts] : packs_->facts()) {
    ++statistics.packs;
    statistics.pack_bytes += facts.size;
    statistics.live_pack_bytes += facts.live;
  }
  statistics.tree_bytes = tree_->size_estimate();
  return statistics;
}

}  // namespace varve::index
