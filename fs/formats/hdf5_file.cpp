#include "fs/formats/hdf5_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fs/formats/hdf5.h"

namespace varve::fs {

namespace {

constexpr std::string_view kSignature{"\x89HDF\r\n\x1a\n", 8};

std::optional<uint64_t> signature_offset(FileView& file) {
  std::array<std::byte, kSignature.size()> start{};
  for (uint64_t offset = 0; offset + start.size() <= file.size(); offset = offset == 0 ? 512 : offset * 2) {
    auto got = file.read(offset, start);
    if (!got.ok() || *got != start.size()) {
      return std::nullopt;
    }
    if (std::equal(start.begin(), start.end(), kSignature.begin(),
                   [](std::byte a, char b) { return a == static_cast<std::byte>(b); })) {
      return offset;
    }
  }
  return std::nullopt;
}

/// Version 3 of the superblock has a flag for it. What such a file says of its arrays may be stale. (The library looks
/// at the flag too, but only with some drivers and settings.)
Result<bool> marked_as_being_written(FileView& file, uint64_t superblock) {
  std::array<std::byte, 4> fields{};  // version, size of offsets, size of lengths, consistency flags
  VARVE_ASSIGN(size_t got, file.read(superblock + kSignature.size(), fields));
  return got == fields.size() && fields[0] == std::byte{3} && (fields[3] & std::byte{1}) != std::byte{0};
}

}  // namespace

Error unreadable_hdf5(std::string_view reason) {
  return Error{EBADMSG,
               fmt::format("the HDF5 library cannot read it ({}); the file is kept as bytes. `h5dump -H` on it "
                           "shows whether it is damaged or still being written",
                           reason)};
}

bool has_hdf5_signature(FileView& file) { return signature_offset(file).has_value(); }

Result<std::unique_ptr<Hdf5File>> open_hdf5_file(FileView& file) {
  const auto superblock = signature_offset(file);
  if (!superblock) {
    return std::unique_ptr<Hdf5File>();
  }
  VARVE_ASSIGN(const bool unfinished, marked_as_being_written(file, *superblock));
  if (unfinished) {
    return unreadable_hdf5("its writer has not closed it");
  }
  static std::mutex library;
  auto opened = std::make_unique<Hdf5File>();
  opened->lock = std::unique_lock(library);
  opened->source.view = &file;
  const auto id = open_hdf5(opened->source);
  if (!id.ok()) {
    return unreadable_hdf5(id.error().text);
  }
  opened->id = std::make_unique<Hdf5Id>(*id, H5Fclose);
  return opened;
}

}  // namespace varve::fs
