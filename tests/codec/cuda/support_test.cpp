// What kernels work on, which device is chosen, and what a device that is wrong is found by.
#include "codec/cuda/support.h"

#include "tests/codec/cuda/coded.h"

namespace varve::codec::testing {
namespace {

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

TEST(CudaChoice, DevicesAreParsed) {
  using Kind = cuda::DeviceChoice::Kind;
  EXPECT_EQ(cuda::parse_device("auto")->kind, Kind::automatic);
  EXPECT_EQ(cuda::parse_device("cpu")->kind, Kind::cpu);
  EXPECT_EQ(cuda::parse_device("cuda")->kind, Kind::cuda);
  EXPECT_EQ(cuda::parse_device("cuda:3")->number, 3);
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda1", "CPU"}) {
    const auto choice = cuda::parse_device(bad);
    ASSERT_FALSE(choice.ok()) << bad;
    EXPECT_EQ(choice.error().code, EINVAL);
    EXPECT_NE(choice.error().text.find("cuda:N"), std::string::npos);
  }
}

TEST(CudaChoice, AMissingPluginIsNamed) {
  const auto device = cuda::open_device("/no/such/plugin.so", 0);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ENODEV);
  EXPECT_NE(device.error().text.find("/no/such/plugin.so"), std::string::npos) << device.error().text;
}

/// Passes on to a good device, and turns a bit over on the way back.
class WrongDevice : public cuda::DeviceCodec {
 public:
  explicit WrongDevice(bool encodes) : good_(make_device()), encodes_(encodes) {}
  std::string name() const override { return "wrong"; }
  Status decode(const Settings& settings, const std::vector<uint64_t>& tiles, const cuda::FindRecord& find,
                uint8_t finest, const Box& into, std::byte* out, cuda::DecodeCounts& counts) override {
    VARVE_TRY(good_->decode(settings, tiles, find, finest, into, out, counts));
    if (!encodes_) {
      out[1234] ^= std::byte{1};
    }
    return {};
  }
  Result<std::vector<std::vector<Record>>> encode(const Settings& settings, const std::vector<uint64_t>& tiles,
                                                  const Box& from, const std::byte* data, cuda::EncodeCounts& counts,
                                                  std::vector<WorkErrors>* errors) override {
    VARVE_ASSIGN(auto records, good_->encode(settings, tiles, from, data, counts, errors));
    if (encodes_) {
      records[0].back().data.back() ^= std::byte{1};
    }
    return records;
  }

 private:
  std::shared_ptr<cuda::DeviceCodec> good_;
  bool encodes_;
};

class CudaSelfTest : public OnDevice {};

TEST_F(CudaSelfTest, FindsADeviceThatIsWrong) {
  const auto good = make_device();
  const Status status = cuda::self_test(*good);
  EXPECT_TRUE(status.ok()) << status.error().text;
  for (const bool encodes : {false, true}) {
    WrongDevice wrong(encodes);
    const Status seen = cuda::self_test(wrong);
    ASSERT_FALSE(seen.ok());
    EXPECT_EQ(seen.error().code, ENODEV);
    EXPECT_NE(seen.error().text.find(encodes ? "encoded" : "decoded"), std::string::npos) << seen.error().text;
  }
}

}  // namespace
}  // namespace varve::codec::testing
