// Compiled with AVX-512 F, BW, DQ and VL; run only where the CPU has them. The rANS coder works on vectors of 16 lanes.
#define VARVE_VECTOR_BYTES 64
#include "codec/kernels_set.h"

namespace varve::codec {

namespace {

inline __mmask16 first_lanes(size_t count) { return static_cast<__mmask16>((1U << count) - 1); }

inline __m512i table_of(__m512i bases, __m128i contexts) {
  return _mm512_permutexvar_epi32(_mm512_cvtepu8_epi32(contexts), bases);
}

inline uint16_t* encode_group(const RansTables& tables, __m512i bases, __mmask16 mask, const uint8_t* tokens,
                              const uint8_t* contexts, __m512i& state, uint16_t* words) {
  const __m512i token = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, tokens));
  const __m512i table = table_of(bases, _mm_maskz_loadu_epi8(mask, contexts));
  const __m512i at = _mm512_add_epi32(_mm512_slli_epi32(table, 8), token);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i entry = _mm512_mask_i32gather_epi32(one, mask, at, tables.encode, 4);
  const __m512i frequency = _mm512_and_si512(entry, _mm512_set1_epi32(0xffff));
  const __m512i start = _mm512_srli_epi32(entry, 16);
  __m512i x = state;
  const __mmask16 over = _mm512_mask_cmpge_epu32_mask(mask, _mm512_srli_epi32(x, 32 - kProbabilityBits), frequency);
  const auto emitted = static_cast<unsigned>(__builtin_popcount(over));
  words -= emitted;
  const __m256i out = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(over, x));
  _mm256_mask_storeu_epi16(words, first_lanes(emitted), out);
  x = _mm512_mask_srli_epi32(x, over, x, 16);
  // The quotient is below 2^21, so single precision is at most one off.
  const __m512 ratio = _mm512_div_ps(_mm512_cvtepu32_ps(x), _mm512_cvtepi32_ps(frequency));
  __m512i quotient = _mm512_cvttps_epi32(ratio);
  __m512i rest = _mm512_sub_epi32(x, _mm512_mullo_epi32(quotient, frequency));
  const __mmask16 below = _mm512_cmplt_epi32_mask(rest, _mm512_setzero_si512());
  quotient = _mm512_mask_sub_epi32(quotient, below, quotient, one);
  rest = _mm512_mask_add_epi32(rest, below, rest, frequency);
  const __mmask16 above = _mm512_cmpge_epi32_mask(rest, frequency);
  quotient = _mm512_mask_add_epi32(quotient, above, quotient, one);
  rest = _mm512_mask_sub_epi32(rest, above, rest, frequency);
  const __m512i next = _mm512_add_epi32(_mm512_slli_epi32(quotient, kProbabilityBits), _mm512_add_epi32(rest, start));
  state = _mm512_mask_mov_epi32(state, mask, next);
  return words;
}

/// Lanes in vectors of 16, or all in one.
struct LaneStates {
  LaneStates(unsigned lanes, const uint32_t* from) : vectors(lanes < 16 ? 1 : lanes / 16) {
    for (unsigned k = 0; k < 4; ++k) {
      state[k] = k < vectors ? _mm512_maskz_loadu_epi32(first_lanes(lanes < 16 ? lanes : 16), from + size_t{16} * k)
                             : _mm512_setzero_si512();
    }
  }
  void put(unsigned lanes, uint32_t* to) const {
    for (unsigned k = 0; k < vectors; ++k) {
      _mm512_mask_storeu_epi32(to + size_t{16} * k, first_lanes(lanes < 16 ? lanes : 16), state[k]);
    }
  }
  unsigned vectors;
  __m512i state[4];  // NOLINT(modernize-avoid-c-arrays)
};

uint16_t* rans_encode_wide(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts, size_t count,
                           unsigned lanes, uint32_t* state, uint16_t* words) {
  if (lanes < 4 || count == 0) {
    return rans_encode_plain(tables, tokens, contexts, count, lanes, state, words);
  }
  const size_t width = lanes < 16 ? lanes : 16;
  const __m512i bases = _mm512_loadu_si512(tables.base);
  LaneStates held(lanes, state);
  size_t i = (count - 1) / width * width;
  words = encode_group(tables, bases, first_lanes(count - i), tokens + i, contexts + i,
                       held.state[i / width & (held.vectors - 1)], words);
  while (i > 0) {
    i -= width;
    words = encode_group(tables, bases, first_lanes(width), tokens + i, contexts + i,
                         held.state[i / width & (held.vectors - 1)], words);
  }
  held.put(lanes, state);
  return words;
}

inline __m512i decode_group(const RansTables& tables, __m512i bases, __mmask16 mask, const uint8_t* contexts,
                            __m512i state, RansInput& in, uint8_t* tokens, bool whole) {
  const __m512i slot_mask = _mm512_set1_epi32((1 << kProbabilityBits) - 1);
  const __m128i context =
      whole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(contexts)) : _mm_maskz_loadu_epi8(mask, contexts);
  const __m512i base = _mm512_slli_epi32(table_of(bases, context), kProbabilityBits);
  const __m512i at = _mm512_add_epi32(base, _mm512_and_si512(state, slot_mask));
  const __m512i entry = whole ? _mm512_i32gather_epi32(at, tables.decode, 4)
                              : _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask, at, tables.decode, 4);
  if (whole) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(tokens), _mm512_cvtepi32_epi8(entry));
  } else {
    _mm_mask_storeu_epi8(tokens, mask, _mm512_cvtepi32_epi8(entry));
  }
  const __m512i frequency = _mm512_and_si512(_mm512_srli_epi32(entry, 8), _mm512_set1_epi32(4095));
  __m512i x = _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(state, kProbabilityBits)),
                               _mm512_srli_epi32(entry, 20));
  const __mmask16 under = _mm512_mask_cmplt_epu32_mask(mask, x, _mm512_set1_epi32(static_cast<int>(kRansLow)));
  const auto wanted = static_cast<ptrdiff_t>(__builtin_popcount(under));
  __m256i words;
  if (__builtin_expect(static_cast<long>(in.end - in.next >= 32), 1) != 0) {
    words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in.next));
    in.next += 2 * wanted;
  } else {
    const ptrdiff_t left = (in.end - in.next) / 2;
    words = _mm256_maskz_loadu_epi16(first_lanes(static_cast<size_t>(left)), in.next);
    in.overrun = in.overrun || wanted > left;
    in.next += 2 * (wanted < left ? wanted : left);
  }
  const __m512i spread = _mm512_maskz_expand_epi32(under, _mm512_cvtepu16_epi32(words));
  x = _mm512_mask_or_epi32(x, under, _mm512_slli_epi32(x, 16), spread);
  return whole ? x : _mm512_mask_mov_epi32(state, mask, x);
}

template <unsigned kVectors>
size_t decode_whole(const RansTables& tables, __m512i bases, const uint8_t* contexts, size_t count, LaneStates& held,
                    RansInput& in, uint8_t* tokens) {
  __m512i s[kVectors];  // NOLINT(modernize-avoid-c-arrays)
  for (unsigned k = 0; k < kVectors; ++k) {
    s[k] = held.state[k];
  }
  size_t i = 0;
  for (; i + size_t{16} * kVectors <= count; i += size_t{16} * kVectors) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < kVectors; ++k) {
      const size_t at = i + size_t{16} * k;
      s[k] = decode_group(tables, bases, 0xffff, contexts + at, s[k], in, tokens + at, true);
    }
  }
  for (unsigned k = 0; k < kVectors; ++k) {
    held.state[k] = s[k];
  }
  return i;
}

void rans_decode_wide(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes, uint32_t* state,
                      RansInput& input, uint8_t* tokens) {
  if (lanes < 4) {
    rans_decode_plain(tables, contexts, count, lanes, state, input, tokens);
    return;
  }
  RansInput in = input;
  const size_t width = lanes < 16 ? lanes : 16;
  const __m512i bases = _mm512_loadu_si512(tables.base);
  LaneStates held(lanes, state);
  size_t i = 0;
  if (lanes == 64) {
    i = decode_whole<4>(tables, bases, contexts, count, held, in, tokens);
  } else if (lanes == 32) {
    i = decode_whole<2>(tables, bases, contexts, count, held, in, tokens);
  }
  for (; i < count; i += width) {
    const size_t left = count - i < width ? count - i : width;
    __m512i& x = held.state[i / width & (held.vectors - 1)];
    x = decode_group(tables, bases, first_lanes(left), contexts + i, x, in, tokens + i, false);
  }
  held.put(lanes, state);
  input = in;
}

constexpr Kernels make_wide() {
  Kernels made = make_kernels("avx512");
  made.rans_encode = rans_encode_wide;
  made.rans_decode = rans_decode_wide;
  return made;
}

}  // namespace

extern const Kernels kAvx512Kernels;
const Kernels kAvx512Kernels = make_wide();

}  // namespace varve::codec
