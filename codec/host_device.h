// Functions that kernels and the CPU's codec share.
#pragma once

#ifdef __CUDACC__
#define VARVE_HOST_DEVICE __host__ __device__
#else
#define VARVE_HOST_DEVICE
#endif
