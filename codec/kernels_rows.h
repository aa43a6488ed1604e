// The kernels as plain loops. Included by each kernels_*.cpp, which is compiled for one instruction set: everything is
// local to that file, so that the linker cannot mix code of different sets. The expressions are those of arithmetic.h.
#pragma once

#include "codec/kernels.h"

namespace varve::codec {
namespace {

template <typename T>
struct Real;
template <>
struct Real<float> {
  using Bits = uint32_t;
  static constexpr float kMagic = 12582912.0F;
  static constexpr float kLimit = 2097152.0F;
  static constexpr float kMax = __FLT_MAX__;
  static constexpr float kThird = static_cast<float>(1.0 / 48.0);
  static constexpr Bits kSign = 0x80000000U;
};
template <>
struct Real<double> {
  using Bits = uint64_t;
  static constexpr double kMagic = 6755399441055744.0;
  static constexpr double kLimit = 1073741824.0;
  static constexpr double kMax = __DBL_MAX__;
  static constexpr double kThird = 1.0 / 48.0;
  static constexpr Bits kSign = 0x8000000000000000U;
};

template <typename T>
inline T magnitude(T v) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return __builtin_fabsf(v);
  } else {
    return __builtin_fabs(v);
  }
}
template <typename T>
inline T real_or_zero(T v) {
  return magnitude(v) <= Real<T>::kMax ? v : T(0);
}

template <typename T>
struct Weights {
  explicit Weights(const AxisTerm<T>& t)
      : a(static_cast<T>(t.wa)), b(static_cast<T>(t.wb)), c(static_cast<T>(t.wc)), d(static_cast<T>(t.wd)) {}
  T a, b, c, d;
};

template <typename T>
inline T one_axis(const Weights<T>& w, const AxisTerm<T>& t, size_t i) {
  return (w.b * t.b[i] + w.c * t.c[i]) + (w.a * t.a[i] + w.d * t.d[i]);
}

template <typename T>
void axis_row(const AxisTerm<T>& term, size_t count, T* __restrict out) {
  const AxisTerm<T> t = term;
  const Weights<T> w(t);
  for (size_t i = 0; i < count; ++i) {
    out[i] = one_axis(w, t, i);
  }
}

template <typename T>
void mean_row(const AxisTerm<T>* term, unsigned terms, const T* __restrict line, size_t count, T* __restrict out) {
  if (terms == 0) {
    for (size_t i = 0; i < count; ++i) {
      out[i] = real_or_zero(line[i] * T(0.0625));
    }
    return;
  }
  const AxisTerm<T> t = term[0];
  const Weights<T> w(t);
  if (terms == 1 && line == nullptr) {
    for (size_t i = 0; i < count; ++i) {
      out[i] = real_or_zero(one_axis(w, t, i) * T(0.0625));
    }
  } else if (terms == 1) {
    for (size_t i = 0; i < count; ++i) {
      out[i] = real_or_zero((one_axis(w, t, i) + line[i]) * T(0.03125));
    }
  } else {
    const AxisTerm<T> u = term[1];
    const Weights<T> v(u);
    if (line == nullptr) {
      for (size_t i = 0; i < count; ++i) {
        out[i] = real_or_zero((one_axis(w, t, i) + one_axis(v, u, i)) * T(0.03125));
      }
    } else {
      for (size_t i = 0; i < count; ++i) {
        out[i] = real_or_zero(((one_axis(w, t, i) + one_axis(v, u, i)) + line[i]) * Real<T>::kThird);
      }
    }
  }
}

template <typename T>
bool quantize_plain(const QuantizeJob<T>& job) {
  using R = Real<T>;
  using Bits = typename R::Bits;
  const T* __restrict x = job.x;
  const T* __restrict prediction = job.prediction;
  uint8_t* __restrict tokens = job.tokens;
  uint16_t* __restrict activity = job.activity;
  T* __restrict value = job.value;
  const T quantum = job.quantum;
  const T reciprocal = job.reciprocal;
  const T bound = job.bound;
  const uint32_t limit = job.limit;
  uint32_t bad = 0;
  for (size_t i = 0; i < job.count; ++i) {
    const T scaled = (x[i] - prediction[i]) * reciprocal;
    const bool in_range = magnitude(scaled) < R::kLimit;
    const T rounded = ((in_range ? scaled : T(0)) + R::kMagic) - R::kMagic;
    const auto k = static_cast<int32_t>(rounded);
    const T r = prediction[i] + quantum * static_cast<T>(k);
    const uint32_t code = (static_cast<uint32_t>(k) << 1) ^ static_cast<uint32_t>(k >> 31);
    value[i] = r;
    tokens[i] = static_cast<uint8_t>(code + 2);
    activity[i] = static_cast<uint16_t>((code + 1) >> 1);
    bad |= in_range ? 0U : 1U;
    bad |= magnitude(x[i] - r) < bound ? 0U : 1U;
    bad |= __builtin_bit_cast(Bits, x[i]) == R::kSign ? 1U : 0U;
    bad |= code < limit ? 0U : 1U;
  }
  return bad == 0;
}

template <typename T>
bool dequantize_plain(const T* __restrict prediction, const uint8_t* __restrict tokens, size_t count, T quantum,
                      T* __restrict value, uint16_t* __restrict activity) {
  uint8_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    bad |= static_cast<uint8_t>(tokens[i] - 2) > 63 ? 1 : 0;
  }
  for (size_t i = 0; i < count; ++i) {
    const uint32_t code = static_cast<uint32_t>(tokens[i]) - 2;
    const auto k = static_cast<int32_t>((code >> 1) ^ (0U - (code & 1U)));
    value[i] = prediction[i] + quantum * static_cast<T>(k);
    activity[i] = static_cast<uint16_t>((code + 1) >> 1);
  }
  return bad == 0;
}

template <typename T>
struct [[gnu::packed, gnu::may_alias]] Loose {
  T value;
};

template <typename T>
void take_every_second(const std::byte* from, size_t count, T* __restrict out) {
  const auto* p = reinterpret_cast<const Loose<T>*>(from);
  for (size_t i = 0; i < count; ++i) {
    out[i] = p[2 * i].value;
  }
}

template <typename T, typename To>
void zip(const T* __restrict even, const T* __restrict odd, size_t count, To* __restrict out) {
  for (size_t i = 0; i < count / 2; ++i) {
    out[2 * i].value = even[i];
    out[2 * i + 1].value = odd[i];
  }
  if (count % 2 != 0) {
    out[count - 1].value = even[count / 2];
  }
}

template <typename T>
void zip_to_bytes(const T* even, const T* odd, size_t count, std::byte* out) {
  zip(even, odd, count, reinterpret_cast<Loose<T>*>(out));
}

void zip16(const uint16_t* even, const uint16_t* odd, size_t count, uint16_t* out) {
  zip(even, odd, count, reinterpret_cast<Loose<uint16_t>*>(out));
}

void add_activity_row(const uint16_t* a, const uint16_t* b, const uint16_t* c, const uint16_t* d, size_t count,
                      uint16_t* __restrict sums) {
  for (size_t i = 0; i < count; ++i) {
    sums[i] = static_cast<uint16_t>(sums[i] + a[i] + 2 * (b[i] + c[i]) + d[i]);
  }
}

unsigned any_of_row(const uint16_t* sums, size_t count) {
  uint16_t all = 0;
  for (size_t i = 0; i < count; ++i) {
    all = static_cast<uint16_t>(all | sums[i]);
  }
  return all;
}

void contexts_row(const int16_t* thresholds, const uint16_t* __restrict sums, size_t count, uint8_t* __restrict out) {
  int16_t t[11];  // NOLINT(modernize-avoid-c-arrays)
  for (unsigned k = 0; k < 11; ++k) {
    t[k] = thresholds[k];
  }
  for (size_t i = 0; i < count; ++i) {
    const auto s = static_cast<int16_t>(sums[i]);
    uint16_t reached = 0;
#pragma GCC unroll 11
    for (unsigned k = 0; k < 11; ++k) {
      reached = static_cast<uint16_t>(reached + (s >= t[k] ? 1 : 0));
    }
    out[i] = static_cast<uint8_t>(reached);
  }
}

[[maybe_unused]] uint16_t* rans_encode_plain(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts,
                                             size_t count, unsigned lanes, uint32_t* state, uint16_t* words) {
  for (size_t i = count; i-- > 0;) {
    const uint32_t at = tables.base[contexts[i]] * 256 + tokens[i];
    const uint32_t entry = tables.encode[at];
    const uint32_t frequency = entry & 0xffffU;
    uint32_t x = state[i & (lanes - 1)];
    const bool over = x >= frequency << 20;
    words -= over ? 1 : 0;
    if (over) {
      *words = static_cast<uint16_t>(x);
      x >>= 16;
    }
    const auto quotient = static_cast<uint32_t>(x * tables.reciprocal[at] >> 44);
    state[i & (lanes - 1)] = (quotient << 12) + (x - quotient * frequency) + (entry >> 16);
  }
  return words;
}

[[maybe_unused]] void rans_decode_plain(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes,
                                        uint32_t* state, RansInput& input, uint8_t* tokens) {
  RansInput in = input;
  for (size_t i = 0; i < count; ++i) {
    uint32_t x = state[i & (lanes - 1)];
    const uint32_t entry = tables.decode[tables.base[contexts[i]] * 4096 + (x & 4095U)];
    tokens[i] = static_cast<uint8_t>(entry);
    x = (entry >> 8 & 4095U) * (x >> 12) + (entry >> 20);
    if (x < kRansLow) {
      uint16_t word = 0;
      if (in.end - in.next >= 2) {
        __builtin_memcpy(&word, in.next, sizeof word);
        in.next += 2;
      } else {
        in.overrun = true;
      }
      x = x << 16 | word;
    }
    state[i & (lanes - 1)] = x;
  }
  input = in;
}

template <typename T>
constexpr RowKernels<T> kRows = {axis_row<T>,         mean_row<T>,          quantize_plain<T>,
                                 dequantize_plain<T>, take_every_second<T>, zip_to_bytes<T>};

}  // namespace
}  // namespace varve::codec
