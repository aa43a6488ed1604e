// Compiled with -mavx2; run only where the CPU has it.
#define VARVE_VECTOR_BYTES 32
#include "codec/kernels_set.h"

namespace varve::codec {

extern const Kernels kAvx2Kernels;
const Kernels kAvx2Kernels = make_kernels("avx2");

}  // namespace varve::codec
