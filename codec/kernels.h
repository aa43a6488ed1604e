// The loops that take the codec's time, as tables of functions: a portable set, and sets built for wider vectors,
// chosen at run time. All sets give the same bits (tests/codec/kernels_test.cpp): no set contracts a * b + c or
// reorders sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace varve::codec {

/// The four points along one axis that predict row element i: a[i], b[i], c[i], d[i]; their weights in sixteenths.
/// A pointer whose weight is 0 may repeat another.
template <typename T>
struct AxisTerm {
  const T* a;
  const T* b;
  const T* c;
  const T* d;
  int wa, wb, wc, wd;
};

/// A row to quantize. Codes are zig-zagged; `limit`: the first that is too large for a plain token (at most 64).
template <typename T>
struct QuantizeJob {
  const T* x;
  const T* prediction;
  size_t count;
  T quantum;
  T reciprocal;
  T bound;
  uint32_t limit;
  uint8_t* tokens;
  uint16_t* activity;
  T* value;
};

template <typename T>
struct RowKernels {
  /// 16 times one axis' prediction.
  void (*axis)(const AxisTerm<T>& term, size_t count, T* out);
  /// The mean of `terms` axes (0 to 2) and, last, of `line` unless null (what `axis` gave): 1 to 3 in all.
  void (*predict)(const AxisTerm<T>* term, unsigned terms, const T* line, size_t count, T* out);
  /// False: some element needs the general path; the outputs are then meaningless.
  bool (*quantize)(const QuantizeJob<T>& job);
  /// False: some token is not a plain one; the outputs are then meaningless.
  bool (*dequantize)(const T* prediction, const uint8_t* tokens, size_t count, T quantum, T* value, uint16_t* activity);
  /// out[i] = the element at 2 i of `from`, which need not be aligned.
  void (*every_second)(const std::byte* from, size_t count, T* out);
  /// out (not aligned): even[0], odd[0], even[1], ... `count` in all.
  void (*interleave)(const T* even, const T* odd, size_t count, std::byte* out);
};

/// What the rANS coder looks up. A context k of a segment has table base[k].
struct RansTables {
  const uint32_t* encode;      ///< [table * 256 + token]: frequency | start << 16
  const uint64_t* reciprocal;  ///< [table * 256 + token]: floor(x / frequency) = x * reciprocal >> 44
  const uint32_t* decode;      ///< [table * 4096 + slot]: token | frequency << 8 | (slot - start) << 20
  uint32_t base[16];           // NOLINT(modernize-avoid-c-arrays)
};

/// Where a decoder is in its words.
struct RansInput {
  const std::byte* next;
  const std::byte* end;
  bool overrun;
};

struct Kernels {
  const char* name;
  RowKernels<float> f32;
  RowKernels<double> f64;
  /// sums[i] += a[i] + 2 (b[i] + c[i]) + d[i]
  void (*add_activity)(const uint16_t* a, const uint16_t* b, const uint16_t* c, const uint16_t* d, size_t count,
                       uint16_t* sums);
  /// The largest of the sums, at least.
  unsigned (*any)(const uint16_t* sums, size_t count);
  /// out[i] = how many of the 11 thresholds sums[i] reaches; sums below 2^15.
  void (*contexts)(const int16_t* thresholds, const uint16_t* sums, size_t count, uint8_t* out);
  void (*interleave16)(const uint16_t* even, const uint16_t* odd, size_t count, uint16_t* out);
  /// Encodes a segment from its end on; words go before `words_end`; returns where they begin. `lanes`: a power of two,
  /// at most 32.
  uint16_t* (*rans_encode)(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts, size_t count,
                           unsigned lanes, uint32_t* state, uint16_t* words_end);
  void (*rans_decode)(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes, uint32_t* state,
                      RansInput& input, uint8_t* tokens);
};

inline constexpr uint32_t kRansLow = 1U << 16;

/// The set in use: the widest that this CPU has, unless use_kernels() chose another.
const Kernels& kernels();
/// The set number `index` (0: portable, then wider), or null when there is none or the CPU cannot run it.
const Kernels* kernel_set(size_t index);
/// For tests: makes all threads use `set`; null: the widest.
void use_kernels(const Kernels* set);

}  // namespace varve::codec
