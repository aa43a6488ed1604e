#include "faults/armed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "faults/aim.h"
#include "fs/policy.h"

namespace varve::faults {
namespace {

bool is_content(Op op) { return op == Op::read || op == Op::write || op == Op::close; }

}  // namespace

Armed::Armed(Schedule schedule, fs::RecogniserPool& recognisers)
    : schedule_(std::move(schedule)), recognisers_(recognisers) {
  for (uint32_t number = 0; number < schedule_.rules.size(); ++number) {
    const Rule& rule = schedule_.rules[number];
    rule_states_.push_back(std::make_unique<RuleState>());
    const auto seam = static_cast<size_t>(rule.seam);
    const bool glob = rule.target.path.find_first_of("*?[\\") != std::string::npos;
    (glob ? globs_[seam] : named_[seam][rule.target.path]).push_back(number);
    if (rule.model == Model::read_disturb || rule.model == Model::retention) {
      wearing_[seam].push_back(number);
    }
    seams_ |= 1U << seam;
    tracks_unsynced_[seam] = tracks_unsynced_[seam] || rule.model == Model::power_cut;
    tracks_previous_[seam] = tracks_previous_[seam] || rule.model == Model::stale_read;
  }
}

Armed::Armed(Replay replay, std::string text, fs::RecogniserPool& recognisers)
    : recognisers_(recognisers), replays_(true), replay_(std::move(replay)) {
  if (auto schedule = Schedule::parse(text); schedule.ok()) {
    schedule_.bypass_page_cache = schedule->bypass_page_cache;
    schedule_.seed = schedule->seed;
  }
  schedule_.text = std::move(text);
  for (const auto& [key, entry] : replay_) {
    seams_ |= 1U << static_cast<size_t>(entry.seam);
  }
}

uint64_t Armed::replay_left() const {
  const std::lock_guard lock(mutex_);
  return replay_.size();
}

std::vector<uint32_t> Armed::rules_for(Seam seam, const std::string& path) const {
  const auto at = static_cast<size_t>(seam);
  std::vector<uint32_t> rules;
  std::ranges::copy_if(globs_[at], std::back_inserter(rules),
                       [&](uint32_t number) { return fs::glob_match(schedule_.rules[number].target.path, path); });
  if (const auto named = named_[at].find(path); named != named_[at].end()) {
    const auto middle = static_cast<std::ptrdiff_t>(rules.size());
    rules.insert(rules.end(), named->second.begin(), named->second.end());
    std::inplace_merge(rules.begin(), rules.begin() + middle, rules.end());
  }
  return rules;
}

std::shared_ptr<PathCounts> Armed::counts_of(Seam seam, const std::string& path) {
  std::shared_ptr<PathCounts>& counts = counts_[static_cast<size_t>(seam)][path];
  if (!counts) {
    counts = std::make_shared<PathCounts>(rules_for(seam, path));
  }
  return counts;
}

std::shared_ptr<FileState> Armed::file(Seam seam, const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<FileState>& file = files_[static_cast<size_t>(seam)][path];
  if (!file) {
    file = std::make_shared<FileState>();
    file->path = path;
    file->kind = seam == Seam::device ? file_kind(path) : FileKind::none;
    file->counts = counts_of(seam, path);
    file->seen = start_;
  }
  return file;
}

/// Content goes with the file, counts stay with the path. A file's lock is taken before the schedule's.
void Armed::renamed(Seam seam, const std::string& from, const std::string& to) {
  auto& files = files_[static_cast<size_t>(seam)];
  std::vector<std::pair<std::string, std::shared_ptr<FileState>>> moved;
  {
    const std::lock_guard lock(mutex_);
    for (auto file = files.lower_bound(from); file != files.end() && file->first.starts_with(from);) {
      const bool inside = file->first.size() == from.size() || file->first[from.size()] == '/';
      if (inside) {
        moved.emplace_back(to + file->first.substr(from.size()), std::move(file->second));
      }
      file = inside ? files.erase(file) : std::next(file);
    }
  }
  for (auto& [path, file] : moved) {
    const std::lock_guard file_lock(file->mutex);
    const std::lock_guard lock(mutex_);
    file->path = path;
    file->counts = counts_of(seam, path);
    files[path] = file;
  }
  unsynced(seam).renamed(from, to);
}

void Armed::removed(Seam seam, const std::string& path) {
  unsynced(seam).forget(path);
  const std::lock_guard lock(mutex_);
  files_[static_cast<size_t>(seam)].erase(path);
}

/// One operation under examination.
struct Armed::Look {
  FileState& file;
  Medium* medium;
  const Asked& asked;
  std::optional<std::string> process = {};  ///< the caller's name, once a rule has asked for it
};

bool Armed::in_window(const Rule& rule) const {
  const Trigger& trigger = rule.trigger;
  if (trigger.after > 0 && std::chrono::duration<double>(Clock::now() - start_).count() < trigger.after) {
    return false;
  }
  if (trigger.from_mark.empty() && trigger.to_mark.empty()) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  return (trigger.from_mark.empty() || marks_.contains(trigger.from_mark)) &&
         (trigger.to_mark.empty() || !marks_.contains(trigger.to_mark));
}

void Armed::mark(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (const Rule& rule : schedule_.rules) {
    if (rule.trigger.from_mark == name) {
      marks_.erase(rule.trigger.to_mark);  // the window opens anew
    }
  }
  marks_.insert(name);
}

/// All but the path.
bool Armed::matches(Look& look, size_t number) {
  const Rule& rule = schedule_.rules[number];
  const Target& target = rule.target;
  const Asked& asked = look.asked;
  if (!target.operations.test(static_cast<size_t>(asked.op)) || (target.pid && *target.pid != asked.pid) ||
      (target.kinds.any() && !target.kinds.test(static_cast<size_t>(look.file.kind)))) {
    return false;
  }
  const bool touches = asked.op != Op::close || changes_content(rule.model);
  if (is_content(asked.op) && asked.length == 0 && touches) {
    return false;
  }
  if (!target.process.empty()) {
    look.process = look.process ? look.process : process_name(asked.pid);
    if (!fs::glob_match(target.process, *look.process)) {
      return false;
    }
  }
  if (target.level || target.brick || target.object) {
    const index::PackHeader* record = record_at(look.file, asked.offset, asked.data);
    if (record == nullptr || (target.level && *target.level != record->origin.key.level) ||
        (target.brick && *target.brick != record->origin.key.brick) ||
        (target.object && *target.object != record->origin.object)) {
      return false;
    }
  }
  return in_window(rule);
}

void Armed::update_map(const Look& look) {
  FileState& file = look.file;
  const bool usable = file.map && (look.asked.op == Op::write || !file.map_outdated);
  if (!usable && look.medium != nullptr) {
    file.map = map_of(file.path, *look.medium, recognisers_);
    file.map_outdated = false;
  }
}

std::vector<Aim> Armed::aims_of(const Look& look, const Rule& rule) {
  const uint64_t begin = look.asked.offset;
  const uint64_t end = begin + look.asked.length;
  std::vector<Aim> aims;
  if (!is_content(look.asked.op)) {
    return aims;
  }
  if (rule.needs_structure()) {
    update_map(look);
  }
  return faults::aims_of(rule, rule.needs_structure() ? look.file.map.get() : nullptr, begin, end);
}

bool Armed::fires(const Look& look, size_t number, uint64_t in_file, Draw& draw) {
  const Trigger& trigger = schedule_.rules[number].trigger;
  RuleState& state = *rule_states_[number];
  const uint64_t in_mount = ++state.matched;
  const uint64_t count = trigger.count_per_file ? in_file : in_mount;
  const auto run = look.file.runs.find(number);
  if (run != look.file.runs.end() && run->second.left > 0) {
    return true;  // a torn run goes on
  }
  if (state.injected >= trigger.limit || (!trigger.nth.empty() && !std::ranges::binary_search(trigger.nth, count)) ||
      (trigger.every != 0 && count % trigger.every != 0)) {
    return false;
  }
  return trigger.probability >= 1 || draw.uniform() < trigger.probability;
}

/// Faults that last: a dead device, bad sectors.
std::optional<Verdict> Armed::lasting(const Look& look) {
  const auto seam = static_cast<size_t>(look.asked.seam);
  if (const int code = dead_[seam]; code != 0) {
    Verdict verdict;
    verdict.effect.error = code;
    verdict.rule = schedule_.rules[killer_[seam]].name;
    verdict.model = schedule_.rules[killer_[seam]].model;
    return verdict;
  }
  const uint64_t end = look.asked.offset + look.asked.length;
  if (look.asked.op == Op::read && look.file.bad_sectors.intersects(look.asked.offset, end)) {
    Verdict verdict;
    verdict.effect.error = look.file.bad_code;
    verdict.model = Model::latent_sector_error;
    verdict.rule = rule_of(schedule_, look.asked.seam, verdict.model);
    return verdict;
  }
  return std::nullopt;
}

void Armed::add_stuck(const Look& look, Verdict& verdict) {
  if ((look.asked.op != Op::read && look.asked.op != Op::write) || verdict.effect.error != 0 ||
      verdict.effect.moved != 0 || !verdict.effect.edits.empty()) {
    return;
  }
  std::map<uint64_t, std::byte> changes;
  for (const StuckPage& page : look.file.stuck) {
    const uint64_t begin = std::max(page.offset, look.asked.offset);
    const uint64_t end = std::min(page.offset + page.content.size(), look.asked.offset + look.asked.data.size());
    for (uint64_t at = begin; at < end; ++at) {
      const std::byte stuck = page.content[at - page.offset];
      if (stuck != look.asked.data[at - look.asked.offset]) {
        changes[at] = stuck;
      }
    }
  }
  if (!changes.empty()) {
    verdict.effect.edits = edits_of(changes);
    verdict.model = Model::stuck_page;
    verdict.rule = rule_of(schedule_, look.asked.seam, verdict.model);
  }
}

/// enospc_at: the write that would pass the limit stores what fits, later ones nothing.
Effect Armed::fill_disk(const Rule& rule, RuleState& state, uint64_t length) {
  const uint64_t limit = rule.parameters.bytes.value_or(0);
  const uint64_t before = state.bytes.fetch_add(length);
  Effect effect;
  if (before + length > limit) {
    if (before < limit) {
      effect.count = limit - before;
    } else {
      effect.error = ENOSPC;
    }
    state.bytes = limit;
  }
  return effect;
}

void Armed::count_wear(const Look& look) {
  for (const uint32_t number : wearing_[static_cast<size_t>(look.asked.seam)]) {
    const Rule& rule = schedule_.rules[number];
    if (rule.model == Model::read_disturb && look.asked.op == Op::read) {
      const uint64_t block = rule.parameters.size.value_or(uint64_t{1} << 20);
      for (uint64_t at = look.asked.offset / block * block; at < look.asked.offset + look.asked.length; at += block) {
        ++look.file.wear[at].reads;
      }
    }
    if (rule.model == Model::retention && look.asked.op == Op::write) {
      constexpr uint64_t kPage = 4096;
      for (uint64_t at = look.asked.offset / kPage * kPage; at < look.asked.offset + look.asked.length; at += kPage) {
        look.file.wear[at | 1].written = Clock::now();
      }
    }
  }
}

Verdict Armed::from_replay(const Look& look) {
  Verdict verdict;
  const std::lock_guard lock(mutex_);
  const auto [first, last] =
      replay_.equal_range(key_of(look.asked.seam, look.asked.op, look.file.path, look.asked.index));
  for (auto found = first; found != last; ++found) {
    Effect& effect = found->second.effect;
    verdict.rule = found->second.rule;
    verdict.model = found->second.model;
    if (found == first) {
      verdict.effect = std::move(effect);
    } else {  // what came after the operation
      std::ranges::move(effect.rest, std::back_inserter(verdict.effect.rest));
    }
  }
  replay_.erase(first, last);
  return verdict;
}

/// What an effect leaves behind for later operations.
void Armed::settle(size_t number, Effect& effect) {
  const Rule& rule = schedule_.rules[number];
  const auto seam = static_cast<size_t>(rule.seam);
  if (rule.model == Model::dead_device) {
    killer_[seam] = number;
    dead_[seam] = effect.error;
  } else if (rule.model == Model::power_cut) {
    const Aftermath usual = rule.seam == Seam::app ? Aftermath::dead : Aftermath::crash;
    const Aftermath then = rule.parameters.then.value_or(usual);
    if (then != Aftermath::go_on) {
      killer_[seam] = number;
      dead_[seam] = EIO;
    }
    if (then == Aftermath::crash) {
      effect.ending = Ending::crash_after;
    }
  }
}

Result<Verdict> Armed::decide(FileState& file, Medium* medium, const Asked& asked_now) {
  Asked asked = asked_now;
  asked.index = file.counts->operations[static_cast<size_t>(asked.op)]++;
  Look look{file, medium, asked};
  if (replays_) {
    return from_replay(look);
  }
  note_records(file, asked);
  count_wear(look);
  std::optional<Verdict> verdict = lasting(look);
  if (verdict) {
    return *std::move(verdict);
  }
  const uint64_t path_hash = hash_of(file.path);
  for (size_t i = 0; i < file.counts->rules.size(); ++i) {
    const size_t number = file.counts->rules[i];
    const Rule& rule = schedule_.rules[number];
    if (!matches(look, number)) {
      continue;
    }
    std::vector<Aim> aims = aims_of(look, rule);
    if (is_content(asked.op) && aims.empty()) {
      continue;
    }
    const uint64_t in_file = ++file.counts->matches[i];
    Draw draw(schedule_.seed, mix(number) ^ path_hash, in_file);
    if (!fires(look, number, in_file, draw) || verdict) {
      continue;
    }
    Verdict found;
    if (rule.model == Model::enospc_at) {
      found.effect = fill_disk(rule, *rule_states_[number], asked.length);
    } else {
      NoMedium none;
      Scene scene{rule,     number,         *rule_states_[number], file,       medium != nullptr ? *medium : none,
                  asked.op, asked.offset,   asked.length,          asked.data, std::move(aims),
                  draw,     schedule_.seed, unsynced(asked.seam)};
      VARVE_ASSIGN(found.effect, effect_of(scene));
    }
    if (!found.effect.any() && found.effect.note.empty()) {
      continue;
    }
    found.where = where_of(rule, file.map.get(), found.effect);
    settle(number, found.effect);
    found.rule = rule.name;
    found.model = rule.model;
    ++rule_states_[number]->injected;
    verdict = std::move(found);
  }
  Verdict result = verdict ? *std::move(verdict) : Verdict();
  add_stuck(look, result);
  return result;
}

void Armed::sleep(uint64_t microseconds) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, std::chrono::microseconds(microseconds), [this] { return stopped_; });
}

void Armed::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
}

std::string Armed::status_rules(bool matched_only) const {
  nlohmann::ordered_json rules = nlohmann::ordered_json::array();
  for (size_t i = 0; i < schedule_.rules.size(); ++i) {
    const Rule& rule = schedule_.rules[i];
    const RuleState& state = *rule_states_[i];
    if (matched_only && state.matched.load() == 0) {
      continue;
    }
    rules.push_back({{"name", rule.name},
                     {"model", name_of(rule.model)},
                     {"seam", name_of(rule.seam)},
                     {"matched", state.matched.load()},
                     {"injected", state.injected.load()}});
  }
  return rules.dump();
}

}  // namespace varve::faults
