// The bytes stream of a layout (layout.h), gathered from a file that is being sealed.
#pragma once

#include "fs/layout.h"
#include "fs/unfiltered_array.h"

namespace varve::fs {

/// Record `chunk` of the stream. `unfiltered`: of each array its elements, if it is filtered; else null. `read`: of the
/// file.
Status read_stream_chunk(const Layout& layout, const std::vector<std::unique_ptr<UnfilteredArray>>& unfiltered,
                         uint64_t chunk, const ReadContent& read, std::span<std::byte> out);

}  // namespace varve::fs
