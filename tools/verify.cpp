// varve verify: is a file what its original was, within the bounds?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "fs/formats/worker.h"
#include "tools/commands.h"
#include "tools/comparison.h"
#include "tools/description.h"
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

Result<fs::RawHint> parse_raw(std::string_view text) {
  const Error bad{EINVAL, fmt::format("--raw \"{}\" makes no sense: give type and shape, slowest axis first, such as "
                                      "f32:256x384x384 or f64:100x200:be",
                                      text)};
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return bad;
  }
  fs::RawHint hint;
  VARVE_ASSIGN(hint.dtype, codec::parse_dtype(text.substr(0, colon)));
  std::string_view shape = text.substr(colon + 1);
  if (shape.ends_with(":be")) {
    hint.big_endian = true;
    shape.remove_suffix(3);
  }
  while (!shape.empty()) {
    uint64_t extent = 0;
    const auto [end, code] = std::from_chars(shape.data(), shape.data() + shape.size(), extent);
    const auto used = static_cast<size_t>(end - shape.data());
    if (code != std::errc() || extent == 0 || hint.shape.size() == codec::kMaxRank ||
        (used < shape.size() && (shape[used] != 'x' || used + 1 == shape.size()))) {
      return bad;
    }
    hint.shape.push_back(extent);
    shape.remove_prefix(std::min(used + 1, shape.size()));
  }
  return hint.shape.empty() ? Result<fs::RawHint>(bad) : Result<fs::RawHint>(std::move(hint));
}

const json* array_named(const json& description, const std::string& name) {
  const auto arrays = description.find("arrays");
  if (arrays != description.end() && arrays->is_array()) {
    for (const json& array : *arrays) {
      if (array.is_object() && array.value("name", json()) == json(name)) {
        return &array;
      }
    }
  }
  return nullptr;
}

/// How the mount reads a raw file that a rule describes.
std::optional<fs::RawHint> hint_from(const json& description) {
  const json* array = array_named(description, "");
  if (array == nullptr || description.value("format", json()) != json("raw")) {
    return std::nullopt;
  }
  const json dtype = array->value("dtype", json());
  const json shape = array->value("shape", json());
  const auto type = codec::parse_dtype(dtype.is_string() ? dtype.get<std::string>() : "");
  if (!type.ok() || !shape.is_array()) {
    return std::nullopt;
  }
  fs::RawHint hint;
  hint.dtype = *type;
  hint.big_endian = array->value("byte_order", json()) == json("big");
  for (const json& extent : shape) {
    hint.shape.push_back(extent.is_number_unsigned() ? extent.get<uint64_t>() : 0);
  }
  return hint;
}

/// The arrays of the original. By its own name, or, where the shape is in the name, by that of the copy.
Result<fs::Recognised> recognise(PlainFile& file, const Arguments& arguments, const std::optional<fs::RawHint>& hint) {
  fs::RecogniserPool pool(fs::WorkerOptions{});
  for (const std::string& path : {arguments.original, arguments.path}) {
    auto found = pool.recognise(std::filesystem::path(path).filename().string(), file, hint);
    if (!found.ok() && !arguments.raw.empty()) {
      return found.error();
    }
    if (!found.ok()) {
      fmt::print(stderr, "varve: {} is compared byte by byte: {}\n", arguments.original, found.error().text);
      return fs::Recognised{};
    }
    if (found->has_value()) {
      return **std::move(found);
    }
  }
  if (!arguments.raw.empty()) {
    return Error{EINVAL, fmt::format("{} has {} bytes, and --raw {} describes another number", arguments.original,
                                     file.size(), arguments.raw)};
  }
  return fs::Recognised{};
}

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
  std::optional<json> description;
  if (find_mount(arguments.path).ok()) {
    VARVE_ASSIGN(description, tools::describe(arguments.path));
  }
  std::optional<fs::RawHint> hint = description ? hint_from(*description) : std::nullopt;
  if (!arguments.raw.empty()) {
    VARVE_ASSIGN(hint, parse_raw(arguments.raw));
  }
  VARVE_ASSIGN(const auto original, PlainFile::open(arguments.original));
  VARVE_ASSIGN(const auto copy, PlainFile::open(arguments.path));
  VARVE_ASSIGN(const fs::Recognised recognised, recognise(*original, arguments, hint));
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
