#include "index/packs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace varve::index {
namespace {

constexpr size_t kOpenPacks = 128;
constexpr size_t kJoinedWrite = 65536;  // smaller records go out in one write with their header

/// The number in "00000007.pack", or nothing.
std::optional<uint32_t> parse_name(std::string_view name) {
  if (name.size() < 13 || !name.ends_with(".pack")) {
    return std::nullopt;
  }
  uint64_t number = 0;
  for (const char digit : name.substr(0, name.size() - 5)) {
    if (digit < '0' || digit > '9') {
      return std::nullopt;
    }
    number = number * 10 + static_cast<uint64_t>(digit - '0');
    if (number > UINT32_MAX) {
      return std::nullopt;
    }
  }
  return static_cast<uint32_t>(number);
}

Error bad_record(const Pack& pack, uint64_t offset, const Identity& wanted, std::string_view what) {
  return Error{EIO, fmt::format("record ({}) in pack {} at offset {} cannot be used: {}; the disk lost or changed it, "
                                "restore the file that holds it from a copy",
                                describe(wanted), pack.path, offset, what)};
}

}  // namespace

Packs::Packs(std::shared_ptr<Device> device, std::string directory, uint64_t limit)
    : device_(std::move(device)), directory_(std::move(directory)), limit_(limit) {}

std::string Packs::path_of(uint32_t number) const { return fmt::format("{}/{:08}.pack", directory_, number); }

Result<std::unique_ptr<Packs>> Packs::open(std::shared_ptr<Device> device, std::string directory, uint64_t limit) {
  auto packs = std::unique_ptr<Packs>(new Packs(std::move(device), std::move(directory), limit));
  VARVE_ASSIGN(const auto names, packs->device_->list(packs->directory_));
  for (const auto& name : names) {
    if (const auto number = parse_name(name)) {
      packs->facts_[*number];
      packs->next_number_ = std::max(packs->next_number_, *number + 1);
    }
  }
  for (auto& [number, facts] : packs->facts_) {
    VARVE_ASSIGN(const auto file, packs->device_->open(packs->path_of(number), Device::Mode::read));
    VARVE_ASSIGN(facts.size, file->size());
  }
  return packs;
}

Result<std::shared_ptr<Pack>> Packs::open_pack(uint32_t number, Device::Mode mode) {
  auto pack = std::make_shared<Pack>();
  pack->number = number;
  pack->path = path_of(number);
  VARVE_ASSIGN(pack->file, device_->open(pack->path, mode));
  return pack;
}

void Packs::remember(const std::shared_ptr<Pack>& pack) {
  pack->used = ++tick_;
  open_[pack->number] = pack;
  if (open_.size() <= kOpenPacks) {
    return;
  }
  auto oldest = open_.end();
  for (auto it = open_.begin(); it != open_.end(); ++it) {
    const bool evictable = it->second != current_ && it->second != pack;
    if (evictable && (oldest == open_.end() || it->second->used < oldest->second->used)) {
      oldest = it;
    }
  }
  if (oldest != open_.end()) {
    open_.erase(oldest);
  }
}

Result<std::shared_ptr<Pack>> Packs::opened(uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(number); found != open_.end()) {
    found->second->used = ++tick_;
    return found->second;
  }
  VARVE_ASSIGN(auto pack, open_pack(number, Device::Mode::read));
  remember(pack);
  return pack;
}

/// With the lock held: makes current_ a pack that takes `bytes` more.
Status Packs::choose_current(uint64_t bytes) {
  if (current_ && !current_->syncs.broken() && (current_end_ == 0 || current_end_ + bytes <= limit_)) {
    return {};
  }
  current_.reset();
  if (!tried_last_ && !facts_.empty()) {  // go on with the last pack of an earlier run
    tried_last_ = true;
    const auto& [number, facts] = *facts_.rbegin();
    if (facts.size > 0 && facts.size + bytes <= limit_) {
      if (auto pack = open_pack(number, Device::Mode::write); pack.ok()) {
        current_ = *std::move(pack);
        current_end_ = facts.size;
        remember(current_);
        return {};
      }
    }
  }
  tried_last_ = true;
  VARVE_ASSIGN(auto pack, open_pack(next_number_, Device::Mode::create));
  const uint32_t number = next_number_++;
  facts_[number] = {};
  VARVE_TRY(pack->file->truncate(0));
  VARVE_TRY(device_->sync_directory(directory_));
  current_ = std::move(pack);
  current_end_ = 0;
  remember(current_);
  return {};
}

Result<Packs::Appended> Packs::append(const Identity& origin, std::span<const std::byte> payload, uint64_t checksum) {
  const std::string header = pack_header({origin, payload.size(), checksum});
  const auto header_bytes = std::as_bytes(std::span(header));
  Appended appended;
  {
    const std::lock_guard lock(mutex_);
    VARVE_TRY(choose_current(header.size() + payload.size()));
    appended.pack = current_;
    appended.offset = current_end_;
    current_end_ += header.size() + payload.size();
    PackFacts& facts = facts_[current_->number];
    facts.size = current_end_;
    ++facts.pins;
  }
  DeviceFile& file = *appended.pack->file;
  Status status;
  if (payload.size() < kJoinedWrite) {
    std::vector<std::byte> joined;
    joined.reserve(header.size() + payload.size());
    joined.insert(joined.end(), header_bytes.begin(), header_bytes.end());
    joined.insert(joined.end(), payload.begin(), payload.end());
    status = file.write(appended.offset, joined);
  } else {
    status = file.write(appended.offset, header_bytes);
    if (status.ok()) {
      status = file.write(appended.offset + header.size(), payload);
    }
  }
  if (!status.ok()) {
    unpin(appended.pack->number, 1);
    return status.error();
  }
  appended.stamp = appended.pack->syncs.stamp();
  return appended;
}

Status Packs::sync(Pack& pack, uint64_t stamp) {
  return pack.syncs.sync(stamp, [&pack] { return pack.file->sync(); });
}

/// Header, identity and length; the payload is not looked at.
Status Packs::check_header(Pack& pack, const RecordValue& record) {
  const auto bad = [&](std::string_view what) { return bad_record(pack, record.offset, record.origin, what); };
  std::array<char, kPackHeaderSize> bytes{};
  VARVE_ASSIGN(const size_t got, pack.file->read(record.offset, std::as_writable_bytes(std::span(bytes))));
  std::string reason;
  const auto header = parse_pack_header(std::string_view(bytes.data(), got), &reason);
  if (!header) {
    return bad(reason);
  }
  if (header->origin != record.origin) {
    return bad(fmt::format("another record stands there ({})", describe(header->origin)));
  }
  if (header->length != record.length || header->checksum != record.checksum) {
    return bad("another version of the record stands there");
  }
  const uint64_t begin = record.offset + kPackHeaderSize;
  if (begin + record.length > pack.known_size || begin + record.length < begin) {
    VARVE_ASSIGN(pack.known_size, pack.file->size());
    if (begin > pack.known_size || record.length > pack.known_size - begin) {
      return bad(fmt::format("the pack ends at byte {}, before the record does", pack.known_size.load()));
    }
  }
  return {};
}

Status Packs::check(const RecordValue& record) {
  VARVE_ASSIGN(const auto pack, opened(record.pack));
  return check_header(*pack, record);
}

Result<std::vector<std::byte>> Packs::read(const RecordValue& record) {
  VARVE_ASSIGN(const auto pack, opened(record.pack));
  VARVE_TRY(check_header(*pack, record));
  const auto bad = [&](std::string_view what) { return bad_record(*pack, record.offset, record.origin, what); };
  std::vector<std::byte> payload(record.length);
  VARVE_ASSIGN(const size_t filled, pack->file->read(record.offset + kPackHeaderSize, payload));
  if (filled != payload.size()) {
    return bad("the pack ends before the record does");
  }
  if (const uint64_t found = checksum_of(payload); found != record.checksum) {
    return bad(fmt::format("its checksum is {:016x} and should be {:016x}", found, record.checksum));
  }
  return payload;
}

void Packs::pin(uint32_t pack) {
  const std::lock_guard lock(mutex_);
  ++facts_[pack].pins;
}

void Packs::unpin(uint32_t pack, uint64_t pins) {
  const std::lock_guard lock(mutex_);
  facts_[pack].pins -= pins;
}

uint64_t Packs::live(uint32_t pack) {
  const std::lock_guard lock(mutex_);
  const auto found = facts_.find(pack);
  return found == facts_.end() ? 0 : found->second.live;
}

void Packs::set_live(uint32_t pack, uint64_t live) {
  const std::lock_guard lock(mutex_);
  facts_[pack].live = live;
}

void Packs::clear_live() {
  const std::lock_guard lock(mutex_);
  for (auto& [number, facts] : facts_) {
    facts.live = 0;
  }
}

void Packs::mark_damaged(uint32_t pack) {
  const std::lock_guard lock(mutex_);
  facts_[pack].damaged = true;
}

std::map<uint32_t, PackFacts> Packs::facts() {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void Packs::retire_wasteful() {
  const std::lock_guard lock(mutex_);
  if (current_ && facts_[current_->number].live * 2 < current_end_) {
    current_.reset();
  }
  tried_last_ = true;
}

bool Packs::is_current(uint32_t pack) {
  const std::lock_guard lock(mutex_);
  return current_ && current_->number == pack;
}

Result<uint64_t> Packs::remove_dead(uint32_t pack) {
  const std::lock_guard lock(mutex_);
  const auto found = facts_.find(pack);
  if (found == facts_.end() || found->second.live != 0 || found->second.pins != 0 ||
      (current_ && current_->number == pack)) {
    return uint64_t{0};
  }
  const auto removed = device_->remove(path_of(pack));
  if (!removed.ok() && removed.error().code != ENOENT) {
    return removed.error();
  }
  const uint64_t freed = removed.ok() ? found->second.size : 0;
  facts_.erase(found);
  open_.erase(pack);
  return freed;
}

Status Packs::sync_directory() { return device_->sync_directory(directory_); }

uint32_t Packs::next_number() {
  const std::lock_guard lock(mutex_);
  return next_number_;
}

void Packs::skip_to(uint32_t number) {
  const std::lock_guard lock(mutex_);
  next_number_ = std::max(next_number_, number);
}

}  // namespace varve::index
