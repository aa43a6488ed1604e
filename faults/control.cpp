#include "faults/control.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fs/log.h"

namespace varve::faults {
namespace {

enum File : size_t { arm, disarm, status, journal, replay, mark, log };
constexpr std::string_view kImpossible = "this mount was started with --no-faults: nothing can be armed here";
constexpr std::string_view kNothingToDisarm =
    "this mount was started with --no-faults: no fault is armed here, and none can be, so there is nothing to disarm";
constexpr std::string_view kTaken =
    "this mount belongs to a running campaign, which alone arms and disarms it: its runs "
    "would not count what you do; mount another store";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

}  // namespace

Control::Control(Injector* injector, std::string_view key) : injector_(injector), prefix_(with_key(key, {})) {}

std::string Control::with_key(std::string_view key, std::string_view text) {
  return key.empty() ? std::string(text) : fmt::format("# key {}\n{}", key, text);
}

const std::vector<std::string>& Control::files() const {
  static const std::vector<std::string> names = {"arm", "disarm", "status", "journal", "replay", "mark", "log"};
  return names;
}

Result<std::string> Control::read(size_t file) {
  const bool possible = injector_ != nullptr;
  switch (file) {
    case File::arm:
      return possible ? injector_->schedule() : std::string();
    case File::journal:
    case File::log:
      return possible ? injector_->journal() : Result<std::string>(std::string());
    case File::status: {
      auto facts =
          possible ? nlohmann::ordered_json::parse(injector_->status()) : nlohmann::ordered_json{{"armed", false}};
      facts["possible"] = possible;
      facts["campaign"] = !prefix_.empty();
      const std::lock_guard lock(mutex_);
      facts["refused"] = refused_;
      return facts.dump(2) + "\n";
    }
    default:
      return std::string();
  }
}

Status Control::may(size_t file) const {
  if (file == File::status || file == File::journal || file == File::log) {
    return Error{EACCES, fmt::format(".varve/faults/{} is there to be read", files()[file])};
  }
  return injector_ != nullptr
             ? Status()
             : Status(Error{EPERM, std::string(file == File::disarm ? kNothingToDisarm : kImpossible)});
}

/// Programs under a campaign may say where they are.
bool Control::keyed(size_t file) const { return !prefix_.empty() && file != File::mark; }

Status Control::obey(size_t file, std::string_view text) {
  VARVE_TRY(may(file));
  if (keyed(file)) {
    if (!text.starts_with(prefix_)) {
      return Error{EBUSY, std::string(kTaken)};
    }
    text.remove_prefix(prefix_.size());
  }
  switch (file) {
    case File::arm:
      return injector_->arm(text);
    case File::disarm:
      injector_->disarm();
      return {};
    case File::replay:
      return injector_->replay(text);
    default:
      return injector_->mark(std::string(trimmed(text)));
  }
}

Status Control::check(size_t file, std::string_view text) {
  constexpr size_t kMost = 65536;  // of more, only close(2) tells
  const auto look = [&]() -> Status {
    VARVE_TRY(may(file));
    if (keyed(file)) {
      if (!text.starts_with(prefix_) && !std::string_view(prefix_).starts_with(text)) {
        return Error{EBUSY, std::string(kTaken)};
      }
      text.remove_prefix(std::min(prefix_.size(), text.size()));
    }
    const std::string_view lines = text.substr(0, text.rfind('\n') + 1);
    if (text.size() > kMost) {
      return {};
    }
    switch (file) {
      case File::arm:
        return Schedule::check_start(lines);
      case File::replay: {
        const auto journal = parse_journal(lines);
        return journal.ok() ? Status() : Status(journal.error());
      }
      case File::mark:
        return trimmed(text).empty() && !text.ends_with('\n') ? Status() : check_mark(trimmed(text));
      default:
        return {};
    }
  };
  Status done = look();
  note_refusal(done);
  return done;
}

void Control::note_refusal(const Status& done) {
  const std::lock_guard lock(mutex_);
  refused_ = done.ok() ? "" : done.error().text;
}

Status Control::write(size_t file, std::string_view text) {
  Status done = obey(file, text);
  if (!done.ok()) {
    fs::log_line(fs::LogLevel::warning, fmt::format("faults: {}: {}", files()[file], done.error().text));
  }
  note_refusal(done);
  return done;
}

}  // namespace varve::faults
