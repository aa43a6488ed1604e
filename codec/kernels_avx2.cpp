// Compiled with -mavx2; run only where the CPU has it.
#include "codec/kernels_rows.h"

namespace varve::codec {

extern const Kernels kAvx2Kernels;
const Kernels kAvx2Kernels = {"avx2",       kRows<float>, kRows<double>,     add_activity_row, any_of_row,
                              contexts_row, zip16,        rans_encode_plain, rans_decode_plain};

}  // namespace varve::codec
