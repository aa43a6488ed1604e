#include "codec/bound.h"

namespace varve::codec {

namespace {

constexpr std::string_view kTooFine = "the bound is finer than the element type's resolution";
constexpr std::string_view kTooWide = "the values are beyond 2^53 or not finite, where no bound can be checked";
constexpr std::string_view kNoMantissa = "integers have no bits of a mantissa";
constexpr std::string_view kNoRange = "the array has no range that the bound could be a part of";

constexpr double kPsnrSlack = 0.995;

/// Rounding a reconstruction moves it by about a unit in the last place: the quantum leaves room for that (`need`: as a
/// part of the bound), so that few points need to be kept exactly. Few steps, so that decoded data, whose largest
/// value moved a little, gets the quantum that it was made with.
double shrink(double need) {
  for (const double part : {0.0009765625, 0.015625, 0.0625}) {
    if (need <= part) {
      return part;
    }
  }
  return 0.25;
}

/// The unit in the last place of a number with `mantissa` bits.
double unit_of(double value, unsigned mantissa) {
  return value > 0 ? std::ldexp(1.0, std::ilogb(value) - static_cast<int>(mantissa)) : 0;
}

/// The work domain as far as quantization cares.
struct WorkDomain {
  bool wide = false;  ///< double, else float
  double most = 0;    ///< greatest magnitude of a work value
  /// The spacing of what elements can be stored as: powers of 2. None (0) for f32 and f64 by value.
  double finest = 0;
  double coarsest = 0;

  double unit() const { return unit_of(most, wide ? 52 : 23); }
};

/// How far from x a work value may be so that the grid point nearest to it is within `bound` of x, itself a grid point:
/// where points are u apart, floor(bound / u) of them, and half the way to the next. The least over all u.
double reach(double bound, const WorkDomain& domain) {
  if (domain.finest == 0) {
    return bound;
  }
  double least = std::numeric_limits<double>::infinity();
  for (double u = domain.finest; u <= domain.coarsest; u *= 2) {
    least = std::min(least, u * std::floor(bound / u) + u / 2);
  }
  return std::min(least, std::numeric_limits<double>::max());
}

/// Sets work_bound and quantum; lossless when no quantum can be had.
void set_quantum(const WorkDomain& domain, double bound, ResolvedBound& out) {
  const double least =
      domain.wide ? double{std::numeric_limits<double>::min()} : double{std::numeric_limits<float>::min()};
  const double largest = domain.wide ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
  const double most = domain.most;
  const double within = reach(bound, domain);
  // A bound beyond eight times every magnitude makes every code 0 on every level: no need for larger numbers.
  const double useful = std::min({within, most < largest / 128 ? 8 * most : largest / 16, largest / 16});
  const double quantum = 2 * useful * (1 - shrink(1.5 * domain.unit() / useful));
  if (most > 0 && quantum >= domain.unit() && quantum / 2 > least && 2 / quantum < largest) {
    out.work_bound = within;
    out.quantum = quantum;
  } else {
    out.why = kTooFine;
  }
}

/// `factor` * (max - min), also where the difference is beyond what doubles can hold.
double part_of_range(const ValueRange& range, double factor) {
  const double spread = range.max - range.min;
  const double part = std::isfinite(spread) ? factor * spread : factor * range.max - factor * range.min;
  return std::min(part, std::numeric_limits<double>::max());
}

WorkDomain value_domain(DType type, double most) {
  WorkDomain domain;
  domain.most = most;
  domain.wide =
      with_element(type, [](auto element) { return std::is_same_v<typename decltype(element)::Work, double>; });
  if (!is_float(type)) {
    domain.finest = domain.coarsest = 1;
  } else if (type == DType::f16 || type == DType::bf16) {
    domain.finest = type == DType::f16 ? 0x1p-24 : 0x1p-133;
    domain.coarsest = std::max(domain.finest, unit_of(most, mantissa_bits(type)));
  }
  return domain;
}

/// The absolute bound whose errors come to `decibels`. See the header.
double psnr_bound(const ValueRange& range, double decibels, const WorkDomain& domain) {
  // As a float: the last bits of pow are not the same everywhere, and the same input gives the same bytes.
  const auto part = static_cast<float>(std::pow(10.0, -decibels / 20) * std::sqrt(3.0) * kPsnrSlack);
  const double bound = part_of_range(range, part);
  if (domain.finest == 0) {
    return bound;
  }
  if (domain.finest ==
      domain.coarsest) {  // errors of -n to n grid steps, equally often: a mean square of n (n + 1) / 3
    const double steps = bound / domain.finest;
    return steps < 0x1p26 ? domain.finest * std::floor((std::sqrt(1 + 4 * steps * steps) - 1) / 2) : bound;
  }
  // Rounding to points u apart adds up to u^2 / 6 to B^2 / 3 (just where B is a multiple of u).
  return std::sqrt(std::max(0.0, bound * bound - domain.coarsest * domain.coarsest / 2));
}

/// Modes whose bound is one number for all elements.
double absolute_bound(const Bound& bound, const ValueRange& range, const WorkDomain& domain) {
  switch (bound.mode) {
    case BoundMode::absolute:
      return bound.value;
    case BoundMode::relative:
      return part_of_range(range, bound.value);
    case BoundMode::absolute_and_relative:
      return std::min(bound.value, part_of_range(range, bound.second));
    case BoundMode::psnr:
      return psnr_bound(range, bound.value, domain);
    default:
      return 0;
  }
}

ResolvedBound by_value(DType type, const Bound& bound, const ValueRange& range, double most) {
  ResolvedBound out;
  const WorkDomain domain = value_domain(type, most);
  const double limit = absolute_bound(bound, range, domain);
  if (!(limit > 0)) {
    out.why = range.min == range.max && bound.mode != BoundMode::absolute ? kNoRange : kTooFine;
    return out;
  }
  if (limit < domain.finest) {
    out.why = kTooFine;
    return out;
  }
  out.mapping = {MappingKind::values, 0, limit};
  out.absolute_bound = limit;
  out.exceeds_range = limit > range.max - range.min;
  set_quantum(domain, limit, out);
  return out;
}

/// The order of a magnitude in its own type, rounded up or down somehow: for sizes alone.
double order_of(DType type, double magnitude) {
  return with_element(type, [&](auto element) {
    using E = decltype(element);
    if constexpr (E::kIsInteger) {
      return static_cast<double>(std::bit_cast<uint64_t>(magnitude));
    } else {
      return static_cast<double>(E::magnitude(E::nearest(static_cast<typename E::Work>(magnitude))));
    }
  });
}

ResolvedBound by_order(DType type, double bound, double most) {
  ResolvedBound out;
  const bool wide_orders = type == DType::f64 || !is_float(type);  // load rounds to multiples of up to 2^10
  const unsigned mantissa = is_float(type) ? mantissa_bits(type) : 52;
  WorkDomain domain;
  domain.wide = element_size(type) > 2 || !is_float(type);
  domain.most = order_of(type, most);
  domain.finest = domain.coarsest = is_float(type) ? 1 : 0;
  const double limit = std::min(bound, 1.0);
  const double steps = std::floor(std::ldexp(limit, static_cast<int>(mantissa)));
  if (steps < (wide_orders ? 0x1p16 : 1) || (!is_float(type) && limit * most < 1)) {
    out.why = kTooFine;
    return out;
  }
  out.mapping = {MappingKind::orders, 0, limit};
  out.absolute_bound = limit * most;
  out.zero_is_special = true;
  set_quantum(domain, steps, out);
  return out;
}

ResolvedBound by_rounding(DType type, unsigned bits, double most) {
  ResolvedBound out;
  if (bits >= mantissa_bits(type) || bits > kMostRoundedBits) {
    out.why = kTooFine;
    return out;
  }
  out.mapping = {MappingKind::rounded, static_cast<uint8_t>(bits), 0};
  const int least = type == DType::f16 ? -14 : type == DType::f64 ? -1022 : -126;  // subnormals have its steps
  out.absolute_bound = std::ldexp(1.0, std::max(std::ilogb(most), least) - static_cast<int>(bits) - 1);
  out.zero_is_special = true;
  WorkDomain domain;
  domain.wide = element_size(type) > 2;
  domain.most = std::ldexp(order_of(type, most), static_cast<int>(bits) - static_cast<int>(mantissa_bits(type)));
  domain.finest = domain.coarsest = 1;
  set_quantum(domain, 0, out);  // reaches half a step: the elements' work values are on the grid
  return out;
}

}  // namespace

ValueRange value_range(DType type, const Scan& scan) {
  ValueRange range{scan.counted, scan.rest_min, scan.rest_max};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (scan.counted > 0 && (type == DType::f16 || type == DType::bf16)) {
    const auto value = [&](double order) {
      const uint16_t bits = order_to_half(static_cast<int32_t>(order));
      return double{type == DType::f16 ? half_to_float(bits) : brain_to_float(bits)};
    };
    range.min = value(scan.rest_min);
    range.max = value(scan.rest_max);
    if (!std::isfinite(range.min) || !std::isfinite(range.max)) {
      range.min = -kInfinity;
      range.max = kInfinity;
    }
  }
  if (type == DType::u64 && scan.rest_min < 0) {
    range.max = kInfinity;
  }
  return range;
}

ResolvedBound resolve_bound(DType type, const Bound& bound, const ValueRange& range) {
  if (bound.mode == BoundMode::lossless || bound.mode == BoundMode::ratio || range.counted == 0) {
    return {};
  }
  ResolvedBound out;
  const double most = std::max(std::fabs(range.min), std::fabs(range.max));
  if (!std::isfinite(most) || (!is_float(type) && most >= 0x1p53)) {
    out.why = kTooWide;
    return out;
  }
  if (most == 0) {
    return out;  // nothing but zeros
  }
  if (bound.mode == BoundMode::bits) {
    if (!is_float(type)) {
      out.why = kNoMantissa;
      return out;
    }
    out = by_rounding(type, static_cast<unsigned>(bound.value), most);
  } else {
    out = bound.mode == BoundMode::pointwise ? by_order(type, bound.value, most) : by_value(type, bound, range, most);
  }
  if (out.lossless()) {
    ResolvedBound exact;
    exact.why = out.why;
    return exact;
  }
  return out;
}

BoundLimits ratio_limits(DType type, const ValueRange& range) {
  const double most = std::max(std::fabs(range.min), std::fabs(range.max));
  const double high = part_of_range(range, 1.0);
  if (range.counted == 0 || !std::isfinite(most) || !(high > 0)) {
    return {};
  }
  const double low = is_float(type) ? unit_of(most, mantissa_bits(type)) / 2 : 1;
  return {std::min(std::max(low, std::numeric_limits<double>::denorm_min()), high), high};
}

RatioBound find_ratio_bound(double ratio, const BoundLimits& limits, const std::function<double(double)>& ratio_of) {
  if (const double exact = ratio_of(0); exact >= ratio || limits.high <= 0) {
    return {0, exact, exact >= ratio};
  }
  double low = limits.low;
  if (const double least = ratio_of(low); least >= ratio) {
    return {low, least, true};
  }
  RatioBound best{limits.high, ratio_of(limits.high), false};
  best.reached = best.ratio >= ratio;
  while (best.reached && best.bound > low * 1.01) {
    const double middle = std::sqrt(low) * std::sqrt(best.bound);
    if (!(middle > low && middle < best.bound)) {
      break;  // subnormal: there is nothing between
    }
    const double here = ratio_of(middle);
    if (here >= ratio) {
      best = {middle, here, true};
    } else {
      low = middle;
    }
  }
  return best;
}

}  // namespace varve::codec
