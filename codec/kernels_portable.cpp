#include "codec/kernels_rows.h"

namespace varve::codec {

extern const Kernels kPortableKernels;
const Kernels kPortableKernels = {"portable",   kRows<float>, kRows<double>,     add_activity_row, any_of_row,
                                  contexts_row, zip16,        rans_encode_plain, rans_decode_plain};

}  // namespace varve::codec
