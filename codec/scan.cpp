#include "codec/scan.h"

#include <algorithm>

#include "codec/element.h"

namespace varve::codec {

namespace {

constexpr uint64_t kPieceElements = uint64_t{1} << 20;

/// The least value (under `Less`), how often it occurs, and the next.
template <typename W, typename Less>
struct Extreme {
  W first{};
  W second{};
  uint64_t count = 0;
  bool has_first = false;
  bool has_second = false;

  void add(W value) {
    const Less less;
    if (!has_first) {
      first = value;
      count = 1;
      has_first = true;
    } else if (value == first) {
      ++count;
    } else if (less(value, first)) {
      second = first;
      has_second = true;
      first = value;
      count = 1;
    } else if (!has_second || less(value, second)) {
      second = value;
      has_second = true;
    }
  }
  /// Whether adding `value` could change anything.
  bool matters(W value) const {
    const Less less;
    return !has_second || less(value, second) || value == first;
  }
};

template <typename W>
class Scanner {
 public:
  explicit Scanner(const ArraySpec& spec) : type_(spec.dtype) {
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
      const size_t m = std::min(kRow, count - at);
      load_row<W>(type_, data + at * element_size(type_), 1, m, row_.data());
      add_row(data + at * element_size(type_), m);
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
    if (!low_.has_second) {
      return r;  // one value alone
    }
    const auto frequent = [&](uint64_t count) { return count > counted_ / 50 && count > 1; };
    // Far outside: further from its neighbour than all the rest spans.
    if (frequent(low_.count) && gap(low_.first, low_.second) > gap(low_.second, high_.first)) {
      r.hidden.push_back(bits_of(low_.first));
      r.rest_min = static_cast<double>(low_.second);
    }
    if (frequent(high_.count) && high_.first != low_.second && high_.has_second && high_.second != low_.first &&
        gap(high_.second, high_.first) > gap(r.hidden.empty() ? low_.first : low_.second, high_.second)) {
      r.hidden.push_back(bits_of(high_.first));
      r.rest_max = static_cast<double>(high_.second);
    }
    return r;
  }

 private:
  uint64_t mask() const { return ~uint64_t{0} >> (64 - 8 * element_size(type_)); }
  static double gap(W from, W to) { return static_cast<double>(to) / 2 - static_cast<double>(from) / 2; }
  uint64_t bits_of(W value) const {
    uint64_t bits = 0;
    store_row<W>(type_, &value, 1, reinterpret_cast<std::byte*>(&bits), 1);
    return bits;
  }
  bool counts(W value) const {
    return std::none_of(fills_.begin(), fills_.end(), [&](W fill) { return same_bits(fill, value); });
  }

  void add_row(const std::byte* data, size_t m) {
    // Rows that are all finite and inside of what is known need no look at single elements.
    W low = row_[0];
    W high = row_[0];
    bool finite = true;
    for (size_t i = 0; i < m; ++i) {
      low = row_[i] < low ? row_[i] : low;
      high = row_[i] > high ? row_[i] : high;
      if constexpr (kIsReal<W>) {
        finite &= std::fabs(row_[i]) <= std::numeric_limits<W>::max();
      }
    }
    if (finite && fills_.empty() && counted_ > 0 && !low_.matters(low) && !high_.matters(high)) {
      counted_ += m;
      return;
    }
    for (size_t i = 0; i < m; ++i) {
      const W value = row_[i];
      if constexpr (kIsReal<W>) {
        if (!(std::fabs(value) <= std::numeric_limits<W>::max())) {
          if (!result_.not_finite.has_value()) {
            uint64_t bits = 0;
            std::memcpy(&bits, data + i * element_size(type_), element_size(type_));
            result_.not_finite = bits;
          }
          continue;
        }
      }
      if (counts(value)) {
        ++counted_;
        low_.add(value);
        high_.add(value);
      }
    }
  }

  DType type_;
  std::vector<W> fills_;
  std::vector<W> row_;
  uint64_t counted_ = 0;
  Extreme<W, std::less<W>> low_;
  Extreme<W, std::greater<W>> high_;
  Scan result_;
};

}  // namespace

Status for_each_piece(const Extents& shape, uint64_t limit, const std::function<Status(const Box&)>& f) {
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
    return f({Extents(rank, 0), shape});
  }
  --split;
  const uint64_t step = std::max<uint64_t>(1, limit / inner);
  Box box{Extents(rank, 0), shape};
  std::fill(box.shape.begin(), box.shape.begin() + static_cast<ptrdiff_t>(split), 1);
  while (true) {
    box.shape[split] = std::min(step, shape[split] - box.origin[split]);
    VARVE_TRY(f(box));
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
      return {};
    }
  }
}

Result<Scan> scan_array(const ArraySpec& spec, const ReadBox& read) {
  return with_work_type(spec.dtype, [&](auto zero) -> Result<Scan> {
    Scanner<decltype(zero)> scanner(spec);
    Bytes data;
    VARVE_TRY(for_each_piece(spec.shape, kPieceElements, [&](const Box& box) -> Status {
      const uint64_t count = element_count(box.shape);
      data.resize(count * element_size(spec.dtype));
      VARVE_TRY(read(box, data.data()));
      scanner.add(data.data(), count);
      return {};
    }));
    return scanner.finish();
  });
}

}  // namespace varve::codec
