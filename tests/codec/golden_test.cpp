// Headers and records of every format version must decode to the same bytes for ever. To add a version, run with
// VARVE_WRITE_GOLDEN=1 after the format's version number was raised; never rewrite an old file.
#include <filesystem>
#include <fstream>

#include "tests/codec/array_file.h"

namespace varve::codec::testing {
namespace {

const std::filesystem::path kFolder = VARVE_GOLDEN;

struct Case {
  const char* name;
  DType type;
  Extents shape;
  Content content;
  Bound bound;
};

/// A file holds: varint-framed header, decoded bytes, then (level, brick, record) until the end.
void write_case(const std::filesystem::path& path, const Case& one) {
  const Array array = make_array(one.type, one.shape, one.content, one.bound, 99);
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  ASSERT_TRUE(codec.ok());
  const auto store = encode_all(*codec, array);
  const auto decoded = decode_all(*codec, *store);
  ASSERT_TRUE(decoded.ok());
  const Bytes bytes = array_file(codec->header(), *decoded, *store);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void read_case(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ByteReader in(std::as_bytes(std::span(text)));
  const auto codec = ArrayCodec::parse(in.get_bytes(in.get_varint()));
  ASSERT_TRUE(codec.ok()) << codec.error().text;
  Bytes expected(element_count(codec->shape()) * element_size(codec->dtype()));
  ASSERT_TRUE(decode_bytes(in.get_bytes(in.get_varint()), expected).ok());
  Store store;
  while (in.left() > 0 && !in.failed()) {
    const uint8_t level = in.get_u8();
    const uint64_t brick = in.get_varint();
    const auto record = in.get_bytes(in.get_varint());
    store[{level, brick}] = Bytes(record.begin(), record.end());
  }
  ASSERT_FALSE(in.failed());
  const auto decoded = decode_all(*codec, store);
  ASSERT_TRUE(decoded.ok()) << decoded.error().text;
  EXPECT_TRUE(*decoded == expected);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"v2_f32_waves_rel", DType::f32, {33, 40, 21}, Content::waves, {BoundMode::relative, 1e-3}},
      {"v2_f32_mask_abs", DType::f32, {90, 110}, Content::mask, {BoundMode::absolute, 1e-2}},
      {"v2_f64_specials_rel", DType::f64, {3, 60, 30}, Content::specials, {BoundMode::relative, 1e-2}},
      {"v2_f64_waves_lossless", DType::f64, {12, 20, 22}, Content::waves, {}},
      {"v2_i16_steps_lossless", DType::i16, {100, 90}, Content::steps, {}},
      {"v2_f16_noise_lossless", DType::f16, {5000}, Content::noise, {}},
      {"v2_u8_tiny", DType::u8, {3}, Content::ramp, {}},
      {"v2_i64_ramp_lossless", DType::i64, {9000}, Content::ramp, {}},
      {"v2_f32_tiny_abs", DType::f32, {40, 50}, Content::waves, {BoundMode::absolute, 1e-3}},
      {"v2_f16_specials_rel", DType::f16, {60, 70}, Content::specials, {BoundMode::relative, 1e-2}},
      {"v2_bf16_waves_bits", DType::bf16, {20, 30, 21}, Content::waves, {BoundMode::bits, 4}},
      {"v2_u8_ramp_abs", DType::u8, {80, 90}, Content::ramp, {BoundMode::absolute, 2}},
      {"v2_i32_waves_pwrel", DType::i32, {18, 20, 22}, Content::waves, {BoundMode::pointwise, 0.1}},
      {"v2_f32_mask_pwrel", DType::f32, {70, 80}, Content::mask, {BoundMode::pointwise, 1e-2}},
      {"v2_f64_waves_both", DType::f64, {70, 80}, Content::waves, {BoundMode::absolute_and_relative, 0.1, 1e-3}},
      {"v2_f32_waves_ratio", DType::f32, {40, 50, 20}, Content::waves, {BoundMode::ratio, 20}},
      {"v2_f32_waves_six", DType::f32, {7, 20, 40}, Content::waves, {BoundMode::relative, 1e-5}},
      {"v2_f32_layers_rel", DType::f32, {9, 40, 50}, Content::layers, {BoundMode::relative, 1e-3}},
      {"v2_f32_patches_rel", DType::f32, {20, 30, 40}, Content::patches, {BoundMode::relative, 1e-3}},
      {"v2_f64_patches_abs", DType::f64, {90, 80}, Content::patches, {BoundMode::absolute, 1e-2}}};
  return all;
}

TEST(Golden, OldFilesDecodeToTheSameBytes) {
  if (std::getenv("VARVE_WRITE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(kFolder);
    for (const Case& one : cases()) {
      const auto path = kFolder / (std::string(one.name) + ".bin");
      if (!std::filesystem::exists(path)) {
        write_case(path, one);
      }
    }
  }
  size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    SCOPED_TRACE(entry.path().string());
    read_case(entry.path());
    ++seen;
  }
  EXPECT_GE(seen, cases().size());
}

}  // namespace
}  // namespace varve::codec::testing
