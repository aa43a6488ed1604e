// `varve bench`: the codec's measuring stick.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tools/bench.h"
#include "tools/commands.h"
#include "tools/report.h"

namespace varve::tools {

namespace {

/// A folder for the files between processes, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() : path_((std::filesystem::temp_directory_path() / "varve-bench-XXXXXX").string()) {
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

/// Freed memory stays in the heap and is used again: what "warm" means here.
void keep_heap_warm() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

bool has_three_axes(const Field& field) {
  constexpr uint64_t kLeast = 16;
  const size_t rank = field.shape.size();
  return rank >= 3 && *std::min_element(field.shape.end() - 3, field.shape.end()) >= kLeast;
}

class Bench {
 public:
  Bench(const BenchOptions& options, const std::string& folder) : options_(options), folder_(folder) {}

  Result<Findings> run() {
    VARVE_ASSIGN(const std::vector<std::string> paths, find_fields(options_.paths));
    if (options_.each_field) {
      print_rows_head();
    }
    const size_t generated = options_.edge > 0 ? 3 : 0;
    Progress progress("measuring", paths.size() + generated);
    for (const std::string& path : paths) {
      VARVE_ASSIGN(Field field, read_field(path));
      VARVE_TRY(measure(field));
      progress.advance(1);
      if (options_.edge == 0 && field.data.size() > largest_.data.size()) {
        largest_ = std::move(field);
      }
    }
    if (options_.edge > 0) {
      std::vector<Field> made = generated_fields(options_.edge);
      for (Field& field : made) {
        field.path = fmt::format("{}/{}.f32", folder_, field.name);
        std::ofstream(field.path, std::ios::binary)
            .write(reinterpret_cast<const char*>(field.data.data()), static_cast<std::streamsize>(field.data.size()));
        VARVE_TRY(measure(field));
        progress.advance(1);
      }
      largest_ = repeated(made.front(), 2);
      largest_.name = fmt::format("{}, {} times along each axis", made.front().name, 2);
    }
    if (!largest_.data.empty()) {
      VARVE_TRY(measure_array(largest_, findings_.extras));
    }
    return std::move(findings_);
  }

 private:
  Status measure(const Field& field) {
    for (const std::string& mode : options_.modes) {
      VARVE_ASSIGN(const Facts facts, facts_of(field, mode));
      VARVE_TRY(measure_mode(field, facts));
    }
    if (has_three_axes(field)) {
      VARVE_ASSIGN(findings_.extras.view_shares[field.name], view_share(field));
      if (options_.cold) {
        VARVE_ASSIGN(findings_.extras.memory_bricks[field.name], encoder_memory(field.path));
      }
    }
    return {};
  }

  Status measure_mode(const Field& field, const Facts& facts) {
    const bool lossless = facts.setting.mode == kLosslessMode;
    if (!lossless && facts.setting.bound == 0) {
      fmt::print(stderr, "{}: {} is no bound for it; left out\n", field.name, facts.setting.mode);
      return {};
    }
    std::vector<Row> rows;
    for (const Contender& contender : contenders()) {
      if (!contender.takes(lossless ? Purpose::lossless : Purpose::lossy)) {
        continue;
      }
      Row row = measure_warm(field, contender, facts, options_.seconds);
      const bool cold = options_.cold && row.failure.empty() && (contender.name == kOurs || contender.name == "sz3");
      if (contender.name == kOurs && !row.failure.empty()) {
        return Error{EIO, fmt::format("{}, {}: {}", field.name, row.mode, row.failure)};
      }
      if (cold) {
        VARVE_TRY(measure_cold(field.path, contender, facts.setting, folder_, row));
      }
      rows.push_back(std::move(row));
    }
    if (options_.psnr && !lossless) {
      compare_psnr(field, facts, rows.front());
    }
    for (Row& row : rows) {
      if (options_.each_field) {
        print_row(row);
        std::fflush(stdout);
      }
      findings_.rows.push_back(std::move(row));
    }
    return {};
  }

  static void compare_psnr(const Field& field, const Facts& facts, Row& ours) {
    for (const Contender& contender : contenders()) {
      if (contender.takes(Purpose::psnr)) {
        if (const auto psnr = psnr_at_ratio(field, contender, facts, ours.ratio)) {
          ours.psnr_gains[contender.name] = ours.psnr - *psnr;
        }
      }
    }
  }

  const BenchOptions& options_;
  const std::string folder_;
  Findings findings_;
  Field largest_;
};

/// True: our bounds were kept.
Result<bool> bench(BenchOptions options) {
  if (options.quick) {
    options.edge = std::min<size_t>(options.edge, 128);
    options.seconds = std::min(options.seconds, 0.05);
  }
  constexpr size_t kLeastEdge = 8;
  if (options.edge != 0 && (options.edge < kLeastEdge || (options.edge & (options.edge - 1)) != 0)) {
    return Error{EINVAL, fmt::format("--edge {} is no power of two of at least {}", options.edge, kLeastEdge)};
  }
  for (const std::string& mode : options.modes) {
    VARVE_TRY(codec::parse_bound(mode));
  }
  keep_heap_warm();
  const ScratchFolder folder;
  if (!folder.made()) {
    return Error{errno, fmt::format("{} cannot be made", folder.path())};
  }
  VARVE_ASSIGN(const Findings findings, Bench(options, folder.path()).run());
  const std::vector<Bar> bars = bars_of(findings, options.modes);
  print_report(findings, bars, options.modes);
  if (!options.json.empty() && !(std::ofstream(options.json) << to_json(options, findings, bars).dump(1) << '\n')) {
    return Error{EIO, fmt::format("{} cannot be written", options.json)};
  }
  return std::none_of(findings.rows.begin(), findings.rows.end(), [](const Row& row) {
    return row.contender == kOurs && (row.error > 1 || row.exact_changed > 0);
  });
}

void add_once(CLI::App& app, int& status) {
  auto once = std::make_shared<Once>();
  CLI::App* command = app.add_subcommand("bench-once", "");
  command->group("");  // hidden
  command->add_option("STEP", once->step)->required();
  command->add_option("PATH", once->path)->required();
  command->add_option("--contender", once->contender);
  command->add_option("--mode", once->mode);
  command->add_option("--bound", once->bound);
  command->add_option("--saved", once->saved);
  command->callback([once, &status] {
    const auto value = run_once(*once);
    if (value.ok()) {
      fmt::print("{}\n", *value);
    }
    status = value.ok() ? kDone : fail(value.error());
  });
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto options = std::make_shared<BenchOptions>();
  auto without_generated = std::make_shared<bool>(false);
  auto without_cold = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("bench", "Measure the codec: ratio, error, speed, beside other compressors");
  command->footer(
      "Examples:\n"
      "  varve bench                                      generated fields alone\n"
      "  varve bench --fields --json bench.json fields/   every field, then means and bars\n"
      "  varve bench --quick --no-generated a_64x64x64.f32\n"
      "Speeds are of one thread, in MB of raw data a second of its CPU time: warm (a heap in use; median of calls) "
      "and\n"
      "cold (the first call of a new process). Peers are those found when this program was built: SZ3, zfp, fpzip, "
      "SPERR.\n"
      "Exit status: 0 done; 1 a bound was broken; 2 wrong use or an error.");
  command->add_option("PATH", options->paths, "Fields (NAME_256x384x384.f32 or .f64), or folders of such");
  command->add_option("--mode", options->modes, "Bound to measure; may be given several times")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--edge", options->edge, "Edge of the generated cubes, a power of two")->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to repeat calls of one kind")->capture_default_str();
  command->add_option("--json", options->json, "Write everything there");
  command->add_flag("--fields", options->each_field, "Print every field, not the means alone");
  command->add_flag("--quick", options->quick, "Smaller cubes, fewer repetitions");
  command->add_flag("--psnr", options->psnr, "Compare PSNR at the same ratio (slow)");
  command->add_flag("--no-generated", *without_generated, "Only the given fields");
  command->add_flag("--no-cold", *without_cold, "Leave out the measurements in new processes");
  command->callback([options, without_generated, without_cold, &status] {
    options->edge = *without_generated ? 0 : options->edge;
    options->cold = !*without_cold;
    const auto kept = bench(*options);
    if (kept.ok() && !*kept) {
      fmt::print(stderr, "varve: a bound was broken\n");
    }
    status = !kept.ok() ? fail(kept.error()) : *kept ? kDone : kNo;
  });
  add_once(app, status);
}

}  // namespace varve::tools
