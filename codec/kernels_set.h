// All kernels of one instruction set as a table.
#pragma once

#include "codec/kernels_classes.h"
#include "codec/kernels_coder.h"
#include "codec/kernels_differences.h"

namespace varve::codec {
namespace {

template <typename T>
constexpr TypedKernels<T> make_typed() {
  TypedKernels<T> made{};
  if constexpr (std::is_floating_point_v<T>) {
    made.encode_codes = encode_codes<T>;
    made.decode_codes = decode_codes<T>;
  }
  made.encode_residuals = encode_residuals<T>;
  made.decode_residuals = decode_residuals<T>;
  made.wide_codes = wide_codes<T>;
  made.codes_of = codes_of<T>;
  made.tokens_of = tokens_of_codes<T>;
  made.carry_codes = carry_codes<T>;
  made.subtract_before = subtract_before<T>;
  made.add_before = add_before<T>;
  made.every_second = every_second<T>;
  made.interleave = interleave<T>;
  made.put_marked = put_marked<T>;
  made.largest_code = largest_code<T>;
  made.largest_difference = largest_difference<T>;
  made.pad_row = pad_row_of<T>;
  made.extremes = extremes<T>;
  return made;
}

constexpr Kernels make_kernels(const char* name) {
  return {name,
          make_typed<float>(),
          make_typed<double>(),
          make_typed<int32_t>(),
          make_typed<int64_t>(),
          contexts_of_class,
          mark_class,
          largest_byte,
          any_outside,
          find_outside,
          any_beyond,
          interleave<uint8_t, VectorU8>,
          rans_encode_plain,
          rans_decode_plain};
}

}  // namespace
}  // namespace varve::codec
