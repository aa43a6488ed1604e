// Bytes through Zstandard, with or without a byte shuffle before it.
#pragma once

#include <span>

#include "codec/types.h"

namespace varve::codec {

/// Whether all elements of `size` bytes have the same bits. False for no elements.
bool is_constant(std::span<const std::byte> data, size_t size);

/// Groups the k-th bytes of all elements: out[k * n + i] = in[i * size + k]. `data.size()` is a multiple of `size`.
Bytes shuffle(std::span<const std::byte> data, size_t size);
void unshuffle(std::span<const std::byte> data, size_t size, std::byte* out);

/// A Zstandard frame of level 3 (no checksum, no content size).
Bytes zstd_pack(std::span<const std::byte> data);
/// EBADMSG unless `frame` decodes to exactly out.size() bytes.
Status zstd_unpack(std::span<const std::byte> frame, std::span<std::byte> out);

}  // namespace varve::codec
