// The least and greatest values of an array, and which of them stand for missing ones although no one declared them.
#pragma once

#include <cstdint>
#include <functional>

namespace varve::codec {

/// The least value (under `Less`), how often it occurs, and the next.
template <typename W, typename Less>
struct Extreme {
  W first{};
  W second{};
  uint64_t count = 0;
  bool has_second = false;

  void add(W value) { merge(value, 1, value); }
  void merge(const Extreme& other) { merge(other.first, other.count, other.has_second ? other.second : other.first); }
  /// What another run of elements has, whose second value is `other` if that is not its first.
  void merge(W value, uint64_t times, W next) {
    const Less less;
    if (count == 0 || less(value, first)) {
      const W old = first;
      const bool had = count > 0;
      first = value;
      count = times;
      offer(next);
      if (had) {
        offer(old);
      }
    } else if (value == first) {
      count += times;
      offer(next);
    } else {
      offer(value);
    }
  }

 private:
  void offer(W value) {
    const Less less;
    if (value != first && (!has_second || !less(first, second) || less(value, second))) {
      second = value;
      has_second = true;
    }
  }
};

template <typename W>
using Lowest = Extreme<W, std::less<W>>;
template <typename W>
using Highest = Extreme<W, std::greater<W>>;

struct HiddenExtremes {
  bool low = false;
  bool high = false;
};

/// Whether the lowest and the highest of `counted` values stand for missing ones: repeated in more than 2% of them, and
/// further from their neighbour than all the others span and than `least_gap`.
inline HiddenExtremes hidden_extremes(const Lowest<double>& low, const Highest<double>& high, uint64_t counted,
                                      double least_gap) {
  HiddenExtremes hidden;
  if (!low.has_second || !high.has_second || low.second == high.first) {
    return hidden;  // one value alone, or two
  }
  const auto gap = [](double from, double to) { return to / 2 - from / 2; };  // of any two values it is finite
  const auto far = [&](double away, double span) { return away > span && away > least_gap / 2; };
  const bool low_repeats = low.count > 1 && low.count > counted / 50;
  const bool high_repeats = high.count > 1 && high.count > counted / 50;
  const double low_gap = gap(low.first, low.second);
  const double high_gap = gap(high.second, high.first);
  hidden.low = low_repeats && far(low_gap, gap(low.second, high.first));
  hidden.high = high_repeats && far(high_gap, gap(hidden.low ? low.second : low.first, high.second));
  // One of two may be as nothing beside the other.
  hidden.low = hidden.low || (hidden.high && low_repeats && far(low_gap, gap(low.second, high.second)));
  return hidden;
}

}  // namespace varve::codec
