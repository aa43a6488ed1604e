#include "tests/codec/arrays.h"

#include "codec/mapping.h"

namespace varve::codec::testing {

namespace {

/// From -1 to 1, of some indices.
double scatter(uint64_t seed, const size_t* index, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    seed = (seed ^ index[k]) * 0x9e3779b97f4a7c15U;
    seed ^= seed >> 29;
  }
  return static_cast<double>(seed * 0xbf58476d1ce4e5b9U >> 12) * 0x1p-51 - 1;
}

template <typename T>
T value_at(Content content, size_t i, const Extents& index, std::mt19937_64& random) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const double u = std::uniform_real_distribution<double>(-1, 1)(random);
  double wave = 0;
  double ramp = 3;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    wave += std::sin(0.11 * static_cast<double>(index[axis] * (axis + 1)));
    ramp += static_cast<double>(index[axis]) * 0.37;
  }
  switch (content) {
    case Content::constant:
      return T(17.25);
    case Content::ramp:
      return static_cast<T>(ramp);
    case Content::waves:
      return static_cast<T>(wave);
    case Content::noise:
      return static_cast<T>(u);
    case Content::denormal:
      return static_cast<T>(u) * std::numeric_limits<T>::min();
    case Content::huge_range:
      return static_cast<T>((u < 0 ? -1 : 1) * std::pow(10.0, 60 * std::fabs(u) - 30));
    case Content::specials:
      switch (random() % 9) {
        case 0:
          return std::bit_cast<T>(
              static_cast<Bits>(std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN()) | random() % 1000));
        case 1:
          return std::numeric_limits<T>::infinity();
        case 2:
          return -std::numeric_limits<T>::infinity();
        case 3:
          return T(-0.0);
        default:
          return static_cast<T>(wave);
      }
    case Content::fills:
      return i % 5 == 0 ? T(1e20) : static_cast<T>(wave);
    case Content::mask:
      return std::sin(0.07 * static_cast<double>(index.back())) > 0.3 ? T(-1e10) : static_cast<T>(wave);
    case Content::zeros:
      return random() % 2 == 0 ? T(-0.0) : T(0.0);
    case Content::steps:
      return static_cast<T>(std::floor(wave * 4));
    case Content::decimals:  // hundredths, some missing
      return random() % 50 == 0 ? std::numeric_limits<T>::quiet_NaN()
                                : static_cast<T>(std::floor(static_cast<double>(wave) * 4000) / 100.0);
    case Content::layers: {  // what is rough is the same in every layer, what is smooth is not
      const double smooth = wave - std::sin(0.11 * static_cast<double>(index[0]));
      return static_cast<T>((3 + scatter(1, index.data(), 1)) * smooth +
                            0.1 * scatter(2, index.data() + 1, index.size() - 1));
    }
    case Content::patches: {  // boxes of one value each, some elements missing
      Extents box = index;
      for (size_t axis = 0; axis < box.size(); ++axis) {
        box[axis] /= 5 + 2 * axis;
      }
      const uint64_t drawn = random() % 400;
      return drawn == 0   ? std::numeric_limits<T>::quiet_NaN()
             : drawn == 1 ? T(-0.0)
             : drawn == 2 ? std::numeric_limits<T>::infinity()
                          : static_cast<T>(8 * scatter(3, box.data(), box.size()));
    }
  }
  return T(0);
}

uint64_t fill_of(DType type) {
  switch (type) {
    case DType::f16:
      return float_to_half(6e4F);
    case DType::bf16:
      return float_to_brain(1e20F);
    case DType::f32:
      return std::bit_cast<uint32_t>(1e20F);
    case DType::f64:
      return std::bit_cast<uint64_t>(1e20);
    default:
      return 77;
  }
}

/// Halves have the values of floats, and among special ones any pattern of a NaN.
uint64_t half_at(DType type, Content content, size_t i, const Extents& index, std::mt19937_64& random) {
  const auto value = value_at<float>(content, i, index, random);
  if (std::isnan(value)) {
    return (type == DType::f16 ? 0x7c01U : 0x7f81U) | (random() & 0x807fU);
  }
  if (content == Content::fills && i % 5 == 0) {
    return fill_of(type);
  }
  if (type == DType::bf16) {
    return float_to_brain(value);
  }
  // What halves cannot hold is brought into their range: the exponents of subnormal and of very large numbers.
  return float_to_half(content == Content::denormal     ? value * 0x1p112F
                       : content == Content::huge_range ? std::copysign(std::sqrt(std::sqrt(std::fabs(value))), value)
                                                        : value);
}

uint64_t bits_at(DType type, Content content, size_t i, const Extents& index, std::mt19937_64& random) {
  if (type == DType::f32) {
    return std::bit_cast<uint32_t>(value_at<float>(content, i, index, random));
  }
  if (type == DType::f64) {
    return std::bit_cast<uint64_t>(value_at<double>(content, i, index, random));
  }
  if (is_float(type)) {
    return half_at(type, content, i, index, random);
  }
  const auto value = value_at<double>(content, i, index, random);
  if (content == Content::noise || content == Content::specials) {
    return random();
  }
  return static_cast<uint64_t>(static_cast<int64_t>(
      std::isfinite(value) && std::fabs(value) < 1e15 ? value * 20 + (type == DType::u64 ? 100 : 0) : 77));
}

}  // namespace

Array make_array(DType type, const Extents& shape, Content content, const Bound& bound, uint64_t seed) {
  Array array;
  array.spec.dtype = type;
  array.spec.shape = shape;
  array.spec.bound = bound;
  const size_t size = element_size(type);
  array.data.resize(element_count(shape) * size);
  std::mt19937_64 random(seed);
  Extents index(std::max<size_t>(1, shape.size()), 0);
  for (size_t i = 0; i < array.count(); ++i) {
    std::byte* out = array.data.data() + i * size;
    const uint64_t bits = bits_at(type, content, i, index, random);
    std::memcpy(out, &bits, size);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) {
        break;
      }
      index[axis] = 0;
    }
  }
  if (content == Content::fills) {
    array.spec.fill_values = {fill_of(type)};
  }
  return array;
}

}  // namespace varve::codec::testing
