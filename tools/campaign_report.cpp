// What a campaign found: CSV, and a page of HTML that needs nothing else.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "tools/campaign.h"

namespace varve::tools {
namespace {

constexpr std::array<std::string_view, 18> kColumns = {
    "fault",     "run",  "model",  "seam",   "nth",           "outcome", "exit_status", "signal", "seconds",
    "operation", "path", "region", "offset", "bytes_changed", "length",  "detail",      "seed",   "end"};

template <typename Number>
Number number_in(const std::string& text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

/// "12.3% (9.8 to 15.2)".
std::string share_text(uint64_t count, uint64_t total) {
  const Share share{count, total};
  const auto [low, high] = share.interval();
  return total == 0
             ? "-"
             : fmt::format("{:.1f}% <small>({:.1f} to {:.1f})</small>", 100 * share.rate(), 100 * low, 100 * high);
}

std::string heading(std::string_view first) {
  std::string row = fmt::format("<tr><th>{}</th><th>runs</th>", first);
  for (size_t i = 0; i < kShownOutcomes; ++i) {
    row += fmt::format("<th style=\"border-bottom:4px solid {}\">{}</th>", kOutcomeColours[i], kOutcomeNames[i]);
  }
  return row + "</tr>\n";
}

std::string table_row(const std::string& name, const Counts& counts) {
  const uint64_t total = counted(counts);
  std::string row = fmt::format("<tr><td>{}</td><td>{}</td>", escaped(name), total);
  for (size_t i = 0; i < kShownOutcomes; ++i) {
    row += fmt::format("<td>{}</td>", share_text(counts[i], total));
  }
  return row + "</tr>\n";
}

/// A bar of the outcomes for each fault.
std::string bars(const std::vector<std::pair<std::string, Counts>>& rows) {
  constexpr int kWidth = 560;
  constexpr int kLeft = 200;
  constexpr int kStep = 30;
  std::string out =
      fmt::format("<svg width=\"{}\" height=\"{}\" font-size=\"13\">\n", kLeft + kWidth + 20, kStep * rows.size() + 10);
  int y = 4;
  for (const auto& [name, counts] : rows) {
    const uint64_t total = counted(counts);
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLeft - 8, y + 15, escaped(name));
    double x = kLeft;
    for (size_t i = 0; i < kShownOutcomes && total > 0; ++i) {
      const double width = kWidth * Share{counts[i], total}.rate();
      out += fmt::format(
          R"(<rect x="{:.1f}" y="{}" width="{:.1f}" height="20" fill="{}"><title>{}: {} of {}</title></rect>)", x, y,
          width, kOutcomeColours[i], kOutcomeNames[i], counts[i], total);
      x += width;
    }
    out += "\n";
    y += kStep;
  }
  return out + "</svg>\n";
}

/// Where in a file faults mattered: its bytes from left to right, a column's height by the runs that hit there.
std::string sensitivity(const FileMap& map) {
  constexpr int kBin = 6;
  constexpr int kHeight = 60;
  uint64_t most = 1;
  for (const Counts& bin : map.bins) {
    most = std::max(most, counted(bin));
  }
  std::string out = fmt::format("<p>{}: bytes 0 to {}, {} runs</p><svg width=\"{}\" height=\"{}\">", escaped(map.path),
                                map.end - 1, map.runs, map.bins.size() * kBin, kHeight);
  for (size_t b = 0; b < map.bins.size(); ++b) {
    double y = kHeight;
    for (size_t i = 0; i < kShownOutcomes; ++i) {
      const double height = kHeight * static_cast<double>(map.bins[b][i]) / static_cast<double>(most);
      y -= height;
      if (height > 0) {
        out += fmt::format(R"(<rect x="{}" y="{:.1f}" width="{}" height="{:.1f}" fill="{}"/>)", b * kBin, y, kBin - 1,
                           height, kOutcomeColours[i]);
      }
    }
  }
  return out + "</svg>\n";
}

std::string maps(const std::vector<RunResult>& results) {
  constexpr size_t kBins = 128;
  constexpr size_t kMostMaps = 24;
  std::string out;
  for (const FileMap& map : file_maps(results, kBins, kMostMaps)) {
    out += sensitivity(map);
  }
  return out.empty() ? out
                     : "<h2>Where in the files</h2>\n<p>A run counts in each column of whose bytes its fault changed "
                       "one.</p>\n" +
                           out;
}

std::string regions(const std::vector<RunResult>& results) {
  std::map<std::string, std::map<std::string, Counts>> by_region;
  for (const RunResult& result : results) {
    std::set<std::string> hit;
    for (const Change& change : result.changes) {
      hit.insert(change.region);
    }
    if (hit.empty()) {
      hit.insert(result.region);
    }
    for (const std::string& region : hit) {
      ++by_region[result.fault][region][static_cast<size_t>(result.outcome)];  // none is not shown
    }
  }
  std::string out =
      "<h2>By what was hit</h2>\n<p>A run counts in each region in which its fault changed bytes.</p>\n<table>\n" +
      heading("fault, region");
  for (const auto& [fault, places] : by_region) {
    for (const auto& [place, counts] : places) {
      out += table_row(fmt::format("{}: {}", fault, place.empty() ? "-" : place), counts);
    }
  }
  return out + "</table>\n";
}

std::string replays(const std::vector<RunResult>& results, const std::string& command) {
  constexpr size_t kMost = 200;
  std::string out =
      "<h2>Runs that were not benign</h2>\n<p>The command in its row repeats a run, and keeps the store, the log and "
      "what the program printed. Its journal is in <code>journals/</code>.</p>\n<table><tr><th>run</th>"
      "<th>outcome</th><th>operation</th><th>region</th><th>bytes</th><th></th><th>repeated by</th></tr>\n";
  size_t shown = 0;
  for (const RunResult& one : results) {
    if (one.outcome != Outcome::benign && one.outcome != Outcome::none && shown++ < kMost) {
      out += fmt::format(
          "<tr><td>{0}:{1}</td><td>{2}</td><td>{3} {4} of {5}</td><td>{6}</td><td>{7} at {8}</td><td>{9}</td>"
          "<td><code>{10} --only {0}:{1}</code></td></tr>\n",
          escaped(one.fault), one.run, name_in_outcomes(one.outcome), one.operation, one.nth, escaped(one.path),
          escaped(one.region), one.bytes_changed, one.offset, escaped(one.detail), escaped(command));
    }
  }
  return out + "</table>\n" + (shown > kMost ? fmt::format("<p>and {} more, in the CSV.</p>\n", shown - kMost) : "");
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    return std::string(text);
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? std::string("\"\"") : std::string(1, c == '\n' || c == '\r' ? ' ' : c);
  }
  return out + "\"";
}

std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool inside = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool doubled = inside && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (doubled) {
      fields.back().push_back(line[i++]);
    } else if (line[i] == '"') {
      inside = !inside;
    } else if (line[i] == ',' && !inside) {
      fields.emplace_back();
    } else {
      fields.back().push_back(line[i]);
    }
  }
  return fields;
}

uint64_t csv_number(const std::string& text) { return number_in<uint64_t>(text); }

std::string_view name_in_outcomes(Outcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

std::pair<double, double> Share::interval() const {
  if (total == 0) {
    return {0, 1};
  }
  constexpr double kZ = 1.959963984540054;  // 97.5% of a normal distribution lies below
  const auto n = static_cast<double>(total);
  const double p = rate();
  const double centre = (p + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half = kZ / (1 + kZ * kZ / n) * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

uint64_t counted(const Counts& counts) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kShownOutcomes; ++i) {
    sum += counts[i];
  }
  return sum;
}

std::vector<std::pair<std::string, Counts>> outcomes_by_fault(const Campaign& campaign,
                                                              const std::vector<RunResult>& results) {
  std::vector<std::pair<std::string, Counts>> rows;
  for (const CampaignFault& fault : campaign.faults) {
    Counts counts{};
    for (const RunResult& result : results) {
      counts[static_cast<size_t>(result.outcome)] += result.fault == fault.name ? 1 : 0;
    }
    rows.emplace_back(fault.name, counts);
  }
  return rows;
}

std::vector<FileMap> file_maps(const std::vector<RunResult>& results, size_t bins, size_t most) {
  std::map<std::string, FileMap> by_path;
  using Stretches = std::map<std::string, std::vector<Change>>;
  const auto stretches_of = [](const RunResult& run) {
    Stretches stretches;
    if (run.outcome == Outcome::none || run.seam != "app") {
      return stretches;
    }
    for (const Change& change : run.changes) {
      stretches[change.path].push_back(change);
    }
    if (run.changes.empty()) {
      stretches[run.path].push_back({run.path, run.region, run.offset, std::max<uint64_t>(run.length, 1)});
    }
    return stretches;
  };
  for (const RunResult& run : results) {
    for (const auto& [path, stretches] : stretches_of(run)) {
      FileMap& map = by_path.try_emplace(path, FileMap{path, 1, 0, std::vector<Counts>(bins)}).first->second;
      ++map.runs;
      for (const Change& one : stretches) {
        map.end = std::max(map.end, one.offset + one.length);
      }
    }
  }
  for (const RunResult& run : results) {
    for (const auto& [path, stretches] : stretches_of(run)) {
      FileMap& map = by_path.at(path);
      const double scale = static_cast<double>(bins) / static_cast<double>(map.end);
      std::vector<bool> hit(bins);
      for (const Change& one : stretches) {
        const auto first = std::min(static_cast<size_t>(static_cast<double>(one.offset) * scale), bins - 1);
        const auto past = static_cast<size_t>(std::ceil(static_cast<double>(one.offset + one.length) * scale));
        std::fill(hit.begin() + static_cast<std::ptrdiff_t>(first),
                  hit.begin() + static_cast<std::ptrdiff_t>(std::clamp(past, first + 1, bins)), true);
      }
      for (size_t bin = 0; bin < bins; ++bin) {
        map.bins[bin][static_cast<size_t>(run.outcome)] += hit[bin] ? 1 : 0;
      }
    }
  }
  std::vector<FileMap> maps;
  for (auto& [path, map] : by_path) {
    maps.push_back(std::move(map));
  }
  std::ranges::stable_sort(maps, std::ranges::greater(), &FileMap::runs);
  maps.resize(std::min(maps.size(), most));
  return maps;
}

std::string csv_header() {
  std::string line;
  for (const std::string_view column : kColumns) {
    line.append(line.empty() ? "" : ",").append(column);
  }
  return line + "\n";
}

std::string csv_line(const RunResult& result) {
  return fmt::format("{},{},{},{},{},{},{},{},{:.3f},{},{},{},{},{},{},{},{},.\n", csv_field(result.fault), result.run,
                     result.model, result.seam, result.nth, name_in_outcomes(result.outcome), result.status,
                     result.signal, result.seconds, result.operation, csv_field(result.path), csv_field(result.region),
                     result.offset, result.bytes_changed, result.length, csv_field(result.detail), result.seed);
}

std::vector<RunResult> parse_csv(std::string_view text) {
  std::vector<RunResult> results;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::vector<std::string> fields = csv_fields(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
    const auto outcome =
        fields.size() == kColumns.size() ? std::ranges::find(kOutcomeNames, fields[5]) : kOutcomeNames.end();
    if (outcome == kOutcomeNames.end() || fields.back() != ".") {
      continue;  // the header, or a line that was cut
    }
    RunResult result{fields[0],
                     fields[2],
                     fields[3],
                     number_in<uint64_t>(fields[1]),
                     number_in<uint64_t>(fields[4]),
                     number_in<uint64_t>(fields[16])};
    result.outcome = static_cast<Outcome>(outcome - kOutcomeNames.begin());
    result.status = number_in<int>(fields[6]);
    result.signal = number_in<int>(fields[7]);
    result.seconds = number_in<double>(fields[8]);
    result.operation = fields[9];
    result.path = fields[10];
    result.region = fields[11];
    result.offset = number_in<uint64_t>(fields[12]);
    result.bytes_changed = number_in<uint64_t>(fields[13]);
    result.length = number_in<uint64_t>(fields[14]);
    result.detail = fields[15];
    results.push_back(std::move(result));
  }
  return results;
}

std::string html_report(const Campaign& campaign, const Golden& golden, const std::vector<RunResult>& results,
                        const std::string& command) {
  const auto rows = outcomes_by_fault(campaign, results);
  uint64_t none = 0;
  for (const auto& [name, counts] : rows) {
    none += counts[static_cast<size_t>(Outcome::none)];
  }
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>body{{font:15px "
      "sans-serif;margin:2em;max-width:70em}}table{{border-collapse:collapse}}td,th{{padding:3px "
      "10px;border-bottom:1px "
      "solid #ddd;text-align:left}}small{{color:#666}}pre{{background:#f4f4f4;padding:1em}}</style></head><body>\n"
      "<h1>{0}</h1>\n<p>{1} runs. Benign: the results are those of the run without a fault. Detected: the program, its "
      "analysis or whoever reads the results gets an error. Silent: the results differ and nothing says so. Crash: "
      "ended by a signal. Hang: over the time limit. Shares with 95% Wilson intervals.</p>\n",
      escaped(campaign.name), results.size());
  out += bars(rows) + "<table>\n" + heading("fault");
  for (const auto& [name, counts] : rows) {
    out += table_row(name, counts);
  }
  out += "</table>\n";
  if (none > 0) {
    out += fmt::format(
        "<p>In {} runs the drawn operation did not come (threads differ in time): they had no fault and "
        "are not counted.</p>\n",
        none);
  }
  out += regions(results) + maps(results);
  out += "<h2>Operations that each fault could strike</h2>\n<table><tr><th>fault</th><th>operations</th></tr>\n";
  for (const auto& [name, matches] : golden.matches) {
    out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), matches);
  }
  out += "</table>\n" + replays(results, command);
  return out + fmt::format("<h2>The campaign</h2>\n<pre>{}</pre>\n</body></html>\n", escaped(campaign.text));
}

}  // namespace varve::tools
