// What the daemon and a recogniser worker say to each other over a stream socket: frames of a kind, a length and that
// many bytes. Numbers are little-endian (both ends are one program on one machine).
//
//   daemon -> worker   request   what to look at
//   worker -> daemon   read      offset, length: the daemon answers with data or failure, then waits again
//   daemon -> worker   data      the bytes; fewer than asked for only at the end of the file
//   worker -> daemon   found     serialise(Recognised), or serialise(FileImage) where that was asked for
//   worker -> daemon   nothing   no format claims the file
//   both               failure   errno and a sentence
#pragma once

#include <chrono>

#include "fs/formats/file_image.h"

namespace varve::fs {

enum class FrameKind : uint32_t { request = 1, read = 2, data = 3, found = 4, nothing = 5, failure = 6 };

struct Frame {
  FrameKind kind = FrameKind::failure;
  std::vector<std::byte> payload;
};

/// The longest payload; a frame that claims more is a protocol error.
inline constexpr uint64_t kLongestFrame = uint64_t{128} << 20;
/// The longest range that one `read` may ask for.
inline constexpr uint64_t kLongestRead = uint64_t{1} << 20;

using Deadline = std::chrono::steady_clock::time_point;

/// Without a deadline they wait for ever. ETIMEDOUT: past it. ECONNRESET: the other end is gone. EPROTO: no frame.
/// Other codes: of the system call.
Status send_frame(int fd, FrameKind kind, std::span<const std::byte> payload, std::optional<Deadline> deadline);
Result<Frame> receive_frame(int fd, std::optional<Deadline> deadline);

struct Request {
  std::string name;
  uint64_t file_size = 0;
  uint64_t memory_limit = 0;      ///< bytes
  uint64_t cpu_milliseconds = 0;  ///< for this file
  std::optional<RawHint> hint;
  std::optional<ImageRequest> image;  ///< what to make of it; nothing: recognise it
};

struct ReadRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

std::vector<std::byte> encode(const Request& request);
std::vector<std::byte> encode(const ReadRange& range);
std::vector<std::byte> encode(const Error& error);
/// EPROTO when the bytes are none of that.
Result<Request> decode_request(std::span<const std::byte> payload);
Result<ReadRange> decode_range(std::span<const std::byte> payload);
Error decode_error(std::span<const std::byte> payload);

}  // namespace varve::fs
