// Kernels on the codes of a class: between tokens and codes, and differences of codes.
#pragma once

#include "codec/kernels_classes.h"

namespace varve::codec {
namespace {

template <typename T>
void codes_of(const uint8_t* tokens, size_t count, const BitsOf<T>* wide, BitsOf<T>* codes) {
  for (size_t i = 0; i < count; i += kLanes<T>) {
    const UVec<T> token = load_tokens<T>(tokens + i);
    const uint32_t used = first_lanes_mask<T>(count - i);
    UVec<T> u = token < kTokenZero ? UVec<T>{} : token - kTokenZero;
    if (const uint32_t lanes = mask_of<T>(token >= kFirstWideToken) & used; lanes != 0) {
      u = put_wide<T>(u, lanes, wide);
    }
    u = of_zigzag<T>(u);
    std::memcpy(codes + i, &u, sizeof u);
  }
}

template <typename T>
size_t tokens_of_codes(const BitsOf<T>* codes, size_t count, uint8_t* tokens, BitsOf<T>* wide) {
  EncodeJob<T> lists;
  lists.wide = wide;
  for (size_t i = 0; i < count; i += kLanes<T>) {
    UVec<T> v;
    std::memcpy(&v, codes + i, sizeof v);
    const UVec<T> u = zigzag_of<T>(v);
    const uint32_t used = first_lanes_mask<T>(count - i);
    const UVec<T> old = load_tokens<T>(tokens + i);
    const uint32_t lanes = mask_of<T>((u >= kDirectCodes) & (old >= kTokenZero)) & used;
    put_tokens<T>(tokens + i, old < kTokenZero ? old : tokens_of<T>(u, lanes != 0));
    put_lists<T>(lists, u, 0, lanes, i);
  }
  return lists.wide_count;
}

/// codes[i] = f(i, codes[i], codes[i - step]) in order: where `step` allows it, vectors at a time.
template <typename T, typename F>
inline void from_before(BitsOf<T>* codes, size_t count, size_t step, const F& f) {
  size_t i = step;
  for (; step >= kLanes<T> && i + kLanes<T> <= count; i += kLanes<T>) {
    UVec<T> own;
    UVec<T> before;
    std::memcpy(&own, codes + i, sizeof own);
    std::memcpy(&before, codes + i - step, sizeof before);
    own = f(i, own, before);
    std::memcpy(codes + i, &own, sizeof own);
  }
  for (; i < count; ++i) {
    codes[i] = f(i, codes[i], codes[i - step]);
  }
}

template <typename T>
void carry_codes(const uint8_t* tokens, BitsOf<T>* codes, size_t count, size_t step) {
  from_before<T>(
      codes, count, step, [&](size_t i, auto own, auto before) __attribute__((always_inline)) {
        if constexpr (std::is_same_v<decltype(own), UVec<T>>) {
          return load_tokens<T>(tokens + i) < kTokenZero ? before : own;
        } else {
          return tokens[i] < kTokenZero ? before : own;
        }
      });
}

template <typename T>
void subtract_before(BitsOf<T>* codes, size_t count, size_t step) {
  size_t i = count;
  for (; i >= step + kLanes<T>; i -= kLanes<T>) {
    UVec<T> own;
    UVec<T> before;
    std::memcpy(&own, codes + i - kLanes<T>, sizeof own);
    std::memcpy(&before, codes + i - kLanes<T> - step, sizeof before);
    own -= before;
    std::memcpy(codes + i - kLanes<T>, &own, sizeof own);
  }
  for (; i > step; --i) {
    codes[i - 1] -= codes[i - 1 - step];
  }
}

template <typename T>
void add_before(BitsOf<T>* codes, size_t count, size_t step) {
  from_before<T>(
      codes, count, step, [](size_t, auto own, auto before) __attribute__((always_inline)) {
        return static_cast<decltype(own)>(own + before);
      });
}

}  // namespace
}  // namespace varve::codec
