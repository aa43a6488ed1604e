// Of `varve bench`: threads, one brick out of many, the bytes of a view.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tools/bench.h"

namespace varve::tools {

using codec::ArrayCodec;

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The least wall time of two runs.
template <typename Work>
Result<double> least_time(Work work) {
  double least = 0;
  for (int i = 0; i < 2; ++i) {
    const double start = wall_seconds();
    VARVE_TRY(work());
    const double seconds = wall_seconds() - start;
    least = i == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

/// Median wall time of one brick, over bricks from all parts of the array.
Result<double> brick_seconds(const ArrayCodec& made, const Encoded& encoded) {
  constexpr uint64_t kBricks = 33;
  const uint64_t count = std::min(kBricks, made.brick_count());
  std::vector<double> seconds;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t brick = i * made.brick_count() / count;
    const size_t size = codec::element_count(made.brick_box(brick).shape) * codec::element_size(made.dtype());
    codec::Bytes out(size);
    VARVE_TRY(decode_one_brick(made, encoded, brick, out.data()));
    const double start = wall_seconds();
    VARVE_TRY(decode_one_brick(made, encoded, brick, out.data()));
    seconds.push_back(wall_seconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

Result<double> view_share(const Field& field) {
  VARVE_ASSIGN(const Encoded encoded, encode(field, kViewMode, nullptr));
  size_t view = encoded.header.size();
  for (const auto& records : encoded.tiles) {
    for (const codec::Record& record : records) {
      view += record.id.level >= 2 ? record.data.size() : 0;
    }
  }
  return static_cast<double>(view) / static_cast<double>(encoded.stored());
}

Status measure_array(const Field& field, Extras& extras) {
  fs::ThreadPool pool(1);  // the caller of parallel_for is the second thread
  extras.array = field.name;
  Encoded encoded;
  const auto encoding = [&](fs::ThreadPool* threads) {
    return least_time([&]() -> Status {
      VARVE_ASSIGN(encoded, encode(field, kViewMode, threads));
      return {};
    });
  };
  VARVE_ASSIGN(const double compress_one, encoding(nullptr));
  VARVE_ASSIGN(const double compress_two, encoding(&pool));
  extras.threads_compress = compress_one / compress_two;
  const auto decoding = [&](fs::ThreadPool* threads) {
    return least_time([&] { return decode(encoded, threads, nullptr); });
  };
  VARVE_ASSIGN(const double decompress_one, decoding(nullptr));
  VARVE_ASSIGN(const double decompress_two, decoding(&pool));
  extras.threads_decompress = decompress_one / decompress_two;
  VARVE_ASSIGN(const ArrayCodec made, ArrayCodec::parse(encoded.header));
  VARVE_ASSIGN(const double brick, brick_seconds(made, encoded));
  extras.bricks = made.brick_count();
  extras.brick_gain = decompress_one / brick;
  return {};
}

}  // namespace varve::tools
