#include "faults/journal.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "faults/json_fields.h"
#include "fs/log.h"

namespace varve::faults {
namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t kMostShown = uint64_t{64} << 20;

std::string time_now() {
  const auto now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  return fmt::format("{:%FT%T}Z", now);
}

std::string dumped(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

Journal::~Journal() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

Status Journal::append(const std::string& line) {
  if (file_ < 0) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  if (file_ < 0 || ::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    const int code = errno != 0 ? errno : EIO;
    return Error{code, fmt::format("cannot write the journal of faults {}: {}; nothing is armed without one", path_,
                                   std::generic_category().message(code))};
  }
  return {};
}

Status Journal::begin(const Schedule& schedule) {
  const std::lock_guard lock(mutex_);
  struct stat facts {};
  struct stat open_one {};
  const bool there = ::stat(path_.c_str(), &facts) == 0;
  if (file_ >= 0 && (!there || ::fstat(file_, &open_one) != 0 || facts.st_ino != open_one.st_ino)) {
    ::close(std::exchange(file_, -1));  // it was removed or replaced
  }
  start_ = there ? static_cast<uint64_t>(facts.st_size) : 0;
  entries_ = 0;
  return append(dumped({{"armed", time_now()}, {"seed", schedule.seed}, {"schedule", schedule.text}}));
}

void Journal::add(const JournalEntry& entry) {
  const std::lock_guard lock(mutex_);
  Json line = {
      {"seq", entries_++},           {"time", time_now()},      {"rule", entry.rule},   {"model", name_of(entry.model)},
      {"seam", name_of(entry.seam)}, {"op", name_of(entry.op)}, {"index", entry.index}, {"path", entry.path},
      {"offset", entry.offset},      {"length", entry.length}};
  if (entry.pid != 0) {
    line["pid"] = entry.pid;
  }
  if (!entry.where.empty()) {
    line["where"] = entry.where;
  }
  line["effect"] = Json::parse(to_json(entry.effect));
  if (const Status written = append(dumped(line)); !written.ok()) {
    fs::log_line(fs::LogLevel::error, written.error().text);
  }
}

void Journal::end(uint64_t injections, std::string_view rules) {
  const std::lock_guard lock(mutex_);
  const Json line = {{"disarmed", time_now()}, {"injections", injections}, {"faults", Json::parse(rules)}};
  if (const Status written = append(dumped(line)); !written.ok()) {
    fs::log_line(fs::LogLevel::error, written.error().text);
  }
}

Result<std::string> Journal::text() const {
  const std::lock_guard lock(mutex_);
  struct stat facts {};
  if (file_ < 0) {
    return std::string();
  }
  if (::fstat(file_, &facts) != 0) {
    return Error{errno, fmt::format("cannot read the journal {}", path_)};
  }
  const auto end = static_cast<uint64_t>(facts.st_size);
  const uint64_t from = std::max(std::min(start_, end), end > kMostShown ? end - kMostShown : 0);
  std::string text(end - from, '\0');
  const ssize_t got = ::pread(file_, text.data(), text.size(), static_cast<off_t>(from));
  if (got < 0) {
    return Error{errno, fmt::format("cannot read the journal {}", path_)};
  }
  text.resize(static_cast<size_t>(got));
  return text;
}

std::string key_of(Seam seam, Op op, std::string_view path, uint64_t index) {
  return fmt::format("{} {} {} {}", name_of(seam), name_of(op), index, path);
}

std::string_view last_arming(std::string_view journal) {
  const size_t at = journal.rfind("\n{\"armed\":");
  return at == std::string_view::npos ? journal : journal.substr(at + 1);
}

std::string schedule_in(std::string_view journal) {
  journal = last_arming(journal);
  const Json in = Json::parse(journal.substr(0, journal.find('\n')), nullptr, false);
  return in.is_object() && in.contains("schedule") && in["schedule"].is_string() ? in["schedule"].get<std::string>()
                                                                                 : std::string();
}

namespace {

JournalEntry entry_of(const Json& in) {
  JournalEntry entry;
  entry.rule = field<std::string>(in, "rule");
  entry.model = field<Model>(in, "model", kModelNames);
  entry.seam = field<Seam>(in, "seam", kSeamNames);
  entry.op = field<Op>(in, "op", kOpNames);
  entry.index = field<uint64_t>(in, "index");
  entry.path = field<std::string>(in, "path");
  auto effect = effect_from_json(in.at("effect").dump());
  if (!effect.ok()) {
    throw std::invalid_argument(effect.error().text);
  }
  entry.effect = *std::move(effect);
  return entry;
}

}  // namespace

Result<Replay> parse_journal(std::string_view text, std::string_view file) {
  constexpr std::string_view kRemedy = "give whole lines as `varve faults journal` printed them";
  Replay replay;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    const Json in = Json::parse(line, nullptr, false);
    const bool known = in.is_object() && (in.contains("armed") || in.contains("disarmed") || in.contains("effect"));
    if (!known) {
      return Error{EBADMSG, fmt::format("{}, line {}: this is {}; {}", file, number,
                                        in.is_discarded() ? "no JSON: cut off, or another file's"
                                                          : "JSON, but no line of a journal",
                                        kRemedy)};
    }
    if (in.contains("armed")) {
      replay.clear();
    }
    if (!in.contains("effect")) {
      continue;
    }
    try {
      JournalEntry entry = entry_of(in);
      replay.emplace(key_of(entry.seam, entry.op, entry.path, entry.index), std::move(entry));
    } catch (const std::exception& problem) {
      return Error{EBADMSG, fmt::format("{}, line {}: {}; {}", file, number, problem.what(), kRemedy)};
    }
  }
  return replay;
}

}  // namespace varve::faults
