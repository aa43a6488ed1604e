// Memory of emulated kernels whose every access is checked against its bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace varve::simt {

/// Ends the launch that is running (or throws, outside of one) with an Error that names the access.
[[noreturn]] void out_of_bounds(const char* what, int64_t index, int64_t count);

/// A pointer into an allocation, which knows its bounds; copied by value like a pointer.
template <typename T>
class Checked {
 public:
  Checked() = default;
  Checked(std::nullptr_t) {}  // NOLINT: as of pointers
  Checked(T* begin, int64_t count, const char* name) : begin_(begin), count_(count), name_(name) {}
  template <typename U, typename = std::enable_if_t<std::is_same_v<T, const U>>>
  Checked(const Checked<U>& from)  // NOLINT: as of pointers
      : begin_(from.begin()), count_(from.count()), at_(from.at()), name_(from.name()) {}

  T& operator[](int64_t index) const {
    const int64_t place = at_ + index;
    if (place < 0 || place >= count_) {
      out_of_bounds(name_, place, count_);
    }
    return begin_[place];
  }
  T& operator*() const { return (*this)[0]; }
  Checked operator+(int64_t step) const {
    Checked moved = *this;
    moved.at_ += step;
    return moved;
  }
  Checked operator-(int64_t step) const { return *this + -step; }
  bool operator==(std::nullptr_t) const { return begin_ == nullptr; }

  T* begin() const { return begin_; }
  int64_t count() const { return count_; }
  int64_t at() const { return at_; }
  const char* name() const { return name_; }

 private:
  T* begin_ = nullptr;
  int64_t count_ = 0;
  int64_t at_ = 0;
  const char* name_ = "a null pointer";
};

/// An array within shared memory or a thread's own.
template <typename T, unsigned kCount>
struct CheckedArray {
  T& operator[](int64_t index) {
    if (index < 0 || index >= int64_t{kCount}) {
      out_of_bounds("an array of a kernel", index, kCount);
    }
    return values[index];
  }
  const T& operator[](int64_t index) const { return const_cast<CheckedArray&>(*this)[index]; }
  T values[kCount];  // NOLINT(modernize-avoid-c-arrays)
};

}  // namespace varve::simt
