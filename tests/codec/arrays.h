// Arrays with every kind of contents, and the way through the codec and back.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "codec/codec.h"

namespace varve::codec::testing {

/// An array in memory: C order.
struct Array {
  ArraySpec spec;
  Bytes data;
  uint64_t count() const { return element_count(spec.shape); }
};

/// Copies a box between a C-order array and a dense box.
inline void copy_box(const Extents& shape, size_t size, const Box& box, const std::byte* array, std::byte* dense) {
  const size_t rank = shape.size();
  const uint64_t total = element_count(box.shape);
  Extents index(rank, 0);
  for (uint64_t i = 0; i < total; ++i) {
    uint64_t at = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      at = at * shape[axis] + box.origin[axis] + index[axis];
    }
    std::memcpy(dense + i * size, array + at * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < box.shape[axis]) {
        break;
      }
      index[axis] = 0;
    }
  }
}

inline void put_box(const Extents& shape, size_t size, const Box& box, const std::byte* dense, std::byte* array) {
  const size_t rank = shape.size();
  const uint64_t total = element_count(box.shape);
  Extents index(rank, 0);
  for (uint64_t i = 0; i < total; ++i) {
    uint64_t at = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      at = at * shape[axis] + box.origin[axis] + index[axis];
    }
    std::memcpy(array + at * size, dense + i * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < box.shape[axis]) {
        break;
      }
      index[axis] = 0;
    }
  }
}

inline ReadBox reader_of(const Array& array) {
  return [&array](const Box& box, std::byte* out) -> Status {
    copy_box(array.spec.shape, element_size(array.spec.dtype), box, array.data.data(), out);
    return {};
  };
}

using Store = std::map<std::pair<uint8_t, uint64_t>, Bytes>;

inline void keep(const std::vector<Record>& records, Store& store) {
  for (const Record& record : records) {
    EXPECT_FALSE(record.data.empty());
    const bool fresh = store.emplace(std::pair(record.id.level, record.id.brick), record.data).second;
    EXPECT_TRUE(fresh) << "level " << int{record.id.level} << " brick " << record.id.brick << " came twice";
  }
}

inline Result<Store> encode_all(const ArrayCodec& codec, const Array& array, bool exact = false) {
  Store store;
  Bytes data;
  for (uint64_t tile = 0; tile < codec.tile_count(); ++tile) {
    const Box box = codec.tile_box(tile);
    const size_t size = element_size(array.spec.dtype);
    data.resize(element_count(box.shape) * size);
    copy_box(array.spec.shape, size, box, array.data.data(), data.data());
    VARVE_ASSIGN(const auto records, codec.encode_tile(tile, data.data(), exact));
    keep(records, store);
  }
  return store;
}

/// `into`: what `out` holds the elements of, if not the brick's alone.
inline Status decode_one(const ArrayCodec& codec, const Store& store, uint64_t brick, const CoarseGrid& coarse,
                         uint8_t finest, std::byte* out, const Box* into = nullptr) {
  std::array<std::optional<std::span<const std::byte>>, 3> levels;
  for (uint8_t level = 0; level < 3; ++level) {
    if (const auto found = store.find({level, brick}); found != store.end()) {
      levels.at(level) = found->second;
    }
  }
  return into == nullptr ? codec.decode_brick(brick, coarse, levels, finest, out)
                         : codec.decode_brick_into(brick, coarse, levels, finest, *into, out);
}

/// The points of a brick by level, decoded without the records of finer levels, if they can be; EILSEQ when one of them
/// differs from its element in `whole`, the brick.
inline Status decode_points_of(const ArrayCodec& codec, const Store& store, uint64_t brick, const CoarseGrid& coarse,
                               const Bytes& whole) {
  const size_t size = element_size(codec.dtype());
  const Box box = codec.brick_box(brick);
  std::array<std::optional<std::span<const std::byte>>, 3> levels;
  for (uint8_t level = kCoarseLevel + 1; level-- > 0;) {
    for (uint8_t read = codec.finest_read(level); read < 3; ++read) {
      if (const auto found = store.find({read, brick}); found != store.end()) {
        levels.at(read) = found->second;
      }
    }
    const Extents steps = codec.level_steps(level);
    Extents shape = box.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      shape[axis] = (shape[axis] + steps[axis] - 1) / steps[axis];
    }
    Bytes points(element_count(shape) * size);
    VARVE_TRY(codec.decode_points(brick, coarse, levels, level, points.data()));
    for (uint64_t i = 0; i < element_count(shape); ++i) {
      uint64_t at = 0;
      uint64_t stride = 1;
      uint64_t rest = i;
      for (size_t axis = shape.size(); axis-- > 0;) {
        at += rest % shape[axis] * steps[axis] * stride;
        rest /= shape[axis];
        stride *= box.shape[axis];
      }
      if (std::memcmp(points.data() + i * size, whole.data() + at * size, size) != 0) {
        return Error{EILSEQ,
                     fmt::format("point {} of level {} of brick {} is not its element {}", i, level, brick, at)};
      }
    }
  }
  return {};
}

/// Decodes every brick, by itself and into the whole array, and the points of its levels; EILSEQ when they differ.
inline Result<Bytes> decode_all(const ArrayCodec& codec, const Store& store, uint8_t finest = 0) {
  const size_t size = element_size(codec.dtype());
  Bytes out(element_count(codec.shape()) * size);
  Bytes direct(out.size());
  const Box whole{Extents(codec.shape().size(), 0), codec.shape()};
  for (uint64_t tile = 0; tile < codec.tile_count(); ++tile) {
    const auto record = store.find({kCoarseLevel, tile});
    if (record == store.end()) {
      return Error{ENOENT, "no coarse record"};
    }
    VARVE_ASSIGN(const CoarseGrid coarse, codec.decode_coarse(tile, record->second));
    for (const uint64_t brick : codec.bricks_of(tile)) {
      const Box box = codec.brick_box(brick);
      Bytes part(element_count(box.shape) * size);
      VARVE_TRY(decode_one(codec, store, brick, coarse, finest, part.data()));
      put_box(codec.shape(), size, box, part.data(), out.data());
      VARVE_TRY(decode_one(codec, store, brick, coarse, finest, direct.data(), &whole));
      if (finest == 0) {
        VARVE_TRY(decode_points_of(codec, store, brick, coarse, part));
      }
    }
  }
  return out == direct ? Result<Bytes>(std::move(out)) : Error{EILSEQ, "bricks decode to other bytes in their array"};
}

inline size_t stored_size(const Store& store) {
  size_t size = 0;
  for (const auto& [id, data] : store) {
    size += data.size();
  }
  return size;
}

template <typename T>
T element(const Bytes& data, size_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// The first promise of the array's bound that `decoded` breaks, as a sentence; "": all are kept. `absolute_bound`:
/// what no element may move by besides; infinity: no such. Judges by values in 113 bits, without the codec's own means.
std::string violation(const Array& array, const Bytes& decoded,
                      double absolute_bound = std::numeric_limits<double>::infinity());

/// The bits that stand for missing values: the declared ones, and a least or greatest value repeated in over 2% of the
/// elements further from the others than those span.
std::vector<uint64_t> missing_values(const Array& array);

/// The largest difference between elements that are finite and not missing in both.
double largest_error(const Array& array, const Bytes& seen, const std::vector<uint64_t>& missing);

/// 20 log10(range / root of the mean squared error) over finite elements that are no fill values; infinite where none
/// moved.
double psnr_of(const Array& array, const Bytes& decoded);

/// An array of f32 or f64.
template <typename T>
Array array_of(const std::vector<T>& values, const Extents& shape, const Bound& bound,
               const std::vector<uint64_t>& fills = {}) {
  Array array;
  array.spec = {sizeof(T) == 4 ? DType::f32 : DType::f64, shape, bound, fills, {}};
  array.data.resize(values.size() * sizeof(T));
  std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

/// Plans, encodes, decodes and checks what must always hold. Returns the stored bytes.
inline size_t check_round_trip(const Array& array, Bytes* decoded_out = nullptr) {
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  EXPECT_TRUE(codec.ok()) << codec.error().text;
  if (!codec.ok()) {
    return 0;
  }
  const auto store = encode_all(*codec, array);
  EXPECT_TRUE(store.ok()) << store.error().text;
  const auto decoded = decode_all(*codec, *store);
  EXPECT_TRUE(decoded.ok()) << decoded.error().text;
  if (!store.ok() || !decoded.ok()) {
    return 0;
  }
  EXPECT_EQ(violation(array, *decoded, codec->info().absolute_bound), "");
  const Bytes header = codec->header();
  const auto again = ArrayCodec::parse(header);
  EXPECT_TRUE(again.ok()) << again.error().text;
  if (again.ok()) {
    EXPECT_EQ(again->header(), header);
    const auto twice = decode_all(*again, *store);
    EXPECT_TRUE(twice.ok() && *twice == *decoded) << "the restored codec decodes otherwise";
  }
  if (decoded_out != nullptr) {
    *decoded_out = *decoded;
  }
  return header.size() + stored_size(*store);
}

// ---- contents -------------------------------------------------------------------------------------------------------

enum class Content {
  constant,
  ramp,
  waves,
  noise,
  denormal,
  huge_range,
  specials,
  fills,
  mask,
  zeros,
  steps,
  decimals,
  layers,
  patches
};
inline constexpr std::array kContents = {Content::constant, Content::ramp,       Content::waves,    Content::noise,
                                         Content::denormal, Content::huge_range, Content::specials, Content::fills,
                                         Content::mask,     Content::zeros,      Content::steps,    Content::decimals,
                                         Content::layers,   Content::patches};

/// An array of `content`; noise and specials of integers are any bits. For Content::fills its fill value is declared.
/// The same seed gives the same array.
Array make_array(DType type, const Extents& shape, Content content, const Bound& bound, uint64_t seed);

}  // namespace varve::codec::testing
