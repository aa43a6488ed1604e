// Tables and JSON of `varve bench`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <thread>

#include "tools/bench.h"

namespace varve::tools {

using nlohmann::json;

namespace {

using Value = double Row::*;

/// Values of the fields that both did in a mode: ours over theirs, the greatest of several peers'.
struct Quotients {
  std::vector<double> values;
  double least = 0;
  std::string least_field;
};

Quotients quotients(const Findings& findings, const std::string& mode, const std::set<std::string>& peers, Value value,
                    bool f32_only = false) {
  std::map<std::string, double> theirs;
  for (const Row& row : findings.rows) {
    if (row.mode == mode && peers.contains(row.contender) && row.failure.empty()) {
      theirs[row.field] = std::max(theirs[row.field], row.*value);
    }
  }
  Quotients result;
  for (const Row& row : findings.rows) {
    const auto other = theirs.find(row.field);
    if (row.mode != mode || row.contender != kOurs || other == theirs.end() || other->second <= 0 || row.*value <= 0 ||
        (f32_only && row.dtype != codec::DType::f32)) {
      continue;
    }
    const double quotient = row.*value / other->second;
    if (result.values.empty() || quotient < result.least) {
      result.least = quotient;
      result.least_field = row.field;
    }
    result.values.push_back(quotient);
  }
  return result;
}

std::vector<std::string> lossy(const std::vector<std::string>& modes) {
  std::vector<std::string> result;
  std::copy_if(modes.begin(), modes.end(), std::back_inserter(result),
               [](const std::string& mode) { return mode != kLosslessMode; });
  return result;
}

/// How the ratios compare with those of SZ3 in one of its modes, or in the better one of several for each field.
struct RatioComparison {
  std::vector<double> all;
  std::optional<double> least;
  std::string worst;

  void add(const Quotients& of_mode, const std::string& mode) {
    all.insert(all.end(), of_mode.values.begin(), of_mode.values.end());
    if (!of_mode.values.empty() && (!least || of_mode.least < *least)) {
      least = of_mode.least;
      worst = of_mode.least_field + ", " + mode;
    }
  }
  Bar least_bar(std::string what) const {
    const auto below = std::count_if(all.begin(), all.end(), [](double quotient) { return quotient < 0.95; });
    return {.what = std::move(what),
            .measured = least,
            .bar = 0.95,
            .aim = 1.0,
            .note = least ? fmt::format("{}; {} of {} below", worst, below, all.size()) : ""};
  }
};

void add_ratio_bars(const Findings& findings, const std::vector<std::string>& modes, std::vector<Bar>& bars) {
  RatioComparison usual;
  RatioComparison better;
  for (const std::string& mode : modes) {
    const Quotients of_mode = quotients(findings, mode, {"sz3"}, &Row::ratio);
    bars.push_back(
        {.what = "ratio / SZ3, " + mode, .measured = geometric_mean(of_mode.values), .bar = 1.2, .aim = 1.5});
    usual.add(of_mode, mode);
    better.add(quotients(findings, mode, {"sz3", "sz3-lorenzo"}, &Row::ratio), mode);
  }
  bars.push_back({.what = "ratio / SZ3, all bounds", .measured = geometric_mean(usual.all), .bar = 1.2, .aim = 1.5});
  bars.push_back(
      {.what = "ratio / SZ3 in its better mode, all", .measured = geometric_mean(better.all), .bar = 1.2, .aim = 1.5});
  bars.push_back(usual.least_bar("ratio / SZ3, worst field"));
  bars.push_back(better.least_bar("ratio / SZ3 in its better mode, worst"));
}

void add_speed_bars(const Findings& findings, const std::vector<std::string>& modes, std::vector<Bar>& bars) {
  const auto add = [&](const char* what, const std::string& mode, Value value, double bar, double aim) {
    const Quotients found = quotients(findings, mode, {"sz3"}, value);
    bars.push_back(
        {.what = fmt::format("{} / SZ3, {}", what, mode),
         .measured = geometric_mean(found.values),
         .bar = bar,
         .aim = aim,
         .note = found.values.empty() ? "" : fmt::format("least {:.2f}: {}", found.least, found.least_field)});
  };
  for (const std::string& mode : modes) {
    add("compress, warm", mode, &Row::compress_warm, 6.7, 12);
    add("compress, cold", mode, &Row::compress_cold, 6.7, 12);
  }
  for (const std::string& mode : modes) {
    const double bar = mode == "rel:1e-2" ? 4 : 6.7;
    add("decompress, warm", mode, &Row::decompress_warm, bar, 10);
    add("decompress, cold", mode, &Row::decompress_cold, bar, 10);
  }
}

void add_psnr_bars(const Findings& findings, std::vector<Bar>& bars) {
  for (const std::string peer : {"sz3", "sperr"}) {
    double sum = 0;
    size_t count = 0;
    std::optional<double> least;
    std::string worst;
    for (const Row& row : findings.rows) {
      const auto gain = row.psnr_gains.find(peer);
      if (gain == row.psnr_gains.end() || !std::isfinite(gain->second)) {
        continue;
      }
      sum += gain->second;
      ++count;
      if (!least || gain->second < *least) {
        least = gain->second;
        worst = row.field + ", " + row.mode;
      }
    }
    const auto mean = count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
    bars.push_back({.what = fmt::format("PSNR above {} at its ratio, dB, mean", peer),
                    .measured = mean,
                    .bar = 0,
                    .aim = peer == "sz3" ? 2.0 : 0.0,
                    .note = count > 0 ? fmt::format("{} cases", count) : ""});
    if (peer == "sz3") {
      bars.push_back(
          {.what = "PSNR above sz3 at its ratio, dB, worst", .measured = least, .bar = -0.3, .aim = 0, .note = worst});
    }
  }
}

void add_other_bars(const Findings& findings, std::vector<Bar>& bars) {
  const Extras& extras = findings.extras;
  bars.push_back({.what = "two threads / one, compress",
                  .measured = extras.threads_compress,
                  .bar = 1.8,
                  .aim = 1.95,
                  .note = extras.array});
  bars.push_back({.what = "two threads / one, decompress",
                  .measured = extras.threads_decompress,
                  .bar = 1.8,
                  .aim = 1.95,
                  .note = extras.array});
  constexpr double kBricks = 512;
  const double part = static_cast<double>(extras.bricks) / kBricks;
  bars.push_back({.what = fmt::format("decode all / one brick of {}", extras.bricks),
                  .measured = extras.brick_gain,
                  .bar = 300 * part,
                  .aim = 450 * part,
                  .note = "300 and 450 of 512"});
  const auto of = [](const std::map<std::string, double>& values) {
    std::vector<double> result;
    std::transform(values.begin(), values.end(), std::back_inserter(result), [](const auto& v) { return v.second; });
    return result;
  };
  bars.push_back({.what = "level-2 view, bytes / all, " + std::string(kViewMode),
                  .measured = geometric_mean(of(extras.view_shares)),
                  .bar = 0.1,
                  .aim = 0.04,
                  .at_most = true,
                  .note = fmt::format("{} fields of 3 axes", extras.view_shares.size())});
  for (const std::string peer : {"shuffle+zstd-3", "fpzip"}) {
    bars.push_back({.what = "lossless f32 ratio / " + peer,
                    .measured = geometric_mean(quotients(findings, kLosslessMode, {peer}, &Row::ratio, true).values),
                    .bar = 1.1,
                    .aim = 1.25});
  }
  bars.push_back(
      {.what = "lossless f32 compress, warm / zstd-3",
       .measured = geometric_mean(quotients(findings, kLosslessMode, {"zstd-3"}, &Row::compress_warm, true).values),
       .bar = 3,
       .aim = 3});
  const std::vector<double> memory = of(extras.memory_bricks);
  bars.push_back(
      {.what = "encoder's extra memory, bricks, most",
       .measured = memory.empty() ? std::nullopt : std::optional(*std::max_element(memory.begin(), memory.end())),
       .bar = 2,
       .aim = 2,
       .at_most = true,
       .note = "resident, of one thread, records not counted"});
}

struct Column {
  const char* name;
  Value value;
};
constexpr std::array<Column, 5> kColumns = {{{"ratio", &Row::ratio},
                                             {"compress_warm", &Row::compress_warm},
                                             {"decompress_warm", &Row::decompress_warm},
                                             {"compress_cold", &Row::compress_cold},
                                             {"decompress_cold", &Row::decompress_cold}}};

/// The values of one column of one compressor in one mode, ascending, what was not measured left out.
std::vector<double> column(const Findings& findings, const std::string& mode, const std::string& contender,
                           Value value) {
  std::vector<double> values;
  for (const Row& row : findings.rows) {
    if (row.mode == mode && row.contender == contender && row.failure.empty() && row.*value > 0) {
      values.push_back(row.*value);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

json finite(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

json row_json(const Row& row) {
  json one = {{"field", row.field},
              {"dtype", codec::name_of(row.dtype)},
              {"compressor", row.contender},
              {"mode", row.mode},
              {"absolute_bound", row.bound}};
  if (!row.failure.empty()) {
    one["failure"] = row.failure;
    return one;
  }
  for (const Column& entry : kColumns) {
    one[entry.name] = row.*entry.value > 0 ? json(row.*entry.value) : json(nullptr);
  }
  one["error_over_bound"] = finite(row.error);
  one["exact_changed"] = row.exact_changed;
  one["psnr_db"] = finite(row.psnr);
  if (!row.method.empty()) {
    one["method"] = row.method;
  }
  if (!row.psnr_gains.empty()) {
    one["psnr_gains_db"] = row.psnr_gains;
  }
  return one;
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("model name")) {
      return line.substr(std::min(line.size(), line.find(':') + 2));
    }
  }
  return "unknown";
}

}  // namespace

std::optional<double> geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  size_t count = 0;
  for (const double value : values) {
    if (value > 0 && std::isfinite(value)) {
      sum += std::log(value);
      ++count;
    }
  }
  return count > 0 ? std::optional(std::exp(sum / static_cast<double>(count))) : std::nullopt;
}

std::vector<Bar> bars_of(const Findings& findings, const std::vector<std::string>& modes) {
  std::vector<Bar> bars;
  add_ratio_bars(findings, lossy(modes), bars);
  add_psnr_bars(findings, bars);
  add_speed_bars(findings, lossy(modes), bars);
  add_other_bars(findings, bars);
  return bars;
}

void print_rows_head() {
  fmt::print("{:<56} {:<9} {:<14} {:>9} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8}  {}\n", "field", "bound", "compressor",
             "ratio", "PSNR", "err/bd", "c warm", "d warm", "c cold", "d cold", "method");
}

void print_row(const Row& row) {
  if (!row.failure.empty()) {
    fmt::print("{:<56} {:<9} {:<14} failed: {}\n", row.field, row.mode, row.contender, row.failure);
    return;
  }
  fmt::print("{:<56} {:<9} {:<14} {:>9.3f} {:>7.2f} {:>7.4f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f}  {}{}\n", row.field,
             row.mode, row.contender, row.ratio, row.psnr, row.error, row.compress_warm, row.decompress_warm,
             row.compress_cold, row.decompress_cold, row.method,
             row.exact_changed > 0 ? fmt::format(" {} missing values changed", row.exact_changed) : "");
}

void print_report(const Findings& findings, const std::vector<Bar>& bars, const std::vector<std::string>& modes) {
  fmt::print("Geometric means over the fields; MB/s of raw data, one thread; in brackets: least, median, greatest\n");
  for (const std::string& mode : modes) {
    for (const Contender& contender : contenders()) {
      const auto ratios = column(findings, mode, contender.name, &Row::ratio);
      if (ratios.empty()) {
        continue;
      }
      fmt::print("{:<9} {:<14} {:>3} fields\n", mode, contender.name, ratios.size());
      for (const Column& entry : kColumns) {
        const auto values = column(findings, mode, contender.name, entry.value);
        if (const auto mean = geometric_mean(values)) {
          fmt::print("    {:<16} {:>9.2f}  [{:.2f} {:.2f} {:.2f}]\n", entry.name, *mean, values.front(),
                     values[values.size() / 2], values.back());
        }
      }
    }
  }
  fmt::print("\n{:<44} {:>9} {:>9} {:>9}  {}\n", "", "measured", "bar", "aim", "holds");
  for (const Bar& bar : bars) {
    const char* const sign = bar.at_most ? "<=" : ">=";
    fmt::print("{:<44} {:>9} {} {:>6.5g} {} {:>6.5g}  {:<5}  {}\n", bar.what,
               bar.measured ? fmt::format("{:.4g}", *bar.measured) : "-", sign, bar.bar, sign, bar.aim,
               !bar.measured ? "-"
               : bar.holds() ? "yes"
                             : "no",
               bar.note);
  }
}

json to_json(const BenchOptions& options, const Findings& findings, const std::vector<Bar>& bars) {
  json names = json::array();
  for (const Contender& contender : contenders()) {
    names.push_back(contender.name);
  }
  json result = {{"machine", {{"processor", processor()}, {"threads", std::thread::hardware_concurrency()}}},
                 {"compressors", names},
                 {"modes", options.modes},
                 {"seconds", options.seconds},
                 {"speeds", "MB of raw data a second of one thread's CPU time"},
                 {"rows", json::array()},
                 {"means", json::array()},
                 {"bars", json::array()},
                 {"view_shares", findings.extras.view_shares},
                 {"encoder_memory_bricks", findings.extras.memory_bricks}};
  for (const Row& row : findings.rows) {
    result["rows"].push_back(row_json(row));
  }
  for (const std::string& mode : options.modes) {
    for (const Contender& contender : contenders()) {
      json mean = {{"mode", mode}, {"compressor", contender.name}};
      for (const Column& entry : kColumns) {
        const auto values = column(findings, mode, contender.name, entry.value);
        mean["fields"] = std::max<size_t>(mean.value("fields", size_t{0}), values.size());
        if (const auto value = geometric_mean(values)) {
          mean[entry.name] = *value;
        }
      }
      if (mean["fields"] != 0) {
        result["means"].push_back(std::move(mean));
      }
    }
  }
  for (const Bar& bar : bars) {
    result["bars"].push_back({{"what", bar.what},
                              {"measured", bar.measured ? json(*bar.measured) : json(nullptr)},
                              {"bar", bar.bar},
                              {"aim", bar.aim},
                              {"at_most", bar.at_most},
                              {"holds", bar.measured ? json(bar.holds()) : json(nullptr)},
                              {"note", bar.note}});
  }
  return result;
}

}  // namespace varve::tools
