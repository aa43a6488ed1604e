#include "tools/send_stream.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "fs/serial.h"

namespace varve::tools {
namespace {

constexpr size_t kHead = 9;
constexpr uint64_t kLongest = uint64_t{1} << 30;  ///< of a frame's bytes
constexpr size_t kPiece = size_t{1} << 20;        ///< is asked for at once: a length is not believed before

uint64_t checksum(std::string_view bytes, uint64_t number) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), number);
}

}  // namespace

Status FrameWriter::put(FrameKind kind, std::string_view bytes) {
  std::array<char, kHead> head{};
  head[0] = static_cast<char>(kind);
  const uint64_t length = bytes.size();
  std::memcpy(head.data() + 1, &length, sizeof length);
  const uint64_t sum = checksum(bytes, number_++);
  const bool good = std::fwrite(head.data(), 1, head.size(), to_) == head.size() &&
                    std::fwrite(bytes.data(), 1, bytes.size(), to_) == bytes.size() &&
                    std::fwrite(&sum, 1, sizeof sum, to_) == sizeof sum;
  return good ? Status()
              : Error{errno, fmt::format("cannot write the stream: {}", std::generic_category().message(errno))};
}

Status FrameWriter::flush() {
  return std::fflush(to_) == 0
             ? Status()
             : Error{errno, fmt::format("cannot write the stream: {}", std::generic_category().message(errno))};
}

Result<Frame> FrameReader::get() {
  const auto take = [&](void* to, size_t size) { return std::fread(to, 1, size, from_) == size; };
  const auto short_of = [&]() -> Error {
    return {EBADMSG, "the stream ends in the middle: nothing was changed here; send it again"};
  };
  std::array<char, kHead> head{};
  if (!take(head.data(), head.size())) {
    return short_of();
  }
  Frame frame{static_cast<FrameKind>(head[0]), {}};
  uint64_t length = 0;
  std::memcpy(&length, head.data() + 1, sizeof length);
  if (number_ == 0 && frame.kind != FrameKind::begin) {
    return Error{EPROTO, "this is no stream of varve send"};
  }
  if (length > kLongest) {
    return Error{EBADMSG, "the stream was changed on its way: nothing was changed here; send it again"};
  }
  while (frame.bytes.size() < length) {
    const size_t before = frame.bytes.size();
    const size_t part = std::min<uint64_t>(kPiece, length - before);
    frame.bytes.resize(before + part);
    if (!take(frame.bytes.data() + before, part)) {
      return short_of();
    }
  }
  uint64_t sum = 0;
  if (!take(&sum, sizeof sum)) {
    return short_of();
  }
  if (sum != checksum(frame.bytes, number_++)) {
    return Error{EBADMSG, "the stream was changed on its way: nothing was changed here; send it again"};
  }
  return frame;
}

std::string serialise(const StreamBegin& begin) {
  fs::SerialWriter out;
  out.text(StreamBegin::kMagic);
  out.text(begin.name);
  out.text(begin.since);
  out.text({begin.since_manifest.data(), begin.since_manifest.size()});
  out.number(begin.bytes);
  return out.take_text();
}

Result<StreamBegin> parse_begin(std::string_view bytes) {
  fs::SerialReader in(bytes);
  if (const std::string magic = in.text(); in.failed() || magic != StreamBegin::kMagic) {
    return Error{EPROTO, "this is no stream of varve send, or one of another version"};
  }
  StreamBegin begin;
  begin.name = in.text();
  begin.since = in.text();
  const std::string digest = in.text();
  begin.bytes = in.number();
  if (in.failed() || !in.at_end() || digest.size() != begin.since_manifest.size()) {
    return Error{EBADMSG, "the stream's beginning makes no sense: send it again"};
  }
  std::ranges::copy(digest, begin.since_manifest.begin());
  return begin;
}

}  // namespace varve::tools
