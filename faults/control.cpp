#include "faults/control.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fs/log.h"

namespace varve::faults {
namespace {

enum File : size_t { arm, disarm, status, journal, replay, mark };
constexpr std::string_view kImpossible = "this mount was started with --no-faults: nothing can be armed here";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

}  // namespace

const std::vector<std::string>& Control::files() const {
  static const std::vector<std::string> names = {"arm", "disarm", "status", "journal", "replay", "mark"};
  return names;
}

Result<std::string> Control::read(size_t file) {
  const bool possible = injector_ != nullptr;
  switch (file) {
    case File::arm:
      return possible ? injector_->schedule() : std::string();
    case File::journal:
      return possible ? injector_->journal() : Result<std::string>(std::string());
    case File::status: {
      auto facts =
          possible ? nlohmann::ordered_json::parse(injector_->status()) : nlohmann::ordered_json{{"armed", false}};
      facts["possible"] = possible;
      const std::lock_guard lock(mutex_);
      facts["refused"] = refused_;
      return facts.dump(2) + "\n";
    }
    default:
      return std::string();
  }
}

Status Control::obey(size_t file, std::string_view text) {
  if (injector_ == nullptr) {
    return Error{EPERM, std::string(kImpossible)};
  }
  switch (file) {
    case File::arm:
      return injector_->arm(text);
    case File::disarm:
      injector_->disarm();
      return {};
    case File::replay:
      return injector_->replay(text);
    case File::mark:
      injector_->mark(std::string(trimmed(text)));
      return {};
    default:
      return Error{EACCES, fmt::format(".varve/faults/{} is there to be read", files()[file])};
  }
}

Status Control::write(size_t file, std::string_view text) {
  Status done = obey(file, text);
  if (!done.ok()) {
    fs::log_line(fs::LogLevel::warning, fmt::format("faults: {}: {}", files()[file], done.error().text));
  }
  const std::lock_guard lock(mutex_);
  refused_ = done.ok() ? "" : done.error().text;
  return done;
}

}  // namespace varve::faults
