// SZ3 for `varve bench`: its headers, one thread; its default algorithm, and Lorenzo with regression. A file of its
// own, as they are large.
#include "tools/bench_codecs.h"

#ifdef VARVE_BENCH_SZ3
#include <SZ3/api/sz.hpp>
#include <exception>

namespace varve::tools {
namespace {

class Sz3Compressor : public BufferCompressor {
 public:
  explicit Sz3Compressor(SZ3::ALGO algorithm) : algorithm_(algorithm) {}
  Status compress(const Field& field, const Setting& setting) override {
    return guarded([&] {
      if (field.dtype == codec::DType::f32) {
        pack<float>(field, setting);
      } else {
        pack<double>(field, setting);
      }
    });
  }
  Status decompress(const Field& field, const Setting& /*setting*/, std::byte* out) override {
    return guarded([&] {
      if (field.dtype == codec::DType::f32) {
        unpack<float>(out);
      } else {
        unpack<double>(out);
      }
    });
  }

 private:
  template <typename T>
  void pack(const Field& field, const Setting& setting) {
    SZ3::Config config;
    config.setDims(field.shape.begin(), field.shape.end());
    config.errorBoundMode = SZ3::EB_ABS;
    config.absErrorBound = setting.bound;
    config.cmprAlgo = algorithm_;
    const size_t room = SZ3::SZ_compress_size_bound<T>(config);
    data_ = fresh_memory(room);
    size_ =
        SZ_compress(config, reinterpret_cast<const T*>(field.data.data()), reinterpret_cast<char*>(data_.get()), room);
  }
  template <typename T>
  void unpack(std::byte* out) {
    SZ3::Config config;
    T* to = reinterpret_cast<T*>(out);
    SZ_decompress(config, reinterpret_cast<const char*>(data_.get()), size_, to);
  }
  template <typename Work>
  static Status guarded(Work work) {
    try {
      work();
    } catch (const std::exception& problem) {
      return Error{EIO, std::string("SZ3: ") + problem.what()};
    }
    return {};
  }
  const SZ3::ALGO algorithm_;
};

}  // namespace

void add_sz3(std::vector<Contender>& all) {
  const auto add = [&all](const char* name, std::vector<Purpose> purposes, SZ3::ALGO algorithm) {
    all.push_back({name, std::move(purposes), [algorithm] { return std::make_unique<Sz3Compressor>(algorithm); }});
  };
  add("sz3", {Purpose::lossy, Purpose::psnr}, SZ3::ALGO_INTERP_LORENZO);
  add("sz3-lorenzo", {Purpose::lossy}, SZ3::ALGO_LORENZO_REG);
}

}  // namespace varve::tools
#else

namespace varve::tools {
void add_sz3(std::vector<Contender>& /*all*/) {}
}  // namespace varve::tools
#endif
