// A byte string written and read back field by field: variable-length integers (LEB128), strings, doubles.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace varve::fs {

class SerialWriter {
 public:
  void number(uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<char>(value));
  }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }
  void real(double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (int shift = 0; shift < 64; shift += 8) {
      out_.push_back(static_cast<char>(bits >> shift));
    }
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Reading past the end or a malformed field sets failed() and gives zeros; check failed() once at the end and before
/// any allocation that a number decides.
class SerialReader {
 public:
  explicit SerialReader(std::string_view in) : in_(in) {}

  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (in_.empty()) {
        break;
      }
      const auto byte = static_cast<uint8_t>(in_.front());
      in_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) {
        return value;
      }
    }
    return fail();
  }
  /// A count of things that take at least one byte each in what is left.
  uint64_t count() {
    const uint64_t value = number();
    return value <= in_.size() ? value : fail();
  }
  std::string_view text() {
    const uint64_t length = count();
    const std::string_view value = in_.substr(0, length);
    in_.remove_prefix(length);
    return value;
  }
  double real() {
    if (in_.size() < 8) {
      fail();
      return 0;
    }
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) {
      bits |= static_cast<uint64_t>(static_cast<uint8_t>(in_[i])) << (8 * i);
    }
    in_.remove_prefix(8);
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  bool failed() const { return failed_; }
  bool at_end() const { return in_.empty(); }

 private:
  uint64_t fail() {
    failed_ = true;
    in_ = {};
    return 0;
  }
  std::string_view in_;
  bool failed_ = false;
};

}  // namespace varve::fs
