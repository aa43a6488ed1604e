// Encodes arrays for format_decoder.py: of each a golden file, then what stopping at levels 1, 2 and 3 gives as records
// of levels 17, 18 and 19. format_samples FOLDER
#include <filesystem>
#include <fstream>

#include "tests/codec/array_file.h"

namespace varve::codec::testing {
namespace {

constexpr uint8_t kStopped = 16;  ///< added to the finest level

bool write_sample(const std::filesystem::path& folder, const Array& array, bool exact) {
  static int number = 0;
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  if (!codec.ok()) {
    return false;
  }
  const auto store = encode_all(*codec, array, exact);
  if (!store.ok()) {
    return false;
  }
  std::array<Bytes, 4> decoded;
  for (uint8_t finest = 0; finest <= kCoarseLevel; ++finest) {
    auto result = decode_all(*codec, *store, finest);
    if (!result.ok()) {
      return false;
    }
    decoded.at(finest) = *std::move(result);
  }
  ByteWriter out;
  out.put_bytes(array_file(codec->header(), decoded[0], *store));
  for (uint8_t finest = 1; finest <= kCoarseLevel; ++finest) {
    out.put_u8(kStopped + finest);
    out.put_varint(0);
    put_framed(out, encode_bytes(decoded.at(finest)));
  }
  const Bytes bytes = out.take();
  const std::string name =
      fmt::format("{:03}_{}_{}", number++, name_of(codec->dtype()), fmt::join(codec->shape(), "x"));
  std::ofstream file(folder / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return file.good();
}

bool write_all(const std::filesystem::path& folder) {
  constexpr Bound kLossless;
  constexpr Bound kLoose{BoundMode::relative, 1e-2};
  constexpr Bound kTight{BoundMode::relative, 1e-5};
  constexpr Bound kAbsolute{BoundMode::absolute, 1e-2};
  bool good = true;
  const auto sample = [&](DType type, const Extents& shape, Content content, const Bound& bound, bool exact = false) {
    good = write_sample(folder, make_array(type, shape, content, bound, 5), exact) && good;
  };
  for (uint8_t type = 1; type <= 12; ++type) {
    sample(DType{type}, {21, 17, 26}, Content::waves, kLossless);
    sample(DType{type}, {5000}, Content::noise, kLossless);
    sample(DType{type}, {9, 7, 11}, Content::steps, kLossless);
    sample(DType{type}, {3, 70, 40}, Content::constant, kLossless);
    sample(DType{type}, {70, 66, 3}, Content::decimals, kLossless);
  }
  for (const DType type : {DType::f32, DType::f64}) {
    for (const Content content : kContents) {
      for (const Bound& bound : {kLossless, kLoose, kAbsolute}) {
        sample(type, {67, 81}, content, bound);
      }
    }
    for (const Extents& shape : {Extents{}, {1}, {0, 3}, {4097}, {2, 70, 68}, {3, 4, 20, 21}, {1, 90, 1, 77}}) {
      sample(type, shape, Content::waves, kTight);
    }
    sample(type, {67, 81}, Content::waves, kAbsolute, true);
    sample(type, {20, 21, 22}, Content::mask, kTight);
  }
  // Every mapping of every type.
  const std::vector<Bound> bounds = {{BoundMode::absolute, 2},
                                     {BoundMode::relative, 1e-2},
                                     {BoundMode::pointwise, 0.05},
                                     {BoundMode::psnr, 40},
                                     {BoundMode::absolute_and_relative, 3, 0.1},
                                     {BoundMode::ratio, 12},
                                     {BoundMode::bits, 4}};
  for (uint8_t type = 1; type <= 12; ++type) {
    for (const Bound& bound : bounds) {
      sample(DType{type}, {66, 71}, bound.mode == BoundMode::bits ? Content::specials : Content::mask, bound);
    }
    sample(DType{type}, {3, 20, 26}, Content::fills, bounds[0]);
    sample(DType{type}, {2100}, Content::huge_range, bounds[2]);
    sample(DType{type}, {67, 81}, Content::steps, bounds[2], true);
  }
  // Many bricks, many tiles.
  sample(DType::u16, {300, 280}, Content::ramp, bounds[0]);
  sample(DType::f16, {70, 66, 30}, Content::waves, kLoose);
  sample(DType::f32, {70, 130, 67}, Content::waves, kLoose);
  sample(DType::f32, {70, 130, 67}, Content::waves, kTight);
  sample(DType::f64, {5, 300, 280}, Content::waves, kTight);
  sample(DType::f32, {90, 7, 3}, Content::waves, kTight);
  sample(DType::f64, {300, 280}, Content::mask, kLoose);
  sample(DType::i16, {300, 280}, Content::steps, kLossless);
  sample(DType::f32, {70000}, Content::waves, kTight);
  sample(DType::f32, {40, 12, 40, 40}, Content::waves, kLoose);
  // Multiples: rough ones, with escapes, of one to three axes, a tile of bits among them.
  for (const DType type : {DType::f32, DType::f64}) {
    sample(type, {70, 130}, Content::patches, kLoose);
    sample(type, {20, 30, 70}, Content::patches, kTight);
    sample(type, {3, 12, 30, 20}, Content::patches, kAbsolute);
    sample(type, {140000}, Content::patches, kAbsolute);
    sample(type, {70, 130}, Content::patches, kLoose, true);
  }
  // Differences along a batch axis of two, and along the first of all.
  sample(DType::f32, {11, 70, 68}, Content::layers, kLoose);
  sample(DType::f64, {12, 2, 40, 50}, Content::layers, kAbsolute);
  sample(DType::i16, {11, 50, 60}, Content::layers, bounds[0]);
  return good;
}

}  // namespace
}  // namespace varve::codec::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  return varve::codec::testing::write_all(argv[1]) ? 0 : 1;
}
