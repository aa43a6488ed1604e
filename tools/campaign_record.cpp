// What a campaign keeps of its golden run, so that an interrupted one goes on from it, and what that run depended on.
#include <fmt/format.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

#include "tools/campaign.h"
#include "tools/campaign_work.h"
#include "tools/comparison.h"

namespace varve::tools {
namespace {

namespace files = std::filesystem;

/// Absolute path -> what it held, of the files that runs depend on.
using Fingerprints = std::map<std::string, std::string>;

std::string fingerprint_of(const std::string& path) {
  const auto file = PlainFile::open(path);
  if (!file.ok()) {
    return "unreadable";
  }
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::byte> piece(kPiece);
  for (uint64_t at = 0; at < (*file)->size(); at += kPiece) {
    const auto got = (*file)->read(at, piece);
    if (!got.ok()) {
      return "unreadable";
    }
    XXH3_64bits_update(state.get(), piece.data(), *got);
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

/// Where a program's name leads that has no slash.
std::string find_in_path(const std::string& name) {
  const char* variable = std::getenv("PATH");
  const std::string_view all = variable != nullptr ? variable : "";
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(':', at), all.size());
    const std::string path = fmt::format("{}/{}", all.substr(at, end - at), name);
    std::error_code ignored;
    if (files::is_regular_file(path, ignored)) {
      return path;
    }
    at = end + 1;
  }
  return {};
}

/// Absolute paths in a word of a command: the word, and what stands in it between quotes, blanks and operators of a
/// shell.
std::set<std::string> paths_in(const std::string& word) {
  std::set<std::string> paths{word};
  for (const std::string_view ends : {"'\"", "'\" \t\n;|&<>()=,"}) {
    for (size_t at = 0; at < word.size();) {
      const size_t end = std::min(word.find_first_of(ends, at), word.size());
      paths.insert(word.substr(at, end - at));
      at = end + 1;
    }
  }
  std::erase_if(paths, [](const std::string& path) { return !path.starts_with('/'); });
  return paths;
}

Result<Fingerprints> fingerprints(const Campaign& campaign) {
  std::set<std::string> paths;
  const auto add_command = [&](const std::vector<std::string>& words) {
    if (!words.empty() && words[0].find('/') == std::string::npos) {
      paths.insert(find_in_path(words[0]));
    }
    for (const std::string& word : words) {
      paths.merge(paths_in(word));
    }
  };
  add_command(campaign.command);
  add_command(campaign.analysis);
  for (const OutputRule& rule : campaign.outputs) {
    add_command(rule.compare);
  }
  if (!campaign.inputs.empty()) {
    VARVE_ASSIGN(const auto inputs, files_in(campaign.inputs));
    for (const std::string& path : inputs) {
      paths.insert(campaign.inputs + "/" + path);
    }
  }
  Fingerprints found;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (files::is_regular_file(path, ignored)) {
      found[path] = fingerprint_of(path);
    }
  }
  return found;
}

/// In place of a fingerprint: runs write the file themselves.
constexpr std::string_view kWritten = "written";

void mark_written(Fingerprints& before, const Fingerprints& after) {
  for (const auto& [path, value] : after) {
    auto& known = before.try_emplace(path, kWritten).first->second;
    known = known == value ? known : kWritten;
  }
}

/// A file that is not as it was; empty: all are.
std::string changed_file(const Fingerprints& before, const Fingerprints& now) {
  for (const auto& [path, value] : before) {
    const auto found = now.find(path);
    if (value != kWritten && (found == now.end() || found->second != value)) {
      return path;
    }
  }
  for (const auto& [path, value] : now) {
    if (!before.contains(path)) {
      return path;
    }
  }
  return {};
}

Error not_the_same(const std::string& results, const std::string& why) {
  return {EEXIST, fmt::format("{} holds runs of {}: give another folder by --results, or remove it", results, why)};
}

}  // namespace

Result<Golden> find_golden(const Campaign& campaign, const std::string& path, const std::string& results,
                           CampaignRunner& runner) {
  VARVE_ASSIGN(Fingerprints now, fingerprints(campaign));
  const auto known = nlohmann::json::parse(text_of(results + "/campaign.json"), nullptr, false);
  const bool same = known.is_object() && known.value("text", "") == campaign.text;
  const bool has_runs = files::exists(results + "/runs.csv");
  if (!same && has_runs) {
    return not_the_same(results, "another campaign, or of this one before its file was changed");
  }
  const std::string changed = same ? changed_file(known.value("files", now), now) : "";  // an older one has no list
  if (!changed.empty() && has_runs) {
    return not_the_same(results, fmt::format("this campaign from before {} changed", changed));
  }
  Golden golden;
  if (same && changed.empty()) {
    golden.folder = results + "/golden";
    golden.seconds = known.value("seconds", 0.0);
    constexpr double kUnknown = 60;  // an older record does not tell
    golden.analysis_seconds = known.value("analysis_seconds", kUnknown);
    golden.compare_seconds = known.value("compare_seconds", kUnknown);
    golden.matches = known.value("matches", std::map<std::string, uint64_t>());
    return golden;
  }
  auto made = runner.golden();
  if (!made.ok()) {
    return Error{made.error().code, fmt::format("{}: {}", path, made.error().text)};
  }
  golden = *std::move(made);
  VARVE_ASSIGN(const Fingerprints after, fingerprints(campaign));
  mark_written(now, after);
  const nlohmann::ordered_json facts = {{"seconds", golden.seconds},
                                        {"analysis_seconds", golden.analysis_seconds},
                                        {"compare_seconds", golden.compare_seconds},
                                        {"matches", golden.matches},
                                        {"files", now},
                                        {"text", campaign.text}};
  VARVE_TRY(write_result(results + "/campaign.json", facts.dump(2) + "\n"));
  return golden;
}

}  // namespace varve::tools
