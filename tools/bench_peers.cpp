// The compressors beside this program's own in `varve bench`: Zstandard, and those that were found when it was built.
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "codec/lossless.h"
#include "tools/bench_codecs.h"
#ifdef VARVE_BENCH_ZFP
#include <zfp.h>
#endif
#ifdef VARVE_BENCH_FPZIP
#include <fpzip.h>
#endif
#ifdef VARVE_BENCH_SPERR
#include <SPERR_C_API.h>
#endif

namespace varve::tools {

using codec::Bytes;

namespace {

constexpr int kZstdLevel = 3;

class ZstdCompressor : public BufferCompressor {
 public:
  explicit ZstdCompressor(bool shuffled) : shuffled_(shuffled) {}
  Status compress(const Field& field, const Setting& /*setting*/) override {
    const size_t room = ZSTD_compressBound(field.data.size());
    data_ = fresh_memory(room);
    const Bytes shuffled = shuffled_ ? codec::shuffle(field.data, codec::element_size(field.dtype)) : Bytes();
    const Bytes& source = shuffled_ ? shuffled : field.data;
    size_ = ZSTD_compress(data_.get(), room, source.data(), source.size(), kZstdLevel);
    return ZSTD_isError(size_) != 0 ? Status(Error{EIO, "Zstandard failed"}) : Status();
  }
  Status decompress(const Field& field, const Setting& /*setting*/, std::byte* out) override {
    const size_t size = field.elements() * codec::element_size(field.dtype);
    if (!shuffled_) {
      return ZSTD_decompress(out, size, data_.get(), size_) == size ? Status() : Status(Error{EIO, "Zstandard failed"});
    }
    Bytes shuffled(size);
    if (ZSTD_decompress(shuffled.data(), size, data_.get(), size_) != size) {
      return Error{EIO, "Zstandard failed"};
    }
    codec::unshuffle(shuffled, codec::element_size(field.dtype), out);
    return {};
  }

 private:
  const bool shuffled_;
};

/// The shape, fastest axis first, filled up with ones.
[[maybe_unused]] std::array<size_t, 4> fastest_first(const Field& field) {
  std::array<size_t, 4> n = {1, 1, 1, 1};
  std::copy(field.shape.rbegin(), field.shape.rend(), n.begin());
  return n;
}

#ifdef VARVE_BENCH_ZFP
/// Accuracy mode under a bound, else the reversible mode.
class ZfpCompressor : public BufferCompressor {
 public:
  Status compress(const Field& field, const Setting& setting) override {
    return run(field, setting, const_cast<std::byte*>(field.data.data()), true);  // zfp's field wants no const
  }
  Status decompress(const Field& field, const Setting& setting, std::byte* out) override {
    return run(field, setting, out, false);
  }

 private:
  Status run(const Field& field, const Setting& setting, std::byte* elements, bool compressing) {
    const auto n = fastest_first(field);
    const zfp_type type = field.dtype == codec::DType::f32 ? zfp_type_float : zfp_type_double;
    zfp_field* const described = field.shape.size() == 2   ? zfp_field_2d(elements, type, n[0], n[1])
                                 : field.shape.size() == 3 ? zfp_field_3d(elements, type, n[0], n[1], n[2])
                                                           : zfp_field_4d(elements, type, n[0], n[1], n[2], n[3]);
    zfp_stream* const stream = zfp_stream_open(nullptr);
    if (setting.bound > 0) {
      zfp_stream_set_accuracy(stream, setting.bound);
    } else {
      zfp_stream_set_reversible(stream);
    }
    if (compressing) {
      room_ = zfp_stream_maximum_size(stream, described);
      data_ = fresh_memory(room_);
    }
    bitstream* const bits = stream_open(data_.get(), compressing ? room_ : size_);
    zfp_stream_set_bit_stream(stream, bits);
    zfp_stream_rewind(stream);
    const size_t done = compressing ? zfp_compress(stream, described) : zfp_decompress(stream, described);
    size_ = compressing ? done : size_;
    stream_close(bits);
    zfp_stream_close(stream);
    zfp_field_free(described);
    return done == 0 ? Status(Error{EIO, "zfp failed"}) : Status();
  }
  size_t room_ = 0;
};
#endif

#ifdef VARVE_BENCH_FPZIP
class FpzipCompressor : public BufferCompressor {
 public:
  Status compress(const Field& field, const Setting& /*setting*/) override {
    const size_t room = field.data.size() + field.data.size() / 4 + 4096;
    data_ = fresh_memory(room);
    FPZ* const stream = fpzip_write_to_buffer(data_.get(), room);
    describe(stream, field);
    size_ = fpzip_write_header(stream) != 0 ? fpzip_write(stream, field.data.data()) : 0;
    fpzip_write_close(stream);
    return size_ == 0 ? Status(Error{EIO, "fpzip failed"}) : Status();
  }
  Status decompress(const Field& /*field*/, const Setting& /*setting*/, std::byte* out) override {
    FPZ* const stream = fpzip_read_from_buffer(data_.get());
    const bool done = fpzip_read_header(stream) != 0 && fpzip_read(stream, out) != 0;
    fpzip_read_close(stream);
    return done ? Status() : Status(Error{EIO, "fpzip failed"});
  }

 private:
  static void describe(FPZ* stream, const Field& field) {
    const auto n = fastest_first(field);
    stream->type = field.dtype == codec::DType::f32 ? FPZIP_TYPE_FLOAT : FPZIP_TYPE_DOUBLE;
    stream->prec = 0;
    stream->nx = static_cast<int>(n[0]);
    stream->ny = static_cast<int>(n[1]);
    stream->nz = static_cast<int>(n[2]);
    stream->nf = static_cast<int>(n[3]);
  }
};
#endif

#ifdef VARVE_BENCH_SPERR
/// Point-wise error mode, chunks of 256^3; four axes as three.
class SperrCompressor : public BufferCompressor {
 public:
  Status compress(const Field& field, const Setting& setting) override {
    constexpr int kPointwise = 3;
    constexpr size_t kChunk = 256;
    const auto n = fastest_first(field);
    void* result = nullptr;
    size_t size = 0;
    const int code = field.shape.size() == 2
                         ? C_API::sperr_comp_2d(field.data.data(), is_float(field), n[0], n[1], kPointwise,
                                                setting.bound, 0, &result, &size)
                         : C_API::sperr_comp_3d(field.data.data(), is_float(field), n[0], n[1], n[2] * n[3], kChunk,
                                                kChunk, kChunk, kPointwise, setting.bound, 1, &result, &size);
    if (code == 0) {
      data_ = fresh_memory(size);
      std::memcpy(data_.get(), result, size);
      size_ = size;
    }
    std::free(result);
    return code == 0 ? Status() : Status(Error{EIO, "SPERR failed"});
  }
  Status decompress(const Field& field, const Setting& /*setting*/, std::byte* out) override {
    const auto n = fastest_first(field);
    void* result = nullptr;
    std::array<size_t, 3> shape{};
    const int code = field.shape.size() == 2
                         ? C_API::sperr_decomp_2d(data_.get(), size_, is_float(field), n[0], n[1], &result)
                         : C_API::sperr_decomp_3d(data_.get(), size_, is_float(field), 1, shape.data(),
                                                  shape.data() + 1, shape.data() + 2, &result);
    if (code == 0) {
      std::memcpy(out, result, field.elements() * codec::element_size(field.dtype));
    }
    std::free(result);
    return code == 0 ? Status() : Status(Error{EIO, "SPERR failed"});
  }

 private:
  static int is_float(const Field& field) { return field.dtype == codec::DType::f32 ? 1 : 0; }
};
#endif

std::vector<Contender> all_contenders() {
  std::vector<Contender> all = {{"varve", {Purpose::lossy, Purpose::lossless}, make_varve_compressor}};
  add_sz3(all);
  add_libraries(all);
  return all;
}

}  // namespace

void add_libraries(std::vector<Contender>& all) {
#ifdef VARVE_BENCH_ZFP
  all.push_back({"zfp", {Purpose::lossy, Purpose::lossless}, [] { return std::make_unique<ZfpCompressor>(); }});
#endif
#ifdef VARVE_BENCH_FPZIP
  all.push_back({"fpzip", {Purpose::lossless}, [] { return std::make_unique<FpzipCompressor>(); }});
#endif
#ifdef VARVE_BENCH_SPERR
  all.push_back({"sperr", {Purpose::psnr}, [] { return std::make_unique<SperrCompressor>(); }});
#endif
  all.push_back({"zstd-3", {Purpose::lossless}, [] { return std::make_unique<ZstdCompressor>(false); }});
  all.push_back({"shuffle+zstd-3", {Purpose::lossless}, [] { return std::make_unique<ZstdCompressor>(true); }});
}

bool Contender::takes(Purpose purpose) const {
  return std::find(purposes.begin(), purposes.end(), purpose) != purposes.end();
}

const std::vector<Contender>& contenders() {
  static const std::vector<Contender> all = all_contenders();
  return all;
}

const Contender* find_contender(std::string_view name) {
  for (const Contender& contender : contenders()) {
    if (contender.name == name) {
      return &contender;
    }
  }
  return nullptr;
}

std::unique_ptr<std::byte[]> fresh_memory(size_t size) {
  return std::unique_ptr<std::byte[]>(new std::byte[size]);  // not make_unique, which would set it to zero
}

Status BufferCompressor::load(std::span<const std::byte> saved) {
  data_ = fresh_memory(saved.size());
  std::memcpy(data_.get(), saved.data(), saved.size());
  size_ = saved.size();
  return {};
}

}  // namespace varve::tools
