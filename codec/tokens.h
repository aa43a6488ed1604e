// What the entropy coder codes for a point, and how its neighbours see it. FORMAT.md, "Tokens" and "Contexts".
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "codec/host_device.h"

namespace varve::codec {

/// Signed integers as unsigned ones, small magnitudes first: 0, -1, 1, -2, ...
VARVE_HOST_DEVICE constexpr uint32_t zigzag(int32_t v) {
  return (static_cast<uint32_t>(v) << 1) ^ static_cast<uint32_t>(v >> 31);
}
VARVE_HOST_DEVICE constexpr int32_t unzigzag(uint32_t v) { return static_cast<int32_t>((v >> 1) ^ (0U - (v & 1U))); }

// A code (zig-zag, unsigned) below 64 is a token of its own. A larger one of n bits is a token for n and the bit after
// the leading one, and n - 2 raw bits.
inline constexpr unsigned kTokenEscape = 0;   ///< a token that its table lacks: it is next in the record's list
inline constexpr unsigned kTokenExact = 1;    ///< the element is next in the record's list of exact elements
inline constexpr unsigned kTokenSpecial = 2;  ///< a missing value, NaN or infinity
inline constexpr unsigned kTokenZero = 3;     ///< code 0
inline constexpr unsigned kDirectCodes = 64;
inline constexpr unsigned kFirstWideToken = kTokenZero + kDirectCodes;
inline constexpr unsigned kTokens = kFirstWideToken + 2 * 58;

/// Bits of a code, which is not 0.
VARVE_HOST_DEVICE inline unsigned bit_length(uint64_t code) {
#ifdef __CUDA_ARCH__
  return 64 - static_cast<unsigned>(__clzll(static_cast<long long>(code)));
#else
  return static_cast<unsigned>(std::bit_width(code));
#endif
}
/// The token of a code of at least kDirectCodes.
VARVE_HOST_DEVICE inline unsigned wide_token(uint64_t code) {
  const unsigned bits = bit_length(code);
  return kFirstWideToken + (bits - 7) * 2 + static_cast<unsigned>(code >> (bits - 2) & 1U);
}
VARVE_HOST_DEVICE inline unsigned token_of(uint64_t code) {
  return code < kDirectCodes ? kTokenZero + static_cast<unsigned>(code) : wide_token(code);
}
/// Raw bits after a token >= kFirstWideToken.
VARVE_HOST_DEVICE inline unsigned extra_bits_of(unsigned token) { return 5 + (token - kFirstWideToken) / 2; }
VARVE_HOST_DEVICE inline uint64_t code_of(unsigned token, uint64_t extra) {
  const unsigned k = token - kFirstWideToken;
  return (uint64_t{2} | (k & 1U)) << extra_bits_of(token) | extra;
}

/// Activity: 0 to kMaxActivity, how large a point's code is, about two steps an octave: the number of thresholds that
/// its token reaches. Exact elements count as large, special ones as 0.
inline constexpr unsigned kMaxActivity = 13;
using Thresholds = std::array<uint8_t, kMaxActivity>;

/// For codes: magnitudes from 1, 2, 3, 4, 6, 8, 12, ... on.
inline constexpr Thresholds kCodeThresholds = {4, 6, 8, 10, 14, 18, 26, 34, 50, 66, 68, 69, 71};

/// For residuals: bit lengths from `base` + 1 on.
inline Thresholds residual_thresholds(unsigned base) {
  Thresholds out{};
  for (unsigned k = 0; k < kMaxActivity; ++k) {
    const unsigned bits = base + k + 1;  // the least code of so many bits
    out.at(k) = bits > 64 ? uint8_t{255} : static_cast<uint8_t>(token_of(uint64_t{1} << (bits - 1)));
  }
  return out;
}

// Contexts of a class: kPlainContexts from the sum of activities around a point, three more for points next to special
// ones, one for the flags of quiet groups.
inline constexpr unsigned kPlainContexts = 12;
inline constexpr unsigned kHoleContext = kPlainContexts;  ///< some neighbours special; +1: most; +2: all
inline constexpr unsigned kFlagContext = 15;
inline constexpr unsigned kClassContexts = 16;
/// Context k begins where the sum of activities, of weight 6 an axis, reaches this for one axis; times the axes.
inline constexpr std::array<uint8_t, kPlainContexts - 1> kSumThresholds = {1, 2, 4, 6, 9, 13, 18, 25, 33, 42, 54};

// A table is chosen by level group (0, 1, 2, 3 and up), number of odd axes, context; and one for anchors.
inline constexpr unsigned kLevelGroups = 4;
inline constexpr unsigned kAnchorContext = kLevelGroups * 3 * kClassContexts;
inline constexpr unsigned kContexts = kAnchorContext + 1;
VARVE_HOST_DEVICE inline unsigned context_base(unsigned level, unsigned axes) {
  return ((level < kLevelGroups ? level : kLevelGroups - 1) * 3 + axes - 1) * kClassContexts;
}

/// Points whose contexts are all 0 are coded by a flag when their codes are all 0: so many in a row, from the class's
/// first point on.
inline constexpr size_t kGroup = 32;
inline constexpr unsigned kFlagQuiet = kTokenZero;
inline constexpr unsigned kFlagActive = kTokenZero + 1;

}  // namespace varve::codec
