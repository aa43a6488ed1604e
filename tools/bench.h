// `varve bench`: what is measured, how, and what is told of it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench_codecs.h"

namespace varve::tools {

inline constexpr const char* kOurs = "varve";
inline constexpr const char* kLosslessMode = "lossless";
inline constexpr const char* kViewMode = "rel:1e-3";  ///< of what is measured under one bound alone

struct BenchOptions {
  std::vector<std::string> paths;
  std::vector<std::string> modes = {"rel:1e-2", "rel:1e-3", "rel:1e-4", kLosslessMode};
  size_t edge = 256;     ///< of generated cubes; 0: none
  double seconds = 0.3;  ///< that repeated calls of one kind may take, but for the least number of them
  bool cold = true;
  bool psnr = false;
  bool quick = false;
  bool each_field = false;  ///< print every row
  std::string json;
};

/// What one compressor did to one field under one bound. Speeds are in MB of raw data a second of this thread's CPU
/// time; 0: not measured.
struct Row {
  std::string field;
  codec::DType dtype = codec::DType::f32;
  std::string contender;
  std::string mode;
  double bound = 0;  ///< absolute; 0: lossless
  double ratio = 0;
  double error = 0;  ///< greatest error of a finite, not declared missing value, over the bound; 0 if nothing moved
  uint64_t exact_changed = 0;  ///< elements that had to be equal (missing values; all without a bound) and are not
  double psnr = 0;             ///< in decibels, of the range; infinite: nothing moved
  double compress_warm = 0, decompress_warm = 0;
  double compress_cold = 0, decompress_cold = 0;
  std::string method;                        ///< ours alone
  std::string failure;                       ///< not empty: nothing else is known
  std::map<std::string, double> psnr_gains;  ///< ours alone: decibels above another at the same ratio
};

struct Extras {
  std::optional<double> threads_compress, threads_decompress;  ///< wall time of one thread over that of two
  std::optional<double> brick_gain;                            ///< time of decoding all over that of one brick
  uint64_t bricks = 0;                                         ///< in that array
  std::string array;                                           ///< which, for people
  std::map<std::string, double> view_shares;                   ///< by field: bytes of a level-2 view over all
  std::map<std::string, double> memory_bricks;                 ///< by field: the encoder's extra memory, in bricks
};

struct Findings {
  std::vector<Row> rows;
  Extras extras;
};

/// What the codec's plan says of a field.
struct Facts {
  Setting setting;
  double min = 0, max = 0;
  std::string method;
};

double thread_seconds();
Result<Facts> facts_of(const Field& field, const std::string& mode);

/// Ratio, error, PSNR and warm speeds: one call that is not counted, then the median of up to five, of at least two.
Row measure_warm(const Field& field, const Contender& contender, const Facts& facts, double seconds);
/// Adds the speeds of first calls, each in a process of its own. `path`: a file that read_field takes; `directory`:
/// for the compressed data.
Status measure_cold(const std::string& path, const Contender& contender, const Setting& setting,
                    const std::string& directory, Row& row);
/// PSNR of what `contender` decodes at the bound at which it reaches `ratio` (within 1%); nothing: it never does, or
/// fails. In a process of its own.
std::optional<double> psnr_at_ratio(const Field& field, const Contender& contender, const Facts& facts, double ratio);
/// Writes error, PSNR and exact_changed.
void compare_field(const Field& field, const std::byte* decoded, const Facts& facts, Row& row);

/// Bytes of a level-2 view (every fourth point) over all, at kViewMode.
Result<double> view_share(const Field& field);
/// What encoding all tiles takes beyond the array and its records, at kViewMode, in bricks of 2^18 elements: the
/// growth of the peak of resident memory of a process of its own.
Result<double> encoder_memory(const std::string& path);
/// Threads and one brick, on one large array.
Status measure_array(const Field& field, Extras& extras);

/// The work of the processes that measure_cold and encoder_memory start: prints one number.
struct Once {
  std::string step;  ///< "compress", "decompress", "memory"
  std::string contender, mode, path, saved;
  double bound = 0;
};
Result<double> run_once(const Once& once);

/// One line of the table of bars.
struct Bar {
  std::string what;
  std::optional<double> measured;
  double bar = 0, aim = 0;
  bool at_most = false;  ///< smaller is better
  std::string note = {};
  bool holds() const { return measured && (at_most ? *measured <= bar : *measured >= bar); }
};

std::vector<Bar> bars_of(const Findings& findings, const std::vector<std::string>& modes);
void print_rows_head();
void print_row(const Row& row);
/// Geometric means by bound and compressor, speeds of the other classes, and the bars.
void print_report(const Findings& findings, const std::vector<Bar>& bars, const std::vector<std::string>& modes);
nlohmann::json to_json(const BenchOptions& options, const Findings& findings, const std::vector<Bar>& bars);

/// Of what is positive and finite; nothing if that is nothing.
std::optional<double> geometric_mean(const std::vector<double>& values);

}  // namespace varve::tools
