// Of `varve bench`: threads, one brick out of many, the bytes of a view.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "tools/bench.h"

namespace varve::tools {

using codec::ArrayCodec;

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The least wall times of several runs by one thread and by two, in turn: what else the machine does hits both.
struct Times {
  double one = 0;
  double two = 0;
};

template <typename Work>
Result<Times> measure_threads(Work work) {
  constexpr int kRuns = 3;
  fs::ThreadPool pool(1);  // the caller of parallel_for is the second thread
  Times least{HUGE_VAL, HUGE_VAL};
  for (int i = 0; i < kRuns; ++i) {
    const double start = wall_seconds();
    VARVE_TRY(work(nullptr));
    const double middle = wall_seconds();
    VARVE_TRY(work(&pool));
    least.one = std::min(least.one, middle - start);
    least.two = std::min(least.two, wall_seconds() - middle);
  }
  return least;
}

/// Median CPU time of one brick, over bricks from all parts of the array; none is decoded twice.
Result<double> brick_seconds(const ArrayCodec& made, const Encoded& encoded) {
  constexpr uint64_t kBricks = 33;
  const uint64_t count = std::min(kBricks, made.brick_count());
  std::vector<double> seconds;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t brick = i * made.brick_count() / count;
    codec::Bytes out(codec::element_count(made.brick_box(brick).shape) * codec::element_size(made.dtype()));
    const double start = thread_seconds();
    VARVE_TRY(decode_one_brick(made, encoded, brick, out.data()));
    seconds.push_back(thread_seconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

Result<double> view_share(const Field& field) {
  VARVE_ASSIGN(const Encoded encoded, encode(field, kViewMode, nullptr));
  VARVE_ASSIGN(const auto codec, codec::ArrayCodec::parse(encoded.header));
  size_t view = encoded.header.size();
  for (const auto& records : encoded.tiles) {
    for (const codec::Record& record : records) {
      view += record.id.level >= codec.finest_read(2) ? record.data.size() : 0;
    }
  }
  return static_cast<double>(view) / static_cast<double>(encoded.stored());
}

Status measure_array(const Field& field, Extras& extras) {
  std::array<double, 1> load{};
  getloadavg(load.data(), 1);
  extras.array = fmt::format("{}; load average {:.1f}", field.name, load[0]);
  Encoded encoded;
  VARVE_ASSIGN(const Times compress, measure_threads([&](fs::ThreadPool* pool) -> Status {
                 VARVE_ASSIGN(encoded, encode(field, kViewMode, pool));
                 return {};
               }));
  extras.threads_compress = compress.one / compress.two;
  VARVE_ASSIGN(const Times decompress,
               measure_threads([&](fs::ThreadPool* pool) { return decode(encoded, pool, nullptr); }));
  extras.threads_decompress = decompress.one / decompress.two;

  VARVE_ASSIGN(const ArrayCodec made, ArrayCodec::parse(encoded.header));
  const double start = thread_seconds();
  VARVE_TRY(decode(encoded, nullptr, nullptr));
  const double all = thread_seconds() - start;
  VARVE_ASSIGN(const double brick, brick_seconds(made, encoded));
  extras.bricks = made.brick_count();
  extras.brick_gain = all / brick;
  return {};
}

}  // namespace varve::tools
