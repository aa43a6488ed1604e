#define VARVE_VECTOR_BYTES 16
#include "codec/kernels_set.h"

namespace varve::codec {

extern const Kernels kPortableKernels;
const Kernels kPortableKernels = make_kernels("portable");

}  // namespace varve::codec
