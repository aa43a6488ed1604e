// varve quality: how good is a file's lossy copy, array by array; as text, JSON or a page with plots.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/commands.h"
#include "tools/comparison.h"
#include "tools/file_arrays.h"
#include "tools/plot.h"
#include "tools/quality.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

using nlohmann::json;

constexpr uint64_t kMostElements = uint64_t{1} << 24;  // of an array in memory; a few hundred bytes each in all
const Colour kOriginalColour = colour_from("#3b6ea5");
const Colour kCopyColour = colour_from("#c94f4f");

struct Arguments {
  std::string original, path, raw, html;
  bool as_json = false;
};

/// What is said of one array.
struct Judged {
  const fs::ArrayRegion* array = nullptr;
  ArrayVerdict verdict;                 ///< over all elements
  PointGrid box;                        ///< what `quality` is of
  std::optional<ArrayQuality> quality;  ///< nothing: equal bit for bit
  bool whole() const { return box.count == array->shape; }
};

std::string name_of(const fs::ArrayRegion& array) { return array.name.empty() ? "(the array)" : array.name; }

std::string shape_of(const codec::Extents& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, " x "));
}

/// All of an array, or a box of kMostElements in its middle: leading axes shrink first, then the longest.
PointGrid box_of(const fs::ArrayRegion& array) {
  PointGrid box = every(array, 1);
  while (codec::element_count(box.count) > kMostElements) {
    size_t longest = box.count.size() - 1;
    for (size_t axis = box.count.size(); axis-- > 0;) {
      const bool is_batch = axis + 3 < box.count.size();
      longest = (is_batch && box.count[axis] > 1) || box.count[axis] > box.count[longest] ? axis : longest;
    }
    box.count[longest] = (box.count[longest] + 1) / 2;
  }
  for (size_t axis = 0; axis < box.count.size(); ++axis) {
    box.start[axis] = (array.shape[axis] - box.count[axis]) / 2;
  }
  return box;
}

Result<std::vector<Judged>> judge_all(const Arguments& arguments, const fs::Recognised& recognised, PlainFile& original,
                                      PlainFile& copy) {
  Demand each;  // anything may change: the point is by how much
  each.bound = {codec::BoundMode::absolute, 0};
  const std::vector<Demand> demands(recognised.arrays.size(), each);
  std::optional<Progress> progress(std::in_place, "comparing", original.size());
  VARVE_ASSIGN(Comparison comparison,
               compare(original, copy, recognised.arrays, demands, [&](uint64_t bytes) { progress->advance(bytes); }));
  progress.reset();
  if (comparison.original_size != comparison.copy_size) {
    return Error{EINVAL,
                 fmt::format("{} has {} bytes and {} has {}: these are not a file and its copy", arguments.original,
                             comparison.original_size, arguments.path, comparison.copy_size)};
  }
  std::vector<Judged> all;
  for (size_t i = 0; i < recognised.arrays.size(); ++i) {
    const fs::ArrayRegion& array = recognised.arrays[i];
    Judged judged{&array, comparison.arrays[i], box_of(array), std::nullopt};
    if (judged.verdict.changed > 0) {
      VARVE_ASSIGN(const auto first, read_points(original, array, judged.box));
      VARVE_ASSIGN(const auto second, read_points(copy, array, judged.box));
      judged.quality = assess(first, second, judged.box.count);
    }
    all.push_back(std::move(judged));
  }
  return all;
}

json number(const std::optional<double>& value) { return value && std::isfinite(*value) ? json(*value) : json(); }

json to_json(const Judged& judged) {
  const ArrayVerdict& verdict = judged.verdict;
  json report = {{"name", judged.array->name},
                 {"dtype", codec::name_of(judged.array->dtype)},
                 {"shape", judged.array->shape},
                 {"elements", verdict.elements},
                 {"changed", verdict.changed},
                 {"min", verdict.min},
                 {"max", verdict.max},
                 {"max_error", verdict.max_error},
                 {"psnr", number(verdict.psnr())}};
  if (judged.quality) {
    const ArrayQuality& quality = *judged.quality;
    report["box"] = {{"start", judged.box.start}, {"count", judged.box.count}};
    report["compared"] = quality.compared;
    report["max_relative_error"] = quality.max_relative_error;
    report["mean_error"] = quality.mean_error;
    report["rmse"] = quality.rmse;
    report["nrmse"] = number(quality.nrmse);
    report["pearson"] = number(quality.pearson);
    report["ssim"] = number(quality.ssim);
    report["gradient_nrmse"] = number(quality.gradient_nrmse);
    report["max_gradient_error"] = quality.max_gradient_error;
    report["error_histogram"] = {{"error", quality.error_bins}, {"share", quality.error_share}};
    report["error_autocorrelation"] = quality.autocorrelation;
    report["spectrum"] = {
        {"wave_number", quality.wave_number}, {"original", quality.power}, {"copy", quality.copy_power}};
  }
  return report;
}

std::string shown(const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : "-"; }

std::vector<double> ratios(const ArrayQuality& quality) {
  std::vector<double> values;
  for (size_t i = 0; i < quality.power.size(); ++i) {
    values.push_back(quality.power[i] > 0 ? quality.copy_power[i] / quality.power[i]
                                          : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

/// The shell from which on the copy's power is off by more than 1% (the usual demand on cosmology's spectra).
std::string good_up_to(const ArrayQuality& quality) {
  constexpr double kTolerance = 0.01;
  const std::vector<double> ratio = ratios(quality);
  for (size_t i = 0; i < ratio.size(); ++i) {
    if (std::isfinite(ratio[i]) && std::fabs(ratio[i] - 1) > kTolerance) {
      return i == 0 ? "nowhere" : fmt::format("up to wave number {:g}", quality.wave_number[i - 1]);
    }
  }
  return ratio.empty() ? "-" : "everywhere";
}

/// Name and value of each measure.
std::vector<std::pair<std::string, std::string>> measures(const Judged& judged) {
  const ArrayQuality& quality = *judged.quality;
  const ArrayVerdict& verdict = judged.verdict;
  const double first = quality.autocorrelation.empty() ? 0 : quality.autocorrelation[0];
  return {{"range", fmt::format("{:g} to {:g}", verdict.min, verdict.max)},
          {"changed elements", fmt::format("{} of {}", verdict.changed, verdict.elements)},
          {"PSNR", verdict.psnr() ? fmt::format("{:.2f} dB", *verdict.psnr()) : "-"},
          {"max error", fmt::format("{:.6g} ({:.3g} of the range)", verdict.max_error,
                                    verdict.max > verdict.min ? verdict.max_error / (verdict.max - verdict.min) : 0)},
          {"mean error, RMSE", fmt::format("{:.3g}, {:.6g}", quality.mean_error, quality.rmse)},
          {"SSIM", shown(quality.ssim)},
          {"correlation of values", quality.pearson ? fmt::format("{:.9f}", *quality.pearson) : "-"},
          {"gradients' relative RMSE, max",
           fmt::format("{}, {:.6g}", shown(quality.gradient_nrmse), quality.max_gradient_error)},
          {"errors' autocorrelation, lag 1", quality.autocorrelation.empty() ? "-" : fmt::format("{:.4f}", first)},
          {"power spectrum within 1%", good_up_to(quality)}};
}

std::string box_text(const Judged& judged) {
  return judged.whole()
             ? ""
             : fmt::format("measures other than range, PSNR and max error are of the {} elements in the middle",
                           shape_of(judged.box.count));
}

void print_text(const std::vector<Judged>& all) {
  for (const Judged& judged : all) {
    const fs::ArrayRegion& array = *judged.array;
    fmt::print("{}  {} {}{}\n", name_of(array), codec::name_of(array.dtype), shape_of(array.shape),
               judged.quality ? "" : ": equal bit for bit");
    if (judged.quality) {
      for (const auto& [name, value] : measures(judged)) {
        fmt::print("  {:<32} {}\n", name, value);
      }
      fmt::print("{}", judged.whole() ? "" : "  (" + box_text(judged) + ")\n");
    }
  }
}

/// Histogram and autocorrelation of the error, spectra and their ratio.
Result<std::string> plots_of(const ArrayQuality& quality) {
  constexpr double kWidth = 470;
  constexpr double kHeight = 270;
  Canvas canvas(static_cast<int>(2 * kWidth), static_cast<int>(2 * kHeight));
  const Scale shares = scale_of(quality.error_share, true);
  Frame frame{"errors",
              "copy - original",
              "share of elements",
              scale_of(quality.error_bins),
              {shares.low / 2, std::min(1.0, shares.high * 2), true}};
  Plot(canvas, {0, 0, kWidth, kHeight}, frame).lines(quality.error_bins, quality.error_share, kCopyColour);

  std::vector<double> lags;
  for (size_t i = 0; i < quality.autocorrelation.size(); ++i) {
    lags.push_back(static_cast<double>(i + 1));
  }
  const Scale found = scale_of(quality.autocorrelation);
  frame = {"autocorrelation of errors",
           "lag (elements)",
           "",
           scale_of(lags),
           {std::min(-0.1, found.low), std::max(0.1, found.high)}};
  Plot(canvas, {kWidth, 0, kWidth, kHeight}, frame).lines(lags, quality.autocorrelation, kCopyColour);

  std::vector<double> both = quality.power;
  both.insert(both.end(), quality.copy_power.begin(), quality.copy_power.end());
  frame = {"power spectra", "wave number", "power", scale_of(quality.wave_number, true), scale_of(both, true)};
  Plot spectra(canvas, {0, kHeight, kWidth, kHeight}, frame);
  spectra.lines(quality.wave_number, quality.power, kOriginalColour);
  spectra.lines(quality.wave_number, quality.copy_power, kCopyColour);
  const std::array<LegendEntry, 2> legend{{{"original", kOriginalColour}, {"copy", kCopyColour}}};
  draw_legend(canvas, spectra.area().left + 12, spectra.area().top + 14, legend);

  const std::vector<double> ratio = ratios(quality);
  const Scale span = scale_of(ratio);
  frame = {"power of the copy / of the original",
           "wave number",
           "",
           scale_of(quality.wave_number, true),
           {std::min(0.98, std::max(span.low, 0.0)), std::max(1.02, std::min(span.high, 2.0))}};
  Plot(canvas, {kWidth, kHeight, kWidth, kHeight}, frame).lines(quality.wave_number, ratio, kCopyColour);
  return canvas.png();
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

Status write_page(const Arguments& arguments, const std::vector<Judged>& all) {
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>body{{font:15px "
      "sans-serif;margin:2em;max-width:70em}}td{{padding:3px 12px;border-bottom:1px solid #ddd}}</style></head><body>\n"
      "<h1>{0}</h1>\n<p>Held against {1}. Errors: copy less original.</p>\n",
      escaped(arguments.path), escaped(arguments.original));
  for (const Judged& judged : all) {
    page += fmt::format("<h2>{}</h2>\n<p>{} {}{}</p>\n", escaped(name_of(*judged.array)),
                        codec::name_of(judged.array->dtype), shape_of(judged.array->shape),
                        judged.quality ? "" : ": equal bit for bit");
    if (!judged.quality) {
      continue;
    }
    page += "<table>\n";
    for (const auto& [name, value] : measures(judged)) {
      page += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name, escaped(value));
    }
    page += "</table>\n" + (judged.whole() ? "" : "<p>" + box_text(judged) + "</p>\n");
    VARVE_ASSIGN(const std::string png, plots_of(*judged.quality));
    page += fmt::format("<p><img src=\"{}\" alt=\"errors, autocorrelation, spectra\"></p>\n", data_address(png));
  }
  std::ofstream file(arguments.html, std::ios::binary);
  file << page << "</body></html>\n";
  file.close();
  return file.good() ? Status() : Status(Error{EIO, fmt::format("cannot write {}", arguments.html)});
}

Status assess_file(const Arguments& arguments) {
  VARVE_ASSIGN(const auto description, describe_if_mounted(arguments.path));
  VARVE_ASSIGN(const auto original, PlainFile::open(arguments.original));
  VARVE_ASSIGN(const auto copy, PlainFile::open(arguments.path));
  VARVE_ASSIGN(const fs::Recognised recognised,
               arrays_of(*original, {arguments.original, arguments.path}, arguments.raw, description));
  if (recognised.arrays.empty()) {
    return Error{EINVAL, fmt::format("{} holds no arrays that are known: for raw numbers, say which by --raw",
                                     arguments.original)};
  }
  VARVE_ASSIGN(const std::vector<Judged> all, judge_all(arguments, recognised, *original, *copy));
  if (arguments.as_json) {
    json arrays = json::array();
    for (const Judged& judged : all) {
      arrays.push_back(to_json(judged));
    }
    const json report = {
        {"original", arguments.original}, {"path", arguments.path}, {"format", recognised.format}, {"arrays", arrays}};
    fmt::print("{}\n", report.dump(2, ' ', false, json::error_handler_t::replace));
  } else {
    print_text(all);
  }
  return arguments.html.empty() ? Status() : write_page(arguments, all);
}

}  // namespace

void add_quality(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("quality", "How good a file's lossy copy is, array by array");
  command->footer(
      "Examples:\n"
      "  varve quality run.h5 ~/data/run.h5\n"
      "  varve quality run.h5 ~/data/run.h5 --html quality.html\n"
      "PSNR, SSIM, errors with their distribution and autocorrelation, power spectra, gradients. Of arrays of more "
      "than\n"
      "16 million elements all but range, PSNR and max error are taken from so many in the middle.");
  command->add_option("ORIGINAL", arguments->original, "The file as it was")->required();
  command->add_option("PATH", arguments->path, "The copy, in a mount or anywhere")->required();
  command->add_option("--raw", arguments->raw, "Read both as raw numbers: TYPE:SHAPE[:be]");
  command->add_option("--html", arguments->html, "Write a page with plots");
  command->add_flag("--json", arguments->as_json, "For programs");
  command->callback([arguments, &status] { status = finish(assess_file(*arguments)); });
}

}  // namespace varve::tools
