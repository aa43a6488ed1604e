// Damaged headers and records: an error or other values, never a crash (run it under ASan and UBSan too).
#include "tests/codec/arrays.h"

namespace varve::codec::testing {
namespace {

/// Decodes all with one record replaced; whatever comes, it must come back.
void try_record(const ArrayCodec& codec, const Store& store, const std::pair<uint8_t, uint64_t>& id,
                const Bytes& damaged) {
  Store changed = store;
  changed[id] = damaged;
  const auto decoded = decode_all(codec, changed);
  if (!decoded.ok()) {
    EXPECT_EQ(decoded.error().code, EBADMSG) << decoded.error().text;
    EXPECT_FALSE(decoded.error().text.empty());
  }
}

std::vector<Array> subjects() {
  return {make_array(DType::f32, {20, 30, 18}, Content::waves, {BoundMode::relative, 1e-3}, 60),
          make_array(DType::f64, {70, 100}, Content::specials, {BoundMode::relative, 1e-3}, 61),
          make_array(DType::f32, {100, 90}, Content::waves, {}, 62),
          make_array(DType::i64, {7000}, Content::ramp, {}, 63),
          make_array(DType::f64, {500}, Content::waves, {BoundMode::absolute, 1e-3}, 64),
          make_array(DType::u16, {4, 70, 80}, Content::noise, {}, 65)};
}

TEST(Damage, EachByteOfARecordFlipped) {
  std::mt19937_64 random(66);
  size_t detected = 0;
  for (const Array& array : subjects()) {
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    ASSERT_TRUE(codec.ok());
    const auto store = encode_all(*codec, array);
    ASSERT_TRUE(store.ok());
    for (const auto& [id, record] : *store) {
      const size_t step = std::max<size_t>(1, record.size() / 60);
      for (size_t at = 0; at < record.size(); at += at < 24 ? 1 : step) {
        Bytes damaged = record;
        damaged[at] ^= static_cast<std::byte>(1U << random() % 8);
        try_record(*codec, *store, id, damaged);
        damaged[at] = static_cast<std::byte>(random());
        try_record(*codec, *store, id, damaged);
        ++detected;
      }
    }
  }
  EXPECT_GT(detected, 100U);
}

TEST(Damage, RecordsCutShortOrTooLongAreErrors) {
  for (const Array& array : subjects()) {
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    const auto store = encode_all(*codec, array);
    ASSERT_TRUE(store.ok());
    for (const auto& [id, record] : *store) {
      for (size_t size = 0; size <= record.size() + 2; size += size < 40 ? 1 : 1 + record.size() / 40) {
        if (size == record.size()) {
          continue;
        }
        Store changed = *store;
        changed[id].resize(size, std::byte{0x5a});
        const auto decoded = decode_all(*codec, changed);
        ASSERT_FALSE(decoded.ok()) << "level " << int{id.first} << " size " << size << " of " << record.size();
        EXPECT_EQ(decoded.error().code, EBADMSG);
      }
    }
  }
}

TEST(Damage, HeadersFlippedAndCut) {
  std::mt19937_64 random(67);
  for (const Array& array : subjects()) {
    const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
    const auto store = encode_all(*codec, array);
    ASSERT_TRUE(store.ok());
    const Bytes header = codec->header();
    for (size_t size = 0; size < header.size(); ++size) {
      const auto parsed = ArrayCodec::parse(std::span(header).first(size));
      ASSERT_FALSE(parsed.ok()) << size;
      EXPECT_EQ(parsed.error().code, EBADMSG);
    }
    for (size_t at = 0; at < header.size(); ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        Bytes damaged = header;
        damaged[at] ^= static_cast<std::byte>(1U << bit);
        const auto parsed = ArrayCodec::parse(damaged);
        if (!parsed.ok()) {
          EXPECT_EQ(parsed.error().code, EBADMSG);
        } else if (element_count(parsed->shape()) <= 200000 && parsed->tile_count() < 1000) {
          const auto decoded = decode_all(*parsed, *store);  // an error or other values
          EXPECT_TRUE(decoded.ok() || decoded.error().code == EBADMSG || decoded.error().code == ENOENT);
        }
      }
    }
  }
}

TEST(Damage, RandomBytes) {
  std::mt19937_64 random(68);
  const Array array = make_array(DType::f32, {20, 30, 18}, Content::waves, {BoundMode::relative, 1e-3}, 69);
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  const auto store = encode_all(*codec, array);
  for (int round = 0; round < 3000; ++round) {
    Bytes noise(random() % 400);
    for (auto& byte : noise) {
      byte = static_cast<std::byte>(random());
    }
    if (!noise.empty() && round % 2 == 0) {
      noise[0] = static_cast<std::byte>(random() % 4);
    }
    if (noise.size() > 1 && round % 4 == 0) {
      noise[1] = static_cast<std::byte>(random() % 64);
    }
    EXPECT_FALSE(ArrayCodec::parse(noise).ok() && noise.size() < 4);
    auto any = store->begin();
    std::advance(any, random() % store->size());
    try_record(*codec, *store, any->first, noise);
  }
}

TEST(Damage, WrongNumbersAndForeignGridsAreRefused) {
  const Array array = make_array(DType::f32, {70, 80, 90}, Content::waves, {BoundMode::relative, 1e-3}, 70);
  const auto codec = ArrayCodec::plan(array.spec, reader_of(array));
  ASSERT_TRUE(codec.ok());
  EXPECT_EQ(codec->encode_tile(codec->tile_count(), array.data.data()).error().code, EINVAL);
  EXPECT_EQ(codec->decode_coarse(codec->tile_count(), {}).error().code, EINVAL);
  Bytes out(64 * 64 * 64 * 4);
  EXPECT_EQ(codec->decode_brick(codec->brick_count(), {}, {}, 0, out.data()).error().code, EINVAL);
  EXPECT_EQ(codec->decode_brick(0, {}, {}, 0, out.data()).error().code, EBADMSG);
  Box other = codec->brick_box(0);
  ++other.origin[0];
  EXPECT_EQ(codec->decode_brick_into(0, {}, {}, 0, other, out.data()).error().code, EINVAL);
}

}  // namespace
}  // namespace varve::codec::testing
