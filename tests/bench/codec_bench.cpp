// Ratio, speed and error of the codec on fields, beside zstd. One thread; speeds are with a warm heap, best of
// --repeat.
#include <fmt/format.h>
#include <zstd.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "codec/lossless.h"
#include "tests/bench/bench_fields.h"

namespace varve::bench {

namespace {

using codec::ArrayCodec;
using codec::Bytes;
using codec::element_count;

struct Row {
  std::string field;
  std::string mode;
  double ratio = 0;
  double compress = 0;    ///< MB/s
  double decompress = 0;  ///< MB/s
  double psnr = 0;
  double error = 0;  ///< largest error over the bound
  double bound = 0;  ///< absolute
  std::string method;
};

/// CPU seconds of this thread: what others do on the machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_since(double start) { return cpu_seconds() - start; }

/// Copies a box out of a dense array, or (into = true) back.
void copy_box(const codec::Extents& shape, size_t size, const codec::Box& box, std::byte* array, std::byte* dense,
              bool into) {
  const size_t rank = shape.size();
  const uint64_t run = rank == 0 ? 1 : box.shape[rank - 1];
  const uint64_t runs = element_count(box.shape) / run;
  codec::Extents index(rank, 0);
  for (uint64_t i = 0; i < runs; ++i) {
    uint64_t at = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      at = at * shape[axis] + box.origin[axis] + index[axis];
    }
    if (into) {
      std::memcpy(array + at * size, dense + i * run * size, run * size);
    } else {
      std::memcpy(dense + i * run * size, array + at * size, run * size);
    }
    for (size_t axis = rank - (rank > 0 ? 1 : 0); axis-- > 0;) {
      if (++index[axis] < box.shape[axis]) {
        break;
      }
      index[axis] = 0;
    }
  }
}

struct Encoded {
  Bytes header;
  std::map<std::pair<uint8_t, uint64_t>, Bytes> records;
  size_t size() const {
    size_t total = header.size();
    for (const auto& [id, data] : records) {
      total += data.size();
    }
    return total;
  }
};

Result<Encoded> compress(Field& field, const codec::Bound& bound, Bytes& scratch) {
  const size_t size = codec::element_size(field.dtype);
  const auto read = [&](const codec::Box& box, std::byte* out) -> Status {
    copy_box(field.shape, size, box, field.data.data(), out, false);
    return {};
  };
  VARVE_ASSIGN(const ArrayCodec made, ArrayCodec::plan({field.dtype, field.shape, bound, field.fill_values}, read));
  Encoded out;
  out.header = made.header();
  for (uint64_t tile = 0; tile < made.tile_count(); ++tile) {
    const codec::Box box = made.tile_box(tile);
    const std::byte* data = field.data.data();
    if (box.shape != field.shape) {
      scratch.resize(element_count(box.shape) * size);
      copy_box(field.shape, size, box, field.data.data(), scratch.data(), false);
      data = scratch.data();
    }
    VARVE_ASSIGN(auto records, made.encode_tile(tile, data));
    for (auto& record : records) {
      out.records[{record.id.level, record.id.brick}] = std::move(record.data);
    }
  }
  return out;
}

Status decompress(const Encoded& encoded, Bytes& out, Bytes& scratch) {
  VARVE_ASSIGN(const ArrayCodec made, ArrayCodec::parse(encoded.header));
  const size_t size = codec::element_size(made.dtype());
  for (uint64_t tile = 0; tile < made.tile_count(); ++tile) {
    VARVE_ASSIGN(const auto coarse, made.decode_coarse(tile, encoded.records.at({codec::kCoarseLevel, tile})));
    for (const uint64_t brick : made.bricks_of(tile)) {
      std::array<std::optional<std::span<const std::byte>>, 3> levels;
      for (uint8_t level = 0; level < 3; ++level) {
        if (const auto found = encoded.records.find({level, brick}); found != encoded.records.end()) {
          levels.at(level) = found->second;
        }
      }
      const codec::Box box = made.brick_box(brick);
      scratch.resize(element_count(box.shape) * size);
      VARVE_TRY(made.decode_brick(brick, coarse, levels, 0, scratch.data()));
      copy_box(made.shape(), size, box, out.data(), scratch.data(), true);
    }
  }
  return {};
}

template <typename T>
void compare(const Field& field, const Bytes& decoded, double range, Row& row) {
  double worst = 0;
  double squares = 0;
  size_t counted = 0;
  for (size_t i = 0; i < field.data.size() / sizeof(T); ++i) {
    T x;
    T y;
    std::memcpy(&x, field.data.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&y, decoded.data() + i * sizeof(T), sizeof(T));
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    if (std::bit_cast<Bits>(x) == std::bit_cast<Bits>(y)) {
      counted += std::isfinite(x) ? 1 : 0;
      continue;
    }
    const double difference = static_cast<double>(x) - static_cast<double>(y);
    worst = std::isfinite(difference) ? std::max(worst, std::fabs(difference)) : INFINITY;
    squares += difference * difference;
    ++counted;
  }
  row.error = row.bound > 0 ? worst / row.bound : (worst == 0 ? 0 : INFINITY);
  row.psnr = squares > 0 ? 20 * std::log10(range / std::sqrt(squares / static_cast<double>(counted))) : INFINITY;
}

Result<Row> measure(Field& field, const std::string& mode, int repeat) {
  VARVE_ASSIGN(const codec::Bound bound, codec::parse_bound(mode));
  Row row;
  row.field = field.name;
  row.mode = mode;
  const double megabytes = static_cast<double>(field.data.size()) / 1e6;
  Bytes decoded(field.data.size());
  Bytes scratch;
  for (int i = 0; i < repeat; ++i) {
    const auto start = cpu_seconds();
    VARVE_ASSIGN(const Encoded encoded, compress(field, bound, scratch));
    row.compress = std::max(row.compress, megabytes / seconds_since(start));
    const auto middle = cpu_seconds();
    VARVE_TRY(decompress(encoded, decoded, scratch));
    row.decompress = std::max(row.decompress, megabytes / seconds_since(middle));
    row.ratio = static_cast<double>(field.data.size()) / static_cast<double>(encoded.size());
    VARVE_ASSIGN(const ArrayCodec made, ArrayCodec::parse(encoded.header));
    const auto info = made.info();
    row.bound = info.absolute_bound;
    row.method = info.method;
    const double range = info.max - info.min;
    if (field.dtype == codec::DType::f32) {
      compare<float>(field, decoded, range, row);
    } else {
      compare<double>(field, decoded, range, row);
    }
  }
  return row;
}

Row measure_zstd(const Field& field, bool shuffled, int repeat) {
  Row row;
  row.field = field.name;
  row.mode = shuffled ? "shuffle+zstd-3" : "zstd-3";
  const double megabytes = static_cast<double>(field.data.size()) / 1e6;
  const size_t size = codec::element_size(field.dtype);
  Bytes packed(ZSTD_compressBound(field.data.size()));
  Bytes back(field.data.size());
  Bytes plain(field.data.size());
  for (int i = 0; i < repeat; ++i) {
    const auto start = cpu_seconds();
    const Bytes input = shuffled ? codec::shuffle(field.data, size) : Bytes();
    const Bytes& source = shuffled ? input : field.data;
    const size_t stored = ZSTD_compress(packed.data(), packed.size(), source.data(), source.size(), 3);
    row.compress = std::max(row.compress, megabytes / seconds_since(start));
    const auto middle = cpu_seconds();
    ZSTD_decompress(back.data(), back.size(), packed.data(), stored);
    if (shuffled) {
      codec::unshuffle(back, size, plain.data());
    }
    row.decompress = std::max(row.decompress, megabytes / seconds_since(middle));
    row.ratio = static_cast<double>(field.data.size()) / static_cast<double>(stored);
  }
  row.psnr = INFINITY;
  return row;
}

void print_row(const Row& row) {
  fmt::print("{:<58} {:<15} {:>9.3f} {:>8.1f} {:>8.1f} {:>8.2f} {:>7.4f}  {}\n", row.field, row.mode, row.ratio,
             row.compress, row.decompress, row.psnr, row.error, row.method);
}

/// Geometric means by mode.
void print_means(const std::vector<Row>& rows) {
  std::map<std::string, std::array<double, 4>> sums;
  for (const Row& row : rows) {
    auto& sum = sums[row.mode];
    sum[0] += std::log(row.ratio);
    sum[1] += std::log(row.compress);
    sum[2] += std::log(row.decompress);
    sum[3] += 1;
  }
  for (const auto& [mode, sum] : sums) {
    fmt::print("{:<58} {:<15} {:>9.3f} {:>8.1f} {:>8.1f}\n", fmt::format("geometric mean of {} fields", sum[3]), mode,
               std::exp(sum[0] / sum[3]), std::exp(sum[1] / sum[3]), std::exp(sum[2] / sum[3]));
  }
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json one = {{"field", row.field},
                          {"mode", row.mode},
                          {"ratio", row.ratio},
                          {"compress_mb_s", row.compress},
                          {"decompress_mb_s", row.decompress},
                          {"absolute_bound", row.bound},
                          {"error_over_bound", row.error},
                          {"method", row.method}};
    if (std::isfinite(row.psnr)) {
      one["psnr_db"] = row.psnr;
    }
    all.push_back(std::move(one));
  }
  std::ofstream(path) << all.dump(1) << '\n';
}

int run(const std::vector<std::string>& folders, size_t edge, int repeat, const std::vector<std::string>& modes,
        const std::string& json, bool no_zstd) {
  std::vector<Field> fields;
  for (const std::string& folder : folders) {
    auto read = read_fields(folder);
    if (!read.ok()) {
      fmt::print(stderr, "varve_codec_bench: {}\n", read.error().text);
      return 1;
    }
    std::move(read->begin(), read->end(), std::back_inserter(fields));
  }
  if (edge > 0) {
    auto made = generated_fields(edge);
    std::move(made.begin(), made.end(), std::back_inserter(fields));
  }
  fmt::print("{:<58} {:<15} {:>9} {:>8} {:>8} {:>8} {:>7}  {}\n", "field", "mode", "ratio", "c MB/s", "d MB/s", "PSNR",
             "err/bd", "method");
  std::vector<Row> rows;
  bool broken = false;
  for (Field& field : fields) {
    for (const std::string& mode : modes) {
      const auto row = measure(field, mode, repeat);
      if (!row.ok()) {
        fmt::print(stderr, "varve_codec_bench: {} {}: {}\n", field.name, mode, row.error().text);
        return 1;
      }
      broken = broken || row->error > 1;
      rows.push_back(*row);
      print_row(rows.back());
    }
    for (const bool shuffled : {false, true}) {
      if (!no_zstd) {
        rows.push_back(measure_zstd(field, shuffled, repeat));
        print_row(rows.back());
      }
    }
  }
  print_means(rows);
  if (!json.empty()) {
    write_json(json, rows);
  }
  if (broken) {
    fmt::print(stderr, "varve_codec_bench: a bound was broken\n");
  }
  return broken ? 1 : 0;
}

}  // namespace

}  // namespace varve::bench

int main(int argc, char** argv) try {
  CLI::App app(
      "Measures the array codec on fields, beside zstd.\n\nExample: varve_codec_bench --json out.json fields/");
  std::vector<std::string> folders;
  std::vector<std::string> modes = {"rel:1e-2", "rel:1e-3", "rel:1e-4", "lossless"};
  std::string json;
  size_t edge = 128;
  int repeat = 3;
  bool no_zstd = false;
  app.add_option("folder", folders, "folders of NAME_dims.f32 and .f64 files")->check(CLI::ExistingDirectory);
  app.add_option("--mode", modes, "bounds to measure")->capture_default_str();
  app.add_option("--edge", edge, "edge of the generated fields; 0: none")->capture_default_str();
  app.add_option("--repeat", repeat, "runs of which the best speed counts")->capture_default_str();
  app.add_option("--json", json, "write the table there as JSON");
  app.add_flag("--no-zstd", no_zstd, "leave zstd out");
  CLI11_PARSE(app, argc, argv);
  return varve::bench::run(folders, edge, repeat, modes, json, no_zstd);
} catch (const std::exception& error) {
  std::fputs(error.what(), stderr);
  return 1;
}
