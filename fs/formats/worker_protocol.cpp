#include "fs/formats/worker_protocol.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "fs/serial.h"

namespace varve::fs {

namespace {

constexpr size_t kHeaderBytes = 8;

Error system_error(std::string_view what) {
  int code = errno;
  if (code == EPIPE || code == ECONNRESET) {
    return Error{ECONNRESET, "the other end of the worker's socket is gone"};
  }
  return Error{code, fmt::format("{} on the worker's socket: {}", what, std::strerror(code))};
}

Status wait_for(int fd, short events, std::optional<Deadline> deadline) {
  while (true) {
    int timeout = -1;
    if (deadline) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now()).count();
      if (left <= 0) {
        return Error{ETIMEDOUT, "the time limit is over"};
      }
      timeout = static_cast<int>(std::min<int64_t>(left, 3'600'000));
    }
    pollfd entry{fd, events, 0};
    int ready = ::poll(&entry, 1, timeout);
    if (ready > 0) {
      return {};
    }
    if (ready < 0 && errno != EINTR) {
      return system_error("poll");
    }
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, std::optional<Deadline> deadline) {
  while (!bytes.empty()) {
    VARVE_TRY(wait_for(fd, POLLOUT, deadline));
    ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno != EINTR && errno != EAGAIN) {
      return system_error("send");
    }
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes, std::optional<Deadline> deadline) {
  while (!bytes.empty()) {
    VARVE_TRY(wait_for(fd, POLLIN, deadline));
    ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) {
      return Error{ECONNRESET, "the other end of the worker's socket is gone"};
    }
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (errno != EINTR && errno != EAGAIN) {
      return system_error("recv");
    }
  }
  return {};
}

Error no_frame(std::string_view what) { return Error{EPROTO, fmt::format("malformed message: {}", what)}; }

}  // namespace

Status send_frame(int fd, FrameKind kind, std::span<const std::byte> payload, std::optional<Deadline> deadline) {
  if (payload.size() > kLongestFrame) {
    return Error{EMSGSIZE, fmt::format("an answer of {} bytes is more than the {} that a worker may give",
                                       payload.size(), kLongestFrame)};
  }
  std::array<uint32_t, 2> header{static_cast<uint32_t>(kind), static_cast<uint32_t>(payload.size())};
  VARVE_TRY(send_all(fd, std::as_bytes(std::span(header)), deadline));
  return send_all(fd, payload, deadline);
}

Result<Frame> receive_frame(int fd, std::optional<Deadline> deadline) {
  std::array<uint32_t, 2> header{};
  static_assert(sizeof header == kHeaderBytes);
  VARVE_TRY(receive_all(fd, std::as_writable_bytes(std::span(header)), deadline));
  if (header[0] < static_cast<uint32_t>(FrameKind::request) || header[0] > static_cast<uint32_t>(FrameKind::failure)) {
    return no_frame(fmt::format("kind {}", header[0]));
  }
  if (header[1] > kLongestFrame) {
    return no_frame(fmt::format("{} bytes long", header[1]));
  }
  Frame frame{static_cast<FrameKind>(header[0]), {}};
  // Grown as it comes, so that a length alone does not take the memory.
  constexpr size_t kStep = size_t{1} << 20;
  while (frame.payload.size() < header[1]) {
    size_t at = frame.payload.size();
    frame.payload.resize(std::min<size_t>(header[1], at + kStep));
    VARVE_TRY(receive_all(fd, std::span(frame.payload).subspan(at), deadline));
  }
  return frame;
}

std::vector<std::byte> encode(const Request& request) {
  SerialWriter out;
  out.text(request.name);
  out.number(request.file_size);
  out.number(request.memory_limit);
  out.number(request.cpu_milliseconds);
  out.flag(request.hint.has_value());
  if (request.hint) {
    out.number(static_cast<uint64_t>(request.hint->dtype));
    out.flag(request.hint->big_endian);
    out.numbers(request.hint->shape);
    out.flag(request.hint->fortran_order);
    out.numbers(request.hint->fill_values);
    out.text(request.hint->keep_exact);
  }
  out.flag(request.image.has_value());
  if (request.image) {
    out.flag(request.image->kind == ImageRequest::Kind::coarse);
    out.text(request.image->region);
    out.number(request.image->shift);
  }
  return out.take();
}

std::vector<std::byte> encode(const ReadRange& range) {
  SerialWriter out;
  out.number(range.offset);
  out.number(range.length);
  return out.take();
}

std::vector<std::byte> encode(const Error& error) {
  SerialWriter out;
  out.number(static_cast<uint64_t>(error.code));
  out.text(error.text);
  return out.take();
}

Result<Request> decode_request(std::span<const std::byte> payload) {
  SerialReader in(payload);
  Request request;
  request.name = in.text();
  request.file_size = in.number();
  request.memory_limit = in.number();
  request.cpu_milliseconds = in.number();
  if (in.flag()) {
    uint64_t dtype = in.number();
    bool big_endian = in.flag();
    RawHint& hint = request.hint.emplace(RawHint{static_cast<codec::DType>(dtype), big_endian, in.numbers()});
    hint.fortran_order = in.flag();
    hint.fill_values = in.numbers();
    hint.keep_exact = in.text();
    if (dtype > 255 || codec::element_size(hint.dtype) == 0) {
      return no_frame("a hint of no known element type");
    }
  }
  if (in.flag()) {
    ImageRequest& image = request.image.emplace();
    image.kind = in.flag() ? ImageRequest::Kind::coarse : ImageRequest::Kind::region;
    image.region = in.text();
    const uint64_t shift = in.number();
    if (shift > kMostShift) {
      return no_frame("an image thinned too far");
    }
    image.shift = static_cast<uint8_t>(shift);
  }
  if (in.failed() || !in.at_end()) {
    return no_frame("no request");
  }
  return request;
}

Result<ReadRange> decode_range(std::span<const std::byte> payload) {
  SerialReader in(payload);
  ReadRange range{in.number(), in.number()};
  if (in.failed() || !in.at_end() || range.length > kLongestRead) {
    return no_frame("no range");
  }
  return range;
}

Error decode_error(std::span<const std::byte> payload) {
  SerialReader in(payload);
  uint64_t code = in.number();
  std::string text = in.text();
  if (in.failed() || !in.at_end() || code == 0 || code > 4095) {
    return no_frame("no error");
  }
  return Error{static_cast<int>(code), std::move(text)};
}

}  // namespace varve::fs
