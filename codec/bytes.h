// Bounds-checked little-endian bytes and bits. A reader that runs past its end yields zeros and remembers that it
// failed; callers check failed() before they act on what they read.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "codec/types.h"

namespace varve::codec {

static_assert(std::endian::native == std::endian::little, "records are little-endian; add byte swaps for this host");

class ByteWriter {
 public:
  void put_u8(uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void put_u16(uint16_t value) { put_raw(&value, sizeof value); }
  void put_u32(uint32_t value) { put_raw(&value, sizeof value); }
  void put_u64(uint64_t value) { put_raw(&value, sizeof value); }
  void put_f64(double value) { put_raw(&value, sizeof value); }
  void put_varint(uint64_t value) {  // LEB128
    while (value >= 0x80) {
      put_u8(static_cast<uint8_t>(value | 0x80));
      value >>= 7;
    }
    put_u8(static_cast<uint8_t>(value));
  }
  void put_bytes(std::span<const std::byte> data) { bytes_.insert(bytes_.end(), data.begin(), data.end()); }

  void reserve(size_t size) { bytes_.reserve(size); }
  size_t size() const { return bytes_.size(); }
  Bytes take() { return std::move(bytes_); }

 private:
  void put_raw(const void* value, size_t size) { put_bytes({static_cast<const std::byte*>(value), size}); }
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> data) : data_(data) {}

  uint8_t get_u8() { return get_raw<uint8_t>(); }
  uint16_t get_u16() { return get_raw<uint16_t>(); }
  uint32_t get_u32() { return get_raw<uint32_t>(); }
  uint64_t get_u64() { return get_raw<uint64_t>(); }
  double get_f64() { return get_raw<double>(); }
  uint64_t get_varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = get_u8();
      const uint64_t part = byte & 0x7fU;
      if (shift == 63 && part > 1) {
        break;
      }
      value |= part << shift;
      if ((byte & 0x80U) == 0) {
        return value;
      }
    }
    failed_ = true;
    return 0;
  }
  std::span<const std::byte> get_bytes(uint64_t size) {
    if (size > data_.size()) {
      failed_ = true;
      return {};
    }
    const auto part = data_.first(size);
    data_ = data_.subspan(size);
    return part;
  }

  size_t left() const { return data_.size(); }
  bool failed() const { return failed_; }

 private:
  template <typename T>
  T get_raw() {
    T value{};
    const auto part = get_bytes(sizeof value);
    if (part.size() == sizeof value) {
      std::memcpy(&value, part.data(), sizeof value);
    }
    return value;
  }
  std::span<const std::byte> data_;
  bool failed_ = false;
};

/// Bits, least significant first within each byte.
class BitWriter {
 public:
  void clear() {
    size_ = 0;
    held_ = 0;
    count_ = 0;
  }
  /// Room for `bits` more without a check.
  void reserve(size_t bits) {
    const size_t wanted = size_ + bits / 8 + 32;
    if (bytes_.size() < wanted) {
      bytes_.resize(std::max(wanted, 2 * bytes_.size()));
    }
  }
  /// `count` <= 64 low bits of `value`; bits above them must be zero.
  void put(uint64_t value, unsigned count) {
    reserve(count);
    put_reserved(value, count);
  }
  void put_reserved(uint64_t value, unsigned count) {
    if (count > 32) {
      put_short(value & 0xffffffffU, 32);
      value >>= 32;
      count -= 32;
    }
    put_short(value, count);
  }
  /// The same for at most 56 bits. Without branches: whole bytes are written at once, the rest is held.
  void put_short(uint64_t value, unsigned count) {
    held_ |= value << count_;
    count_ += count;
    std::memcpy(bytes_.data() + size_, &held_, sizeof held_);
    size_ += count_ / 8;
    held_ = count_ >= 64 ? 0 : held_ >> (count_ / 8 * 8);
    count_ %= 8;
  }
  /// For each code, its bits below the two highest; codes are at least 2. Returns how many bits that were.
  template <typename Code>
  uint64_t put_below_second(std::span<const Code> codes) {
    reserve(codes.size() * 8 * sizeof(Code));
    std::byte* to = bytes_.data() + size_;
    uint64_t held = held_;
    unsigned count = count_;
    uint64_t sum = 0;
    const auto put_some = [&](uint64_t value, unsigned bits) {  // at most 56
      held |= value << count;
      count += bits;
      std::memcpy(to, &held, sizeof held);
      to += count / 8;
      held >>= count / 8 * 8;
      count %= 8;
    };
    const auto bits_of = [](uint64_t code) { return 62 - static_cast<unsigned>(std::countl_zero(code | 2)); };
    const auto value_of = [](uint64_t code, unsigned bits) { return code & ((uint64_t{1} << bits) - 1); };
    for (size_t i = 0; i < codes.size(); ++i) {
      unsigned bits = bits_of(codes[i]);
      uint64_t value = value_of(codes[i], bits);
      if (i + 1 < codes.size()) {  // each put waits for the one before: two codes at once where they fit
        const unsigned more = bits_of(codes[i + 1]);
        if (bits + more <= 56) {
          value |= value_of(codes[++i], more) << bits;
          bits += more;
        }
      }
      if (bits <= 56) {
        put_some(value, bits);
      } else {
        put_some(value & 0xffffffffU, 32);
        put_some(value >> 32, bits - 32);
      }
      sum += bits;
    }
    size_ = static_cast<size_t>(to - bytes_.data());
    held_ = held;
    count_ = count;
    return sum;
  }
  /// Pads the last byte with zeros.
  std::span<const std::byte> finish() {
    reserve(0);
    std::memcpy(bytes_.data() + size_, &held_, sizeof held_);
    size_ += (count_ + 7) / 8;
    held_ = 0;
    count_ = 0;
    return std::span(bytes_).first(size_);
  }

 private:
  Bytes bytes_;
  size_t size_ = 0;
  uint64_t held_ = 0;  ///< fewer than eight bits
  unsigned count_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> data = {}) : data_(data) {}

  uint64_t get(unsigned count) {  // count <= 64
    if (count > 32) {
      const uint64_t low = get_short(32);
      return low | get_short(count - 32) << 32;
    }
    return get_short(count);
  }
  /// The same for at most 56 bits.
  uint64_t get_short(unsigned count) {
    uint64_t held = 0;
    const size_t at = next_ / 8;
    if (at + sizeof held <= data_.size()) {
      std::memcpy(&held, data_.data() + at, sizeof held);
    } else {
      if (at < data_.size()) {
        std::memcpy(&held, data_.data() + at, data_.size() - at);
      }
      failed_ = failed_ || next_ + count > 8 * data_.size();
    }
    const uint64_t value = held >> next_ % 8 & ((uint64_t{1} << count) - 1);
    next_ += count;
    return value;
  }

  bool failed() const { return failed_; }
  /// Everything was read, but for the zeros that pad the last byte.
  bool at_end() const {
    return (next_ + 7) / 8 == data_.size() &&
           (next_ % 8 == 0 || static_cast<unsigned>(data_[next_ / 8]) >> next_ % 8 == 0);
  }

 private:
  std::span<const std::byte> data_;
  size_t next_ = 0;  ///< in bits
  bool failed_ = false;
};

/// Memory for work that is not set to zero first and keeps its size between uses.
template <typename T>
class Buffer {
 public:
  /// At least `count` elements; what was there before is lost when it has to grow.
  T* reserve(size_t count) {
    if (count > capacity_) {
      data_.reset(static_cast<T*>(::operator new(count * sizeof(T), kAlignment)));
      capacity_ = count;
    }
    return data_.get();
  }
  T* data() { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<T, Free> data_;
  size_t capacity_ = 0;
};

}  // namespace varve::codec
