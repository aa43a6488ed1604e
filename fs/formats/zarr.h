// Zarr, versions 2 and 3: arrays in directories, a file for each chunk. What a chunk holds is said by the array's
// metadata, which lie beside it or above.
// Method: https://zarr-specs.readthedocs.io (v2/v2.0, v3/core)
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// Files of metadata that are longer say nothing.
inline constexpr uint64_t kLongestZarrMetadata = 65536;

/// Whether a chunk, or a directory of chunks, may be called so: "0.3.1", "17", "c", "c.0.3"; before it is renamed into
/// place, "0.3.1.UUID.partial".
bool may_be_zarr_chunk(std::string_view name);

/// The files of an array's directory, as text; empty where there is none.
struct ZarrMetadata {
  std::string directory;  ///< its name
  std::string zarray;     ///< .zarray
  std::string zattrs;     ///< .zattrs
  std::string zarr_json;  ///< zarr.json
};

/// How to read a chunk of `bytes` bytes. Nothing: chunks are compressed, filtered or no numbers, or of another size;
/// or the metadata cannot be read. Safe in the daemon.
std::optional<RawHint> zarr_hint(const ZarrMetadata& metadata, uint64_t bytes);

}  // namespace varve::fs
