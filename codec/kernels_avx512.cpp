// Compiled with AVX-512 F, BW, DQ and VL; run only where the CPU has them. The rANS coder works on 16 lanes at once.
#include <immintrin.h>

#include "codec/kernels_rows.h"

namespace varve::codec {

namespace {

inline __mmask16 first_lanes(size_t count) { return static_cast<__mmask16>((1U << count) - 1); }

/// Lanes of one vector, vectors, and the last group of a segment.
struct Groups {
  Groups(size_t count, unsigned lanes) : width(lanes < 16 ? lanes : 16), count(count) {}
  __mmask16 mask(size_t begin) const { return first_lanes(count - begin < width ? count - begin : width); }
  size_t width;
  size_t count;
};

inline __m512i table_of(__m512i bases, __mmask16 mask, const uint8_t* contexts) {
  return _mm512_permutexvar_epi32(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, contexts)), bases);
}

uint16_t* encode_group(const RansTables& tables, __m512i bases, __mmask16 mask, const uint8_t* tokens,
                       const uint8_t* contexts, __m512i& state, uint16_t* words) {
  const __m512i token = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, tokens));
  const __m512i at = _mm512_add_epi32(_mm512_slli_epi32(table_of(bases, mask, contexts), 8), token);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i entry = _mm512_mask_i32gather_epi32(one, mask, at, tables.encode, 4);
  const __m512i frequency = _mm512_and_si512(entry, _mm512_set1_epi32(0xffff));
  const __m512i start = _mm512_srli_epi32(entry, 16);
  __m512i x = state;
  const __mmask16 over = _mm512_mask_cmpge_epu32_mask(mask, x, _mm512_slli_epi32(frequency, 20));
  const auto emitted = static_cast<unsigned>(__builtin_popcount(over));
  words -= emitted;
  const __m256i out = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(over, x));
  _mm256_mask_storeu_epi16(words, first_lanes(emitted), out);
  x = _mm512_mask_srli_epi32(x, over, x, 16);
  // The quotient is below 2^20, so single precision is at most one off.
  const __m512 ratio = _mm512_div_ps(_mm512_cvtepu32_ps(x), _mm512_cvtepi32_ps(frequency));
  __m512i quotient = _mm512_cvttps_epi32(ratio);
  __m512i rest = _mm512_sub_epi32(x, _mm512_mullo_epi32(quotient, frequency));
  const __mmask16 below = _mm512_cmplt_epi32_mask(rest, _mm512_setzero_si512());
  quotient = _mm512_mask_sub_epi32(quotient, below, quotient, one);
  rest = _mm512_mask_add_epi32(rest, below, rest, frequency);
  const __mmask16 above = _mm512_cmpge_epi32_mask(rest, frequency);
  quotient = _mm512_mask_add_epi32(quotient, above, quotient, one);
  rest = _mm512_mask_sub_epi32(rest, above, rest, frequency);
  const __m512i next = _mm512_add_epi32(_mm512_slli_epi32(quotient, 12), _mm512_add_epi32(rest, start));
  state = _mm512_mask_mov_epi32(state, mask, next);
  return words;
}

uint16_t* rans_encode_wide(const RansTables& tables, const uint8_t* tokens, const uint8_t* contexts, size_t count,
                           unsigned lanes, uint32_t* state, uint16_t* words) {
  if (lanes < 4 || count == 0) {
    return rans_encode_plain(tables, tokens, contexts, count, lanes, state, words);
  }
  const Groups groups(count, lanes);
  const __m512i bases = _mm512_loadu_si512(tables.base);
  const __mmask16 held = first_lanes(groups.width);
  __m512i low = _mm512_maskz_loadu_epi32(held, state);
  __m512i high = lanes == 32 ? _mm512_loadu_si512(state + 16) : low;
  for (size_t i = (count - 1) / groups.width * groups.width;; i -= groups.width) {
    __m512i& x = lanes == 32 && (i & 16U) != 0 ? high : low;
    words = encode_group(tables, bases, groups.mask(i), tokens + i, contexts + i, x, words);
    if (i == 0) {
      break;
    }
  }
  _mm512_mask_storeu_epi32(state, held, low);
  if (lanes == 32) {
    _mm512_storeu_si512(state + 16, high);
  }
  return words;
}

inline void decode_group(const RansTables& tables, __m512i bases, __mmask16 mask, const uint8_t* contexts,
                         __m512i& state, RansInput& in, uint8_t* tokens) {
  const __m512i slot_mask = _mm512_set1_epi32(4095);
  const __m512i base = _mm512_slli_epi32(table_of(bases, mask, contexts), 12);
  const __m512i at = _mm512_add_epi32(base, _mm512_and_si512(state, slot_mask));
  const __m512i entry = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), mask, at, tables.decode, 4);
  _mm_mask_storeu_epi8(tokens, mask, _mm512_cvtepi32_epi8(entry));
  const __m512i frequency = _mm512_and_si512(_mm512_srli_epi32(entry, 8), slot_mask);
  __m512i x =
      _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(state, 12)), _mm512_srli_epi32(entry, 20));
  const __mmask16 under = _mm512_mask_cmplt_epu32_mask(mask, x, _mm512_set1_epi32(static_cast<int>(kRansLow)));
  const auto wanted = static_cast<ptrdiff_t>(__builtin_popcount(under));
  __m256i words;
  if (in.end - in.next >= 32) {
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
  state = _mm512_mask_mov_epi32(state, mask, x);
}

void rans_decode_wide(const RansTables& tables, const uint8_t* contexts, size_t count, unsigned lanes, uint32_t* state,
                      RansInput& input, uint8_t* tokens) {
  if (lanes < 4) {
    rans_decode_plain(tables, contexts, count, lanes, state, input, tokens);
    return;
  }
  RansInput in = input;
  const Groups groups(count, lanes);
  const __m512i bases = _mm512_loadu_si512(tables.base);
  const __mmask16 held = first_lanes(groups.width);
  __m512i low = _mm512_maskz_loadu_epi32(held, state);
  __m512i high = lanes == 32 ? _mm512_loadu_si512(state + 16) : low;
  size_t i = 0;
  if (lanes == 32) {
    for (; i + 32 <= count; i += 32) {
      decode_group(tables, bases, 0xffff, contexts + i, low, in, tokens + i);
      decode_group(tables, bases, 0xffff, contexts + i + 16, high, in, tokens + i + 16);
    }
  }
  for (; i < count; i += groups.width) {
    __m512i& x = lanes == 32 && (i & 16U) != 0 ? high : low;
    decode_group(tables, bases, groups.mask(i), contexts + i, x, in, tokens + i);
  }
  _mm512_mask_storeu_epi32(state, held, low);
  if (lanes == 32) {
    _mm512_storeu_si512(state + 16, high);
  }
  input = in;
}

}  // namespace

extern const Kernels kAvx512Kernels;
const Kernels kAvx512Kernels = {"avx512",     kRows<float>, kRows<double>,    add_activity_row, any_of_row,
                                contexts_row, zip16,        rans_encode_wide, rans_decode_wide};

}  // namespace varve::codec
