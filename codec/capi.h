/* The codec for C and for whatever can call C: an array <-> one self-contained run of bytes (a container, see
 * FORMAT.md). Library: libvarve.so.
 *
 * Every function answers 0, or an errno, and then varve_last_error() has a sentence. Nothing throws. All functions may
 * be called from any thread; an open container may be read by many threads at once. Elements are in C order (slowest
 * axis first) and in the byte order of the host, which is little-endian. Sizes are in bytes, extents in elements.
 */
#ifndef VARVE_CODEC_CAPI_H
#define VARVE_CODEC_CAPI_H

#include <stdint.h> /* NOLINT: C */

#ifdef __cplusplus
extern "C" {
#endif

#define VARVE_API __attribute__((visibility("default")))

#define VARVE_MAX_RANK 32
#define VARVE_LEVELS 4 /* 0: all points; k: every 2^k-th along the predicted axes */

/* Element types; the same numbers as in the bytes of a container. */
enum varve_dtype {
  VARVE_U8 = 1,
  VARVE_I8 = 2,
  VARVE_U16 = 3,
  VARVE_I16 = 4,
  VARVE_U32 = 5,
  VARVE_I32 = 6,
  VARVE_U64 = 7,
  VARVE_I64 = 8,
  VARVE_F16 = 9, /* IEEE 754 binary16 */
  VARVE_F32 = 10,
  VARVE_F64 = 11,
  VARVE_BF16 = 12 /* bfloat16 */
};

/* What is to be encoded, and how. */
struct varve_spec {
  uint32_t dtype;
  uint32_t rank;         /* 0 (one element) to VARVE_MAX_RANK */
  const uint64_t* shape; /* `rank` extents, slowest first; their product is at most 2^62 */
  /* "lossless", "abs:0.5", "rel:1e-3", "pwrel:1e-3", "psnr:60", "abs:0.1+rel:1e-3", "ratio:20", "bits:12"; null:
   * lossless. Applies to integers, too. */
  const char* bound;
  const uint64_t* fills; /* bit patterns of missing values, zero-extended: kept bit for bit, no part of the range */
  uint64_t fill_count;
  uint32_t threads; /* 0: one for each processor */
};

/* What an open container holds. */
struct varve_info {
  uint32_t dtype;
  uint32_t rank;
  uint64_t shape[VARVE_MAX_RANK];
  uint64_t brick[VARVE_MAX_RANK]; /* extents of the first brick: boxes of whole bricks are read at least cost */
  uint64_t size;                  /* bytes of all elements */
  uint64_t stored;                /* bytes of the container; size / stored is the ratio */
  uint64_t prefix[VARVE_LEVELS];  /* how many of the container's first bytes suffice to decode at that level */
  double absolute_bound;          /* what each element keeps (pwrel, bits: the largest); 0: lossless */
  double min, max;                /* over finite, not missing elements, where there is a bound; else 0 */
  char bound[96];                 /* as it was asked for */
  char method[160];               /* how it is stored, for people */
};

struct varve_container;

/* "0.1.0"; static. */
VARVE_API const char* varve_version(void);
/* Of this thread's last call that did not answer 0; "" before one. Valid until the thread's next call. */
VARVE_API const char* varve_last_error(void);
/* Bytes of one element; 0: no such type. */
VARVE_API uint32_t varve_element_size(uint32_t dtype);

/* Encodes the elements (as many as the shape has) into a container that the caller gives to varve_free.
 * EINVAL: a bound, type, rank or shape that is none; ENOMEM. */
VARVE_API int varve_compress(const struct varve_spec* spec, const void* elements, void** container, uint64_t* size);
VARVE_API void varve_free(void* container);

/* Opens a container, or the first bytes of one (see varve_info.prefix), for reading. The bytes stay the caller's and
 * must outlive *opened, which the caller gives to varve_close. Never trusts them: EBADMSG; ENOMEM. */
VARVE_API int varve_open(const void* container, uint64_t size, struct varve_container** opened);
VARVE_API void varve_close(struct varve_container* opened);
VARVE_API int varve_get_info(const struct varve_container* opened, struct varve_info* info);

/* Decodes all elements into `out`, whose size must be varve_info.size. Points of finer levels than `level` (0 to 3)
 * are interpolated. `threads`: 0: one for each processor. EINVAL; EBADMSG: a record is damaged or cut off. After an
 * error, what `out` has is undefined. */
VARVE_API int varve_decompress(const struct varve_container* opened, uint32_t level, uint32_t threads, void* out,
                               uint64_t out_size);
/* The same for the elements with origin[i] <= index[i] < origin[i] + shape[i], of varve_info.rank extents each.
 * `out_size`: what they take. */
VARVE_API int varve_decompress_box(const struct varve_container* opened, const uint64_t* origin, const uint64_t* shape,
                                   uint32_t level, uint32_t threads, void* out, uint64_t out_size);
/* Compares every record with its checksum: EBADMSG names the first that differs. */
VARVE_API int varve_verify(const struct varve_container* opened);

#ifdef __cplusplus
}
#endif

#endif
