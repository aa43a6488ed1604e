// Numbers, texts and lists as bytes and back, field by field: for layouts, notes, and the worker's socket.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codec/bytes.h"

namespace varve::fs {

class SerialWriter {
 public:
  void number(uint64_t value) { out_.put_varint(value); }
  void flag(bool value) { number(value ? 1 : 0); }
  void real(double value) { out_.put_f64(value); }
  void text(std::string_view value) {
    number(value.size());
    out_.put_bytes(std::as_bytes(std::span(value)));
  }
  void numbers(const std::vector<uint64_t>& values) {
    number(values.size());
    for (const uint64_t value : values) {
      number(value);
    }
  }
  codec::Bytes take() { return out_.take(); }
  std::string take_text() {
    const codec::Bytes bytes = out_.take();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  codec::ByteWriter out_;
};

/// Trusts nothing: reads past the end yield zeros and empty things, and from then on failed().
class SerialReader {
 public:
  explicit SerialReader(std::span<const std::byte> in) : in_(in) {}
  explicit SerialReader(std::string_view in) : in_(std::as_bytes(std::span(in))) {}

  /// Takes the shortest form alone: each value has one.
  uint64_t number() {
    if (failed()) {
      return 0;
    }
    const size_t before = in_.left();
    const uint64_t value = in_.get_varint();
    const size_t shortest = value == 0 ? 1 : (std::bit_width(value) + 6) / 7;
    refused_ = refused_ || before - in_.left() != shortest;
    return failed() ? 0 : value;
  }
  double real() { return failed() ? 0 : in_.get_f64(); }
  bool flag() {
    const uint64_t value = number();
    refused_ = refused_ || value > 1;
    return value == 1;
  }
  /// A count of things that take at least `each` bytes: never more than can follow.
  uint64_t count(size_t each = 1) {
    const uint64_t value = number();
    if (value > in_.left() / each) {
      refused_ = true;
      return 0;
    }
    return value;
  }
  std::string text() {
    const auto bytes = in_.get_bytes(count());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::vector<uint64_t> numbers() {
    std::vector<uint64_t> values(count());
    for (uint64_t& value : values) {
      value = number();
    }
    return values;
  }
  bool failed() const { return refused_ || in_.failed(); }
  bool at_end() const { return in_.left() == 0; }

 private:
  codec::ByteReader in_;
  bool refused_ = false;
};

}  // namespace varve::fs
