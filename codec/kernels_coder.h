// The kernels that work on tokens: activities, contexts, rANS. See kernels_vectors.h on how it is compiled.
#pragma once

#include "codec/kernels.h"
#include "codec/kernels_vectors.h"
#include "codec/tokens.h"

#include <algorithm>
#include <limits>

namespace varve::codec {
namespace {

/// Whether a token cannot be coded: see Kernels.
bool any_beyond(const uint8_t* tokens, const uint8_t* contexts, const TokenRuns& runs, size_t count) {
  size_t i = 0;
#if VARVE_VECTOR_BYTES >= 32
  const auto of_contexts = [](const std::array<uint8_t, 16>& bytes) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data())));
  };
  const __m256i first = of_contexts(runs.first);
  const __m256i span = of_contexts(runs.span);
  __m256i below = _mm256_set1_epi8(-1);
  for (; i + 32 <= count; i += 32) {
    const __m256i token = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tokens + i));
    const __m256i context = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(contexts + i));
    const __m256i last = _mm256_shuffle_epi8(span, context);
    const __m256i place = _mm256_sub_epi8(token, _mm256_shuffle_epi8(first, context));
    below = _mm256_and_si256(below, _mm256_cmpeq_epi8(_mm256_min_epu8(place, last), place));
  }
  if (_mm256_movemask_epi8(below) != -1) {
    return true;
  }
#endif
  bool any = false;
  for (; i < count; ++i) {
    any |= static_cast<uint8_t>(tokens[i] - runs.first[contexts[i]]) > runs.span[contexts[i]];
  }
  return any;
}

inline VectorU8 load_bytes(const uint8_t* p) {
  VectorU8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store_bytes(uint8_t* p, VectorU8 v) { std::memcpy(p, &v, sizeof v); }

/// Comparisons give bytes of all ones: subtracting them counts.
inline VectorU8 as_count(VectorS8 reached) { return reinterpret_cast<VectorU8>(reached); }

inline bool is_zero(VectorU8 v) {
  uint64_t words[kByteLanes / 8];  // NOLINT(modernize-avoid-c-arrays)
  std::memcpy(words, &v, sizeof v);
  uint64_t all = 0;
#pragma GCC unroll 4
  for (const uint64_t word : words) {
    all |= word;
  }
  return all == 0;
}

uint8_t largest_byte(const uint8_t* bytes, size_t count) {
  VectorU8 most{};
  size_t i = 0;
  for (; i + kByteLanes <= count; i += kByteLanes) {
    const VectorU8 v = load_bytes(bytes + i);
    most = v > most ? v : most;
  }
  uint8_t all = 0;
  for (size_t k = 0; k < kByteLanes; ++k) {
    all = most[k] > all ? most[k] : all;
  }
  for (; i < count; ++i) {
    all = bytes[i] > all ? bytes[i] : all;
  }
  return all;
}

bool any_outside(const uint8_t* bytes, size_t count, uint8_t low, uint8_t high) {
  VectorU8 found{};
  size_t i = 0;
  for (; i + kByteLanes <= count; i += kByteLanes) {
    const VectorU8 v = load_bytes(bytes + i);
    found |= as_count(v < low) | as_count(v >= high);
  }
  bool any = !is_zero(found);
  for (; i < count; ++i) {
    any = any || bytes[i] < low || bytes[i] >= high;
  }
  return any;
}

/// A bit for each byte that is not 0, of a vector whose bytes are 0 or all ones.
inline uint32_t byte_mask(VectorU8 v) {
#if VARVE_VECTOR_BYTES >= 32
  return static_cast<uint32_t>(_mm256_movemask_epi8(reinterpret_cast<__m256i>(v)));
#else
  uint32_t mask = 0;
  for (size_t i = 0; i < kByteLanes; ++i) {
    mask |= static_cast<uint32_t>(v[i] & 1U) << i;
  }
  return mask;
#endif
}

size_t find_outside(const uint8_t* bytes, size_t count, uint8_t low, uint8_t high, uint32_t* places) {
  size_t found = 0;
  size_t i = 0;
  for (; i + kByteLanes <= count; i += kByteLanes) {
    const VectorU8 v = load_bytes(bytes + i);
    const VectorU8 outside = as_count(v < low) | as_count(v >= high);
    if (is_zero(outside)) {
      continue;
    }
    for (uint32_t mask = byte_mask(outside); mask != 0; mask &= mask - 1) {
      places[found++] = static_cast<uint32_t>(i) + static_cast<uint32_t>(__builtin_ctz(mask));
    }
  }
  for (; i < count; ++i) {
    places[found] = static_cast<uint32_t>(i);
    found += bytes[i] < low || bytes[i] >= high ? 1 : 0;
  }
  return found;
}

inline uint64_t bits_at(const BitInput& bits, size_t next, unsigned count) {
  uint64_t held = 0;
  const size_t at = next / 8;
  if (at + sizeof held <= bits.size) {
    std::memcpy(&held, bits.data + at, sizeof held);
  } else if (at < bits.size) {
    std::memcpy(&held, bits.data + at, bits.size - at);
  }
  return held >> next % 8 & ((uint64_t{1} << count) - 1);
}

template <typename T>
void wide_codes(const uint8_t* tokens, size_t count, BitInput& bits, BitsOf<T>* out) {
  const BitInput in = bits;
  size_t next = in.next;
  const auto put = [&](unsigned token) __attribute__((always_inline)) {
    const unsigned k = token - kFirstWideToken;
    const unsigned extra = 5 + k / 2;
    uint64_t low = 0;
    if (sizeof(T) == 4 || extra <= 32) {
      low = bits_at(in, next, extra);
    } else {
      low = bits_at(in, next, 32) | bits_at(in, next + 32, extra - 32) << 32;
    }
    next += extra;
    *out++ = static_cast<BitsOf<T>>((uint64_t{2} | (k & 1U)) << extra | low);
  };
  size_t i = 0;
  for (; i + kByteLanes <= count; i += kByteLanes) {
    const VectorU8 wide = as_count(load_bytes(tokens + i) >= kFirstWideToken);
    if (is_zero(wide)) {
      continue;
    }
    for (uint32_t mask = byte_mask(wide); mask != 0; mask &= mask - 1) {
      put(tokens[i + static_cast<size_t>(__builtin_ctz(mask))]);
    }
  }
  for (; i < count; ++i) {
    if (tokens[i] >= kFirstWideToken) {
      put(tokens[i]);
    }
  }
  bits.next = next;
}

void activities_row(const uint8_t* tokens, const uint8_t* thresholds, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; i += kByteLanes) {
    const VectorU8 token = load_bytes(tokens + i);
    if (is_zero(token ^ kTokenZero)) {
      store_bytes(out + i, VectorU8{});
      continue;
    }
    VectorU8 reached{};
#pragma GCC unroll 13
    for (unsigned k = 0; k < kMaxActivity; ++k) {
      reached -= as_count(token >= thresholds[k]);
    }
    store_bytes(out + i, token == kTokenExact ? VectorU8{} + kMaxActivity : reached);
  }
}

/// The rows of one axis' sources at a row of a class.
struct ByteTerm {
  const uint8_t* a = nullptr;
  const uint8_t* b = nullptr;
  const uint8_t* c = nullptr;
  const uint8_t* d = nullptr;
  VectorU8 at(size_t i) const {
    const VectorU8 near = load_bytes(b + i) + load_bytes(c + i);
    return load_bytes(a + i) + load_bytes(d + i) + near + near;
  }
};

/// The term of an axis whose nearest lower point is in row `b`; a missing row repeats the one next to it.
inline ByteTerm byte_term(const Source<const uint8_t>& source, const uint8_t* b, ptrdiff_t index, ptrdiff_t step) {
  const uint8_t* c = index + 1 < source.last ? b + step : b;
  return {index - 1 >= source.first ? b - step : b, b, c, index + 2 < source.last ? b + 2 * step : c};
}

/// Calls row(sum) for each row of a class that is odd along kZ, kY, kX; sum(i): the weighted sum at points i on.
template <bool kZ, bool kY, bool kX, typename Row>
inline void walk_sums(const ClassShape& shape, const Source<const uint8_t>* sources, const Row& row) {
  const Source<const uint8_t>& z = sources[0];
  const Source<const uint8_t>& y = sources[1];
  const Source<const uint8_t>& x = sources[2];
  for (size_t item = 0; item < shape.items; ++item) {
    for (size_t slab = 0; slab < shape.slabs; ++slab) {
      ByteTerm across;
      if constexpr (kZ) {
        across = byte_term(z, z.at + z.strides.at(item, slab, 0), static_cast<ptrdiff_t>(slab), z.strides.slab);
      }
      const uint8_t* y_row = kY ? y.at + y.strides.at(item, slab, 0) : nullptr;
      const uint8_t* x_row = kX ? x.at + x.strides.at(item, slab, 0) : nullptr;
      for (size_t at = 0; at < shape.rows; ++at) {
        ByteTerm down;
        if constexpr (kY) {
          down = byte_term(y, y_row, static_cast<ptrdiff_t>(at), y.strides.row);
          y_row += y.strides.row;
        }
        ByteTerm along;
        if constexpr (kX) {
          along = {x_row - 1, x_row, x_row + 1, x_row + 2};
        }
        row([&](size_t i) {
          VectorU8 sum{};
          if constexpr (kZ) {
            sum += across.at(i);
          }
          if constexpr (kY) {
            sum += down.at(i);
          }
          if constexpr (kX) {
            sum += along.at(i);
          }
          return sum;
        });
        if constexpr (kZ) {
          across = {across.a + z.strides.row, across.b + z.strides.row, across.c + z.strides.row,
                    across.d + z.strides.row};
        }
        if constexpr (kX) {
          x_row += x.strides.row;
        }
      }
    }
  }
}

template <typename Row>
inline void for_sums(const ClassShape& shape, const Source<const uint8_t>* sources, const Row& row) {
  const unsigned odd = (sources[0].at != nullptr ? 4U : 0U) | (sources[1].at != nullptr ? 2U : 0U) |
                       (sources[2].at != nullptr ? 1U : 0U);
  switch (odd) {
    case 1:
      return walk_sums<false, false, true>(shape, sources, row);
    case 2:
      return walk_sums<false, true, false>(shape, sources, row);
    case 3:
      return walk_sums<false, true, true>(shape, sources, row);
    case 4:
      return walk_sums<true, false, false>(shape, sources, row);
    case 5:
      return walk_sums<true, false, true>(shape, sources, row);
    case 6:
      return walk_sums<true, true, false>(shape, sources, row);
    default:
      return walk_sums<true, true, true>(shape, sources, row);
  }
}

void contexts_of_class(const ContextJob& job) {
  const size_t m = job.shape.count;
  const auto axes = static_cast<unsigned>(
      std::count_if(job.activity, job.activity + 3, [](const auto& source) { return source.at != nullptr; }));
  uint8_t threshold[kPlainContexts - 1];  // NOLINT(modernize-avoid-c-arrays)
  for (unsigned k = 0; k + 1 < kPlainContexts; ++k) {
    threshold[k] = static_cast<uint8_t>(kSumThresholds[k] == 1 ? 1 : kSumThresholds[k] * axes);
  }
  uint8_t* out = job.contexts;
  for_sums(job.shape, job.activity, [&](const auto& sum_at) {
    for (size_t i = 0; i < m; i += kByteLanes) {
      const VectorU8 sum = sum_at(i);
      VectorU8 context{};
      if (!is_zero(sum)) {
#pragma GCC unroll 11
        for (unsigned k = 0; k + 1 < kPlainContexts; ++k) {
          context = sum >= threshold[k] ? context + 1 : context;
        }
      }
      store_bytes(out + i, context);
    }
    out += m;
  });
  if (!job.has_special) {
    return;
  }
  out = job.contexts;
  const auto all = static_cast<uint8_t>(6 * axes);
  const auto most = static_cast<uint8_t>(3 * axes);
  for_sums(job.shape, job.special, [&](const auto& sum_at) {
    for (size_t i = 0; i < m; i += kByteLanes) {
      const VectorU8 holes = sum_at(i);
      if (is_zero(holes)) {
        continue;
      }
      VectorU8 near = VectorU8{} + kHoleContext;
      near -= as_count(holes > most);
      near -= as_count(holes >= all);
      uint8_t held[kByteLanes];  // NOLINT(modernize-avoid-c-arrays)
      const VectorU8 mixed = holes > 0 ? near : load_bytes(out + i);
      store_bytes(held, mixed);
      std::memcpy(out + i, held, m - i < kByteLanes ? m - i : kByteLanes);
    }
    out += m;
  });
}

/// Activities of a class, and marks of its special points, from its tokens.
void mark_class(const MarkJob& job) {
  const size_t m = job.shape.count;
  const uint8_t* tokens = job.tokens;
  for (size_t item = 0; item < job.shape.items; ++item) {
    for (size_t slab = 0; slab < job.shape.slabs; ++slab) {
      for (size_t y = 0; y < job.shape.rows; ++y, tokens += m) {
        const ptrdiff_t at = job.strides.at(item, slab, y);
        uint8_t* row = job.activity + at;
        activities_row(tokens, job.thresholds, m, row);
        row[-1] = row[0];
        row[m] = row[m + 1] = row[m - 1];
        if (job.special != nullptr) {
          row = job.special + at;
          for (size_t i = 0; i < m; i += kByteLanes) {
            store_bytes(row + i, as_count(load_bytes(tokens + i) == kTokenSpecial) & 1);
          }
          row[-1] = row[0];
          row[m] = row[m + 1] = row[m - 1];
        }
      }
    }
  }
}

[[maybe_unused]] uint16_t* rans_encode_plain(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts,
                                             size_t count, unsigned lanes, uint32_t* state, uint16_t* words) {
  for (size_t i = count; i-- > 0;) {
    const uint32_t entry = tables.encode[tables.base[contexts[i]] * 256 + tokens[i]];
    const uint32_t frequency = entry & 0xffffU;
    uint32_t x = state[i & (lanes - 1)];
    if (x >> (32 - kProbabilityBits) >= frequency) {
      *--words = static_cast<uint16_t>(x);
      x >>= 16;
    }
    state[i & (lanes - 1)] = (x / frequency << kProbabilityBits) + x % frequency + (entry >> 16);
  }
  return words;
}

[[maybe_unused]] void rans_decode_plain(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes,
                                        uint32_t* state, RansInput& input, uint8_t* tokens) {
  RansInput in = input;
  constexpr uint32_t kMask = (1U << kProbabilityBits) - 1;
  for (size_t i = 0; i < count; ++i) {
    uint32_t x = state[i & (lanes - 1)];
    const uint32_t entry = tables.decode[(tables.base[contexts[i]] << kProbabilityBits) + (x & kMask)];
    tokens[i] = static_cast<uint8_t>(entry);
    x = (entry >> 8 & 4095U) * (x >> kProbabilityBits) + (entry >> 20);
    if (x < kRansLow) {
      uint16_t word = 0;
      if (in.end - in.next >= 2) {
        std::memcpy(&word, in.next, sizeof word);
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
void every_second(const T* from, const T* end, size_t count, T* out) {
  size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    store<T>(out + i, load_every_second<T>(from + 2 * i, count - i, end));
  }
  for (; i < count; ++i) {
    out[i] = from[2 * i];
  }
}

/// The first `count` elements of a vector, and nothing after them.
template <typename T, typename V>
inline void store_first(T* to, V v, size_t count) {
#if VARVE_VECTOR_BYTES == 64
  const uint64_t lanes = (uint64_t{1} << count) - 1;
  if constexpr (sizeof(T) == 1) {
    _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(lanes), reinterpret_cast<__m256i>(v));
  } else if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(lanes), reinterpret_cast<__m512i>(v));
  } else {
    _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(lanes), reinterpret_cast<__m512i>(v));
  }
#else
  std::memcpy(to, &v, count * sizeof(T));
#endif
}

/// V: a vector of T.
template <typename T, typename V = Vec<T>>
void interleave(const T* even, const T* odd, size_t count, T* out) {
  constexpr size_t kCount = sizeof(V) / sizeof(T);
  constexpr auto kSequence = std::make_index_sequence<kCount>();
  if (count == 1) {  // there may be no odd ones
    out[0] = even[0];
    return;
  }
  for (size_t i = 0; i < count; i += 2 * kCount) {
    V a;
    V b;
    std::memcpy(&a, even + i / 2, sizeof a);
    std::memcpy(&b, odd + i / 2, sizeof b);
    const V low = zip_low(a, b, kSequence);
    const V high = zip_high(a, b, kSequence);
    const size_t left = count - i;
    if (left >= 2 * kCount) {
      std::memcpy(out + i, &low, sizeof low);
      std::memcpy(out + i + kCount, &high, sizeof high);
    } else {
      store_first(out + i, low, left < kCount ? left : kCount);
      store_first(out + i + kCount, high, left < kCount ? 0 : left - kCount);
    }
  }
}

template <typename T>
void put_marked(T* row, const uint8_t* marks, size_t count, T value) {
  for (size_t i = 0; i < count; i += kLanes<T>) {
    typename Lanes<T>::Bytes bytes;
    std::memcpy(&bytes, marks + i, sizeof bytes);
    const SVec<T> marked = __builtin_convertvector(bytes, UVec<T>) != 0;
    if (count - i >= kLanes<T>) {
      store<T>(row + i, marked ? spread<T>(value) : load<T>(row + i));
      continue;
    }
    for (size_t k = i; k < count; ++k) {
      row[k] = marks[k] != 0 ? value : row[k];
    }
  }
}

/// Which elements of a vector count.
template <typename T>
inline SVec<T> counts(Vec<T> v, const T* fills, size_t fill_count, SVec<T>& finite) {
  SVec<T> use = ~SVec<T>{};
  if constexpr (std::is_floating_point_v<T>) {
    use = magnitude<T>(v) <= Lanes<T>::kMax;
    finite &= use;
  }
  for (size_t k = 0; k < fill_count; ++k) {
    use &= bits_of<T>(v) != bits_of<T>(spread<T>(fills[k]));
  }
  return use;
}

template <typename T>
void extremes(const T* x, size_t count, const T* fills, size_t fill_count, T known_low, T known_high,
              Extremes<T>& out) {
  constexpr T kHighest = std::numeric_limits<T>::max();
  constexpr T kLowest = std::numeric_limits<T>::lowest();
  const auto each = [&](auto&& f) __attribute__((always_inline)) {
    SVec<T> finite = ~SVec<T>{};
    size_t i = 0;
    for (; i + kLanes<T> <= count; i += kLanes<T>) {
      const Vec<T> v = load<T>(x + i);
      f(v, counts<T>(v, fills, fill_count, finite));
    }
    if (i < count) {
      alignas(64) T held[kLanes<T>];  // NOLINT(modernize-avoid-c-arrays)
      for (size_t k = 0; k < kLanes<T>; ++k) {
        held[k] = x[i + k < count ? i + k : count - 1];
      }
      const Vec<T> v = load<T>(held);
      const SVec<T> there = lane_numbers<T>() < static_cast<typename Lanes<T>::Signed>(count - i);
      f(v, counts<T>(v, fills, fill_count, finite) & there);
    }
    return mask_of<T>(finite) == ((uint64_t{1} << kLanes<T>)-1);
  };
  Vec<T> low = spread<T>(kHighest);
  Vec<T> high = spread<T>(kLowest);
  UVec<T> counted{};
  out.all_finite = each([&](Vec<T> v, SVec<T> use) __attribute__((always_inline)) {
    const Vec<T> up = use ? v : spread<T>(kHighest);
    const Vec<T> down = use ? v : spread<T>(kLowest);
    low = up < low ? up : low;
    high = down > high ? down : high;
    counted -= reinterpret_cast<UVec<T>>(use);
  });
  out.low = kHighest;
  out.high = kLowest;
  out.counted = 0;
  for (size_t k = 0; k < kLanes<T>; ++k) {
    out.low = low[k] < out.low ? low[k] : out.low;
    out.high = high[k] > out.high ? high[k] : out.high;
    out.counted += counted[k];
  }
  if (out.counted == 0 || (out.low > known_low && out.high < known_high)) {
    return;
  }
  Vec<T> next_low = spread<T>(out.high);
  Vec<T> next_high = spread<T>(out.low);
  UVec<T> at_low{};
  UVec<T> at_high{};
  each([&](Vec<T> v, SVec<T> use) __attribute__((always_inline)) {
    at_low -= reinterpret_cast<UVec<T>>(use & (v == out.low));
    at_high -= reinterpret_cast<UVec<T>>(use & (v == out.high));
    next_low = (use & (v > out.low) & (v < next_low)) ? v : next_low;
    next_high = (use & (v < out.high) & (v > next_high)) ? v : next_high;
  });
  out.low_count = out.high_count = 0;
  out.second_low = out.high;
  out.second_high = out.low;
  for (size_t k = 0; k < kLanes<T>; ++k) {
    out.low_count += at_low[k];
    out.high_count += at_high[k];
    out.second_low = next_low[k] < out.second_low ? next_low[k] : out.second_low;
    out.second_high = next_high[k] > out.second_high ? next_high[k] : out.second_high;
  }
}

}  // namespace
}  // namespace varve::codec
