// What nobody holds any more goes: records of released objects from the tree, dead packs from the disk.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "index/keys.h"
#include "index/snapshot.h"
#include "index/store.h"

namespace varve::index {
namespace {

constexpr size_t kRowsErasedAtOnce = 2048;
constexpr size_t kRowsScannedAtOnce = 65536;
constexpr size_t kMovesAtOnce = 4096;
constexpr uint64_t kBytesMovedAtOnce = uint64_t{32} << 20;
constexpr size_t kPacksMovedAtOnce = 16;
// Dead bytes over live ones: more than the first are collected, until the second are left. A pack that lives to a
// larger part than the third stays.
constexpr double kMostDead = 0.25;
constexpr double kLeftDead = 0.2;
constexpr double kWorthMoving = 0.9;
constexpr double kHalf = 0.5;
constexpr uint64_t kLookEvery = 8;  // a pack's size over what is released between two looks
constexpr std::chrono::seconds kPauseAfterFailure{1};

/// The value of a record that lies in a pack and was appended again.
RecordValue moved_to(RecordValue record, const Packs::Appended& appended) {
  record.pack = appended.pack->number;
  record.offset = appended.offset;
  return record;
}

}  // namespace

void Store::doom(const std::vector<Doomed>& objects) {
  if (objects.empty()) {
    return;
  }
  {
    const std::lock_guard lock(work_mutex_);
    doomed_.insert(doomed_.end(), objects.begin(), objects.end());
  }
  work_.notify_one();
}

void Store::run_collector() {
  std::unique_lock lock(work_mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !doomed_.empty() || released_bytes_ >= options_.pack_limit; });
    if (stopping_) {
      return;  // what is left is marked in the tree; the next open goes on
    }
    lock.unlock();
    Status status;
    {
      const std::lock_guard collect_lock(collect_mutex_);
      status = erase_doomed();
    }
    if (status.ok() && (released_bytes_ >= options_.pack_limit || (released_bytes_ != 0 && short_of_room()) ||
                        (released_bytes_ >= options_.pack_limit / kLookEvery && wasteful()))) {
      const auto freed = collect();
      status = freed.ok() ? Status() : Status(freed.error());
      (void)reserve_.check();  // makes it again, if need be
    }
    lock.lock();
    if (!status.ok()) {
      work_.wait_for(lock, kPauseAfterFailure, [&] { return stopping_; });
    }
  }
}

/// With collect_mutex_ held.
Status Store::erase_doomed() {
  for (;;) {
    Doomed next;
    {
      const std::lock_guard lock(work_mutex_);
      if (doomed_.empty() || stopping_) {
        return {};
      }
      next = doomed_.front();
    }
    VARVE_ASSIGN(const bool more, erase_some(next));
    if (!more) {
      const std::lock_guard lock(work_mutex_);
      doomed_.pop_front();
    }
  }
}

/// One bounded step; true if there is more to do for this object. Steps may be repeated after a crash.
Result<bool> Store::erase_some(const Doomed& doomed) {
  const std::lock_guard lock(commit_mutex_);
  bool more = false;
  VARVE_TRY(change_on_full_disk([&]() -> Status {
    VARVE_ASSIGN(more, erase_rows(doomed));
    return {};
  }));
  return more;
}

/// With commit_mutex_ held.
Result<bool> Store::erase_rows(const Doomed& doomed) {
  rocksdb::WriteBatch batch;
  LiveChanges live;
  if (!doomed.counted) {
    VARVE_ASSIGN(const auto holder, tree_->get(Family::object, object_key(ObjectTag::published, doomed.object)));
    if (holder) {  // its publication was reported as failed and yet took place
      return false;
    }
  }
  size_t rows = 0;
  uint64_t released = 0;
  VARVE_TRY(tree_->scan(Family::record, number_key(doomed.object), {},
                        [&](std::string_view key, std::string_view value) -> Result<bool> {
                          const auto record = parse_record_value(value);
                          if (doomed.counted && record && record->packed) {
                            live[record->pack] -= static_cast<int64_t>(record->pack_bytes());
                            released += record->pack_bytes();
                          }
                          tree_->erase(batch, Family::record, key);
                          return ++rows < kRowsErasedAtOnce;
                        }));
  const bool more = rows == kRowsErasedAtOnce;
  if (!more) {
    tree_->erase(batch, Family::layout, number_key(doomed.object));
    tree_->erase(batch, Family::object,
                 object_key(doomed.counted ? ObjectTag::dying : ObjectTag::unpublished, doomed.object));
  }
  VARVE_TRY(apply(batch, live));
  released_bytes_ += released;
  return more;
}

/// Whether the disk has so little room that what was released is to come back at once.
bool Store::short_of_room() {
  const auto space = device_->space(path_);
  return reserve_.given_up() || (space.ok() && space->blocks_available * space->block_size < options_.pack_limit);
}

/// Whether what is dead in packs is more than kMostDead of what lives.
bool Store::wasteful() {
  uint64_t size = 0;
  uint64_t live = 0;
  for (const auto& [number, facts] : packs_->facts()) {
    size += facts.size;
    live += facts.live;
  }
  return static_cast<double>(size) > static_cast<double>(live) * (1 + kMostDead);
}

/// Packs of which under half lives, and more, the emptiest first, until little is dead in all of them together; as many
/// as are moved at once and as the disk has room for. `end`: later packs are left.
std::map<uint32_t, PackFacts> Store::choose_wasteful(uint32_t end, const std::set<uint32_t>& tried) {
  std::vector<std::pair<uint32_t, PackFacts>> found;
  double dead = 0;
  double live = 0;
  for (const auto& [number, facts] : packs_->facts()) {
    dead += static_cast<double>(facts.size) - static_cast<double>(facts.live);
    live += static_cast<double>(facts.live);
    if (facts.pins == 0 && !facts.damaged && !packs_->is_current(number) && facts.live != 0 &&
        facts.live < facts.size && number < end && !tried.contains(number)) {
      found.emplace_back(number, facts);
    }
  }
  const auto part = [](const auto& pack) {
    return static_cast<double>(pack.second.live) / static_cast<double>(pack.second.size);
  };
  std::ranges::sort(found, {}, part);
  const auto space = device_->space(path_);
  uint64_t room = space.ok() ? space->blocks_available * space->block_size : 0;
  if (!found.empty() && part(found.front()) < kHalf && found.front().second.live > room &&
      found.front().second.live <= reserve_.size() * 3 / 4 + room &&
      reserve_.give_up(Error{ENOSPC, fmt::format("the disk of store {} is full: packs are being collected with what is "
                                                 "reserved for that; free space there",
                                                 path_)})) {
    room += reserve_.size() * 3 / 4;
  }
  std::map<uint32_t, PackFacts> chosen;
  for (const auto& pack : found) {
    const PackFacts& facts = pack.second;
    if ((part(pack) >= kHalf && dead <= live * kLeftDead) || part(pack) > kWorthMoving ||
        chosen.size() == kPacksMovedAtOnce) {
      break;
    }
    if (facts.live <= room) {
      room -= facts.live;
      dead -= static_cast<double>(facts.size - facts.live);
      chosen.insert(pack);
    }
  }
  return chosen;
}

/// With collect_mutex_ held.
Result<uint64_t> Store::remove_dead_packs() {
  std::vector<uint32_t> dead;
  for (const auto& [number, facts] : packs_->facts()) {
    if (facts.live == 0 && facts.pins == 0 && !packs_->is_current(number)) {
      dead.push_back(number);
    }
  }
  if (dead.empty()) {
    return uint64_t{0};
  }
  uint64_t freed = 0;
  const std::lock_guard lock(commit_mutex_);
  // A power cut must not bring back rows that point to what is removed now.
  VARVE_TRY(change_on_full_disk([&] { return tree_->sync(); }));
  rocksdb::WriteBatch batch;
  for (const uint32_t number : dead) {
    VARVE_ASSIGN(const uint64_t bytes, packs_->remove_dead(number));
    freed += bytes;
    if (bytes != 0) {
      tree_->erase(batch, Family::pack, number_key(number));
    }
  }
  VARVE_TRY(packs_->sync_directory());
  VARVE_TRY(change_on_full_disk([&] { return apply(batch, {}); }));
  return freed;
}

Result<uint64_t> Store::collect() {
  VARVE_TRY(writable());
  const std::lock_guard collect_lock(collect_mutex_);
  VARVE_TRY(erase_doomed());
  released_bytes_ = 0;
  packs_->retire_wasteful();
  VARVE_ASSIGN(uint64_t freed, remove_dead_packs());  // first: what is moved needs room
  // Each pack once: what an object holds that was released meanwhile counts as live, and does not move.
  const uint32_t end = packs_->next_number();
  std::set<uint32_t> tried;
  for (uint64_t more = 1; more != 0;) {
    const auto wasteful = choose_wasteful(end, tried);
    if (wasteful.empty()) {
      break;
    }
    for (const auto& [number, facts] : wasteful) {
      tried.insert(number);
    }
    VARVE_TRY(move_live(wasteful));
    VARVE_ASSIGN(more, remove_dead_packs());
    freed += more;
  }
  return freed;
}

/// Moves the live records of these packs to the current one. With collect_mutex_ held.
Status Store::move_live(const std::map<uint32_t, PackFacts>& wasteful) {
  std::map<std::pair<uint32_t, uint64_t>, RecordValue> moved;  // shared records stay shared
  Status status;
  std::string from;
  for (bool more = true; more && status.ok();) {
    std::vector<Move> moves;
    auto gathered = gather_moves(wasteful, from, moves);
    if (!gathered.ok()) {
      status = gathered.error();
      break;
    }
    more = *gathered;
    status = copy_records(moves, moved);
    if (status.ok() && !moves.empty()) {
      status = switch_records(moves);
    }
  }
  for (const auto& [place, value] : moved) {
    packs_->unpin(value.pack, 1);
  }
  return status;
}

/// The next rows, from `from` on, that point into these packs; false when the tree's end was reached.
Result<bool> Store::gather_moves(const std::map<uint32_t, PackFacts>& wasteful, std::string& from,
                                 std::vector<Move>& moves) {
  size_t scanned = 0;
  uint64_t bytes = 0;
  bool more = false;
  VARVE_TRY(tree_->scan(Family::record, {}, from, [&](std::string_view key, std::string_view value) -> Result<bool> {
    if (scanned == kRowsScannedAtOnce || moves.size() == kMovesAtOnce || bytes >= kBytesMovedAtOnce) {
      from = key;
      more = true;
      return false;
    }
    ++scanned;
    const auto record = parse_record_value(value);
    if (record && record->packed && wasteful.contains(record->pack)) {
      Move move{std::string(key), std::string(value), {}, *record, {}};
      move.from.payload = {};
      bytes += record->length;
      moves.push_back(std::move(move));
    }
    return true;
  }));
  return more;
}

/// Appends what the moves name, and syncs it. A move whose record cannot be read is dropped, and its pack stays.
Status Store::copy_records(std::vector<Move>& moves, std::map<std::pair<uint32_t, uint64_t>, RecordValue>& moved) {
  std::map<uint32_t, Packs::Appended> written;
  std::vector<Move> good;
  for (auto& move : moves) {
    const std::pair place{move.from.pack, move.from.offset};
    if (!moved.contains(place)) {
      const auto payload = packs_->read(move.from);
      if (!payload.ok()) {
        packs_->mark_damaged(move.from.pack);
        continue;
      }
      VARVE_ASSIGN(const auto appended, packs_->append(move.from.origin, *payload, move.from.checksum));
      moved[place] = moved_to(move.from, appended);
      written[appended.pack->number] = appended;
    }
    move.to = moved[place];
    move.new_value = record_value(move.to);
    good.push_back(std::move(move));
  }
  moves = std::move(good);
  for (auto& [number, appended] : written) {
    VARVE_TRY(packs_->sync(*appended.pack, appended.stamp));
  }
  return {};
}

/// Nothing is collected meanwhile: what the tree points to must still be there when the packs are linked.
Status Store::snapshot(const std::string& name) {
  VARVE_TRY(writable());
  const std::lock_guard collect_lock(collect_mutex_);
  SnapshotMaker maker(path_, name);
  VARVE_TRY(maker.begin());
  {
    const std::lock_guard lock(commit_mutex_);
    VARVE_TRY(ready_to_write());
    VARVE_TRY(tree_->checkpoint(maker.path() + "/db"));
  }
  VARVE_TRY(maker.link_packs());
  return maker.commit();
}

Status Store::rewrite(ObjectId object, const RecordKey& key, std::span<const std::byte> record) {
  VARVE_TRY(writable());
  const std::lock_guard collect_lock(collect_mutex_);
  const std::string row_key = record_key(object, key);
  VARVE_ASSIGN(const auto row, tree_->get(Family::record, row_key));
  if (!row) {
    return Error{ENOENT, fmt::format("store {} has no record ({}) to write anew", path_, describe({object, key}))};
  }
  const auto value = parse_record_value(*row);
  if (!value) {
    return malformed("value", fmt::format("record ({})", describe({object, key})));
  }
  if (value->checksum != checksum_of(record) || !value->packed || value->length != record.size()) {
    return Error{
        EINVAL, fmt::format("what record ({}) is to be written anew from is not what it was", describe({object, key}))};
  }
  VARVE_ASSIGN(const auto appended, packs_->append(value->origin, record, value->checksum));
  const RecordValue to = moved_to(*value, appended);
  const Move move{row_key, *row, record_value(to), *value, to};
  Status status = packs_->sync(*appended.pack, appended.stamp);
  if (status.ok()) {
    status = switch_records({move});
  }
  packs_->unpin(to.pack, 1);
  return status;
}

/// Points the rows to the new places, save those that changed meanwhile or whose object is not (any more) published.
Status Store::switch_records(const std::vector<Move>& moves) {
  const std::lock_guard lock(commit_mutex_);
  VARVE_TRY(ready_to_write());
  rocksdb::WriteBatch batch;
  LiveChanges live;
  for (const auto& move : moves) {
    const auto identity = parse_record_key(move.key);
    VARVE_ASSIGN(const auto row, tree_->get(Family::record, move.key));
    if (!identity || !row || *row != move.old_value) {
      continue;
    }
    VARVE_ASSIGN(const auto holder, tree_->get(Family::object, object_key(ObjectTag::published, identity->object)));
    if (!holder) {
      continue;
    }
    tree_->put(batch, Family::record, move.key, move.new_value);
    live[move.from.pack] -= static_cast<int64_t>(move.from.pack_bytes());
    live[move.to.pack] += static_cast<int64_t>(move.to.pack_bytes());
  }
  return apply(batch, live);
}

}  // namespace varve::index
