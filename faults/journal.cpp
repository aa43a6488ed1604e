#include "faults/journal.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>

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
    return Error{errno != 0 ? errno : EIO, fmt::format("cannot write the journal of faults {}: {}", path_,
                                                       std::generic_category().message(errno))};
  }
  return {};
}

Status Journal::begin(const Schedule& schedule) {
  const std::lock_guard lock(mutex_);
  struct stat facts {};
  start_ = ::stat(path_.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
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

void Journal::end(uint64_t injections) {
  const std::lock_guard lock(mutex_);
  if (const Status written = append(dumped({{"disarmed", time_now()}, {"injections", injections}})); !written.ok()) {
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

std::string schedule_in(std::string_view journal) {
  constexpr std::string_view kStart = "{\"armed\":";
  size_t at = journal.rfind(std::string("\n").append(kStart));
  at = at == std::string_view::npos ? 0 : at + 1;
  const std::string_view line = journal.substr(at, journal.find('\n', at) - at);
  const Json in = Json::parse(line, nullptr, false);
  return in.is_object() && in.contains("schedule") && in["schedule"].is_string() ? in["schedule"].get<std::string>()
                                                                                 : std::string();
}

Result<Replay> parse_journal(std::string_view text) {
  Replay replay;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) {
      continue;
    }
    try {
      const Json in = Json::parse(line);
      if (in.contains("armed")) {
        replay.clear();
      }
      if (!in.contains("effect")) {
        continue;
      }
      JournalEntry entry;
      entry.rule = in.at("rule").get<std::string>();
      entry.model = find_in<Model>(kModelNames, in.at("model").get<std::string>()).value();
      entry.seam = find_in<Seam>(kSeamNames, in.at("seam").get<std::string>()).value();
      entry.op = find_in<Op>(kOpNames, in.at("op").get<std::string>()).value();
      entry.index = in.at("index").get<uint64_t>();
      entry.path = in.at("path").get<std::string>();
      auto effect = effect_from_json(in.at("effect").dump());
      if (!effect.ok()) {
        return Error{EBADMSG, fmt::format("journal, line {}: {}", number, effect.error().text)};
      }
      entry.effect = *std::move(effect);
      replay.emplace(key_of(entry.seam, entry.op, entry.path, entry.index), std::move(entry));
    } catch (const std::exception& problem) {  // of the JSON library
      return Error{EBADMSG, fmt::format("journal, line {}: {}; give what `varve faults journal` printed", number,
                                        problem.what())};
    }
  }
  return replay;
}

}  // namespace varve::faults
