#include "fs/checked_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fs/serial.h"

namespace varve::fs {

namespace {

constexpr uint64_t kSlots = UINT32_MAX;  ///< 16 TiB
constexpr uint64_t kKeptRoom = 1024;     ///< slots

uint64_t sum_of(const std::byte* block) {
  const uint64_t sum = XXH3_64bits(block, CheckedFile::kBlock);
  return sum == 0 ? 1 : sum;
}

uint64_t blocks_in(uint64_t size) { return (size + CheckedFile::kBlock - 1) / CheckedFile::kBlock; }

}  // namespace

/// A block that is about to be written.
struct CheckedFile::Change {
  uint64_t block;
  const std::byte* bytes;  ///< kBlock of them
  bool fresh = false;      ///< in a slot that nothing else is in
  Entry before, after;
};

CheckedFile::CheckedFile(std::unique_ptr<index::DeviceFile> file, std::string name)
    : file_(std::move(file)), name_(std::move(name)) {
  free_.add(0, kSlots);
}

const CheckedFile::Entry* CheckedFile::find(uint64_t block) const {
  const auto group = groups_.find(block / kGroup);
  const Entry* const found = group == groups_.end() ? nullptr : &(*group->second)[block % kGroup];
  return found != nullptr && found->sum != 0 ? found : nullptr;
}

/// A group in which something is about to change.
CheckedFile::Group& CheckedFile::change_group(uint64_t number) {
  auto& group = groups_[number];
  if (!group) {
    group = std::make_unique<Group>();
  }
  unnoted_groups_.insert(number);
  unsynced_groups_.insert(number);
  return *group;
}

/// What the block was before goes, unless it lies in the same slot.
void CheckedFile::set(Entry& here, Entry now) {
  if (here.sum != 0 && here.slot != now.slot) {
    (here.promised ? held_ : free_).add(here.slot, here.slot + uint64_t{1});
  }
  here = now;
}

Status CheckedFile::check(uint64_t block, const Entry& entry, std::span<const std::byte> bytes) const {
  if (sum_of(bytes.data()) == entry.sum) {
    return {};
  }
  return Error{EIO, fmt::format("{}: bytes {} to {} of the file are not what was written there; the drive lost or "
                                "changed them. Write them again, and check the drive",
                                name_, block * kBlock, (block + 1) * kBlock - 1)};
}

Status CheckedFile::read_block(uint64_t block, Block& out) const {
  const Entry* const found = find(block);
  if (found == nullptr) {
    out.fill(std::byte{0});
    return {};
  }
  VARVE_ASSIGN(const size_t got, file_->read(found->slot * kBlock, out));
  std::fill(out.begin() + static_cast<ptrdiff_t>(got), out.end(), std::byte{0});
  return check(block, *found, out);
}

Status CheckedFile::read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const uint64_t block = offset / kBlock;
    size_t length = std::min<uint64_t>(kBlock - offset % kBlock, out.size());
    if (length < kBlock) {
      Block bytes;
      VARVE_TRY(read_block(block, bytes));
      std::memcpy(out.data(), bytes.data() + offset % kBlock, length);
    } else {
      const Entry* const first = find(block);
      uint64_t count = 1;  // of blocks that lie behind each other, or that are none
      for (const uint64_t most = out.size() / kBlock; count < most; ++count) {
        const Entry* const next = find(block + count);
        if ((next == nullptr) != (first == nullptr) || (next != nullptr && next->slot != first->slot + count)) {
          break;
        }
      }
      length = count * kBlock;
      const std::span<std::byte> part = out.first(length);
      size_t got = 0;
      if (first != nullptr) {
        VARVE_ASSIGN(got, file_->read(first->slot * kBlock, part));
      }
      std::memset(part.data() + got, 0, length - got);
      for (uint64_t i = 0; first != nullptr && i < count; ++i) {
        VARVE_TRY(check(block + i, *find(block + i), part.subspan(i * kBlock, kBlock)));
      }
    }
    offset += length;
    out = out.subspan(length);
  }
  return {};
}

Status CheckedFile::write(uint64_t offset, std::span<const std::byte> data) {
  if (data.empty()) {
    return {};
  }
  const uint64_t end = offset + data.size();
  std::array<Block, 2> edges;  // the first and the last block, where `data` covers a part of them
  size_t used = 0;
  std::vector<Change> changes;
  changes.reserve(blocks_in(end) - offset / kBlock);
  for (uint64_t block = offset / kBlock; block < blocks_in(end); ++block) {
    const uint64_t from = std::max(offset, block * kBlock);
    const uint64_t to = std::min(end, (block + 1) * kBlock);
    const std::byte* bytes = data.data() + (from - offset);
    if (to - from < kBlock) {
      Block& whole = edges[used++];
      if (from % kBlock == 0 && to >= size_) {
        whole.fill(std::byte{0});  // nothing of what is there stays
      } else {
        VARVE_TRY(read_block(block, whole));
      }
      std::memcpy(whole.data() + from % kBlock, bytes, to - from);
      bytes = whole.data();
    }
    changes.push_back({block, bytes, false, {}, {}});
  }
  VARVE_TRY(place(changes));
  size_ = std::max(size_, end);
  return {};
}

/// Writes blocks, in place where no row speaks of them, in as few calls as their places allow.
Status CheckedFile::place(std::vector<Change>& changes) {
  std::vector<std::pair<uint64_t, uint64_t>> taken;  // runs of slots
  auto next = free_.intervals().begin();
  uint64_t used = 0;  // of the slots from `next` on
  for (Change& change : changes) {
    const Entry* const before = find(change.block);
    change.before = before != nullptr ? *before : Entry{};
    change.fresh = before == nullptr || before->promised;
    change.after = {sum_of(change.bytes), change.before.slot, false, false};
    if (!change.fresh) {
      continue;
    }
    if (next != free_.intervals().end() && next->first + used == next->second) {
      ++next;
      used = 0;
    }
    if (next == free_.intervals().end()) {
      return Error{EFBIG, fmt::format("{}: no more than 16 TiB can be written before they are sealed", name_)};
    }
    const uint64_t slot = next->first + used++;
    change.after.slot = static_cast<uint32_t>(slot);
    if (!taken.empty() && taken.back().second == slot) {
      ++taken.back().second;
    } else {
      taken.emplace_back(slot, slot + 1);
    }
  }
  Status status;
  size_t done = 0;
  while (done < changes.size() && status.ok()) {
    size_t count = 1;
    while (done + count < changes.size() && changes[done + count].after.slot == changes[done].after.slot + count &&
           changes[done + count].bytes == changes[done].bytes + count * kBlock) {
      ++count;
    }
    status = file_->write(changes[done].after.slot * kBlock, {changes[done].bytes, count * kBlock});
    done += count;
  }
  if (!status.ok()) {
    for (const Change& change : std::span(changes).first(done)) {
      look_again(change);
    }
    return status;
  }
  for (const auto& [begin, end] : taken) {
    free_.remove(begin, end);
  }
  Group* group = nullptr;
  for (const Change& change : changes) {
    if (group == nullptr || change.block % kGroup == 0) {
      group = &change_group(change.block / kGroup);
    }
    set((*group)[change.block % kGroup], change.after);
  }
  return {};
}

/// After a write that failed: a block that was overwritten in place may be the one or the other, or a part of each.
void CheckedFile::look_again(const Change& change) {
  Block bytes{};
  if (!change.fresh && file_->read(change.before.slot * kBlock, bytes).ok()) {
    Entry now = change.after;
    now.sum = sum_of(bytes.data());
    set(change_group(change.block / kGroup)[change.block % kGroup], now);
  }
}

Status CheckedFile::write_block(uint64_t block, const Block& bytes) {
  std::vector<Change> changes = {{block, bytes.data(), false, {}, {}}};
  return place(changes);
}

/// Blocks [first, end) are none any more.
void CheckedFile::drop(uint64_t first, uint64_t end) {
  IntervalSet unused;
  for (auto group = groups_.lower_bound(first / kGroup); group != groups_.end(); ++group) {
    const uint64_t base = group->first * kGroup;
    if (base >= end) {
      break;
    }
    for (uint64_t block = std::max(first, base); block < std::min(end, base + kGroup); ++block) {
      Entry& here = (*group->second)[block - base];
      if (here.sum == 0) {
        continue;
      }
      (here.promised ? held_ : unused).add(here.slot, here.slot + uint64_t{1});
      here = {};
      unnoted_groups_.insert(group->first);
      unsynced_groups_.insert(group->first);
    }
  }
  for (const auto& [begin, stop] : unused.intervals()) {
    free_.add(begin, stop);
    static_cast<void>(file_->punch(begin * kBlock, (stop - begin) * kBlock));  // else the room comes back later
  }
}

Status CheckedFile::truncate(uint64_t size) {
  if (size < size_ && size % kBlock != 0 && find(size / kBlock) != nullptr) {
    Block bytes;
    VARVE_TRY(read_block(size / kBlock, bytes));
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(size % kBlock), bytes.end(), std::byte{0});
    VARVE_TRY(write_block(size / kBlock, bytes));
  }
  if (size < size_) {
    drop(blocks_in(size), UINT64_MAX / kBlock);
  }
  size_ = size;
  return {};
}

Status CheckedFile::punch(uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  const auto edge = [&](uint64_t block) -> Status {
    const uint64_t from = std::max(offset, block * kBlock);
    const uint64_t to = std::min(end, (block + 1) * kBlock);
    if (to <= from || to - from == kBlock || find(block) == nullptr) {
      return {};
    }
    Block bytes;
    VARVE_TRY(read_block(block, bytes));
    std::memset(bytes.data() + from % kBlock, 0, to - from);
    return write_block(block, bytes);
  };
  VARVE_TRY(edge(offset / kBlock));
  if (end / kBlock != offset / kBlock) {
    VARVE_TRY(edge(end / kBlock));
  }
  drop(blocks_in(offset), end / kBlock);
  return {};
}

/// Room for as many blocks as will have to be placed, where the next ones go.
Status CheckedFile::reserve(uint64_t offset, uint64_t length) {
  uint64_t wanted = 0;
  for (uint64_t block = offset / kBlock; block < blocks_in(offset + length); ++block) {
    const Entry* const found = find(block);
    wanted += found == nullptr || found->promised ? 1 : 0;
  }
  for (const auto& [begin, end] : free_.intervals()) {
    const uint64_t count = std::min(end - begin, wanted);
    VARVE_TRY(count == 0 ? Status() : file_->reserve(begin * kBlock, count * kBlock));
    wanted -= count;
  }
  return {};
}

/// The same bytes once more, of all blocks that no sync returned for.
Status CheckedFile::write_again() {
  for (const uint64_t number : unsynced_groups_) {
    const auto group = groups_.find(number);
    for (uint64_t i = 0; group != groups_.end() && i < kGroup; ++i) {
      const Entry& here = (*group->second)[i];
      if (here.sum != 0 && !here.synced) {
        Block bytes;
        VARVE_TRY(read_block(number * kGroup + i, bytes));
        VARVE_TRY(file_->write(here.slot * kBlock, bytes));
      }
    }
  }
  return {};
}

Status CheckedFile::sync() {
  if (sync_failed_) {
    VARVE_TRY(write_again());
  }
  sync_failed_ = true;
  VARVE_TRY(file_->sync());
  sync_failed_ = false;
  for (const uint64_t number : unsynced_groups_) {
    if (const auto group = groups_.find(number); group != groups_.end()) {
      for (Entry& here : *group->second) {
        here.synced = here.sum != 0;
      }
    }
  }
  return {};
}

Result<uint64_t> CheckedFile::seek(uint64_t offset, bool data) const {
  if (offset >= size_) {
    return Error{ENXIO, "seek past the end of the file"};
  }
  const uint64_t end = blocks_in(size_);
  uint64_t block = offset / kBlock;
  while (block < end && (find(block) != nullptr) != data) {
    const auto group = groups_.lower_bound(block / kGroup);
    const uint64_t next = group == groups_.end() ? end : group->first * kGroup;
    block = std::max(block + 1, next);
  }
  if (block >= end) {
    return data ? Result<uint64_t>(Error{ENXIO, "no data after this offset"}) : Result<uint64_t>(size_);
  }
  return std::max(offset, block * kBlock);
}

/// Runs of blocks in slots that lie behind each other: first block in the group, how many, first slot, checksums.
std::string CheckedFile::row(uint64_t number) const {
  const auto found = groups_.find(number);
  if (found == groups_.end()) {
    return {};
  }
  const Group& group = *found->second;
  SerialWriter out;
  bool any = false;
  for (uint64_t first = 0; first < kGroup;) {
    if (group[first].sum == 0) {
      ++first;
      continue;
    }
    any = true;
    std::string sums;
    uint64_t count = 0;
    for (; first + count < kGroup; ++count) {
      const Entry& here = group[first + count];
      if (here.sum == 0 || here.slot != group[first].slot + count) {
        break;
      }
      sums.append(reinterpret_cast<const char*>(&here.sum), sizeof here.sum);
    }
    out.number(first);
    out.number(group[first].slot);
    out.text(sums);
    first += count;
  }
  return any ? out.take_text() : std::string();
}

void CheckedFile::promise() {
  for (const auto* groups : {&unnoted_groups_, &unsynced_groups_}) {
    for (const uint64_t number : *groups) {
      if (const auto group = groups_.find(number); group != groups_.end()) {
        for (Entry& here : *group->second) {
          here.promised = here.promised || here.sum != 0;
        }
      }
    }
  }
}

void CheckedFile::promised(bool synced) {
  unnoted_groups_.clear();
  if (!synced) {
    return;
  }
  unsynced_groups_.clear();
  const bool many = held_.total() >= kKeptRoom;  // few are used again soon, and then have their room on the disk
  for (const auto& [begin, end] : held_.intervals()) {
    free_.add(begin, end);
    if (many) {
      static_cast<void>(file_->punch(begin * kBlock, (end - begin) * kBlock));
    }
  }
  held_.clear();
}

Status CheckedFile::load(uint64_t number, std::string_view row) {
  const Error malformed{EIO, fmt::format("{}: what is noted of its blocks is malformed", name_)};
  if (number > UINT64_MAX / kBlock / kGroup) {
    return malformed;
  }
  Group group;
  SerialReader in(row);
  while (!in.at_end()) {
    const uint64_t first = in.number();
    const uint64_t slot = in.number();
    const std::string sums = in.text();
    const uint64_t count = sums.size() / sizeof(uint64_t);
    if (in.failed() || sums.empty() || sums.size() % sizeof(uint64_t) != 0 || first >= kGroup ||
        count > kGroup - first || slot > kSlots - count) {
      return malformed;
    }
    for (uint64_t i = 0; i < count; ++i) {
      Entry& here = group[first + i];
      std::memcpy(&here.sum, sums.data() + i * sizeof here.sum, sizeof here.sum);
      here.slot = static_cast<uint32_t>(slot + i);
      here.promised = true;
    }
    free_.remove(slot, slot + count);
  }
  auto& there = groups_[number];
  for (uint64_t i = 0; there && i < kGroup; ++i) {
    const Entry& before = (*there)[i];
    if (before.sum != 0 && before.slot != group[i].slot) {
      held_.add(before.slot, before.slot + uint64_t{1});
    }
  }
  there = std::make_unique<Group>(group);
  unsynced_groups_.insert(number);  // whether its bytes are on the disk is not known
  return {};
}

Status CheckedFile::adopt(uint64_t size) {
  std::vector<std::byte> part(kGroup * kBlock);
  for (uint64_t at = 0; at < size; at += part.size()) {
    const auto data = file_->seek(at, true);
    if (!data.ok()) {
      if (data.error().code == ENXIO) {
        break;  // the rest is a hole
      }
      return data.error();
    }
    at = *data / part.size() * part.size();
    VARVE_ASSIGN(const size_t got, file_->read(at, std::span(part).first(std::min<uint64_t>(part.size(), size - at))));
    std::memset(part.data() + got, 0, part.size() - got);
    for (uint64_t i = 0; i < blocks_in(got); ++i) {
      const uint64_t block = at / kBlock + i;
      if (block >= kSlots) {
        return Error{EFBIG, fmt::format("{}: too long to be taken over", name_)};
      }
      set(change_group(block / kGroup)[block % kGroup],
          {sum_of(part.data() + i * kBlock), static_cast<uint32_t>(block), true, false});
      free_.remove(block, block + 1);
    }
  }
  size_ = size;
  return {};
}

}  // namespace varve::fs
