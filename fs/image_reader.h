// Reads a file image (formats/file_image.h): literal bytes from it, elements of arrays from the file it was made of.
#pragma once

#include "fs/formats/file_image.h"
#include "fs/reader.h"

namespace varve::fs {

/// Fills `out` from `offset` of the original file.
using ReadOriginal = std::function<Status(uint64_t offset, std::span<std::byte> out)>;

/// Of each source of an image the array of `sealed` that has its elements; nothing: read them as bytes. An array that
/// patches lie over has them not.
std::vector<std::optional<uint32_t>> arrays_of(const FileImage& image, const Sealed& sealed);

/// One image while its file does not change. Reads bricks that hold wanted elements alone, and of them the levels that
/// all wanted elements are points of.
class ImageReader {
 public:
  /// `sealed`: null where nothing is; then `arrays` is not looked at. Levels below `finest` are interpolated, and
  /// damaged ones as `damage` (see Reader::read) says; `original` has to do both, too. All must outlive this.
  ImageReader(Reader& reader, ThreadPool& pool, const FileImage& image, const Sealed* sealed,
              const std::vector<std::optional<uint32_t>>& arrays, const ReadOriginal& original, uint8_t finest = 0,
              DamageHandler* damage = nullptr)
      : reader_(reader),
        pool_(pool),
        image_(image),
        sealed_(sealed),
        arrays_(arrays),
        original_(original),
        finest_(finest),
        damage_(damage) {}

  /// The range must lie in the image.
  Status read(uint64_t offset, std::span<std::byte> out) const;

 private:
  Status read_part(const ImagePart& part, uint64_t skip, std::span<std::byte> out) const;
  Status read_elements(const ImagePart& part, uint64_t first, std::span<std::byte> out) const;
  Status from_bricks(const ImagePart& part, uint32_t array, const codec::Box& box, std::byte* out) const;
  Status from_chunks(const ImagePart& part, const codec::Box& box, bool absent_only, std::byte* out) const;

  Reader& reader_;
  ThreadPool& pool_;
  const FileImage& image_;
  const Sealed* sealed_;
  const std::vector<std::optional<uint32_t>>& arrays_;
  const ReadOriginal& original_;
  const uint8_t finest_;
  DamageHandler* const damage_;
};

}  // namespace varve::fs
