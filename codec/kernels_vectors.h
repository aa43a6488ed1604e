// Vectors of VARVE_VECTOR_BYTES bytes by the compiler's vector extensions. Included by each kernels_*.cpp, which is
// compiled for one instruction set: everything is local to that file, so that the linker cannot mix code of sets.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "codec/arithmetic.h"

namespace varve::codec {
namespace {

inline constexpr size_t kVectorBytes = VARVE_VECTOR_BYTES;
inline constexpr size_t kByteLanes =
    VARVE_VECTOR_BYTES < 32 ? VARVE_VECTOR_BYTES : 32;  // NOLINT: 32 is a value of both

// NOLINTBEGIN(modernize-use-using): vector types need the attribute
typedef float VectorF32 __attribute__((vector_size(VARVE_VECTOR_BYTES)));
typedef double VectorF64 __attribute__((vector_size(VARVE_VECTOR_BYTES)));
typedef int32_t VectorI32 __attribute__((vector_size(VARVE_VECTOR_BYTES)));
typedef uint32_t VectorU32 __attribute__((vector_size(VARVE_VECTOR_BYTES)));
typedef int64_t VectorI64 __attribute__((vector_size(VARVE_VECTOR_BYTES)));
typedef uint64_t VectorU64 __attribute__((vector_size(VARVE_VECTOR_BYTES)));
typedef uint8_t VectorU8 __attribute__((vector_size(kByteLanes)));
typedef int8_t VectorS8 __attribute__((vector_size(kByteLanes)));
typedef uint8_t QuarterU8 __attribute__((vector_size(VARVE_VECTOR_BYTES / 4)));
typedef uint8_t EighthU8 __attribute__((vector_size(VARVE_VECTOR_BYTES / 8)));
// NOLINTEND(modernize-use-using)

template <typename T>
struct Lanes;
template <>
struct Lanes<float> : RealFacts<float> {
  using V = VectorF32;
  using S = VectorI32;
  using U = VectorU32;
  using Bytes = QuarterU8;
};
template <>
struct Lanes<double> : RealFacts<double> {
  using V = VectorF64;
  using S = VectorI64;
  using U = VectorU64;
  using Bytes = EighthU8;
};
template <>
struct Lanes<int32_t> : Lanes<float> {
  using V = VectorI32;
};
template <>
struct Lanes<int64_t> : Lanes<double> {
  using V = VectorI64;
};

template <typename T>
using Vec = typename Lanes<T>::V;
template <typename T>
using UVec = typename Lanes<T>::U;
template <typename T>
using SVec = typename Lanes<T>::S;
template <typename T>
inline constexpr size_t kLanes = kVectorBytes / sizeof(T);

template <typename T>
inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <typename T>
inline void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}
template <typename T>
inline Vec<T> spread(T value) {  // by its bits: 0 + value would lose the sign of -0.0 and quieten NaNs
  using Unsigned = typename Lanes<T>::Unsigned;
  return reinterpret_cast<Vec<T>>(UVec<T>{} + std::bit_cast<Unsigned>(value));
}

template <typename T>
inline UVec<T> bits_of(Vec<T> v) {
  return reinterpret_cast<UVec<T>>(v);
}

/// |v|, by its bits.
template <typename T>
inline Vec<T> magnitude(Vec<T> v) {
  constexpr auto kAbs = static_cast<typename Lanes<T>::Unsigned>(~typename Lanes<T>::Unsigned{0} >> 1);
  return reinterpret_cast<Vec<T>>(bits_of<T>(v) & kAbs);
}

/// Sums and differences with wrap-around for integers, plain for reals.
template <typename T>
inline Vec<T> plus(Vec<T> a, Vec<T> b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return reinterpret_cast<Vec<T>>(bits_of<T>(a) + bits_of<T>(b));
  }
}
template <typename T>
inline Vec<T> minus(Vec<T> a, Vec<T> b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a - b;
  } else {
    return reinterpret_cast<Vec<T>>(bits_of<T>(a) - bits_of<T>(b));
  }
}
template <typename T>
inline Vec<T> times(Vec<T> a, int k) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * static_cast<T>(k);
  } else {
    return reinterpret_cast<Vec<T>>(bits_of<T>(a) * static_cast<typename Lanes<T>::Unsigned>(k));
  }
}

/// Lane numbers 0, 1, 2, ...
template <typename T, size_t... I>
inline SVec<T> count_lanes(std::index_sequence<I...> /*lanes*/) {
  return SVec<T>{static_cast<typename Lanes<T>::Signed>(I)...};
}
template <typename T>
inline SVec<T> lane_numbers() {
  return count_lanes<T>(std::make_index_sequence<kLanes<T>>());
}

/// A bit for each lane of a comparison's result.
template <typename T>
inline uint32_t mask_of(SVec<T> m) {
#if VARVE_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(m));
  } else {
    return _mm512_movepi64_mask(reinterpret_cast<__m512i>(m));
  }
#elif VARVE_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4) {
    return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(m)));
  } else {
    return static_cast<uint32_t>(_mm256_movemask_pd(reinterpret_cast<__m256d>(m)));
  }
#else
  uint32_t bits = 0;
  for (size_t i = 0; i < kLanes<T>; ++i) {
    bits |= m[i] != 0 ? 1U << i : 0U;
  }
  return bits;
#endif
}

/// Lanes below `count`.
template <typename T>
inline SVec<T> first_lanes(size_t count) {
  return count >= kLanes<T> ? ~SVec<T>{} : lane_numbers<T>() < static_cast<typename Lanes<T>::Signed>(count);
}

/// The same as mask_of() gives it.
template <typename T>
inline uint32_t first_lanes_mask(size_t count) {
  return count >= kLanes<T> ? static_cast<uint32_t>((uint64_t{1} << kLanes<T>)-1) : (1U << count) - 1;
}

/// Signed integers as unsigned ones, small magnitudes first: 0, -1, 1, -2, ...
template <typename T>
inline UVec<T> zigzag_of(UVec<T> v) {
  return (v << 1) ^ reinterpret_cast<UVec<T>>(reinterpret_cast<SVec<T>>(v) >> (8 * sizeof(T) - 1));
}
/// The inverse.
template <typename T>
inline UVec<T> of_zigzag(UVec<T> u) {
  return (u >> 1) ^ (UVec<T>{} - (u & 1));
}

/// |a - b|; of integers by their distance, which may wrap around.
template <typename T>
inline Vec<T> distance(Vec<T> a, Vec<T> b) {
  if constexpr (std::is_floating_point_v<T>) {
    return magnitude<T>(a - b);
  } else {
    const Vec<T> d = minus<T>(a, b);
    return d < 0 ? minus<T>(Vec<T>{}, d) : d;
  }
}

/// Raises each lane of `most` that is below `v`, of the first `count` of them; a NaN in `v` raises nothing.
template <typename T>
inline void raise(Vec<T>& most, Vec<T> v, size_t count) {
  if (__builtin_expect(count >= kLanes<T>, 1)) {
    most = v > most ? v : most;
  } else {
    most = (v > most) & first_lanes<T>(count) ? v : most;
  }
}

template <typename T>
inline T largest_lane(Vec<T> v) {
  T most = v[0];
  for (size_t i = 1; i < kLanes<T>; ++i) {
    most = v[i] > most ? v[i] : most;
  }
  return most;
}

template <typename T, size_t... I>
inline Vec<T> even_lanes(Vec<T> low, Vec<T> high, std::index_sequence<I...> /*lanes*/) {
  return __builtin_shufflevector(low, high, (2 * I)...);
}
template <typename V, size_t... I>
inline V zip_low(V a, V b, std::index_sequence<I...> /*lanes*/) {
  return __builtin_shufflevector(a, b, (I / 2 + (I % 2) * sizeof...(I))...);
}
template <typename V, size_t... I>
inline V zip_high(V a, V b, std::index_sequence<I...> /*lanes*/) {
  return __builtin_shufflevector(a, b, (sizeof...(I) / 2 + I / 2 + (I % 2) * sizeof...(I))...);
}

/// Every second element from p on, of which `count` are wanted; nothing at or after `end` is read.
template <typename T>
inline Vec<T> load_every_second(const T* p, size_t count, const T* end) {
  if (end - p >= static_cast<ptrdiff_t>(2 * kLanes<T>)) {
    return even_lanes<T>(load<T>(p), load<T>(p + kLanes<T>), std::make_index_sequence<kLanes<T>>());
  }
  alignas(64) T held[kLanes<T>] = {};  // NOLINT(modernize-avoid-c-arrays)
  for (size_t i = 0; i < count && i < kLanes<T>; ++i) {
    held[i] = p[2 * i];
  }
  return load<T>(held);
}

template <typename T>
inline Vec<T> finite_or_zero(Vec<T> v) {
  if constexpr (std::is_floating_point_v<T>) {
    return magnitude<T>(v) <= Lanes<T>::kMax ? v : Vec<T>{};
  } else {
    return v;
  }
}

}  // namespace
}  // namespace varve::codec
