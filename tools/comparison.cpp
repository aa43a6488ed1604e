#include "tools/comparison.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>
#include <type_traits>

#include "codec/mapping.h"
#include "fs/formats/check.h"
#include "fs/formats/chunk_filters.h"

namespace varve::tools {
namespace {

constexpr size_t kPiece = size_t{4} << 20;  // bytes of each file in memory; a multiple of every element size

/// A stretch of the file: one chunk of an array, or bytes.
struct Segment {
  uint64_t offset = 0, length = 0;
  const fs::ArrayRegion* array = nullptr;
  ArrayVerdict* verdict = nullptr;
  const fs::ChunkPlace* chunk = nullptr;
};

/// Which elements of a chunk lie inside the array's shape; at upper edges some are padding.
class ChunkWalk {
 public:
  ChunkWalk(const fs::ArrayRegion& array, uint64_t chunk) : array_(array), origin_(array.shape.size()) {
    for (size_t axis = array.shape.size(); axis-- > 0;) {
      const uint64_t extent = array.chunk_shape[axis];
      const uint64_t grid = (array.shape[axis] + extent - 1) / extent;
      origin_[axis] = chunk % grid * extent;
      chunk /= grid;
      whole_ = whole_ && origin_[axis] + extent <= array.shape[axis];
    }
  }

  struct Run {
    uint64_t count = 0;
    bool inside = true;
  };
  /// The longest run from element `index` on, all inside or all padding, that is known to have one kind.
  Run run_from(uint64_t index, uint64_t most) const {
    if (whole_) {
      return {most, true};
    }
    const size_t last = array_.shape.size() - 1;
    const uint64_t row = array_.chunk_shape[last];
    const uint64_t within = index % row;
    uint64_t rest = index / row;
    bool inside = true;
    for (size_t axis = last; axis-- > 0;) {
      inside = inside && origin_[axis] + rest % array_.chunk_shape[axis] < array_.shape[axis];
      rest /= array_.chunk_shape[axis];
    }
    const uint64_t valid = inside ? std::min(row, array_.shape[last] - origin_[last]) : 0;
    return within < valid ? Run{std::min(most, valid - within), true} : Run{std::min(most, row - within), false};
  }

 private:
  const fs::ArrayRegion& array_;
  codec::Extents origin_;
  bool whole_ = true;
};

template <typename Bits>
Bits load(const std::byte* place, bool big_endian) {
  Bits bits = 0;
  std::memcpy(&bits, place, sizeof bits);
  if (big_endian && sizeof bits > 1) {
    Bits swapped = 0;
    for (size_t i = 0; i < sizeof bits; ++i) {
      swapped = static_cast<Bits>((swapped << 8) | ((bits >> (8 * i)) & 0xff));
    }
    return swapped;
  }
  return bits;
}

/// Elements of any type that must be equal.
void compare_exact(const std::byte* a, const std::byte* b, uint64_t count, size_t width, ArrayVerdict& verdict) {
  if (std::memcmp(a, b, count * width) != 0) {
    for (uint64_t i = 0; i < count; ++i) {
      verdict.changed += std::memcmp(a + i * width, b + i * width, width) != 0 ? 1 : 0;
    }
  }
  verdict.elements += count;
}

/// Whether the bound is one of each element's own, and signs and zeros are exact.
bool is_of_each(codec::BoundMode mode) { return mode == codec::BoundMode::pointwise || mode == codec::BoundMode::bits; }

/// Whether x, not 0, moved no further than `bound` (pointwise or bits) lets it. Exact: the rounding of a fused product
/// and difference does not change its sign.
bool may_move(long double x, long double error, const codec::Bound& bound, int least_exponent) {
  if (bound.mode == codec::BoundMode::pointwise) {
    return std::fma(static_cast<long double>(bound.value), std::fabs(x), -error) >= 0;
  }
  return error <= std::ldexp(0.5L, std::max(std::ilogb(x), least_exponent) - static_cast<int>(bound.value));
}

/// Elements that may move. The largest error is taken in long double, where the difference of two doubles of like
/// magnitude, and of any two integers, is exact. E: what codec/mapping.h knows of the type.
template <typename E>
class ValueComparer {
 public:
  using Bits = typename E::Bits;
  ValueComparer(const fs::ArrayRegion& array, ArrayVerdict& verdict) : array_(array), verdict_(verdict) {
    if constexpr (!E::kIsInteger) {
      least_exponent_ = std::ilogb(E::value(E::kLeastNormal));
    }
  }

  void run(const std::byte* a, const std::byte* b, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      one(load<Bits>(a + i * sizeof(Bits), array_.big_endian), load<Bits>(b + i * sizeof(Bits), array_.big_endian),
          verdict_.elements + i);
    }
    verdict_.elements += count;
  }

 private:
  static long double value(Bits bits) {
    if constexpr (E::kIsInteger) {
      return static_cast<long double>(bits);
    } else {
      return E::value(bits);
    }
  }

  void one(Bits original, Bits copied, uint64_t index) {
    const long double x = value(original);
    const long double y = value(copied);
    const bool differs = original != copied;
    const bool of_each = is_of_each(verdict_.demand.bound.mode);
    verdict_.changed += differs ? 1 : 0;
    const uint64_t pattern = static_cast<std::make_unsigned_t<Bits>>(original);
    const bool missing =
        !std::isfinite(x) || std::ranges::find(array_.fill_values, pattern) != array_.fill_values.end();
    if (missing || (x == 0 && (std::signbit(x) || of_each))) {
      ++verdict_.exact;
      verdict_.exact_changed += differs ? 1 : 0;
      if (missing) {
        return;
      }
    } else if (!std::isfinite(y) || (of_each && (y == 0 || std::signbit(x) != std::signbit(y)))) {
      ++verdict_.exact_changed;
      return;
    }
    verdict_.low.add(static_cast<double>(x));
    verdict_.high.add(static_cast<double>(x));
    ++verdict_.finite;
    if (differs) {
      moved(x, std::fabs(x - y), index);
    }
  }

  void moved(long double x, long double exact_error, uint64_t index) {
    auto error = static_cast<double>(exact_error);
    if (error < exact_error) {
      error = std::nextafter(error, std::numeric_limits<double>::infinity());  // never less than it is
    }
    verdict_.squares += error * error;
    const codec::Bound& bound = verdict_.demand.bound;
    verdict_.beyond += is_of_each(bound.mode) && x != 0 && !may_move(x, exact_error, bound, least_exponent_) ? 1 : 0;
    if (error > verdict_.max_error) {
      verdict_.max_error = error;
      verdict_.max_error_index = index;
    }
  }

  const fs::ArrayRegion& array_;
  ArrayVerdict& verdict_;
  int least_exponent_ = 0;
};

void compare_bytes(const std::byte* a, const std::byte* b, size_t count, uint64_t offset, Comparison& result) {
  result.bytes += count;
  if (std::memcmp(a, b, count) == 0) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) {
      if (result.bytes_different == 0) {
        result.first_difference = offset + i;
      }
      ++result.bytes_different;
    }
  }
}

class Comparer {
 public:
  Comparer(fs::FileView& original, fs::FileView& copy, const std::function<void(uint64_t)>& advance)
      : original_(original), copy_(copy), advance_(advance) {}

  Status segment(const Segment& segment, Comparison& result) {
    if (segment.array == nullptr) {
      return pieces(segment, [&](size_t count, uint64_t offset) {
        compare_bytes(first_.data(), second_.data(), count, offset, result);
      });
    }
    const ChunkWalk walk(*segment.array, segment.chunk->chunk);
    if (!segment.array->filters.empty()) {
      return filtered(segment, walk, result);
    }
    return pieces(segment, [&](size_t count, uint64_t offset) {
      compare_part(segment, walk, offset - segment.offset, count, result);
    });
  }

 private:
  /// `count` bytes of a chunk, `from` its start, which are in both buffers.
  void compare_part(const Segment& segment, const ChunkWalk& walk, uint64_t from, uint64_t count, Comparison& result) {
    const size_t width = codec::element_size(segment.array->dtype);
    const uint64_t total = count / width;
    for (uint64_t done = 0; done < total;) {
      const auto run = walk.run_from(from / width + done, total - done);
      const std::byte* a = first_.data() + done * width;
      const std::byte* b = second_.data() + done * width;
      if (run.inside) {
        elements(a, b, run.count, *segment.array, *segment.verdict);
      } else {
        compare_bytes(a, b, run.count * width, segment.offset + from + done * width, result);
      }
      done += run.count;
    }
  }

  /// By the elements before the filters; where they cannot be told, or must be deflated to the same bytes, by bytes.
  Status filtered(const Segment& segment, const ChunkWalk& walk, Comparison& result) {
    const auto bytes_of = [&](fs::FileView& file, std::vector<std::byte>& stored) {
      return fs::unfiltered_chunk(*segment.array, *segment.chunk,
                                  [&](uint64_t offset, std::span<std::byte> out) -> Status {
                                    VARVE_TRY(fill(file, offset, out.size(), stored));
                                    std::copy_n(stored.begin(), out.size(), out.begin());
                                    return {};
                                  });
    };
    std::vector<std::byte> stored;
    std::vector<std::byte> stored_copy;
    auto original = bytes_of(original_, stored);
    auto copy = bytes_of(copy_, stored_copy);
    advance_(segment.length);
    for (const auto* read : {&original, &copy}) {
      if (!read->ok() && read->error().code != EBADMSG) {
        return read->error();
      }
    }
    const bool both = original.ok() && copy.ok();
    if (both) {
      first_ = *std::move(original);
      second_ = *std::move(copy);
      compare_part(segment, walk, 0, first_.size(), result);
    }
    const bool same = std::equal(stored.begin(), stored.end(), stored_copy.begin(), stored_copy.end());
    if (!both || (fs::is_deflated(*segment.array) && !same)) {
      compare_bytes(stored.data(), stored_copy.data(), segment.length, segment.offset, result);
    }
    return {};
  }

  static void elements(const std::byte* a, const std::byte* b, uint64_t count, const fs::ArrayRegion& array,
                       ArrayVerdict& verdict) {
    if (!codec::is_float(array.dtype) && verdict.demand.bound.mode == codec::BoundMode::lossless) {
      return compare_exact(a, b, count, codec::element_size(array.dtype), verdict);
    }
    codec::with_element(array.dtype,
                        [&](auto element) { ValueComparer<decltype(element)>(array, verdict).run(a, b, count); });
  }

  /// Reads the same piece of both files, over and over.
  template <typename Take>
  Status pieces(const Segment& segment, const Take& take) {
    for (uint64_t done = 0; done < segment.length;) {
      const size_t count = static_cast<size_t>(std::min<uint64_t>(kPiece, segment.length - done));
      VARVE_TRY(fill(original_, segment.offset + done, count, first_));
      VARVE_TRY(fill(copy_, segment.offset + done, count, second_));
      take(count, segment.offset + done);
      done += count;
      advance_(count);
    }
    return {};
  }

  static Status fill(fs::FileView& file, uint64_t offset, size_t count, std::vector<std::byte>& buffer) {
    buffer.resize(std::max(buffer.size(), count));
    VARVE_ASSIGN(const size_t got, file.read(offset, std::span(buffer).first(count)));
    if (got != count) {
      return Error{EIO, fmt::format("a file became shorter while it was read: {} bytes at {} are missing", count - got,
                                    offset + got)};
    }
    return {};
  }

  fs::FileView& original_;
  fs::FileView& copy_;
  const std::function<void(uint64_t)>& advance_;
  std::vector<std::byte> first_, second_;
};

/// All of [0, size), ascending: chunks, and the bytes between them.
std::vector<Segment> segments_of(const std::vector<fs::ArrayRegion>& arrays, std::vector<ArrayVerdict>& verdicts,
                                 uint64_t size) {
  std::vector<Segment> chunks;
  for (size_t i = 0; i < arrays.size(); ++i) {
    for (const fs::ChunkPlace& place : arrays[i].chunks) {
      chunks.push_back({place.offset, fs::stored_bytes(arrays[i], place), &arrays[i], &verdicts[i], &place});
    }
  }
  std::ranges::sort(chunks, {}, &Segment::offset);
  std::vector<Segment> all;
  uint64_t at = 0;
  for (const Segment& chunk : chunks) {
    if (chunk.offset > at) {
      all.push_back({at, chunk.offset - at, nullptr, nullptr, nullptr});
    }
    all.push_back(chunk);
    at = chunk.offset + chunk.length;
  }
  if (size > at) {
    all.push_back({at, size - at, nullptr, nullptr, nullptr});
  }
  return all;
}

/// A PSNR is reached where errors are spread evenly up to the bound that was derived from it, and missed by so many
/// decibels at most, where all are as large as it lets them be.
constexpr double kMostMissed = 4.82;

void judge(ArrayVerdict& verdict) {
  const codec::Bound& bound = verdict.demand.bound;
  const codec::HiddenExtremes hidden = codec::hidden_extremes(verdict.low, verdict.high, verdict.finite, 0);
  verdict.min = hidden.low ? verdict.low.second : verdict.low.first;
  verdict.max = hidden.high ? verdict.high.second : verdict.high.first;
  const double range = verdict.max - verdict.min;
  verdict.limit = codec::limit_of(bound, range).value_or(std::numeric_limits<double>::infinity());
  if (verdict.demand.absolute_bound) {
    verdict.limit = std::min(verdict.limit, *verdict.demand.absolute_bound);
  }
  const bool is_near = verdict.exact_changed == 0 && verdict.beyond == 0 && verdict.max_error <= verdict.limit;
  const bool is_clear = bound.mode != codec::BoundMode::psnr || verdict.squares == 0 ||
                        verdict.psnr().value_or(0) >= bound.value - (verdict.demand.absolute_bound ? kMostMissed : 0);
  const bool may_change = bound.mode != codec::BoundMode::lossless && verdict.finite > 0;
  verdict.kept = verdict.changed == 0 || (may_change && is_near && is_clear);
}

}  // namespace

Result<std::unique_ptr<PlainFile>> PlainFile::open(const std::string& path, Access access) {
  return adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC), path, access);
}

Result<std::unique_ptr<PlainFile>> PlainFile::adopt(int descriptor, const std::string& path, Access access) {
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    const int code = errno;
    if (descriptor >= 0) {
      ::close(descriptor);
    }
    return Error{code, fmt::format("cannot open {}: {}", path, std::generic_category().message(code))};
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return Error{EINVAL, fmt::format("{} is not a regular file: name one", path)};
  }
  ::posix_fadvise(descriptor, 0, 0, access == Access::sequential ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
  return std::unique_ptr<PlainFile>(new PlainFile(descriptor, static_cast<uint64_t>(status.st_size), path, access));
}

PlainFile::~PlainFile() { ::close(descriptor_); }

ssize_t PlainFile::read_exactly(uint64_t offset, std::span<std::byte> out) const {
  const int direct = ::open(fmt::format("/proc/self/fd/{}", descriptor_).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  const ssize_t count = direct < 0 ? -1 : ::pread(direct, out.data(), out.size(), static_cast<off_t>(offset));
  if (direct >= 0) {
    ::close(direct);
  }
  if (count < 0) {
    errno = EIO;  // not why this second try failed
  }
  return count;
}

Result<size_t> PlainFile::read(uint64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    ssize_t count = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EIO && access_ == Access::scattered) {
      count = read_exactly(offset + done, out.subspan(done));
    }
    if (count < 0 && errno != EINTR) {
      return Error{errno, fmt::format("cannot read {} at byte {}: {}", path_, offset + done,
                                      std::generic_category().message(errno))};
    }
    if (count == 0) {
      break;
    }
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return done;
}

std::optional<double> ArrayVerdict::psnr() const {
  if (squares <= 0 || finite == 0 || max <= min) {
    return std::nullopt;
  }
  return 20 * std::log10(max - min) - 10 * std::log10(squares / static_cast<double>(finite));
}

bool Comparison::kept() const {
  return original_size == copy_size && bytes_different == 0 &&
         std::ranges::all_of(arrays, [](const ArrayVerdict& verdict) { return verdict.kept; });
}

Result<Comparison> compare(fs::FileView& original, fs::FileView& copy, const std::vector<fs::ArrayRegion>& arrays,
                           const std::vector<Demand>& demands, const std::function<void(uint64_t)>& advance) {
  Comparison result;
  result.original_size = original.size();
  result.copy_size = copy.size();
  result.arrays.resize(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    result.arrays[i].demand = demands[i];
  }
  if (result.original_size != result.copy_size) {
    return result;  // nothing corresponds; no array is called kept
  }
  Comparer comparer(original, copy, advance);
  for (const Segment& segment : segments_of(arrays, result.arrays, result.original_size)) {
    VARVE_TRY(comparer.segment(segment, result));
  }
  std::ranges::for_each(result.arrays, judge);
  return result;
}

}  // namespace varve::tools
