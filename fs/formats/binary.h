// Numbers in the headers of binary formats.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// The number at `offset`, which must lie within `bytes`.
template <typename T>
T load(std::span<const std::byte> bytes, size_t offset, bool big_endian) {
  std::array<std::byte, sizeof(T)> raw{};
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), raw.size(), raw.begin());
  if (big_endian) {
    std::reverse(raw.begin(), raw.end());
  }
  return std::bit_cast<T>(raw);
}

/// `size` bytes from `offset` on. EBADMSG: the file ends within them.
inline Result<std::vector<std::byte>> read_exactly(FileView& file, uint64_t offset, size_t size) {
  const Error ends{EBADMSG, "the file ends within what should be its header; it is kept as bytes"};
  if (offset > file.size() || size > file.size() - offset) {
    return ends;
  }
  std::vector<std::byte> bytes(size);
  if (size == 0) {
    return bytes;
  }
  VARVE_ASSIGN(const size_t got, file.read(offset, bytes));
  return got == size ? Result<std::vector<std::byte>>(std::move(bytes)) : ends;
}

}  // namespace varve::fs
