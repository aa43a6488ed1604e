// A campaign's plots, and tables of the numbers in them.
#include <fmt/format.h>

#include <algorithm>

#include "tools/campaign.h"
#include "tools/plot.h"

namespace varve::tools {
namespace {

std::vector<LegendEntry> legend() {
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < kShownOutcomes; ++i) {
    entries.push_back({std::string(kOutcomeNames[i]), colour_from(kOutcomeColours[i])});
  }
  return entries;
}

/// A group of five bars a fault: the outcomes' shares, with their intervals.
Status write_rates(const Campaign& campaign, const std::vector<std::pair<std::string, Counts>>& rows,
                   const std::string& folder) {
  constexpr int kGroup = 130;
  constexpr int kHeight = 420;
  constexpr double kBar = 0.17;
  constexpr double kMargin = 0.075;
  const auto groups = static_cast<double>(rows.size());
  Canvas canvas(90 + kGroup * std::max(3, static_cast<int>(rows.size())), kHeight);
  Frame frame{
      campaign.name + ": outcomes by fault, 95% Wilson intervals", "", "per cent of runs", {0, groups}, {0, 100}};
  frame.x_ticks = false;
  Plot plot(canvas, {0, 28, static_cast<double>(canvas.width()), kHeight - 28}, frame);
  std::string table = "fault,outcome,count,runs,rate,low,high\n";
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto& [name, counts] = rows[row];
    const uint64_t total = counted(counts);
    const double left = static_cast<double>(row) + kMargin;
    for (size_t i = 0; i < kShownOutcomes && total > 0; ++i) {
      const Share share{counts[i], total};
      const auto [low, high] = share.interval();
      const double from = left + kBar * static_cast<double>(i);
      plot.bar(from, from + kBar, 0, 100 * share.rate(), colour_from(kOutcomeColours[i]));
      plot.error_bar(from + kBar / 2, 100 * low, 100 * high);
      table += fmt::format("{},{},{},{},{:.6f},{:.6f},{:.6f}\n", name, kOutcomeNames[i], counts[i], total, share.rate(),
                           low, high);
    }
    const double bottom = plot.area().top + plot.area().height;
    const double middle = plot.x_at(static_cast<double>(row) + 0.5);
    canvas.text(middle, bottom + 13, name, Anchor::middle, 11);
    canvas.text(middle, bottom + 28, fmt::format("{} runs", total), Anchor::middle, 10);
  }
  draw_legend(canvas, frame.left, 14, legend());
  VARVE_TRY(write_result(folder + "/rates.csv", table));
  return canvas.write(folder + "/rates.png");
}

/// One plot a file: its bytes from left to right, columns of the runs that hit there, by outcome.
Status write_sensitivity(const Campaign& campaign, const std::vector<FileMap>& maps, const std::string& folder) {
  constexpr int kWidth = 760;
  constexpr int kPanel = 170;
  constexpr int kTop = 28;
  Canvas canvas(kWidth, kTop + kPanel * static_cast<int>(maps.size()));
  std::string table = "path,first,end,benign,detected,silent,crash,hang\n";
  double top = kTop;
  for (const FileMap& map : maps) {
    uint64_t most = 1;
    for (const Counts& bin : map.bins) {
      most = std::max(most, counted(bin));
    }
    const Frame frame{fmt::format("{}: {} ({} runs)", campaign.name, map.path, map.runs),
                      "byte of the file",
                      "runs",
                      {0, static_cast<double>(map.end)},
                      {0, static_cast<double>(most)}};
    Plot plot(canvas, {0, top, kWidth, kPanel}, frame);
    const double width = static_cast<double>(map.end) / static_cast<double>(map.bins.size());
    for (size_t b = 0; b < map.bins.size(); ++b) {
      const double first = width * static_cast<double>(b);
      double below = 0;
      table += fmt::format("\"{}\",{:.0f},{:.0f}", map.path, first, first + width);
      for (size_t i = 0; i < kShownOutcomes; ++i) {
        const auto count = static_cast<double>(map.bins[b][i]);
        if (count > 0) {
          plot.bar(first, first + width, below, below + count, colour_from(kOutcomeColours[i]));
        }
        below += count;
        table += fmt::format(",{}", map.bins[b][i]);
      }
      table += "\n";
    }
    canvas.outline(plot.area(), kBlack);
    top += kPanel;
  }
  draw_legend(canvas, 62, kTop / 2.0, legend());
  VARVE_TRY(write_result(folder + "/sensitivity.csv", table));
  return canvas.write(folder + "/sensitivity.png");
}

}  // namespace

Status write_plots(const Campaign& campaign, const std::vector<RunResult>& results, const std::string& folder) {
  constexpr size_t kBins = 128;
  constexpr size_t kMostMaps = 8;
  VARVE_TRY(write_rates(campaign, outcomes_by_fault(campaign, results), folder));
  const std::vector<FileMap> maps = file_maps(results, kBins, kMostMaps);
  return maps.empty() ? Status() : write_sensitivity(campaign, maps, folder);
}

}  // namespace varve::tools
