#include "codec/lorenzo.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/float_integers.h"

namespace varve::codec {

namespace {

/// Integers up to here: differences of three axes are eight times as large.
template <typename Float>
constexpr double kMost = sizeof(Float) == 4 ? 0x1p24 : 0x1p50;

template <typename Float>
Float multiple(double whole, double step) {
  return static_cast<Float>(whole * step);
}

/// The multiples that elements are nearest to.
template <typename Float>
class Steps {
 public:
  using Integer = IntegerOf<Float>;
  using Bits = BitsOf<Float>;
  explicit Steps(const Settings& settings)
      : step_(settings.lorenzo->step),
        reciprocal_(1 / step_),
        bound_(settings.absolute_bound),
        escapes_(settings.lorenzo->escapes) {
    for (const uint64_t bits : escapes_) {
      if (std::isfinite(std::bit_cast<Float>(static_cast<Bits>(bits)))) {
        numbers_.push_back(static_cast<Bits>(bits));
      }
    }
  }

  /// At most kConvertedTogether elements, unaligned. False: for some, 0 and not fits[i].
  bool convert(const std::byte* from, size_t count, Integer* out, uint8_t* fits) const {
    unsigned all = 1;
    for (size_t i = 0; i < count; ++i) {
      Float x;
      std::memcpy(&x, from + i * sizeof x, sizeof x);
      const double whole = (double{x} * reciprocal_ + kRounding) - kRounding;
      const double kept = std::fabs(whole) <= kMost<Float> ? whole + 0.0 : 0.0;
      const Float value = multiple<Float>(kept, step_);
      const bool negative_zero = std::bit_cast<Bits>(x) == std::bit_cast<Bits>(Float(-0.0));
      const bool good = (std::fabs(double{value} - double{x}) <= bound_) & !negative_zero;
      out[i] = static_cast<Integer>(kept);
      fits[i] = good ? 1 : 0;
      all &= fits[i];
    }
    for (const Bits number : numbers_) {
      for (size_t i = 0; i < count; ++i) {
        Bits x;
        std::memcpy(&x, from + i * sizeof x, sizeof x);
        const Float value = multiple<Float>(static_cast<double>(out[i]), step_);
        fits[i] &= (x == number) | (std::bit_cast<Bits>(value) == number) ? 0 : 1;
        all &= fits[i];
      }
    }
    return all != 0;
  }
  /// Whether the multiple is the element, to the bit.
  bool is_exactly(const std::byte* from, Integer whole) const {
    const Float value = multiple<Float>(static_cast<double>(whole), step_);
    return std::memcmp(from, &value, sizeof value) == 0;
  }
  std::optional<size_t> escape_of(const std::byte* from) const {
    return codec::escape_of(escapes_, bits_at<Float>(from, 0));
  }
  /// What is no number, or one that no multiple is. None of those is what a multiple decodes to.
  static bool may_escape(const std::byte* from) {
    Float x;
    std::memcpy(&x, from, sizeof x);
    return !std::isfinite(x) || (x == 0 && std::signbit(x));
  }
  void write(Integer whole, std::byte* to) const {
    const Float value = multiple<Float>(static_cast<double>(whole), step_);
    std::memcpy(to, &value, sizeof value);
  }

 private:
  double step_;
  double reciprocal_;
  double bound_;
  const std::vector<uint64_t>& escapes_;
  std::vector<Bits> numbers_;  ///< of the escapes
};

/// The elements of a brick, C order: strides of the axes that are predicted along, slowest first.
struct Walk {
  struct Axis {
    size_t extent;
    size_t stride;
  };
  Walk(const Geometry& geometry, const Extents& shape) : count(element_count(shape)) {
    size_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (geometry.grid_axis(axis).has_value()) {
        axes.insert(axes.begin(), {shape[axis], stride});
      }
      stride *= shape[axis];
    }
  }
  size_t count;
  std::vector<Axis> axes;
};

/// Lorenzo's prediction of element `at` from those before it.
template <typename U>
U predict(const U* integers, size_t at, const Walk& walk) {
  // Of each set of axes along which there is an element before it: how far back the sum of all is, and its sign.
  std::array<size_t, 8> back{};
  size_t sets = 1;
  for (const Walk::Axis& axis : walk.axes) {
    if (at / axis.stride % axis.extent > 0) {
      for (size_t set = 0; set < sets; ++set) {
        back[sets + set] = back[set] + axis.stride;
      }
      sets *= 2;
    }
  }
  U sum = 0;
  for (unsigned set = 1; set < sets; ++set) {
    sum = std::popcount(set) % 2 != 0 ? sum + integers[at - back[set]] : sum - integers[at - back[set]];
  }
  return sum;
}

template <typename U>
void subtract(U* integers, const Walk& walk) {
  for (const Walk::Axis& axis : walk.axes) {
    const size_t block = axis.extent * axis.stride;
    for (size_t first = 0; first < walk.count; first += block) {
      for (size_t i = first + block; i-- > first + axis.stride;) {
        integers[i] -= integers[i - axis.stride];
      }
    }
  }
}

template <typename U>
void add(U* integers, const Walk& walk) {
  for (const Walk::Axis& axis : walk.axes) {
    const size_t block = axis.extent * axis.stride;
    for (size_t first = 0; first < walk.count; first += block) {
      for (size_t i = first + axis.stride; i < first + block; ++i) {
        integers[i] += integers[i - axis.stride];
      }
    }
  }
}

/// One brick in memory of its own.
template <typename Float>
class Brick {
 public:
  using Integer = IntegerOf<Float>;
  using U = BitsOf<Float>;

  /// `grown`: null, or where escapes are added (those of `settings`).
  bool take(const Settings& settings, const Box& frame, const Box& box, const std::byte* floats, std::byte* out,
            std::vector<uint64_t>* grown) {
    const Steps<Float> steps(settings);
    const Walk walk(settings.geometry, box.shape);
    integers_.resize(walk.count);
    escaped_.clear();
    size_t at = 0;
    bool good = true;
    for_each_run(box, frame.origin, frame.shape, [&](uint64_t first, uint64_t count) {
      good = good && read(steps, floats + first * sizeof(Float), count, at, grown);
      at += count;
    });
    if (!good) {
      return false;
    }
    auto* const whole = reinterpret_cast<U*>(integers_.data());
    for (const auto& [place, escape] : escaped_) {  // ascending: what is predicted from was set before
      whole[place] = predict(whole, place, walk);
    }
    subtract(whole, walk);
    const Integer least = escape_integer<Float>(kMostEscapes);
    if (std::any_of(integers_.begin(), integers_.end(), [&](Integer one) { return one < least; })) {
      return false;
    }
    for (const auto& [place, escape] : escaped_) {
      integers_[place] = escape_integer<Float>(escape);
    }
    const Integer* from = integers_.data();
    for_each_run(box, frame.origin, frame.shape, [&](uint64_t first, uint64_t count) {
      std::memcpy(out + first * sizeof(Float), from, count * sizeof(Float));
      from += count;
    });
    return true;
  }

  void give(const Settings& settings, const Box& box, std::byte* elements) {
    const Steps<Float> steps(settings);
    const Walk walk(settings.geometry, box.shape);
    integers_.resize(walk.count);
    std::memcpy(integers_.data(), elements, walk.count * sizeof(Float));
    escaped_.clear();
    const auto& escapes = settings.lorenzo->escapes;
    const Integer least = escape_integer<Float>(escapes.size());
    for (size_t i = 0; i < walk.count && !escapes.empty(); ++i) {
      if (integers_[i] < least) {
        escaped_.emplace_back(i, escape_number(integers_[i]));
        integers_[i] = 0;
      }
    }
    add(reinterpret_cast<U*>(integers_.data()), walk);
    for (size_t i = 0; i < walk.count; ++i) {
      steps.write(integers_[i], elements + i * sizeof(Float));
    }
    for (const auto& [place, escape] : escaped_) {
      std::memcpy(elements + place * sizeof(Float), &escapes[escape], sizeof(Float));
    }
  }

 private:
  bool read(const Steps<Float>& steps, const std::byte* from, size_t count, size_t to, std::vector<uint64_t>* grown) {
    std::array<uint8_t, kConvertedTogether> fits;
    for (size_t done = 0; done < count; done += kConvertedTogether) {
      const size_t n = std::min(kConvertedTogether, count - done);
      const std::byte* const part = from + done * sizeof(Float);
      if (steps.convert(part, n, integers_.data() + to + done, fits.data())) {
        continue;
      }
      for (size_t i = 0; i < n; ++i) {
        if (fits[i] == 0) {
          const std::byte* const one = part + i * sizeof(Float);
          auto escape = steps.escape_of(one);
          if (!escape.has_value() && grown != nullptr && grown->size() < kMostEscapes && steps.may_escape(one)) {
            escape = grown->size();
            grown->push_back(bits_at<Float>(one, 0));
          }
          if (!escape.has_value()) {
            return false;
          }
          escaped_.emplace_back(to + done + i, *escape);
        }
      }
    }
    return true;
  }

  std::vector<Integer> integers_;
  std::vector<std::pair<size_t, size_t>> escaped_;  ///< places in the brick, and which escape is there
};

template <typename Float>
bool all_multiples(const Settings& settings, std::span<const std::byte> floats) {
  const Steps<Float> steps(settings);
  std::array<IntegerOf<Float>, kConvertedTogether> whole;
  std::array<uint8_t, kConvertedTogether> good;
  const size_t count = floats.size() / sizeof(Float);
  for (size_t first = 0; first < count; first += kConvertedTogether) {
    const size_t n = std::min(kConvertedTogether, count - first);
    const std::byte* const part = floats.data() + first * sizeof(Float);
    steps.convert(part, n, whole.data(), good.data());
    for (size_t i = 0; i < n; ++i) {
      const std::byte* const at = part + i * sizeof(Float);
      if (good[i] != 0 ? !steps.is_exactly(at, whole[i]) : !steps.escape_of(at).has_value() && !steps.may_escape(at)) {
        return false;
      }
    }
  }
  return true;
}

/// Calls f with a float of the element type.
template <typename F>
auto with_float(const Settings& settings, F&& f) {
  return settings.element_type() == DType::f32 ? f(float{}) : f(double{});
}

bool take_bricks(const Settings& settings, const Box& frame, std::span<const uint64_t> bricks, const std::byte* floats,
                 std::byte* out, std::vector<uint64_t>* grown) {
  return with_float(settings, [&](auto zero) {
    Brick<decltype(zero)> brick;
    return std::all_of(bricks.begin(), bricks.end(), [&](uint64_t number) {
      return brick.take(settings, frame, settings.geometry.brick_box(number), floats, out, grown);
    });
  });
}

}  // namespace

bool to_differences(const Settings& settings, const Box& frame, std::span<const uint64_t> bricks,
                    const std::byte* floats, std::byte* out) {
  return take_bricks(settings, frame, bricks, floats, out, nullptr);
}

bool plan_differences(Settings& settings, const std::byte* floats, std::byte* out) {
  const Box all{Extents(settings.geometry.shape.size(), 0), settings.geometry.shape};
  return take_bricks(settings, all, settings.geometry.bricks_in(all), floats, out, &settings.lorenzo->escapes);
}

void from_differences(const Settings& settings, uint64_t brick, std::byte* elements) {
  with_float(settings, [&](auto zero) {
    thread_local Brick<decltype(zero)> held;
    held.give(settings, settings.geometry.brick_box(brick), elements);
  });
}

bool are_multiples(const Settings& settings, std::span<const std::byte> floats) {
  return with_float(settings, [&](auto zero) { return all_multiples<decltype(zero)>(settings, floats); });
}

}  // namespace varve::codec
