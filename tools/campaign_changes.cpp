// Which bytes a run's faults changed, in which region of which file: from its journal, and as a table.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

#include "fs/intervals.h"
#include "tools/campaign_work.h"
#include "tools/comparison.h"

namespace varve::tools {
namespace {

using Json = nlohmann::json;
using Changed = std::map<std::string, fs::IntervalSet>;  // by path

constexpr size_t kMostStretches = 10'000;  // of a run and file; where there are more, whole pages are noted

uint64_t number_of(const Json& in, const char* key) { return in.value(key, uint64_t{0}); }

void add_stretch(Changed& changed, const std::string& path, uint64_t offset, uint64_t length) {
  constexpr uint64_t kPage = 4096;
  fs::IntervalSet& stretches = changed[path];
  if (stretches.intervals().size() < kMostStretches) {
    stretches.add(offset, offset + length);
  } else {
    stretches.add(offset / kPage * kPage, (offset + length + kPage - 1) / kPage * kPage);
  }
}

/// Bytes that are not what they should be after one injection.
void add_changes(const Json& entry, Changed& changed) {
  const auto& effect = entry["effect"];
  const std::string path = entry.value("path", "");
  const uint64_t offset = number_of(entry, "offset");
  const uint64_t length = number_of(entry, "length");
  for (const auto& edit : effect.value("edits", Json::array())) {
    add_stretch(changed, path, number_of(edit, "offset"), number_of(edit, "length"));
  }
  for (const auto& rest : effect.value("rest", Json::array())) {
    const size_t digits = std::max(rest.value("new", "").size(), rest.value("old", "").size());
    if (digits > 0) {
      add_stretch(changed, rest.value("path", ""), number_of(rest, "offset"), digits / 2);
    }
  }
  if (const int64_t moved = effect.value("moved", int64_t{0}); moved != 0 && length > 0) {
    add_stretch(changed, path, offset, length);
    if (entry.value("op", "") == "write") {
      add_stretch(changed, path, offset + static_cast<uint64_t>(moved), length);
    }
  }
  const uint64_t count = effect.value("count", length);
  if (count < length) {
    add_stretch(changed, path, offset + count, length - count);
  }
}

std::string region_name(const faults::Segment& segment) {
  return segment.name.empty() ? segment.structure : fmt::format("{} of {}", segment.structure, segment.name);
}

}  // namespace

std::shared_ptr<const faults::StructureMap> CampaignRunner::map_of(const Golden& golden, const std::string& path) {
  const std::lock_guard lock(mutex_);
  auto& known = maps_[path];
  if (!known) {
    const auto file = PlainFile::open(golden.folder + "/files/" + path);
    known = file.ok() ? faults::StructureMap::of(path.substr(path.rfind('/') + 1), **file, recognisers_)
                      : std::make_shared<faults::StructureMap>();  // a file that the program removed
  }
  return known;
}

/// A row for each region that the stretch touches.
void CampaignRunner::add_regions(const Golden& golden, uint64_t begin, uint64_t end, const std::string& path,
                                 RunResult& result) {
  const auto add = [&](const std::string& region, uint64_t from, uint64_t to) {
    if (!result.changes.empty() && result.changes.back().path == path && result.changes.back().region == region &&
        result.changes.back().offset + result.changes.back().length == from) {
      result.changes.back().length += to - from;
    } else {
      result.changes.push_back({path, region, from, to - from});
    }
  };
  if (result.seam != "app") {
    add(std::string(name_of(faults::file_kind(path))), begin, end);
    return;
  }
  const auto map = map_of(golden, path);
  const auto& segments = map->segments();
  auto next = std::ranges::upper_bound(segments, begin, {}, &faults::Segment::end);
  for (; next != segments.end() && next->offset < end; ++next) {
    add(region_name(*next), std::max(begin, next->offset), std::min(end, next->end()));
  }
  const uint64_t covered = segments.empty() ? 0 : segments.back().end();
  if (end > covered) {
    add(segments.empty() ? "temporary file" : "past the end", std::max(begin, covered), end);
  }
}

/// From the journal: the first injection is the run's, the bytes are those of all.
void CampaignRunner::note_injection(const Golden& golden, const Work& work, RunResult& result) {
  Changed changed;
  std::istringstream lines(work.journal);
  for (std::string line; std::getline(lines, line);) {
    const auto entry = Json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("effect")) {
      continue;
    }
    add_changes(entry, changed);
    if (result.outcome != Outcome::none) {
      continue;
    }
    result.outcome = Outcome::benign;
    result.operation = entry.value("op", "");
    result.path = entry.value("path", "");
    result.offset = number_of(entry, "offset");
    result.length = number_of(entry, "length");
    for (const auto& edit : entry["effect"].value("edits", Json::array())) {
      if (result.bytes_changed == 0) {
        result.offset = number_of(edit, "offset");
        result.length = number_of(edit, "length");
      }
      result.bytes_changed += number_of(edit, "length");
    }
  }
  if (result.outcome == Outcome::none) {
    return;
  }
  if (changed.empty()) {  // an error, a delay: it is the operation that was hit
    add_stretch(changed, result.path, result.offset, std::max<uint64_t>(result.length, 1));
  }
  for (const auto& [path, stretches] : changed) {
    for (const auto& [begin, end] : stretches.intervals()) {
      add_regions(golden, begin, end, path, result);
    }
  }
  const auto first = std::ranges::find_if(result.changes, [&](const Change& one) {
    return one.path == result.path && one.offset <= result.offset && result.offset < one.offset + one.length;
  });
  result.region = first != result.changes.end() ? first->region : "";
}

std::string changes_header() { return "fault,run,path,region,offset,length,end\n"; }

std::string changes_lines(const RunResult& result) {
  std::string lines;
  for (const Change& one : result.changes) {
    lines += fmt::format("{},{},{},{},{},{},.\n", csv_field(result.fault), result.run, csv_field(one.path),
                         csv_field(one.region), one.offset, one.length);
  }
  return lines;
}

void add_changes(std::string_view text, std::vector<RunResult>& results) {
  std::map<std::pair<std::string, uint64_t>, std::set<std::tuple<std::string, uint64_t, uint64_t, std::string>>> known;
  constexpr size_t kFields = 7;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::vector<std::string> fields = csv_fields(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
    if (fields.size() == kFields && fields.back() == ".") {
      known[{fields[0], csv_number(fields[1])}].emplace(fields[2], csv_number(fields[4]), csv_number(fields[5]),
                                                        fields[3]);
    }
  }
  for (RunResult& result : results) {
    for (const auto& [path, offset, length, region] : known[{result.fault, result.run}]) {
      result.changes.push_back({path, region, offset, length});
    }
  }
}

}  // namespace varve::tools
