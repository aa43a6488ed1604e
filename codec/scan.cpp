#include "codec/scan.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/element.h"
#include "codec/extremes.h"
#include "codec/geometry.h"
#include "codec/kernels.h"
#include "codec/mapping.h"

namespace varve::codec {

namespace {

constexpr uint64_t kPieceElements = uint64_t{1} << 20;

template <typename W>
class Scanner {
 public:
  explicit Scanner(const ArraySpec& spec)
      : type_(spec.dtype), least_gap_(spec.bound.mode == BoundMode::absolute ? kLeastGap * spec.bound.value : 0) {
    for (const uint64_t fill : spec.fill_values) {
      const W value = from_bits<W>(type_, fill);
      if (std::none_of(fills_.begin(), fills_.end(), [&](W other) { return same_bits(other, value); })) {
        fills_.push_back(value);
        result_.fills.push_back(fill & mask());
      }
    }
  }

  void add(const std::byte* data, size_t count) {
    constexpr size_t kRow = 4096;
    row_.resize(kRow);
    for (size_t at = 0; at < count; at += kRow) {
      size_t m = std::min(kRow, count - at);
      const std::byte* from = data + at * element_size(type_);
      const bool in_place = kIsReal<W> && reinterpret_cast<uintptr_t>(from) % alignof(W) == 0;
      if (!in_place) {
        load_row<W>(type_, from, 1, m, row_.data());
        m = is_half() ? drop_not_finite(m) : m;
      }
      add_row(in_place ? reinterpret_cast<const W*>(from) : row_.data(), from, m);
    }
  }

  /// What a later part of the array has.
  void add(const Scanner& later) {
    if (later.counted_ > 0) {
      counted_ += later.counted_;
      low_.merge(later.low_);
      high_.merge(later.high_);
    }
    if (!result_.not_finite.has_value()) {
      result_.not_finite = later.result_.not_finite;
    }
  }

  Scan finish() {
    Scan& r = result_;
    r.counted = counted_;
    if (counted_ == 0) {
      return r;
    }
    r.min = r.rest_min = static_cast<double>(low_.first);
    r.max = r.rest_max = static_cast<double>(high_.first);
    const HiddenExtremes hidden = hidden_extremes(numbers(low_), numbers(high_), counted_, least_gap_);
    if (hidden.low) {
      r.hidden.push_back(bits_of(low_.first));
      r.rest_min = static_cast<double>(low_.second);
    }
    if (hidden.high) {
      r.hidden.push_back(bits_of(high_.first));
      r.rest_max = static_cast<double>(high_.second);
    }
    return r;
  }

 private:
  uint64_t mask() const { return ~uint64_t{0} >> (64 - 8 * element_size(type_)); }
  bool is_half() const { return type_ == DType::f16 || type_ == DType::bf16; }
  double number(W value) const {
    if (!is_half()) {
      return static_cast<double>(value);
    }
    const uint16_t bits = order_to_half(static_cast<int32_t>(value));
    return double{type_ == DType::f16 ? half_to_float(bits) : brain_to_float(bits)};
  }
  template <template <typename> typename Which, typename From>
  Which<double> numbers_of(const From& from) const {
    Which<double> out;
    out.first = number(from.first);
    out.second = number(from.second);
    out.count = from.count;
    out.has_second = from.has_second && out.second != out.first;
    return out;
  }
  Lowest<double> numbers(const Lowest<W>& from) const { return numbers_of<Lowest>(from); }
  Highest<double> numbers(const Highest<W>& from) const { return numbers_of<Highest>(from); }
  /// Leaves out of a row the halves that are not finite: as orders they would pass for numbers. Returns how many stay.
  size_t drop_not_finite(size_t m) {
    const int32_t infinity = type_ == DType::f16 ? HalfElement::kInfinity : BrainElement::kInfinity;
    size_t kept = 0;
    for (size_t i = 0; i < m; ++i) {
      const W order = row_[i];
      const bool finite = order >= -infinity && order < infinity;  // -x has the order -1 - that of x
      if (!finite && !result_.not_finite.has_value() &&
          std::find(fills_.begin(), fills_.end(), order) == fills_.end()) {
        result_.not_finite = order_to_half(static_cast<int32_t>(order));
      }
      row_[kept] = order;
      kept += finite ? 1 : 0;
    }
    return kept;
  }
  uint64_t bits_of(W value) const {
    uint64_t bits = 0;
    store_row<W>(type_, &value, 1, reinterpret_cast<std::byte*>(&bits), 1);
    return bits;
  }
  void add_row(const W* row, const std::byte* data, size_t m) {
    Extremes<W> found;
    // Rows inside of what is known say nothing new.
    const bool known = low_.has_second && high_.has_second;
    typed<W>(kernels()).extremes(row, m, fills_.data(), fills_.size(),
                                 known ? low_.second : std::numeric_limits<W>::max(),
                                 known ? high_.second : std::numeric_limits<W>::lowest(), found);
    counted_ += found.counted;
    if (!found.all_finite && !result_.not_finite.has_value()) {
      keep_not_finite(row, data, m);
    }
    if (found.counted > 0 && (!known || found.low <= low_.second || found.high >= high_.second)) {
      low_.merge(found.low, found.low_count, found.second_low);
      high_.merge(found.high, found.high_count, found.second_high);
    }
  }

  void keep_not_finite(const W* row, const std::byte* data, size_t m) {
    if constexpr (kIsReal<W>) {
      for (size_t i = 0; i < m; ++i) {
        const bool fill = std::any_of(fills_.begin(), fills_.end(), [&](W value) { return same_bits(value, row[i]); });
        if (!fill && !(std::fabs(row[i]) <= std::numeric_limits<W>::max())) {
          uint64_t bits = 0;
          std::memcpy(&bits, data + i * element_size(type_), element_size(type_));
          result_.not_finite = bits;
          return;
        }
      }
    }
  }

  static constexpr double kLeastGap = 16;  ///< in absolute bounds: decoded data must not grow missing values

  DType type_;
  double least_gap_;
  std::vector<W> fills_;
  std::vector<W> row_;
  uint64_t counted_ = 0;
  Lowest<W> low_;
  Highest<W> high_;
  Scan result_;
};

void in_parallel(const ArraySpec& spec, size_t count, const std::function<void(size_t)>& work) {
  if (spec.parallel) {
    spec.parallel(count, work);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    work(i);
  }
}

template <typename W>
Scan merged(const ArraySpec& spec, const std::vector<Scanner<W>>& parts) {
  Scanner<W> all(spec);
  for (const Scanner<W>& part : parts) {
    all.add(part);
  }
  return all.finish();
}

}  // namespace

Status check_spec(const ArraySpec& spec) {
  if (element_size(spec.dtype) == 0) {
    return Error{EINVAL, fmt::format("element type number {} is not known", static_cast<unsigned>(spec.dtype))};
  }
  if (spec.shape.size() > kMaxRank) {
    return Error{EINVAL, fmt::format("array has {} axes; at most {} can be stored", spec.shape.size(), kMaxRank)};
  }
  uint64_t count = 1;
  for (const uint64_t extent : spec.shape) {
    if (extent != 0 && count > kMaxElements / extent) {
      return Error{EINVAL, "array has more than 2^62 elements; it cannot be stored"};
    }
    count *= std::max<uint64_t>(1, extent);
  }
  return {};
}

std::vector<Box> pieces_of(const Extents& shape, uint64_t limit) {
  const size_t rank = shape.size();
  if (element_count(shape) == 0) {
    return {};
  }
  // Axes after `split` are taken whole; those before it one index at a time.
  size_t split = rank;
  uint64_t inner = 1;
  while (split > 0 && shape[split - 1] <= limit / inner) {
    inner *= shape[--split];
  }
  if (split == 0) {
    return {{Extents(rank, 0), shape}};
  }
  --split;
  const uint64_t step = std::max<uint64_t>(1, limit / inner);
  Box box{Extents(rank, 0), shape};
  std::fill(box.shape.begin(), box.shape.begin() + static_cast<ptrdiff_t>(split), 1);
  std::vector<Box> pieces;
  while (true) {
    box.shape[split] = std::min(step, shape[split] - box.origin[split]);
    pieces.push_back(box);
    box.origin[split] += step;
    if (box.origin[split] < shape[split]) {
      continue;
    }
    box.origin[split] = 0;
    size_t axis = split;
    while (axis > 0 && ++box.origin[axis - 1] == shape[axis - 1]) {
      box.origin[--axis] = 0;
    }
    if (axis == 0) {
      return pieces;
    }
  }
}

Result<Scan> scan_array(const ArraySpec& spec, const ReadBox& read) {
  const std::vector<Box> pieces = pieces_of(spec.shape, kPieceElements);
  const size_t size = element_size(spec.dtype);
  return with_work_type(spec.dtype, [&](auto zero) -> Result<Scan> {
    std::vector<Scanner<decltype(zero)>> parts(pieces.size(), Scanner<decltype(zero)>(spec));
    std::vector<Status> states(pieces.size());
    in_parallel(spec, pieces.size(), [&](size_t i) {
      thread_local Bytes data;
      data.resize(element_count(pieces[i].shape) * size);
      states[i] = read(pieces[i], data.data());
      if (states[i].ok()) {
        parts[i].add(data.data(), data.size() / size);
      }
    });
    for (const Status& state : states) {
      VARVE_TRY(state);
    }
    return merged(spec, parts);
  });
}

Scan scan_array(const ArraySpec& spec, std::span<const std::byte> elements) {
  const size_t piece = kPieceElements * element_size(spec.dtype);
  const size_t count = (elements.size() + piece - 1) / piece;
  return with_work_type(spec.dtype, [&](auto zero) {
    std::vector<Scanner<decltype(zero)>> parts(count, Scanner<decltype(zero)>(spec));
    in_parallel(spec, count, [&](size_t i) {
      const auto part = elements.subspan(i * piece, std::min(piece, elements.size() - i * piece));
      parts[i].add(part.data(), part.size() / element_size(spec.dtype));
    });
    return merged(spec, parts);
  });
}

}  // namespace varve::codec
