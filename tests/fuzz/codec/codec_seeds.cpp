// Writes inputs for codec_fuzz: small arrays of every scheme, predictor and kind of record. codec_seeds FOLDER
#include <filesystem>
#include <fstream>

#include "codec/container.h"
#include "tests/codec/array_file.h"

namespace varve::codec::testing {
namespace {

struct Seed {
  const char* name;
  DType type;
  Extents shape;
  Content content;
  Bound bound;
  bool exact = false;
};

const std::vector<Seed>& seeds() {
  constexpr auto kAbsolute = BoundMode::absolute;
  constexpr auto kRelative = BoundMode::relative;
  static const std::vector<Seed> all = {
      {"empty", DType::f32, {0, 4}, Content::waves, {}},
      {"scalar", DType::f64, {}, Content::waves, {}},
      {"tiny", DType::f32, {5, 6, 7}, Content::waves, {kAbsolute, 1e-3}},
      {"tiny_i16", DType::i16, {40}, Content::steps, {}},
      {"line", DType::f32, {4200}, Content::waves, {kRelative, 1e-2}},
      {"plane", DType::f64, {70, 66}, Content::waves, {kRelative, 1e-3}},
      {"cube", DType::f32, {17, 18, 19}, Content::waves, {kRelative, 1e-3}},
      {"cube_zero", DType::f32, {17, 18, 19}, Content::constant, {kAbsolute, 1e-3}},
      {"batch", DType::f32, {2, 3, 13, 9, 9}, Content::waves, {kRelative, 1e-2}},
      {"mask", DType::f32, {68, 70}, Content::mask, {kAbsolute, 1e-1}},
      {"fills", DType::f64, {66, 68}, Content::fills, {kAbsolute, 1e-1}},
      {"specials", DType::f32, {66, 68}, Content::specials, {kRelative, 1e-1}},
      {"exact_tile", DType::f32, {17, 18, 19}, Content::waves, {kAbsolute, 1e-1}, true},
      {"wide_range", DType::f32, {4200}, Content::huge_range, {kAbsolute, 1e-3}},
      {"f16_rel", DType::f16, {66, 68}, Content::specials, {kRelative, 1e-2}},
      {"bf16_pwrel", DType::bf16, {17, 18, 19}, Content::waves, {BoundMode::pointwise, 0.05}},
      {"u8_abs", DType::u8, {66, 68}, Content::ramp, {kAbsolute, 2}},
      {"i32_pwrel", DType::i32, {66, 68}, Content::fills, {BoundMode::pointwise, 0.1}},
      {"i64_abs_exact", DType::i64, {66, 68}, Content::waves, {kAbsolute, 2}, true},
      {"f64_bits", DType::f64, {66, 68}, Content::waves, {BoundMode::bits, 9}},
      {"f32_pwrel", DType::f32, {66, 68}, Content::mask, {BoundMode::pointwise, 1e-2}},
      {"f32_both", DType::f32, {66, 68}, Content::waves, {BoundMode::absolute_and_relative, 0.1, 0.1}},
      {"lossless_f32", DType::f32, {17, 18, 19}, Content::steps, {}},
      {"lossless_f64", DType::f64, {4200}, Content::ramp, {}},
      {"lossless_f16", DType::f16, {66, 68}, Content::waves, {}},
      {"lossless_u8", DType::u8, {66, 68}, Content::steps, {}},
      {"lossless_i16", DType::i16, {17, 18, 19}, Content::steps, {}},
      {"lossless_u64", DType::u64, {4200}, Content::ramp, {}},
      {"lossless_i32", DType::i32, {65, 65}, Content::ramp, {}}};
  return all;
}

bool write(const std::filesystem::path& path, char kind, const Bytes& rest) {
  std::ofstream out(path, std::ios::binary);
  out.put(kind);
  out.write(reinterpret_cast<const char*>(rest.data()), static_cast<std::streamsize>(rest.size()));
  return out.good();
}

bool write_array(const std::filesystem::path& folder, const Seed& seed) {
  const Array array = make_array(seed.type, seed.shape, seed.content, seed.bound, 7);
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  if (!codec.ok()) {
    return false;
  }
  const auto store = encode_all(*codec, array, seed.exact);
  if (!store.ok()) {
    return false;
  }
  ByteWriter out;
  put_framed(out, codec->header());
  put_store(out, *store);
  ArraySpec spec = array.spec;
  spec.elements = array.data;
  const auto container = make_container(spec);
  return container.ok() && write(folder / (std::string("container_") + seed.name), 'c', *container) &&
         write(folder / (std::string("array_") + seed.name), 'a', out.take()) &&
         write(folder / (std::string("header_") + seed.name), 'h', codec->header());
}

bool write_bytes(const std::filesystem::path& folder, const char* name, uint16_t size, const Bytes& record) {
  ByteWriter out;
  out.put_u16(size);
  out.put_bytes(record);
  return write(folder / name, 'b', out.take());
}

bool write_all(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const Bytes zeros(1000);
  bool good = write_bytes(folder, "bytes_frame", 1000, encode_bytes(zeros)) &&
              write_bytes(folder, "bytes_short", 7, encode_bytes(Bytes(7, std::byte{'x'}))) &&
              write_bytes(folder, "bytes_wrong_size", 999, encode_bytes(zeros)) &&
              write_bytes(folder, "bytes_nothing", 0, encode_bytes({}));
  for (const Seed& seed : seeds()) {
    good = write_array(folder, seed) && good;
  }
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
