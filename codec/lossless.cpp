#include "codec/lossless.h"

#include <fmt/format.h>
#include <zstd.h>

#include <cstring>
#include <memory>
#include <new>

#include "codec/codec.h"

namespace varve::codec {

namespace {

enum class ByteMethod : uint8_t { stored = 0, zstd = 1 };

constexpr int kZstdLevel = 3;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

/// One for each thread, kept: making one takes longer than packing a short list.
template <typename Context>
Context* own(Context* (*make)()) {
  thread_local const std::unique_ptr<Context, FreeContext> held(make());
  if (held == nullptr) {
    throw std::bad_alloc();
  }
  return held.get();
}

}  // namespace

bool is_constant(std::span<const std::byte> data, size_t size) {
  return data.size() >= size && std::memcmp(data.data(), data.data() + size, data.size() - size) == 0;
}

Bytes shuffle(std::span<const std::byte> data, size_t size) {
  Bytes out(data.size());
  const size_t count = data.size() / size;
  for (size_t k = 0; k < size; ++k) {
    for (size_t i = 0; i < count; ++i) {
      out[k * count + i] = data[i * size + k];
    }
  }
  return out;
}

void unshuffle(std::span<const std::byte> data, size_t size, std::byte* out) {
  const size_t count = data.size() / size;
  for (size_t k = 0; k < size; ++k) {
    for (size_t i = 0; i < count; ++i) {
      out[i * size + k] = data[k * count + i];
    }
  }
}

Bytes zstd_pack(std::span<const std::byte> data) {
  Bytes out(ZSTD_compressBound(data.size()));
  ZSTD_CCtx* const context = own<ZSTD_CCtx>(ZSTD_createCCtx);
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kZstdLevel);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  const size_t size = ZSTD_compress2(context, out.data(), out.size(), data.data(), data.size());
  if (ZSTD_isError(size) != 0) {
    throw std::bad_alloc();  // with an output of ZSTD_compressBound() bytes, memory is all that can be missing
  }
  out.resize(size);
  return out;
}

Status zstd_unpack(std::span<const std::byte> frame, std::span<std::byte> out) {
  const size_t size =
      ZSTD_decompressDCtx(own<ZSTD_DCtx>(ZSTD_createDCtx), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) {
    return Error{EBADMSG, fmt::format("compressed bytes are damaged ({}); restore the record from a copy",
                                      ZSTD_getErrorName(size))};
  }
  if (size != out.size()) {
    return Error{EBADMSG, fmt::format("compressed bytes hold {} bytes where {} belong; restore the record from a copy",
                                      size, out.size())};
  }
  return {};
}

Bytes encode_bytes(std::span<const std::byte> data) {
  Bytes packed = zstd_pack(data);
  const bool stored = packed.size() >= data.size();
  Bytes record;
  record.reserve(1 + (stored ? data.size() : packed.size()));
  record.push_back(static_cast<std::byte>(stored ? ByteMethod::stored : ByteMethod::zstd));
  if (stored) {
    record.insert(record.end(), data.begin(), data.end());
  } else {
    record.insert(record.end(), packed.begin(), packed.end());
  }
  return record;
}

Status decode_bytes(std::span<const std::byte> record, std::span<std::byte> out) {
  if (record.empty()) {
    return Error{EBADMSG, "a record of bytes is empty; restore it from a copy"};
  }
  const auto body = record.subspan(1);
  switch (static_cast<ByteMethod>(record[0])) {
    case ByteMethod::stored:
      if (body.size() != out.size()) {
        return Error{EBADMSG, fmt::format("a record of bytes holds {} bytes where {} belong; restore it from a copy",
                                          body.size(), out.size())};
      }
      std::copy(body.begin(), body.end(), out.begin());
      return {};
    case ByteMethod::zstd:
      return zstd_unpack(body, out);
  }
  return Error{EBADMSG, fmt::format("a record of bytes names method {}, which this version does not know",
                                    static_cast<unsigned>(record[0]))};
}

}  // namespace varve::codec
