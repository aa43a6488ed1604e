// Warm and cold speeds, errors, and PSNR at equal ratio, for `varve bench`.
#include <fmt/format.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>

#include "tools/bench.h"

namespace varve::tools {

using codec::Bytes;
using codec::DType;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Result<Facts> facts_of(const Field& field, const std::string& mode) {
  VARVE_ASSIGN(const codec::ArrayCodec made, plan(field, mode));
  const codec::CodecInfo info = made.info();
  return Facts{{mode, info.absolute_bound}, info.min, info.max, info.method};
}

namespace {

template <typename T>
void compare_values(const Field& field, const std::byte* decoded, const Facts& facts, Row& row) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  double worst = 0;
  double squares = 0;
  uint64_t counted = 0;
  for (size_t i = 0; i < field.elements(); ++i) {
    T x;
    T y;
    std::memcpy(&x, field.data.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&y, decoded + i * sizeof(T), sizeof(T));
    const bool equal = std::bit_cast<Bits>(x) == std::bit_cast<Bits>(y);
    const bool fill = std::find(field.fill_values.begin(), field.fill_values.end(), uint64_t{std::bit_cast<Bits>(x)}) !=
                      field.fill_values.end();
    if (!std::isfinite(x) || fill || facts.setting.bound == 0) {
      row.exact_changed += equal ? 0 : 1;
      continue;
    }
    const double difference = equal ? 0 : static_cast<double>(x) - static_cast<double>(y);
    worst = std::isfinite(difference) ? std::max(worst, std::fabs(difference)) : HUGE_VAL;
    if (x >= facts.min && x <= facts.max) {  // outside: missing values that nobody declared
      squares += difference * difference;
      ++counted;
    }
  }
  row.error = facts.setting.bound > 0 ? worst / facts.setting.bound : 0;
  row.psnr = squares > 0 ? 20 * std::log10((facts.max - facts.min) / std::sqrt(squares / static_cast<double>(counted)))
                         : HUGE_VAL;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Status measure_calls(const Field& field, Compressor& compressor, const Setting& setting, double seconds,
                     std::byte* decoded, Row& row) {
  constexpr int kMost = 5;
  constexpr int kLeast = 2;
  const double least_second = 1e-9;
  std::vector<double> compressing;
  std::vector<double> decompressing;
  const double start = thread_seconds();
  for (int i = -1; i < kMost && (i < kLeast || thread_seconds() - start < seconds); ++i) {
    const double first = thread_seconds();
    VARVE_TRY(compressor.compress(field, setting));
    const double second = thread_seconds();
    VARVE_TRY(compressor.decompress(field, setting, decoded));
    const double third = thread_seconds();
    if (i >= 0) {
      compressing.push_back(field.megabytes() / std::max(second - first, least_second));
      decompressing.push_back(field.megabytes() / std::max(third - second, least_second));
    }
  }
  row.compress_warm = median(std::move(compressing));
  row.decompress_warm = median(std::move(decompressing));
  row.ratio = static_cast<double>(field.data.size()) / static_cast<double>(compressor.stored());
  return {};
}

/// Runs this program again as `bench-once` and reads the number that it prints.
Result<double> in_new_process(const Once& once) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return Error{errno, "no pipe for a measuring process"};
  }
  const std::string program = "/proc/self/exe";  // this very program, even if another has been built over it
  std::vector<std::string> words = {program,        "bench-once", once.step, once.path, "--contender",
                                    once.contender, "--mode",     once.mode, "--bound", fmt::format("{}", once.bound),
                                    "--saved",      once.saved};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t child = 0;
  const int started = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 128> piece{};
  for (ssize_t got = 0; started == 0 && (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (started != 0 || waitpid(child, &status, 0) != child || status != 0) {
    return Error{EIO,
                 fmt::format("the process that measures {} of {} by {} failed", once.step, once.path, once.contender)};
  }
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// A field of /proc/self/status, in bytes.
double status_bytes(const std::string& name) {
  std::ifstream in("/proc/self/status");
  std::string word;
  double kib = 0;
  while (in >> word) {
    if (word == name + ":" && in >> kib) {
      break;
    }
  }
  return kib * 1024;
}

Result<double> memory_of_encoding(const Field& field) {
  VARVE_ASSIGN(const codec::ArrayCodec made, plan(field, kViewMode));
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is from here on
  const double before = status_bytes("VmRSS");
  Encoded encoded;
  encoded.tiles.resize(made.tile_count());
  for (uint64_t tile = 0; tile < made.tile_count(); ++tile) {
    VARVE_ASSIGN(encoded.tiles[tile], encode_tile(made, field, tile));
  }
  const double extra = status_bytes("VmHWM") - before - static_cast<double>(encoded.stored());
  const auto brick = static_cast<double>((uint64_t{1} << 18) * codec::element_size(field.dtype));
  return std::max(extra, 0.0) / brick;
}

}  // namespace

void compare_field(const Field& field, const std::byte* decoded, const Facts& facts, Row& row) {
  if (field.dtype == DType::f32) {
    compare_values<float>(field, decoded, facts, row);
  } else {
    compare_values<double>(field, decoded, facts, row);
  }
}

Row measure_warm(const Field& field, const Contender& contender, const Facts& facts, double seconds) {
  Row row;
  row.field = field.name;
  row.dtype = field.dtype;
  row.contender = contender.name;
  row.mode = facts.setting.mode;
  row.bound = facts.setting.bound;
  row.method = contender.name == kOurs ? facts.method : "";
  const auto compressor = contender.make();
  Bytes decoded(field.data.size());
  if (const Status done = measure_calls(field, *compressor, facts.setting, seconds, decoded.data(), row); !done.ok()) {
    row.failure = done.error().text;
    return row;
  }
  compare_field(field, decoded.data(), facts, row);
  return row;
}

Status measure_cold(const std::string& path, const Contender& contender, const Setting& setting,
                    const std::string& directory, Row& row) {
  Once once{"compress", contender.name, setting.mode, path, directory + "/saved", setting.bound};
  VARVE_ASSIGN(row.compress_cold, in_new_process(once));
  once.step = "decompress";
  VARVE_ASSIGN(row.decompress_cold, in_new_process(once));
  return {};
}

Result<double> encoder_memory(const std::string& path) {
  return in_new_process({"memory", kOurs, kViewMode, path, "-", 0});
}

Result<double> run_once(const Once& once) {
  VARVE_ASSIGN(const Field field, read_field(once.path));
  if (once.step == "memory") {
    return memory_of_encoding(field);
  }
  const Contender* const contender = find_contender(once.contender);
  if (contender == nullptr) {
    return Error{EINVAL, fmt::format("no compressor is named {}", once.contender)};
  }
  const auto compressor = contender->make();
  const Setting setting{once.mode, once.bound};
  if (once.step == "compress") {
    const double start = thread_seconds();
    VARVE_TRY(compressor->compress(field, setting));
    const double seconds = thread_seconds() - start;
    const Bytes saved = compressor->save();
    std::ofstream(once.saved, std::ios::binary)
        .write(reinterpret_cast<const char*>(saved.data()), static_cast<std::streamsize>(saved.size()));
    return field.megabytes() / seconds;
  }
  std::ifstream in(once.saved, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  VARVE_TRY(compressor->load(std::as_bytes(std::span(text))));
  const auto out = fresh_memory(field.data.size());
  const double start = thread_seconds();
  VARVE_TRY(compressor->decompress(field, setting, out.get()));
  return field.megabytes() / (thread_seconds() - start);
}

namespace {

/// Bisection on the bound's logarithm; the ratio grows with the bound.
std::optional<double> search_psnr(const Field& field, const Contender& contender, Facts facts, double ratio) {
  const auto compressor = contender.make();
  const auto ratio_at = [&](double bound) {
    facts.setting.bound = bound;
    return compressor->compress(field, facts.setting).ok()
               ? static_cast<double>(field.data.size()) / static_cast<double>(compressor->stored())
               : 0;
  };
  double low = facts.setting.bound;
  double high = low;
  for (int i = 0; i < 12 && ratio_at(low) > ratio; ++i) {
    low /= 2;
  }
  for (int i = 0; i < 12 && ratio_at(high) < ratio; ++i) {
    high *= 2;
  }
  double reached = 0;
  for (int i = 0; i < 12 && std::fabs(reached / ratio - 1) > 0.002; ++i) {
    const double middle = std::sqrt(low * high);
    reached = ratio_at(middle);
    (reached < ratio ? low : high) = middle;
  }
  constexpr double kNear = 0.01;
  if (std::fabs(reached / ratio - 1) > kNear) {
    return std::nullopt;
  }
  Bytes decoded(field.data.size());
  if (!compressor->decompress(field, facts.setting, decoded.data()).ok()) {
    return std::nullopt;
  }
  Row row;
  compare_field(field, decoded.data(), facts, row);
  return row.psnr;
}

}  // namespace

std::optional<double> psnr_at_ratio(const Field& field, const Contender& contender, const Facts& facts, double ratio) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return std::nullopt;
  }
  const pid_t child = fork();  // other compressors may crash
  if (child == 0) {
    constexpr unsigned kMostSeconds = 120;
    alarm(kMostSeconds);
    const auto found = search_psnr(field, contender, facts, ratio);
    const double value = found.value_or(std::nan(""));
    _exit(write(ends[1], &value, sizeof(value)) == sizeof(value) ? 0 : 1);
  }
  close(ends[1]);
  double value = 0;
  const bool got = ::read(ends[0], &value, sizeof(value)) == sizeof(value);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return got && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace varve::tools
