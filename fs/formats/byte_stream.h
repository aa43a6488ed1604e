// Little-endian numbers, texts and lists as bytes and back, for what crosses the worker's socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace varve::fs {

class ByteWriter {
 public:
  void number(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<std::byte>(value >> shift));
    }
  }
  void text(std::string_view value) {
    number(value.size());
    auto raw = std::as_bytes(std::span(value));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  void numbers(const std::vector<uint64_t>& values) {
    number(values.size());
    for (uint64_t value : values) {
      number(value);
    }
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Trusts nothing: reads past the end yield zeros and empty things, and from then on ok() is false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  uint64_t number() {
    if (rest_.size() < 8) {
      fail();
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 8; i-- > 0;) {
      value = value << 8 | std::to_integer<uint64_t>(rest_[i]);
    }
    rest_ = rest_.subspan(8);
    return value;
  }
  /// A count of things that take at least `each` bytes: never more than can follow.
  uint64_t count(size_t each) {
    uint64_t value = number();
    if (value > rest_.size() / each) {
      fail();
      return 0;
    }
    return value;
  }
  std::string text() {
    uint64_t length = count(1);
    std::string value(length, '\0');
    if (length > 0) {
      std::memcpy(value.data(), rest_.data(), length);
    }
    rest_ = rest_.subspan(length);
    return value;
  }
  std::vector<uint64_t> numbers() {
    std::vector<uint64_t> values(count(8));
    for (uint64_t& value : values) {
      value = number();
    }
    return values;
  }
  bool flag() {
    uint64_t value = number();
    if (value > 1) {
      fail();
    }
    return value == 1;
  }
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace varve::fs
