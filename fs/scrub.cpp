#include "fs/scrub.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "fs/layout.h"
#include "fs/log.h"

namespace varve::fs {

namespace {

constexpr std::array<const char*, 4> kPhases = {"never", "running", "done", "stopped"};

/// What a record is of, for people.
std::string part_of(const Layout* layout, const index::RecordKey& key) {
  if (index::is_bytes(key)) {
    return fmt::format("bytes {} to {} {}", key.brick * kStreamChunk, (key.brick + 1) * kStreamChunk - 1,
                       key.region == index::kBytesRegion ? "outside arrays" : "of what was rewritten in place");
  }
  const size_t array = key.region - 1;
  const std::string name = layout != nullptr && array < layout->arrays.size() ? layout->arrays[array].region.name
                                                                              : fmt::format("number {}", array);
  return key.level >= codec::kCoarseLevel
             ? fmt::format("array {}, {}coarse levels of tile {}", name.empty() ? "\"\"" : name,
                           key.level == kCoarseCopyLevel ? "copy of the " : "", key.brick)
             : fmt::format("array {}, level {}, brick {}", name.empty() ? "\"\"" : name, key.level, key.brick);
}

}  // namespace

std::string ScrubState::json() const {
  nlohmann::json found = nlohmann::json::array();
  for (const ScrubDamage& one : damage) {
    found.push_back({{"path", one.path}, {"part", one.part}, {"reason", one.reason}});
  }
  const nlohmann::json all = {{"state", kPhases.at(static_cast<size_t>(phase))},
                              {"files", files},
                              {"records", records},
                              {"bytes", bytes},
                              {"total_bytes", total_bytes},
                              {"damaged_records", damaged_records},
                              {"repaired_records", repaired_records},
                              {"weak_records", weak_records},
                              {"seconds", seconds},
                              {"damage", std::move(found)}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

ScrubState Scrub::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Scrub::begin(uint64_t rate) {
  rate_ = rate;
  stopping_ = false;
  start_ = Clock::now();
  seen_.clear();
  const auto statistics = index_.statistics();
  const std::lock_guard lock(mutex_);
  state_ = ScrubState();
  state_.phase = ScrubState::Phase::running;
  state_.total_bytes = statistics.ok() ? statistics->live_pack_bytes + statistics->tree_bytes : 0;
}

void Scrub::read_all() {
  walk();
  seen_.clear();
  const std::lock_guard lock(mutex_);
  state_.phase = stopping_ ? ScrubState::Phase::stopped : ScrubState::Phase::done;
  state_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
}

void Scrub::walk() {
  std::vector<std::pair<index::InodeNumber, std::string>> waiting = {{index::kRootInode, ""}};
  while (!waiting.empty() && !stopping_) {
    const auto [number, path] = std::move(waiting.back());
    waiting.pop_back();
    if (const Status status = visit_directory(number, path, waiting); !status.ok()) {
      report(path.empty() ? "/" : path, "the directory", status.error().text);
    }
  }
}

Status Scrub::visit_directory(index::InodeNumber number, const std::string& path,
                              std::vector<std::pair<index::InodeNumber, std::string>>& waiting) {
  std::vector<index::Dentry> entries;
  Status listed = index_.list(number, 0, [&](const index::Dentry& entry) {
    entries.push_back(entry);
    return !stopping_.load();
  });
  for (const index::Dentry& entry : entries) {  // of a damaged directory: those before the damage
    if (stopping_) {
      break;
    }
    const std::string below = path + "/" + entry.name;
    if (S_ISDIR(entry.type)) {
      waiting.emplace_back(entry.inode, below);
      continue;
    }
    const auto inode = index_.inode(entry.inode);
    if (!inode.ok()) {
      report(below, "its attributes", inode.error().text);
    } else if (inode->has_value()) {  // else it was removed meanwhile
      visit_file(**inode, below);
    }
  }
  return listed;
}

void Scrub::visit_file(const index::Inode& inode, const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    ++state_.files;
  }
  if (inode.object == 0) {
    return;
  }
  auto seen = seen_.find(inode.object);
  if (seen == seen_.end()) {
    seen = seen_.emplace(inode.object, visit_object(inode.object)).first;
  }
  if (seen->second.empty()) {
    return;
  }
  const auto now = index_.inode(inode.number);
  if (now.ok() && (!now->has_value() || (*now)->object != inode.object)) {
    return;  // rewritten or removed while it was read: what is gone is not damaged
  }
  for (const auto& [part, reason] : seen->second) {
    report(path, part, reason);
  }
}

std::vector<Scrub::ObjectDamage> Scrub::visit_object(index::ObjectId object) {
  std::vector<ObjectDamage> damage;
  Layout layout;
  const auto text = index_.layout(object);
  const auto parsed = text.ok() ? Layout::parse(*text) : Result<Layout>(text.error());
  if (parsed.ok()) {
    layout = *parsed;
  } else {
    damage.push_back({"the layout", parsed.error().text});
  }
  std::vector<index::RecordInfo> records;
  const Status listed = index_.records(object, [&](const index::RecordInfo& record) {
    records.push_back(record);
    return !stopping_.load();
  });
  if (!listed.ok()) {
    damage.push_back({"the list of its records", listed.error().text});
  }
  for (const index::RecordInfo& record : records) {
    if (!count_record(record.length)) {
      break;
    }
    const auto content = index_.record(object, record.key);
    if (!content.ok()) {
      const std::string part = part_of(parsed.ok() ? &layout : nullptr, record.key);
      if (restore(object, record.key, part, content.error().text)) {
        continue;
      }
      damage.push_back({part, content.error().text});
      const std::lock_guard lock(mutex_);
      ++state_.damaged_records;
    }
  }
  return damage;
}

/// Writes a damaged record anew from its other copy. False: there is none that can be read.
bool Scrub::restore(index::ObjectId object, const index::RecordKey& key, const std::string& part,
                    const std::string& reason) {
  if (index::is_bytes(key) || key.level < codec::kCoarseLevel) {
    return false;
  }
  const uint8_t other = key.level == kCoarseCopyLevel ? codec::kCoarseLevel : kCoarseCopyLevel;
  const auto whole = index_.record(object, {key.region, other, key.brick});
  if (!whole.ok()) {
    return false;
  }
  const Status written = index_.rewrite(object, key, *whole);
  log_line(LogLevel::warning, fmt::format("scrub: object {}, {}: {}: {}", object, part, reason,
                                          written.ok() ? "written anew from the other copy"
                                                       : "the other copy is whole; it could not be written anew: " +
                                                             written.error().text));
  const std::lock_guard lock(mutex_);
  ++(written.ok() ? state_.repaired_records : state_.weak_records);
  return true;
}

/// Counts one more and keeps to the rate. False: stop.
bool Scrub::count_record(uint64_t bytes) {
  constexpr std::chrono::milliseconds kNap{50};
  uint64_t done = 0;
  {
    const std::lock_guard lock(mutex_);
    ++state_.records;
    done = state_.bytes += bytes;
    state_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  }
  while (rate_ > 0 && !stopping_) {
    const double due = static_cast<double>(done) / static_cast<double>(rate_);
    const double ahead = due - std::chrono::duration<double>(Clock::now() - start_).count();
    if (ahead <= 0) {
      break;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(
        kNap, std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(ahead))));
  }
  return !stopping_;
}

void Scrub::report(const std::string& path, const std::string& part, const std::string& reason) {
  log_line(LogLevel::error, fmt::format("scrub: {}: {}: {}", path, part, reason));
  const std::lock_guard lock(mutex_);
  if (state_.damage.size() < ScrubState::kMostDamage) {
    state_.damage.push_back({path, part, reason});
  }
}

Status BackgroundScrub::command(const std::string& text) {
  const std::string_view word = std::string_view(text).substr(0, text.find_last_not_of(" \n") + 1);
  if (word == "stop") {
    stop();
    return {};
  }
  uint64_t rate = 0;
  bool good = word == "start";
  if (word.starts_with("start ")) {
    const auto [end, code] = std::from_chars(word.data() + 6, word.data() + word.size(), rate);
    good = code == std::errc() && end == word.data() + word.size();
  }
  if (!good) {
    return Error{EINVAL, fmt::format("\"{}\" is not what .varve/scrub takes: write \"start\", \"start "
                                     "BYTES_A_SECOND\" or \"stop\"",
                                     word)};
  }
  const std::lock_guard lock(mutex_);
  if (scrub_.state().phase == ScrubState::Phase::running) {
    return Error{EBUSY, "a scrub of this mount is running; wait for it, or write \"stop\" to .varve/scrub"};
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  scrub_.begin(rate);  // whoever asks from now on is told of this one
  thread_ = std::thread([this] { scrub_.read_all(); });
  return {};
}

void BackgroundScrub::stop() {
  const std::lock_guard lock(mutex_);
  scrub_.stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace varve::fs
