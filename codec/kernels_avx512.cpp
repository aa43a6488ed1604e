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

/// kVectors vectors of 16 lanes, or fewer lanes in one.
template <unsigned kVectors>
struct LaneStates {
  LaneStates(unsigned lanes, const uint32_t* from) : mask(first_lanes(lanes < 16 ? lanes : 16)) {
    for (unsigned k = 0; k < kVectors; ++k) {
      state[k] = _mm512_maskz_loadu_epi32(mask, from + size_t{16} * k);
    }
  }
  void put(uint32_t* to) const {
    for (unsigned k = 0; k < kVectors; ++k) {
      _mm512_mask_storeu_epi32(to + size_t{16} * k, mask, state[k]);
    }
  }
  __mmask16 mask;
  __m512i state[kVectors];  // NOLINT(modernize-avoid-c-arrays)
};

template <unsigned kVectors>
uint16_t* encode_lanes(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts, size_t count,
                       unsigned lanes, uint32_t* state, uint16_t* words) {
  const size_t width = lanes < 16 ? lanes : 16;
  const size_t round = width * kVectors;
  const __m512i bases = _mm512_loadu_si512(tables.base);
  LaneStates<kVectors> held(lanes, state);
  size_t i = count / round * round;
  for (unsigned k = kVectors; k-- > 0;) {  // what is left of the last round
    const size_t at = i + width * k;
    if (at < count) {
      const size_t some = count - at < width ? count - at : width;
      words = encode_group(tables, bases, first_lanes(some), tokens + at, contexts + at, held.state[k], words);
    }
  }
  while (i > 0) {
    i -= round;
#pragma GCC unroll 4
    for (unsigned back = 1; back <= kVectors; ++back) {
      const unsigned k = kVectors - back;
      const size_t at = i + width * k;
      words = encode_group(tables, bases, held.mask, tokens + at, contexts + at, held.state[k], words);
    }
  }
  held.put(state);
  return words;
}

uint16_t* rans_encode_wide(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts, size_t count,
                           unsigned lanes, uint32_t* state, uint16_t* words) {
  switch (lanes) {
    case 64:
      return encode_lanes<4>(tables, tokens, contexts, count, lanes, state, words);
    case 32:
      return encode_lanes<2>(tables, tokens, contexts, count, lanes, state, words);
    case 16:
    case 8:
    case 4:
      return encode_lanes<1>(tables, tokens, contexts, count, lanes, state, words);
    default:
      return rans_encode_plain(tables, tokens, contexts, count, lanes, state, words);
  }
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
void decode_lanes(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes, uint32_t* state,
                  RansInput& input, uint8_t* tokens) {
  RansInput in = input;
  const size_t width = lanes < 16 ? lanes : 16;
  const size_t round = width * kVectors;
  const __m512i bases = _mm512_loadu_si512(tables.base);
  LaneStates<kVectors> held(lanes, state);
  size_t i = 0;
  if (width == 16) {
    for (; i + round <= count; i += round) {
#pragma GCC unroll 4
      for (unsigned k = 0; k < kVectors; ++k) {
        const size_t at = i + 16 * k;
        held.state[k] = decode_group(tables, bases, 0xffff, contexts + at, held.state[k], in, tokens + at, true);
      }
    }
  }
  for (; i < count; i += round) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < kVectors; ++k) {
      const size_t at = i + width * k;
      if (at < count) {
        const size_t some = count - at < width ? count - at : width;
        held.state[k] =
            decode_group(tables, bases, first_lanes(some), contexts + at, held.state[k], in, tokens + at, false);
      }
    }
  }
  held.put(state);
  input = in;
}

void rans_decode_wide(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes, uint32_t* state,
                      RansInput& input, uint8_t* tokens) {
  switch (lanes) {
    case 64:
      return decode_lanes<4>(tables, contexts, count, lanes, state, input, tokens);
    case 32:
      return decode_lanes<2>(tables, contexts, count, lanes, state, input, tokens);
    case 16:
    case 8:
    case 4:
      return decode_lanes<1>(tables, contexts, count, lanes, state, input, tokens);
    default:
      return rans_decode_plain(tables, contexts, count, lanes, state, input, tokens);
  }
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
