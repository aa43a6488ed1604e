// varve verify: is a file what its original was, within the bounds?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/commands.h"
#include "tools/comparison.h"
#include "tools/description.h"
#include "tools/file_arrays.h"
#include "tools/report.h"

namespace varve::tools {
namespace {

using nlohmann::json;

struct Arguments {
  std::string original, path;
  std::string bound;  ///< empty: what the mount says
  std::string raw;    ///< "f32:256x384x384[:be]"
  bool as_json = false;
};

/// What the mount says of one array, or what --bound says.
Result<Demand> demand_for(const fs::ArrayRegion& array, const std::optional<codec::Bound>& given,
                          const std::optional<json>& description) {
  if (given) {
    return codec::is_float(array.dtype) ? Demand{*given, std::nullopt} : Demand{};
  }
  const json* stated = description ? array_named(*description, array.name) : nullptr;
  if (stated == nullptr) {
    return Demand{};
  }
  Demand demand;
  const json bound = stated->value("bound", json());
  VARVE_ASSIGN(demand.bound, codec::parse_bound(bound.is_string() ? bound.get<std::string>() : "lossless"));
  const json absolute = stated->value("absolute_bound", json());
  if (absolute.is_number() && demand.bound.mode != codec::BoundMode::absolute) {
    demand.absolute_bound = absolute.get<double>();
  }
  return demand;
}

json to_json(const fs::ArrayRegion& array, const ArrayVerdict& verdict) {
  const auto psnr = verdict.psnr();
  return {{"name", array.name},
          {"dtype", codec::name_of(array.dtype)},
          {"shape", array.shape},
          {"elements", verdict.elements},
          {"bound", codec::to_string(verdict.demand.bound)},
          {"absolute_bound", std::isfinite(verdict.limit) ? json(verdict.limit) : json()},
          {"max_error", verdict.max_error},
          {"psnr", psnr ? json(*psnr) : json()},
          {"changed", verdict.changed},
          {"exact", verdict.exact},
          {"exact_changed", verdict.exact_changed},
          {"beyond", verdict.beyond},
          {"kept", verdict.kept}};
}

std::string describe(const ArrayVerdict& verdict) {
  if (verdict.changed == 0) {
    return "equal bit for bit";
  }
  const auto psnr = verdict.psnr();
  std::string text = fmt::format("max error {:g}{}, {} of {} elements changed", verdict.max_error,
                                 psnr ? fmt::format(", PSNR {:.1f} dB", *psnr) : "", verdict.changed, verdict.elements);
  if (verdict.demand.bound.mode == codec::BoundMode::lossless) {
    return text + ": BROKEN, must be equal";
  }
  text += fmt::format("; bound {}", codec::to_string(verdict.demand.bound));
  if (verdict.demand.bound.mode != codec::BoundMode::absolute && std::isfinite(verdict.limit)) {
    text += fmt::format(" (each value within {:g})", verdict.limit);
  }
  if (verdict.kept) {
    return text + ": kept";
  }
  text += ": BROKEN";
  if (verdict.exact_changed > 0) {
    text += fmt::format(", {} NaN, Inf, -0.0 or fill values (or zeros, or signs, where exact) changed or appeared",
                        verdict.exact_changed);
  }
  if (verdict.beyond > 0) {
    text += fmt::format(", {} elements moved too far", verdict.beyond);
  }
  return verdict.max_error > verdict.limit ? text + fmt::format(", worst at element {}", verdict.max_error_index)
                                           : text;
}

void print_text(const Arguments& arguments, const fs::Recognised& recognised, const Comparison& comparison) {
  if (comparison.original_size != comparison.copy_size) {
    fmt::print("{} has {} bytes, {} has {}: DIFFERENT\n", arguments.original, comparison.original_size, arguments.path,
               comparison.copy_size);
    return;
  }
  for (size_t i = 0; i < comparison.arrays.size(); ++i) {
    const fs::ArrayRegion& array = recognised.arrays[i];
    fmt::print("{}  {} {}: {}\n", array.name.empty() ? "(the array)" : array.name, codec::name_of(array.dtype),
               array.shape.empty() ? std::string("scalar") : fmt::format("{}", fmt::join(array.shape, " x ")),
               describe(comparison.arrays[i]));
  }
  const char* which = comparison.arrays.empty() ? "all bytes (no arrays recognised)" : "bytes outside arrays";
  if (comparison.bytes_different == 0) {
    fmt::print("{}: {}, equal\n", which, comparison.bytes);
  } else {
    fmt::print("{}: {}, of which {} DIFFER, the first at offset {}\n", which, comparison.bytes,
               comparison.bytes_different, comparison.first_difference);
  }
}

void print_json(const Arguments& arguments, const fs::Recognised& recognised, const Comparison& comparison) {
  json arrays = json::array();
  for (size_t i = 0; i < comparison.arrays.size(); ++i) {
    arrays.push_back(to_json(recognised.arrays[i], comparison.arrays[i]));
  }
  const json report = {
      {"original", arguments.original},
      {"path", arguments.path},
      {"format", recognised.format},
      {"original_size", comparison.original_size},
      {"size", comparison.copy_size},
      {"arrays", arrays},
      {"bytes",
       {{"compared", comparison.bytes},
        {"different", comparison.bytes_different},
        {"first_difference", comparison.bytes_different > 0 ? json(comparison.first_difference) : json()}}},
      {"kept", comparison.kept()}};
  fmt::print("{}\n", report.dump(2, ' ', false, json::error_handler_t::replace));
}

/// True: all kept.
Result<bool> verify(const Arguments& arguments) {
  std::optional<codec::Bound> bound;
  if (!arguments.bound.empty()) {
    VARVE_ASSIGN(bound, codec::parse_bound(arguments.bound));
    if (bound->mode == codec::BoundMode::ratio) {
      return Error{EINVAL, "--bound ratio:R says nothing of errors: give the bound that `varve stat` shows"};
    }
  }
  VARVE_ASSIGN(const std::optional<json> description, describe_if_mounted(arguments.path));
  VARVE_ASSIGN(const auto original, PlainFile::open(arguments.original));
  VARVE_ASSIGN(const auto copy, PlainFile::open(arguments.path));
  VARVE_ASSIGN(const fs::Recognised recognised,
               arrays_of(*original, {arguments.original, arguments.path}, arguments.raw, description));
  std::vector<Demand> demands;
  for (const fs::ArrayRegion& array : recognised.arrays) {
    VARVE_ASSIGN(Demand demand, demand_for(array, bound, description));
    demands.push_back(demand);
  }
  std::optional<Progress> progress(std::in_place, "verifying", original->size());
  const auto comparison =
      compare(*original, *copy, recognised.arrays, demands, [&](uint64_t bytes) { progress->advance(bytes); });
  progress.reset();
  if (!comparison.ok()) {
    return comparison.error();
  }
  if (arguments.as_json) {
    print_json(arguments, recognised, *comparison);
  } else {
    print_text(arguments, recognised, *comparison);
  }
  return comparison->kept();
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("verify", "Compare a file with its original, array by array");
  command->footer(
      "Examples:\n"
      "  varve verify run.h5 ~/data/run.h5                      under the bounds that the mount states\n"
      "  varve verify --bound rel:1e-3 run.h5 copy.h5           any two files\n"
      "  varve verify --raw f32:256x384x384 a.bin ~/data/a.bin\n"
      "Integers without a bound, NaN, Inf, -0.0, fill values and everything outside arrays must be equal bit for bit.\n"
      "Exit status: 0 all kept; 1 a bound is broken or bytes differ; 2 wrong use or an error.");
  command->add_option("ORIGINAL", arguments->original, "The file as it was")->required();
  command->add_option("PATH", arguments->path, "The file to judge, in a mount or anywhere")->required();
  command->add_option("--bound", arguments->bound,
                      "Hold all floating-point arrays to this: abs:V, rel:V, abs:V+rel:V, pwrel:V, psnr:DB, bits:B or "
                      "lossless (default: the mount's word)");
  command->add_option("--raw", arguments->raw, "Read both as raw numbers: TYPE:SHAPE[:be]");
  command->add_flag("--json", arguments->as_json, "For programs");
  command->callback([arguments, &status] {
    const auto kept = verify(*arguments);
    status = !kept.ok() ? fail(kept.error()) : *kept ? kDone : kNo;
  });
}

}  // namespace varve::tools
