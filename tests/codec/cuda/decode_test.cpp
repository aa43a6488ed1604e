// Kernels decode to the CPU's bytes.
#include "tests/codec/cuda/emulated.h"

#include "codec/cuda/host_decode.h"
#include "tests/codec/cuda/coded.h"

namespace varve::codec::testing {
namespace {

const std::vector<simt::Schedule> kOrders = {
    {simt::Order::forward}, {simt::Order::backward}, {simt::Order::shuffled, 7}};

cuda::FindRecord records_of(const Store& store) {
  return [&store](const RecordId& id) -> std::optional<std::span<const std::byte>> {
    const auto found = store.find({id.level, id.brick});
    return found != store.end() ? std::optional<std::span<const std::byte>>(found->second) : std::nullopt;
  };
}

/// All of an array as kernels decode it.
Result<Bytes> decode_emulated(const Coded& coded, const Store& store, uint8_t finest, const simt::Schedule& schedule,
                              cuda::DecodeCounts& counts) {
  EmulatedDevice device(schedule);
  std::vector<uint64_t> tiles(coded.codec.tile_count());
  std::iota(tiles.begin(), tiles.end(), uint64_t{0});
  const Box whole{Extents(coded.codec.shape().size(), 0), coded.codec.shape()};
  Bytes out(element_count(whole.shape) * element_size(coded.codec.dtype()));
  VARVE_TRY(cuda::decode_on(device, coded.settings, tiles, records_of(store), finest, whole, out.data(), counts));
  return out;
}

/// Decodes on both sides.
void compare(const Coded& coded, const Store& store, uint8_t finest, const simt::Schedule& schedule) {
  const auto expected = decode_all(coded.codec, store, finest);
  cuda::DecodeCounts counts;
  const auto seen = decode_emulated(coded, store, finest, schedule, counts);
  ASSERT_TRUE(expected.ok() && seen.ok());
  EXPECT_TRUE(*seen == *expected) << "the bytes differ";
  EXPECT_EQ(counts.device_bricks, coded.codec.brick_count());
  EXPECT_EQ(counts.cpu_bricks, 0U);
}

TEST(CudaDecode, RandomArraysGiveTheSameBytes) {
  std::mt19937_64 random(41);
  std::set<std::string> kinds;
  int compared = 0;
  for (int round = 0; round < 700 && !HasFailure(); ++round) {
    auto [array, coded] = random_coded(random, round % 20 == 0 ? 150000 : 12000);
    if (cuda::why_unsupported(coded.settings) != cuda::Unsupported::no) {
      continue;
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
    compare(coded, *store, finest, kOrders.at(random() % kOrders.size()));
    note_kinds(coded, *store, kinds);
    ++compared;
  }
  std::printf("%d arrays compared, with %s\n", compared, fmt::format("{}", fmt::join(kinds, "; ")).c_str());
  EXPECT_GE(compared, 350);
  for (const char* kind : {"interpolation 0",
                           "interpolation 1",
                           "interpolation 2",
                           "differences along a predicted axis",
                           "differences along a batch axis",
                           "tiny",
                           "several tiles",
                           "several bricks",
                           "coarse method 0",
                           "coarse method 1",
                           "coarse method 2",
                           "coarse method 3",
                           "coarse method 5",
                           "fine method 0",
                           "fine method 1",
                           "fine method 2",
                           "fine method 3",
                           "fine method 4",
                           "fine method 5",
                           "1 lanes",
                           "8 lanes",
                           "64 lanes",
                           "coarse list 8",
                           "coarse list 16",
                           "coarse list 32",
                           "coarse list 64",
                           "fine list 8",
                           "fine list 16",
                           "fine list 32",
                           "fine list 64"}) {
    EXPECT_EQ(kinds.count(kind), 1U) << kind;
  }
}

TEST(CudaDecode, LargerShapes) {
  for (const Extents& shape : std::vector<Extents>{{70, 130, 67}, {300, 2100}, {600000}, {3, 40, 70, 9}, {20000, 3}}) {
    for (const Content content : {Content::waves, Content::mask}) {
      const Array array = make_array(DType::f32, shape, content, {BoundMode::relative, 1e-4}, 5);
      const Coded coded = plan(array);
      ASSERT_EQ(cuda::why_unsupported(coded.settings), cuda::Unsupported::no);
      SCOPED_TRACE(describe(array, coded));
      const auto store = encode_all(coded.codec, array);
      ASSERT_TRUE(store.ok());
      compare(coded, *store, 0, {});
    }
  }
}

// Bytes turned over anywhere: kernels neither leave their memory nor hide what the CPU reports.
TEST(CudaDecode, DamageIsWhatTheCpuSaysItIs) {
  std::mt19937_64 random(43);
  uint64_t by_cpu = 0;
  for (int round = 0; round < 400 && !HasFailure(); ++round) {
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
    const auto seen = decode_emulated(coded, *store, 0, {}, counts);
    ASSERT_EQ(seen.ok(), expected.ok());
    if (seen.ok()) {
      EXPECT_TRUE(*seen == *expected);
    } else {
      EXPECT_EQ(seen.error().code, expected.error().code);
      EXPECT_EQ(seen.error().text, expected.error().text);
    }
    by_cpu += counts.cpu_bricks;
  }
  EXPECT_GT(by_cpu, 100U);
}

TEST(CudaSupport, EachReasonOccurs) {
  const auto why = [](DType type, Content content, const Bound& bound) {
    return cuda::why_unsupported(plan(make_array(type, {20, 24, 17}, content, bound, 1)).settings);
  };
  const Bound lossy{BoundMode::relative, 1e-3};
  EXPECT_EQ(why(DType::f32, Content::waves, lossy), cuda::Unsupported::no);
  EXPECT_EQ(why(DType::f64, Content::mask, lossy), cuda::Unsupported::no);
  EXPECT_EQ(why(DType::f32, Content::waves, {}), cuda::Unsupported::lossless);
  EXPECT_EQ(why(DType::f32, Content::decimals, {}), cuda::Unsupported::decimals);
  EXPECT_EQ(why(DType::f64, Content::noise, {}), cuda::Unsupported::elements);
  EXPECT_EQ(why(DType::f16, Content::waves, lossy), cuda::Unsupported::mapped);
  EXPECT_EQ(why(DType::f32, Content::waves, {BoundMode::pointwise, 1e-3}), cuda::Unsupported::mapped);
  EXPECT_EQ(why(DType::i32, Content::waves, {BoundMode::absolute, 3}), cuda::Unsupported::mapped);
  std::set<std::string_view> texts;
  for (const auto reason : {cuda::Unsupported::no, cuda::Unsupported::decimals, cuda::Unsupported::elements,
                            cuda::Unsupported::lossless, cuda::Unsupported::mapped}) {
    texts.insert(cuda::text_of(reason));
  }
  EXPECT_EQ(texts.size(), 5U);
}

}  // namespace
}  // namespace varve::codec::testing
