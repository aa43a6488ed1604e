// HDF5's filters of chunks, undone and redone: bytes of the file <-> elements, both ways exact.
//
// A chunk is taken into an array only if its filters, undone and redone, give back the file's bytes. Shuffle and
// Fletcher32 leave the length of a chunk as it is, so that other values than the program's (within a bound) fit in its
// place, with the checksum that they have. Deflated arrays are exact whatever the policy says.
//
// What deflate makes of the same elements depends on the library. The sum of each deflated chunk is kept in the layout
// and compared whenever the chunk is made again: another zlib that deflates differently gives EIO, never other bytes.
//
// Sources: the HDF5 1.10 library's H5Zdeflate.c, H5Zshuffle.c, H5Zfletcher32.c and H5checksum.c say what the filters do
// ("HDF5 File Format Specification", Data Storage - Filter Pipeline); RFC 1950, RFC 1951.
#pragma once

#include <string>

#include "codec/types.h"
#include "fs/formats/recogniser.h"
#include "fs/gather.h"

namespace varve::fs {

bool is_deflated(const ArrayRegion& region);

/// The library that deflates, and its version: "zlib 1.2.13".
std::string deflating_library();

/// The elements (`bytes` of them, as one unfiltered chunk) of what the file has. EBADMSG: filters never made that.
Result<codec::Bytes> undo_filters(const ArrayRegion& region, uint32_t skipped, codec::Bytes stored, uint64_t bytes);

/// The elements of one of region.chunks. EBADMSG: see undo_filters; others are of `read`.
Result<codec::Bytes> unfiltered_chunk(const ArrayRegion& region, const ChunkPlace& place, const ReadContent& read);

/// What the file has of elements. EBADMSG: the filters cannot be applied to them.
Result<codec::Bytes> redo_filters(const ArrayRegion& region, uint32_t skipped, codec::Bytes elements);

/// As StoredChunk::sum.
uint64_t sum_of_chunk(std::span<const std::byte> stored);

}  // namespace varve::fs
