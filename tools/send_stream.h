// What `varve send` writes and `varve receive` reads: frames, each with a checksum that also tells its place.
//
// Stream: frames of kind u8 | length u64 | bytes | XXH3-64 of the bytes with the frame's number as seed u64. First a
// `begin`; then for each content that the receiver may lack an `object`, its records, an `object_end`; the manifest in
// pieces; an `end`. Integers are little-endian.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "codec/result.h"
#include "index/index.h"
#include "tools/manifest.h"

namespace varve::tools {

enum class FrameKind : uint8_t {
  begin = 1,       ///< StreamBegin
  object = 2,      ///< digest, layout
  record = 3,      ///< key, bytes
  shared = 4,      ///< key; digest of an object that the receiver has, key there
  object_end = 5,  ///< nothing
  manifest = 6,    ///< a piece of its text
  end = 7,         ///< digest of the whole manifest
};

struct StreamBegin {
  static constexpr std::string_view kMagic = "varve send 1";
  std::string name;         ///< of the snapshot
  std::string since;        ///< of the one before; "": everything is sent
  Digest since_manifest{};  ///< of that one
  uint64_t bytes = 0;       ///< of records that are sent, for progress
};

class FrameWriter {
 public:
  explicit FrameWriter(std::FILE* to) : to_(to) {}
  /// EIO and the like, with a sentence.
  Status put(FrameKind kind, std::string_view bytes);
  Status flush();

 private:
  std::FILE* to_;
  uint64_t number_ = 0;
};

struct Frame {
  FrameKind kind = FrameKind::end;
  std::string bytes;
};

class FrameReader {
 public:
  explicit FrameReader(std::FILE* from) : from_(from) {}
  /// EBADMSG with a sentence: cut short, or changed on the way. EPROTO: another program's.
  Result<Frame> get();

 private:
  std::FILE* from_;
  uint64_t number_ = 0;
};

std::string serialise(const StreamBegin& begin);
Result<StreamBegin> parse_begin(std::string_view bytes);

}  // namespace varve::tools
