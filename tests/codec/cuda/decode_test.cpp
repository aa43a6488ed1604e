// Kernels decode to the CPU's bytes.
#include <cstdlib>
#include <numeric>

#include "tests/codec/cuda/coded.h"
#include "tests/codec/cuda/device.h"
#include "tests/codec/fields.h"

namespace varve::codec::testing {
namespace {

class CudaDecode : public OnDevice {};

cuda::FindRecord records_of(const Store& store) {
  return [&store](const RecordId& id) -> std::optional<std::span<const std::byte>> {
    const auto found = store.find({id.level, id.brick});
    return found != store.end() ? std::optional<std::span<const std::byte>>(found->second) : std::nullopt;
  };
}

/// All of an array as kernels decode it.
Result<Bytes> decode_on_device(const Coded& coded, const Store& store, uint8_t finest, unsigned order,
                               cuda::DecodeCounts& counts) {
  const auto device = make_device(order);
  std::vector<uint64_t> tiles(coded.codec.tile_count());
  std::iota(tiles.begin(), tiles.end(), uint64_t{0});
  const Box whole{Extents(coded.codec.shape().size(), 0), coded.codec.shape()};
  Bytes out(element_count(whole.shape) * element_size(coded.codec.dtype()));
  VARVE_TRY(device->decode(coded.settings, tiles, records_of(store), finest, whole, out.data(), counts));
  return out;
}

/// Decodes on both sides.
void compare(const Coded& coded, const Store& store, uint8_t finest, unsigned order) {
  const auto expected = decode_all(coded.codec, store, finest);
  cuda::DecodeCounts counts;
  const auto seen = decode_on_device(coded, store, finest, order, counts);
  ASSERT_TRUE(expected.ok() && seen.ok());
  EXPECT_TRUE(*seen == *expected) << "the bytes differ";
  EXPECT_EQ(counts.device_bricks, coded.codec.brick_count());
  EXPECT_EQ(counts.cpu_bricks, 0U);
}

TEST_F(CudaDecode, RandomArraysGiveTheSameBytes) {
  std::mt19937_64 random(41);
  std::set<std::string> kinds;
  int compared = 0;
  std::set<std::string> wanted = kKindsOfBoth;
  wanted.insert({"coarse method 2", "coarse method 3", "coarse method 5", "fine method 2", "fine method 3",
                 "fine method 4", "fine method 5"});
  until_seen(kinds, wanted, [&](int round) {
    auto [array, coded] = random_coded(random, round % 20 == 0 ? 150000 : 12000);
    if (cuda::why_unsupported(coded.settings) != cuda::Unsupported::no) {
      return;
    }
    const auto finest = static_cast<uint8_t>(random() % 3 == 0 ? 1 + random() % 3 : 0);
    const bool exact = random() % 8 == 0;
    SCOPED_TRACE(
        fmt::format("round {}: {}, finest {}{}", round, describe(array, coded), finest, exact ? ", exact" : ""));
    if (exact && random() % 3 == 0) {  // a part that was written over
      std::fill(array.data.begin(), array.data.end(), std::byte{1});
    }
    const auto store = encode_all(coded.codec, array, exact);
    ASSERT_TRUE(store.ok());
    compare(coded, *store, finest, static_cast<unsigned>(random() % 1000));
    note_kinds(coded, *store, kinds);
    ++compared;
  });
  std::printf("%d arrays compared, with %s\n", compared, fmt::format("{}", fmt::join(kinds, "; ")).c_str());
  EXPECT_GE(compared, kRounds / 2);
}

TEST_F(CudaDecode, RealFields) {
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    GTEST_SKIP() << "VARVE_TEST_DATA names no test data";
  }
  int compared = 0;
  for_each_field(
      root,
      [&](const std::string& name, Array& array) {
        array.spec.bound = {BoundMode::relative, 1e-3};
        const Coded coded = plan(array);
        if (cuda::why_unsupported(coded.settings) != cuda::Unsupported::no) {
          return;
        }
        SCOPED_TRACE(name + " " + describe(array, coded));
        const auto store = encode_all(coded.codec, array);
        ASSERT_TRUE(store.ok());
        for (const uint8_t finest : {0, 2}) {
          compare(coded, *store, finest, 0);
        }
        ++compared;
      },
      600000);
  std::printf("%d fields compared\n", compared);
  EXPECT_GE(compared, 10);
}

TEST_F(CudaDecode, LargerShapes) {
  for (const Extents& shape : std::vector<Extents>{{70, 130, 67}, {300, 2100}, {600000}, {3, 40, 70, 9}, {20000, 3}}) {
    for (const Content content : {Content::waves, Content::mask}) {
      const Array array = make_array(DType::f32, shape, content, {BoundMode::relative, 1e-4}, 5);
      const Coded coded = plan(array);
      ASSERT_EQ(cuda::why_unsupported(coded.settings), cuda::Unsupported::no);
      SCOPED_TRACE(describe(array, coded));
      const auto store = encode_all(coded.codec, array);
      ASSERT_TRUE(store.ok());
      compare(coded, *store, 0, 0);
    }
  }
}

// Bytes turned over anywhere: kernels neither leave their memory nor hide what the CPU reports.
TEST_F(CudaDecode, DamageIsWhatTheCpuSaysItIs) {
  std::mt19937_64 random(43);
  uint64_t by_cpu = 0;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    const Content content = kContents.at(random() % kContents.size());
    const Array array = make_array(DType::f32, {20, 24, 17}, content, {BoundMode::relative, 1e-3}, random());
    const Coded coded = plan(array);
    if (cuda::why_unsupported(coded.settings) != cuda::Unsupported::no) {
      continue;
    }
    SCOPED_TRACE(fmt::format("round {}: {}", round, describe(array, coded)));
    auto store = encode_all(coded.codec, array);
    ASSERT_TRUE(store.ok());
    auto victim = store->begin();
    std::advance(victim, random() % store->size());
    Bytes& record = victim->second;
    switch (random() % 4) {
      case 0:
        record.resize(random() % record.size());
        break;
      case 1:
        record.push_back(std::byte{7});
        break;
      default:
        record[random() % record.size()] ^= static_cast<std::byte>(1U << random() % 8);
    }
    const auto expected = decode_all(coded.codec, *store);
    cuda::DecodeCounts counts;
    const auto seen = decode_on_device(coded, *store, 0, 0, counts);
    ASSERT_EQ(seen.ok(), expected.ok());
    if (seen.ok()) {
      EXPECT_TRUE(*seen == *expected);
    } else {
      EXPECT_EQ(seen.error().code, expected.error().code);
      EXPECT_EQ(seen.error().text, expected.error().text);
    }
    by_cpu += counts.cpu_bricks;
  }
  EXPECT_GT(by_cpu, static_cast<uint64_t>(kRounds / 8));
}

}  // namespace
}  // namespace varve::codec::testing
