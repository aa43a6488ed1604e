// What the filter is told about a dataset: HDF5's "client data", an array of 32-bit numbers kept with the dataset.
//
// What users give (h5py: compression_opts), M being a bound mode of codec/types.h (0 lossless, 1 abs, 2 rel, 3 pwrel,
// 4 psnr, 5 abs and rel, 6 ratio, 7 bits), plus 256 if integers may move, too:
//   nothing             lossless
//   M, low, high        the halves of the bound's value, an f64; or of the second value, too: M, low, high, low, high
// What set_local makes of it and the file keeps:
//   0x56480001; dtype + 256 if big-endian + 512 if integers may move; mode; low, high of both values; number of
//   missing values, low, high of each; rank; extents of a chunk
// `python3 -m varve filter BOUND` prints the numbers to give.
#pragma once

#include <span>
#include <vector>

#include "codec/types.h"

namespace varve::tools {

inline constexpr uint32_t kFilterNumber = 421;  ///< of the range 256 to 511 that HDF5 leaves for testing

struct FilterParameters {
  codec::DType dtype = codec::DType::u8;
  bool big_endian = false;
  bool integers = false;  ///< the bound applies to integers
  codec::Bound bound;
  std::vector<uint64_t> fill_values;  ///< at most kMostFills
  codec::Extents shape;               ///< of a chunk; then, in an array of arrays or pairs, those of an element

  static constexpr size_t kMostFills = 4;
  /// Bytes of a chunk; 0: that is no size of one (HDF5's limit is 4 GiB).
  uint64_t chunk_bytes() const;
};

/// Most numbers that write() makes.
inline constexpr size_t kMostParameters = 9 + 2 * FilterParameters::kMostFills + codec::kMaxRank;

/// Takes both forms; of the first, only `bound` and `integers` are set. EINVAL with a sentence.
Result<FilterParameters> read_bound(std::span<const unsigned> numbers);
/// Takes the second form alone: EINVAL with a sentence.
Result<FilterParameters> read_parameters(std::span<const unsigned> numbers);
std::vector<unsigned> write_parameters(const FilterParameters& parameters);

}  // namespace varve::tools
