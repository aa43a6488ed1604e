// A file that is made from another: literal bytes, and elements of the other's arrays. Made by the recogniser's worker
// from a file's metadata alone; the elements are read when somebody reads that part of the image (fs/image_reader.h).
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

/// Elements start, start + step, ... of one axis, `count` of them.
struct SliceAxis {
  uint64_t start = 0;
  int64_t step = 1;
  uint64_t count = 0;
  bool operator==(const SliceAxis&) const = default;
};

/// An array of the original, and what its elements are in chunks that the file does not store.
struct ImageSource {
  ArrayRegion region;           ///< its name, fill values and keep_exact mean nothing here
  std::vector<std::byte> fill;  ///< one element as the file has it; empty: zeros
  bool operator==(const ImageSource&) const = default;
};

/// `length` bytes from `offset` of the image on: literal ones, or elements in C order over `axes`.
struct ImagePart {
  uint64_t offset = 0, length = 0;
  std::vector<std::byte> bytes;  ///< literal; empty: a slice
  uint32_t source = 0;           ///< slices: index into FileImage::sources
  std::vector<SliceAxis> axes;   ///< slices: one for each axis of the source
  bool operator==(const ImagePart&) const = default;
};

struct FileImage {
  uint64_t size = 0;
  std::vector<ImageSource> sources;
  std::vector<ImagePart> parts;  ///< by offset; what none covers is zeros

  void add_bytes(uint64_t offset, std::vector<std::byte> bytes);
  void add_slice(uint64_t offset, uint32_t source, std::vector<SliceAxis> axes);
  /// Puts parts in order and checks them all: EBADMSG (in the file of `file_size` bytes, in the image, no two overlap).
  Status finish(uint64_t file_size);
  bool operator==(const FileImage&) const = default;
};

inline constexpr uint8_t kMostShift = 9;

/// An image of a region of an array (.npy), or of the whole file with its arrays thinned.
struct ImageRequest {
  enum class Kind : uint8_t { region, coarse };
  Kind kind = Kind::region;
  std::string region;  ///< RegionSpec as text
  uint8_t shift = 0;   ///< coarse: every 2^shift-th point, kMostShift at most
};

/// ENOENT with a sentence: the file has no such array, or its format no such image. Others: it cannot be read.
Result<FileImage> make_image(const ImageRequest& request, std::string_view name, FileView& file,
                             const std::optional<RawHint>& hint);

/// As bytes and back; deserialise_image trusts nothing: EBADMSG.
std::vector<std::byte> serialise(const FileImage& image);
Result<FileImage> deserialise_image(std::span<const std::byte> bytes, uint64_t file_size);

}  // namespace varve::fs
