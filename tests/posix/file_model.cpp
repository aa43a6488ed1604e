#include "file_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace varve::posix {

namespace {

double number_at(const uint8_t* at, uint64_t size) {
  if (size == sizeof(float)) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  double value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 16))) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

}  // namespace

bool Bound::allows(double wrote, double read, double range, double least_normal) const {
  const double moved = std::abs(wrote - read);
  const bool special = !std::isfinite(wrote) || (wrote == 0 && std::signbit(wrote));
  if (special || !std::isfinite(read)) {
    return false;  // bit for bit
  }
  switch (kind) {
    case Kind::absolute:
      return moved <= value;
    case Kind::relative:
      return moved <= value * range;
    case Kind::pointwise:
      return moved <= value * std::abs(wrote) && std::signbit(wrote) == std::signbit(read);
    case Kind::mantissa:
      return moved <= std::ldexp(std::max(std::abs(wrote), least_normal), -static_cast<int>(value) - 1);
    case Kind::lossless:
      break;
  }
  return false;
}

std::span<const uint8_t> FileModel::bytes(uint64_t offset, uint64_t length) const {
  const uint64_t begin = std::min<uint64_t>(offset, data_.size());
  return std::span(data_).subspan(begin, std::min<uint64_t>(length, data_.size() - begin));
}

void FileModel::note_change(uint64_t begin, uint64_t end, uint64_t operation) {
  std::fill(fresh_.begin() + static_cast<ptrdiff_t>(begin), fresh_.begin() + static_cast<ptrdiff_t>(end), 1);
  std::fill(writer_.begin() + static_cast<ptrdiff_t>(begin), writer_.begin() + static_cast<ptrdiff_t>(end),
            static_cast<uint32_t>(operation));
  changed = true;
}

void FileModel::write(uint64_t offset, std::span<const uint8_t> data, uint64_t operation) {
  if (data.empty()) {
    return;
  }
  resize(std::max<uint64_t>(size(), offset + data.size()), operation);
  std::copy(data.begin(), data.end(), data_.begin() + static_cast<ptrdiff_t>(offset));
  note_change(offset, offset + data.size(), operation);
}

void FileModel::zero(uint64_t offset, uint64_t length, uint64_t operation) {
  const uint64_t end = std::min(offset + length, size());
  if (offset < end) {
    std::fill(data_.begin() + static_cast<ptrdiff_t>(offset), data_.begin() + static_cast<ptrdiff_t>(end), 0);
    note_change(offset, end, operation);
  }
}

void FileModel::resize(uint64_t size, uint64_t operation) {
  const uint64_t before = data_.size();
  data_.resize(size);
  fresh_.resize(size);
  writer_.resize(size);
  if (size > before) {
    note_change(before, size, operation);
  }
  changed = changed || size != before;
}

void FileModel::become(const FileModel& other, uint64_t operation) {
  data_ = other.data_;
  fresh_.assign(data_.size(), 0);
  writer_.assign(data_.size(), static_cast<uint32_t>(operation));
  greatest_range_ = std::max(greatest_range_, other.greatest_range_);
  changed = true;
}

void FileModel::rewritten(uint64_t begin, uint64_t end) {
  std::fill(fresh_.begin() + static_cast<ptrdiff_t>(std::min(begin, size())),
            fresh_.begin() + static_cast<ptrdiff_t>(std::min(end, size())), 1);
  changed = true;
}

const Span* FileModel::span_at(uint64_t offset) const {
  for (const Span& span : spans_) {
    if (offset >= span.offset && offset - span.offset < span.bytes) {
      return &span;
    }
  }
  return nullptr;
}

/// Of all that the file ever held under one seal: an array that is changed in part keeps the bound that it was given.
double FileModel::range() const {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (const Span& span : spans_) {
    const uint64_t end = std::min<uint64_t>(span.offset + span.bytes, data_.size());
    for (uint64_t at = span.offset; at + span.size <= end; at += span.size) {
      if (const double value = number_at(&data_[at], span.size); std::isfinite(value)) {
        least = std::min(least, value);
        greatest = std::max(greatest, value);
      }
    }
  }
  return std::max(greatest_range_, greatest >= least ? greatest - least : 0);
}

/// Why an element that reads otherwise than it was written may not; nothing: it may.
std::optional<std::string> FileModel::refuse(uint64_t element, const Span& span, std::span<const uint8_t> got,
                                             double range) const {
  const auto begin = fresh_.begin() + static_cast<ptrdiff_t>(element);
  if (!std::all_of(begin, begin + static_cast<ptrdiff_t>(span.size), [](uint8_t fresh) { return fresh != 0; })) {
    return "an element that nobody wrote (whole) since it was sealed";
  }
  const double wrote = number_at(&data_[element], span.size);
  const double read = number_at(got.data(), span.size);
  const double normal =
      span.size == sizeof(float) ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  if (!bound_.allows(wrote, read, range, normal)) {
    return fmt::format("{} reads as {}, which the bound does not allow", wrote, read);
  }
  return std::nullopt;
}

std::optional<Difference> FileModel::compare(uint64_t offset, std::span<const uint8_t> got, Expect expect) const {
  const std::span<const uint8_t> wanted = bytes(offset, got.size());
  if (wanted.size() != got.size()) {
    return Difference{offset + wanted.size(), got.size() - wanted.size(), 0, "bytes beyond the end of the file"};
  }
  if (got.empty() || std::memcmp(wanted.data(), got.data(), got.size()) == 0) {
    return std::nullopt;
  }
  const double range_now = bound_.kind == Bound::Kind::relative ? range() : 0;
  for (uint64_t i = 0; i < got.size();) {
    if (got[i] == wanted[i]) {
      ++i;
      continue;
    }
    const uint64_t at = offset + i;
    const Span* span = span_at(at);
    std::optional<std::string> why = "bytes that must be equal";
    uint64_t next = i + 1;
    if (span != nullptr && expect != Expect::exact) {
      const uint64_t element = at - (at - span->offset) % span->size;
      const uint64_t end = element + span->size;
      const bool whole = element >= offset && end <= offset + got.size();
      if (end <= size() && whole) {
        why = refuse(element, *span, got.subspan(element - offset), range_now);
      } else if (end <= size() && fresh_[at] != 0) {
        why.reset();  // cut off by what was read: nothing can be said
      }
      next = end - offset;
    }
    if (why) {
      uint64_t count = 0;
      for (uint64_t k = i; k < got.size(); ++k) {
        count += got[k] != wanted[k] ? 1 : 0;
      }
      return Difference{at, count, writer_[at],
                        fmt::format("{}: wanted {}, found {}", *why, hex(wanted.subspan(i)), hex(got.subspan(i)))};
    }
    i = next;
  }
  return std::nullopt;
}

void FileModel::take(std::span<const uint8_t> got, bool ended) {
  greatest_range_ = bound_.kind == Bound::Kind::relative ? range() : 0;
  const bool moved = std::memcmp(got.data(), data_.data(), data_.size()) != 0;
  lossy = ended ? moved : lossy;
  if (ended) {
    data_.assign(got.begin(), got.end());
    std::fill(fresh_.begin(), fresh_.end(), 0);
    changed = false;
    return;
  }
  for (const Span& span : moved ? spans_ : std::vector<Span>()) {
    const uint64_t end = std::min<uint64_t>(span.offset + span.bytes, data_.size());
    for (uint64_t at = span.offset; at + span.size <= end; at += span.size) {
      if (std::memcmp(&got[at], &data_[at], span.size) != 0) {
        std::memcpy(&data_[at], &got[at], span.size);
        std::memset(&fresh_[at], 0, span.size);
      }
    }
  }
}

}  // namespace varve::posix
