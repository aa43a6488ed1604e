// One encoded array as one run of bytes: header, directory, records. FORMAT.md, "Container". For programs that keep
// arrays without a store: the C API (capi.h), the HDF5 filter, the Python package.
#pragma once

#include "codec/codec.h"

namespace varve::codec {

/// Encodes an array into a container. `spec.elements` must be all elements; `spec.parallel` encodes tiles, too.
/// Errors: those of ArrayCodec::plan, and EINVAL when spec.elements has not as many bytes as the shape calls for.
Result<Bytes> make_container(const ArraySpec& spec);

/// A container, opened for reading. Borrows the bytes it was opened on, which may be a prefix of the whole: what lies
/// in it can be decoded. Immutable; every const member may be called from any number of threads at once.
class Container {
 public:
  /// Never trusts its input: EBADMSG with a sentence. Looks at the front alone: records are checked when they are used.
  static Result<Container> open(std::span<const std::byte> data);

  const ArrayCodec& codec() const { return codec_; }
  /// Bytes of the whole container.
  uint64_t size() const { return front_ + stored_; }
  /// How many of its first bytes suffice to decode with `finest` = level (0 to 3).
  uint64_t prefix(uint8_t level) const;

  /// Decodes the elements of `box` into `out`: C order, host byte order. Points of levels below `finest` (0 to 3) are
  /// interpolated, see ArrayCodec::decode_brick. Errors: EINVAL (a box that is not in the array, a level over 3),
  /// EBADMSG (a record that is damaged, or absent from this prefix).
  Status decode(const Box& box, uint8_t finest, std::byte* out, const Parallel& parallel = {}) const;

  /// Compares every record with its checksum: EBADMSG names the first that differs.
  Status verify() const;

 private:
  struct Entry {
    RecordId id;
    uint64_t offset = 0;  ///< from the container's first byte
    uint64_t size = 0;
    uint64_t checksum = 0;
  };

  explicit Container(ArrayCodec codec) : codec_(std::move(codec)) {}
  Status read_directory(std::span<const std::byte> directory);
  const Entry* find(const RecordId& id) const;
  Result<std::span<const std::byte>> record(const Entry& entry) const;
  Status decode_part(uint64_t brick, const CoarseGrid& coarse, uint8_t finest, const Box& box, std::byte* out) const;

  ArrayCodec codec_;
  std::span<const std::byte> data_;
  uint64_t front_ = 0;
  uint64_t stored_ = 0;         ///< bytes of all records
  std::vector<Entry> entries_;  ///< coarse first, then levels 2, 1, 0; bricks ascending
};

}  // namespace varve::codec
