#include "faults/injector.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "faults/aim.h"
#include "fs/log.h"

namespace varve::faults {

Injector::Injector(const InjectorOptions& options) : recognisers_(options.recogniser), journal_(options.journal) {}
Injector::~Injector() {
  if (armed_) {
    journal_.end(armed_->injections(), armed_->status_rules(true));
  }
}

std::shared_ptr<Armed> Injector::current() const {
  const std::lock_guard lock(mutex_);
  return armed_;
}

// --- control --------------------------------------------------------------------------------------------------------

/// Puts another schedule (or none) in force and waits for the operations under the old one.
Status Injector::replace(const std::shared_ptr<Armed>& armed) {
  std::shared_ptr<Armed> old;
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(armed_, nullptr);
    seams_.store(0);
  }
  if (old) {
    old->stop();
    constexpr std::chrono::seconds kPatience{30};
    const auto deadline = Clock::now() + kPatience;
    while (old.use_count() > 1 && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    journal_.end(old->injections(), old->status_rules(true));
  }
  Status begun = armed ? journal_.begin(armed->schedule()) : Status();
  if (armed && begun.ok()) {  // nothing happens that no journal tells of
    const std::lock_guard lock(mutex_);
    armed_ = armed;
    seams_.store(armed->seams());
  }
  if (on_change_) {
    on_change_();
  }
  return begun;
}

Status Injector::arm(std::string_view text) {
  const std::lock_guard lock(control_mutex_);
  VARVE_ASSIGN(Schedule schedule, Schedule::parse(text));
  const uint64_t seed = schedule.seed;
  VARVE_TRY(replace(std::make_shared<Armed>(std::move(schedule), recognisers_)));
  fs::log_line(fs::LogLevel::warning, fmt::format("faults are armed, seed {}: what is read and written here may be "
                                                  "corrupted on purpose",
                                                  seed));
  return {};
}

Status Injector::replay(std::string_view journal) {
  const std::lock_guard lock(control_mutex_);
  VARVE_ASSIGN(Replay replay, parse_journal(journal));
  if (replay.empty()) {
    return Error{EBADMSG, "the journal holds no injection: give what `varve faults journal` printed"};
  }
  const size_t count = replay.size();
  VARVE_TRY(replace(std::make_shared<Armed>(std::move(replay), schedule_in(journal), recognisers_)));
  fs::log_line(fs::LogLevel::warning, fmt::format("a journal of {} faults is armed for replay", count));
  return {};
}

void Injector::disarm() {
  const std::lock_guard lock(control_mutex_);
  if (current()) {
    static_cast<void>(replace(nullptr));
    fs::log_line(fs::LogLevel::warning, "faults are disarmed");
  }
}

std::string Injector::status() const {
  const auto armed = current();
  nlohmann::ordered_json out = {{"armed", armed != nullptr}};
  if (armed) {
    out["seed"] = armed->schedule().seed;
    out["injections"] = armed->injections();
    if (armed->replays()) {
      out["replay_left"] = armed->replay_left();
      out["replay_different"] = armed->misplaced();
    } else {
      out["faults"] = nlohmann::ordered_json::parse(armed->status_rules());
    }
  }
  return out.dump(2) + "\n";
}

std::string Injector::schedule() const {
  const auto armed = current();
  return armed ? armed->schedule().text : "";
}

Status Injector::mark(const std::string& name) {
  VARVE_TRY(check_mark(name));
  if (const auto armed = current()) {
    armed->mark(name);
  }
  return {};
}

bool Injector::bypasses_cache(const std::string& path) const {
  const auto armed = current();
  if (!armed || (armed->seams() & bit(Seam::app)) == 0) {
    return false;
  }
  if (armed->replays() || !armed->schedule().bypass_page_cache) {
    return armed->schedule().bypass_page_cache;
  }
  return !armed->file(Seam::app, path)->counts->rules.empty();
}

// --- operations -----------------------------------------------------------------------------------------------------

/// One operation on its way.
struct Injector::Turn {
  const Call& call;
  std::shared_ptr<Armed> armed;
  std::shared_ptr<FileState> file;
  std::unique_lock<std::mutex> lock;
  Medium* medium;
  uint64_t offset = 0, length = 0;
  Verdict verdict;
  bool changed = false;  ///< what is stored differs from what the program wrote

  Turn(const Call& call, std::shared_ptr<Armed> in_force, Medium* medium)
      : call(call),
        armed(std::move(in_force)),
        file(armed->file(call.seam, call.path)),
        lock(file->mutex),
        medium(medium) {}

  uint64_t index() const { return file->counts->operations[static_cast<size_t>(call.op)] - 1; }
  Status decide(uint64_t at, std::span<const std::byte> data, uint64_t bytes) {
    offset = at;
    length = bytes;
    VARVE_ASSIGN(verdict, armed->decide(*file, medium, {call.seam, call.op, call.pid, at, bytes, data, 0}));
    return {};
  }
  /// What happened to; not by what.
  JournalEntry entry() const {
    JournalEntry made;
    made.seam = call.seam;
    made.op = call.op;
    made.index = index();
    made.path = call.path;
    made.offset = offset;
    made.length = length;
    return made;
  }
  Effect& effect() { return verdict.effect; }
  bool acts() const { return verdict.effect.any() || !verdict.effect.note.empty(); }
  Error error() const {
    return Error{verdict.effect.error,
                 fmt::format("fault \"{}\": {} of {} at {} fails with {}", verdict.rule, name_of(call.op), call.path,
                             offset, errno_name(verdict.effect.error))};
  }
};

namespace {

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  while (true) {
    ::pause();
  }
}

}  // namespace

void Injector::before(Turn& turn) {
  if (!turn.acts()) {
    return;
  }
  turn.armed->count_injection();
  JournalEntry entry = turn.entry();
  entry.rule = turn.verdict.rule;
  entry.model = turn.verdict.model;
  entry.pid = turn.call.pid;
  entry.where = turn.verdict.where;
  entry.effect = turn.effect();
  journal_.add(entry);
  if (std::ranges::any_of(turn.effect().edits, &Edit::is_misplaced)) {
    turn.armed->count_misplaced();
  }
  if (turn.effect().delay > 0) {
    turn.lock.unlock();
    turn.armed->sleep(turn.effect().delay);
    turn.lock.lock();
  }
  if (turn.effect().ending == Ending::crash_before) {
    die();
  }
  if (turn.effect().ending == Ending::kill_caller_before && turn.call.pid > 1) {
    ::kill(turn.call.pid, SIGKILL);
  }
}

void Injector::after(Turn& turn) {
  if (!turn.effect().rest.empty()) {
    const Status done = carry_out_rest(turn);
    if (!done.ok()) {
      fs::log_line(fs::LogLevel::error, fmt::format("fault \"{}\": {}", turn.verdict.rule, done.error().text));
    }
  }
  if (turn.effect().ending == Ending::crash_after) {
    if (turn.verdict.model == Model::torn_write && turn.medium != nullptr) {  // its parts that persist are on the disk
      if (const Status synced = turn.medium->sync(); !synced.ok()) {
        fs::log_line(fs::LogLevel::error, fmt::format("fault \"{}\": {}", turn.verdict.rule, synced.error().text));
      }
    }
    die();
  }
  if (turn.effect().ending == Ending::kill_caller_after && turn.call.pid > 1) {
    ::kill(turn.call.pid, SIGKILL);
  }
  if (turn.changed && on_stored_ && turn.call.seam == Seam::app) {
    on_stored_(turn.call.path);
  }
}

/// Files that are gone meanwhile are left alone.
Status Injector::carry_out_rest(Turn& turn) {
  const Reopen& reopen = reopen_[static_cast<size_t>(turn.call.seam)];
  for (const Rest& rest : turn.effect().rest) {
    std::unique_ptr<Medium> opened;
    const bool writes = turn.call.op == Op::write || turn.call.op == Op::close;
    Medium* file = writes && rest.path == turn.call.path ? turn.medium : nullptr;
    if (file == nullptr) {
      auto found = reopen ? reopen(rest.path) : Result<std::unique_ptr<Medium>>(Error{ENOENT, "no way to open it"});
      if (!found.ok()) {
        continue;
      }
      opened = *std::move(found);
      file = opened.get();
    }
    if (!rest.bytes.empty()) {
      VARVE_TRY(file->write(rest.offset, rest.bytes));
    }
    if (rest.size_then) {
      VARVE_TRY(file->truncate(*rest.size_then));
    }
    if (on_stored_ && turn.call.seam == Seam::app) {
      on_stored_(rest.path);
    }
  }
  return {};
}

Result<size_t> Injector::read(const Call& call, Medium& file, uint64_t offset, std::span<std::byte> out) {
  auto armed = current();
  if (!armed) {
    return file.read(offset, out);
  }
  Turn turn(call, std::move(armed), &file);
  VARVE_ASSIGN(size_t got, file.read(offset, out));
  VARVE_TRY(turn.decide(offset, out.first(got), got));
  Effect& effect = turn.effect();
  if (effect.moved != 0 && effect.error == 0) {
    std::vector<std::byte> other(got);
    VARVE_ASSIGN(const size_t there, file.read(offset + static_cast<uint64_t>(effect.moved), other));
    std::memset(other.data() + there, 0, got - there);
    std::memcpy(out.data(), other.data(), got);
  }
  change_read(effect, offset, out.first(got));
  before(turn);
  after(turn);
  if (effect.error != 0) {
    return turn.error();
  }
  return static_cast<size_t>(std::min<uint64_t>(got, effect.count.value_or(got)));
}

Result<size_t> Injector::write(const Call& call, Medium& file, uint64_t offset, std::span<const std::byte> data) {
  auto armed = current();
  if (!armed) {
    VARVE_TRY(file.write(offset, data));
    return data.size();
  }
  Turn turn(call, std::move(armed), &file);
  VARVE_TRY(turn.decide(offset, data, data.size()));
  Effect& effect = turn.effect();
  if (effect.error != 0) {
    before(turn);
    after(turn);
    return turn.error();
  }
  Stored stored{offset, {}};
  std::span<const std::byte> bytes = data;
  if (effect.any()) {
    VARVE_ASSIGN(stored, stored_instead(effect, offset, data, file));
    bytes = stored.data;
    turn.changed = !effect.edits.empty() || effect.moved != 0;
  }
  before(turn);
  if (effect.moved != 0 && file.only_appends()) {
    VARVE_TRY(file.write(offset, std::vector<std::byte>(data.size())));
  }
  if (!bytes.empty()) {
    UnsyncedWrite write;
    VARVE_TRY(turn.armed->remember(*turn.file, file, call.seam, stored.offset, bytes.size(), write));
    VARVE_TRY(file.write(stored.offset, bytes));
    turn.armed->written(*turn.file, call.seam, stored.offset, bytes, std::move(write));
  }
  release_held(turn, turn.verdict.model == Model::unserializable_write ? 1 : 0, false);
  after(turn);
  return static_cast<size_t>(effect.count.value_or(data.size()));
}

/// Writes that come again now. The journal gets them as a part of the operation after which they come.
void Injector::release_held(Turn& turn, size_t newest, bool all) {
  if (turn.file->held.size() <= newest && !all) {
    return;
  }
  for (auto& [rest, rule] : turn.armed->due(*turn.file, newest, all)) {
    auto before_it = read_padded(*turn.medium, rest.offset, rest.bytes.size());
    if (!before_it.ok() || *before_it == rest.bytes) {
      continue;
    }
    before_it->resize(std::min(before_it->size(), kMostNoted));
    rest.was = *std::move(before_it);
    JournalEntry entry = turn.entry();
    entry.rule = turn.armed->rule(rule).name;
    entry.model = turn.armed->rule(rule).model;
    entry.effect.rest.push_back(rest);
    journal_.add(entry);
    turn.armed->count_injection();
    turn.effect().rest.push_back(std::move(rest));
  }
}

Status Injector::close(const Call& call, Medium& file) {
  auto armed = current();
  if (!armed) {
    return {};
  }
  Turn turn(call, std::move(armed), &file);
  VARVE_ASSIGN(const uint64_t size, file.size());
  VARVE_TRY(turn.decide(0, {}, size));
  Effect& effect = turn.effect();
  if (effect.error == 0 && !effect.edits.empty()) {
    VARVE_TRY(change_stored(effect, file));
    turn.changed = true;
  }
  before(turn);
  release_held(turn, 0, true);
  after(turn);
  turn.file->map_outdated = turn.file->map_outdated || turn.changed;
  return effect.error != 0 ? Status(turn.error()) : Status();
}

Status Injector::around(const Call& call, const std::function<Status()>& pass) {
  auto armed = current();
  if (!armed) {
    return pass();
  }
  Turn turn(call, std::move(armed), nullptr);
  VARVE_TRY(turn.decide(0, {}, 0));
  before(turn);
  turn.lock.unlock();
  Status done;
  if (turn.effect().error != 0) {
    done = turn.error();
  } else if (!turn.effect().skipped) {
    done = pass();
  }
  after(turn);
  return done;
}

Status Injector::fsync(const Call& call, const std::function<Status()>& pass) {
  const auto armed = current();
  bool passed = false;
  Status done = around(call, [&] {
    passed = true;
    return pass();
  });
  if (armed && passed && done.ok() && armed->tracks_unsynced(call.seam) &&
      !armed->unsynced(call.seam).forget(call.path)) {
    return Error{EIO, fmt::format("the power went while {} was being synced", call.path)};
  }
  return done;
}

Status Injector::truncate(const Call& call, Medium& file, uint64_t size, const std::function<Status()>& pass) {
  const auto armed = current();
  UnsyncedWrite write;
  if (armed) {
    const auto state = armed->file(call.seam, call.path);
    const std::lock_guard lock(state->mutex);
    const auto end = file.size();
    if (end.ok() && *end > size) {
      VARVE_TRY(armed->remember(*state, file, call.seam, size, *end - size, write));
    } else if (end.ok()) {
      write.old_size = *end;
      write.path = call.path;
    }
  }
  Status done = around(call, pass);
  if (armed && done.ok() && armed->tracks_unsynced(call.seam)) {
    write.path = call.path;
    write.offset = std::min(size, write.old_size);
    write.new_size = size;
    armed->unsynced(call.seam).add(std::move(write));
  }
  return done;
}

void Injector::renamed(Seam seam, const std::string& from, const std::string& to) {
  if (const auto armed = current()) {
    armed->renamed(seam, from, to);
  }
}

void Injector::removed(Seam seam, const std::string& path) {
  if (const auto armed = current()) {
    armed->removed(seam, path);
  }
}

}  // namespace varve::faults
